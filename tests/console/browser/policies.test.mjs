// Policies: their list in the order of evaluation, and an editor with errors at their places next to a trial on stored calls.
import { after, test } from "node:test";
import assert from "node:assert/strict";
import { api, checkAccessibility, fresh, makeCall, PHONE, putTool, ready, shutDown, until, withPage } from "./support.mjs";

after(shutDown);

const notice = (page, text) => page.locator(".notice").getByText(text).waitFor();
const figure = (page, name) => page.getByRole("region", { name: "Trial" }).locator("dl div").filter({ hasText: name }).locator("dd");

test("a_policy_is_tried_created_changed_disabled_and_deleted", async () => {
  const tool = fresh("spend");
  const name = fresh("limit");
  await putTool(tool, {});
  const call = await makeCall(tool, { amount: 500 });
  await makeCall(tool, { amount: 5 });
  await withPage("policies", {}, async (page) => {
    await ready(page);
    await page.getByRole("link", { name: "Create a policy" }).click();
    const condition = page.getByLabel("Condition in CEL");
    await condition.fill("tool.name == 'x' &&\n  foo");
    await page.locator(".editor-errors").getByText(/line 2 unknown variable/).waitFor();
    await page.getByText("Correct the condition first.").waitFor();
    await page.getByRole("button", { name: "line 2" }).click();
    assert.equal(await condition.evaluate((field) => field.value.slice(field.selectionStart)), "foo");
    await condition.fill(`tool.name == '${tool}' && args.amount > 100`);
    await until(async () => (await figure(page, "Need approval").innerText()) === "1", "the trial counts the call");
    assert.ok(Number(await figure(page, "Changed").innerText()) >= 1);
    const example = page.getByRole("region", { name: "Changed calls" }).getByRole("row").filter({ hasText: tool });
    await example.getByText("approve", { exact: true }).waitFor();
    assert.ok((await example.getByRole("link").getAttribute("href")).endsWith(call.id));
    await page.getByLabel("effect", { exact: true }).selectOption({ label: "deny" });
    await until(async () => (await figure(page, "Denied").innerText()) === "1", "the trial follows the effect");
    await checkAccessibility(page, "the editor of a policy");
    // A name is required.
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByRole("alert").waitFor();
    await page.getByLabel("name", { exact: true }).fill(name);
    await page.getByLabel("reason", { exact: true }).fill("Too much.");
    await page.getByRole("button", { name: "Save" }).click();
    await notice(page, `Created the policy ${name}.`);
    const row = page.getByRole("row").filter({ hasText: name });
    await row.getByText("Too much.").waitFor();
    assert.equal((await makeCall(tool, { amount: 500 })).error.code, "POLICY_DENIED");
    await row.getByRole("switch").click();
    await notice(page, `Disabled the policy ${name}.`);
    assert.equal((await makeCall(tool, { amount: 500 })).status, "SUCCESS");
    await row.getByRole("link", { name: "Edit" }).click();
    await page.getByRole("heading", { name: `Change ${name}` }).waitFor();
    await page.getByLabel("priority", { exact: true }).fill("7");
    await page.getByLabel("enabled", { exact: true }).selectOption({ label: "true" });
    await page.getByRole("button", { name: "Save" }).click();
    await notice(page, `Saved the policy ${name}.`);
    const { priority, enabled, effect, when } = await api("GET", `/policies/${name}`);
    assert.deepEqual([priority, enabled, effect, when], [7, true, "deny", `tool.name == '${tool}' && args.amount > 100`]);
    await row.getByRole("button", { name: "Delete" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Keep" }).click();
    await row.getByRole("button", { name: "Delete" }).click();
    await page.getByRole("button", { name: "Delete the policy" }).click();
    await notice(page, `Deleted the policy ${name}.`);
    await until(async () => !(await row.count()), "it leaves the list");
  });
});

test("policies_are_listed_in_the_order_of_their_evaluation", async () => {
  const [low, high] = [fresh("a-low"), fresh("b-high")];
  for (const [name, priority] of [[low, 1], [high, 9]]) await api("POST", "/policies", { name, priority, when: "tool.name == 'nothing'", effect: "allow" });
  await withPage("policies", { viewport: PHONE }, async (page) => {
    await page.getByRole("rowheader", { name: low }).waitFor();
    const names = await page.getByRole("rowheader").allInnerTexts();
    assert.ok(names.indexOf(high) < names.indexOf(low), `${names}`);
  });
  for (const name of [low, high]) await api("DELETE", `/policies/${name}`);
});
