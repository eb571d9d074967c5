// Budgets: their use, and how they are created, changed and deleted.
import { after, test } from "node:test";
import assert from "node:assert/strict";
import { api, checkAccessibility, checkWidth, fresh, makeCall, PHONE, putTool, ready, shutDown, until, withPage } from "./support.mjs";

after(shutDown);

const notice = (page, text) => page.locator(".notice").getByText(text).waitFor();

test("a_budget_is_created_used_changed_and_deleted", async () => {
  const tool = fresh("metered");
  const name = fresh("budget");
  await putTool(tool, {});
  await withPage("budgets", {}, async (page) => {
    await ready(page);
    await page.getByRole("link", { name: "Create a budget" }).click();
    await page.getByLabel("name", { exact: true }).fill(name);
    await page.getByRole("button", { name: "Add match" }).click();
    await page.getByRole("button", { name: "Add tools" }).click();
    await page.getByRole("group", { name: /^tools/ }).getByRole("button", { name: "Add item" }).click();
    await page.getByLabel("tools 1").fill(tool);
    await page.getByLabel("window_ms", { exact: true }).fill("3600000");
    await page.getByLabel("max_calls", { exact: true }).fill("2");
    await checkAccessibility(page, "the editor of a budget");
    await page.getByRole("button", { name: "Save" }).click();
    await notice(page, `Created the budget ${name}.`);
    const row = page.getByRole("row").filter({ hasText: name });
    await row.getByText(tool).waitFor();
    await row.getByText("0 used, 0 reserved of 2 calls").waitFor();
    await makeCall(tool, {});
    await row.getByText("1 used, 0 reserved of 2 calls").waitFor();
    await row.getByRole("link", { name: "Edit" }).click();
    await page.getByLabel("max_calls", { exact: true }).fill("5");
    await page.getByRole("button", { name: "Save" }).click();
    await notice(page, `Saved the budget ${name}.`);
    await row.getByText("1 used, 0 reserved of 5 calls").waitFor();
    await row.getByRole("button", { name: "Delete" }).click();
    await page.getByRole("button", { name: "Delete the budget" }).click();
    await notice(page, `Deleted the budget ${name}.`);
    await until(async () => !(await row.count()), "it leaves the list");
  });
});

test("a_budget_that_exists_is_not_created_again", async () => {
  const name = fresh("twice");
  await api("POST", "/budgets", { name, window_ms: 60_000, max_cost: 1.5 });
  await withPage("budgets?edit=", {}, async (page) => {
    await page.getByLabel("name", { exact: true }).fill(name);
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByRole("alert").waitFor();
    await page.getByRole("row").filter({ hasText: name }).getByText("0 used, 0 reserved of 1.5 cost").waitFor();
  });
  await api("DELETE", `/budgets/${name}`);
});

test("budgets_fit_on_a_phone", async () => {
  const name = fresh("small");
  await api("POST", "/budgets", { name, window_ms: 3600_000, max_calls: 10 });
  await withPage("budgets", { viewport: PHONE, scheme: "dark" }, async (page) => {
    await page.getByRole("rowheader", { name }).waitFor();
    await checkWidth(page, "the budgets on a phone");
    await checkAccessibility(page, "the budgets on a phone");
  });
  assert.ok(await api("DELETE", `/budgets/${name}`) === undefined);
});
