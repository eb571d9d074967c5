// 10,000 pending approvals in the inbox, policies of the settings, and a service where nothing is yet.
import { after, test } from "node:test";
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { api, ready, shutDown, until, withPage } from "./support.mjs";
import { LARGE, withService } from "./service.mjs";

after(shutDown);

const CALLS = 10_000;
const BATCH = 500;
/** The largest page of the API. */
const PAGE = 500;
const MAX_ROWS = 80;
const MAX_ELEMENTS = 1500;

async function fill(base) {
  await api("PUT", "/tools/pay", { description: "Pays.", input_schema: { type: "object" }, approval: {}, executor: { type: "builtin", name: "echo" } }, { base });
  for (let start = 0; start < CALLS; start += BATCH) {
    const calls = Array.from({ length: BATCH }, (_, at) => ({ name: "pay", arguments: { index: start + at } }));
    await api("POST", "/tool-calls", { calls, mode: "parallel", wait: "accepted" }, { base });
  }
  await until(async () => (await pending(base)) === CALLS, "all calls wait");
}

/** Returns how many calls the service lists. */
async function pending(base) {
  let count = 0;
  for (let cursor = ""; cursor !== null; ) {
    const page = await api("GET", `/approvals?limit=${PAGE}${cursor && `&cursor=${cursor}`}`, undefined, { base });
    count += page.approvals.length;
    cursor = page.next_cursor ?? null;
  }
  return count;
}

test("10000_pending_approvals_are_listed_and_decided", () => withService(LARGE, async (service) => {
  await fill(service.base);
  await withPage("approvals", { base: service.base }, async (page) => {
    const list = page.locator(".virtual-list");
    await page.locator("#approvals-count").getByText("200+ pending").waitFor();
    await list.getByText("index: 0", { exact: true }).waitFor();
    // Stays at the end while pages load, as a held key does.
    await list.evaluate((element) => new Promise((resolve) => {
      const step = () => {
        element.scrollTo(0, element.scrollHeight);
        if (document.getElementById("approvals-count").textContent.includes("+")) requestAnimationFrame(step);
        else resolve(undefined);
      };
      step();
    }));
    await page.locator("#approvals-count").getByText(`${CALLS} pending`).waitFor();
    assert.ok((await page.title()).startsWith(`(${CALLS}) `));
    assert.ok((await list.locator("[role=row]").count()) < MAX_ROWS);
    assert.ok((await page.locator("*").count()) < MAX_ELEMENTS);
    await page.locator("#approval h2").focus();
    await page.keyboard.press("a");
    await page.waitForFunction(() => document.activeElement?.matches("dialog input[name=reason]"));
    await page.keyboard.press("Enter");
    await page.locator(".notice").getByText("Approved pay.").waitFor();
    await page.locator("#approvals-count").getByText(`${CALLS - 1} pending`).waitFor();
  });
}));

test("the_inbox_survives_a_restart", () => withService([], async (service) => {
  const request = (base, turn) => api("POST", "/tool-calls", { name: "pay", arguments: { turn }, wait: "accepted" }, { base });
  await api("PUT", "/tools/pay", { description: "Pays.", input_schema: { type: "object" }, approval: {}, executor: { type: "builtin", name: "echo" } }, service);
  await request(service.base, 1);
  await withPage("approvals", { base: service.base }, async (page) => {
    await page.locator("#approvals-count").getByText("1 pending").waitFor();
    await service.stop();
    await page.getByText("Connection lost").waitFor();
    const elsewhere = await service.restart(0);
    await request(elsewhere, 2);
    await until(async () => (await api("GET", "/approvals", undefined, { base: elsewhere })).approvals.length === 2, "the second call waits");
    await service.stop();
    await service.restart();
    await page.getByText("Connection lost").waitFor({ state: "detached" });
    await page.locator("#approvals-count").getByText("2 pending").waitFor();
    await page.locator(".virtual-list").getByText("turn: 2").waitFor();
    await page.getByRole("button", { name: "Reject" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Reject" }).click();
    await page.locator("#approvals-count").getByText("1 pending").waitFor();
  });
}));

test("policies_of_the_settings_are_shown_first_and_cannot_be_changed", async () => {
  const folder = await mkdtemp(join(tmpdir(), "toolpost-policies-"));
  const config = join(folder, "toolpost.toml");
  await writeFile(config, '[[policies]]\nname = "fixed"\nwhen = "tool.name == \'nothing\'"\neffect = "deny"\n');
  try {
    await withService(["--config", config], async (service) => {
      await api("POST", "/policies", { name: "a-own", when: "tool.name == 'nothing'", effect: "allow", priority: 9 }, service);
      await withPage("policies?edit=fixed", { base: service.base }, async (page) => {
        await ready(page);
        assert.deepEqual(await page.getByRole("rowheader").allInnerTexts(), ["fixed", "a-own"]);
        const row = page.getByRole("row").filter({ hasText: "fixed" });
        await row.getByText("in the settings").waitFor();
        await row.getByRole("switch", { disabled: true }).waitFor();
        assert.equal(await row.getByRole("button").count() + (await page.getByRole("heading", { level: 2 }).count()), 0);
      });
    });
  } finally {
    await rm(folder, { recursive: true });
  }
});

test("empty_screens_show_the_command_that_makes_the_first_one", () => withService([], async ({ base }) => {
  for (const [screen, title] of [["policies", "No policies"], ["budgets", "No budgets"], ["approvals", "Nothing waits for approval"]]) {
    await withPage(screen, { base }, async (page) => {
      await page.getByRole("heading", { name: title }).waitFor();
      await promisify(execFile)("sh", ["-ec", (await page.locator(".empty .code").innerText()).replaceAll("curl ", "curl --silent --fail-with-body ")]);
      await page.getByRole("heading", { name: title }).waitFor({ state: "detached" });
    });
  }
}));
