// The system screen, and keys: sign-in, scopes, creating and revoking.
import { after, test } from "node:test";
import assert from "node:assert/strict";
import { api, BASE, fresh, KEY, makeCall, openPage, ready, shutDown, until, withPage } from "./support.mjs";

after(shutDown);

const keyed = { skip: !KEY && "the service is open" };

/** Signs in on the page. */
async function signIn(page, key) {
  await page.getByLabel("API key").fill(key);
  await page.getByRole("button", { name: "Sign in" }).click();
}

test("the_state_of_the_service_is_shown", async () => {
  await withPage("system", {}, async (page) => {
    await ready(page);
    await page.locator(".figures").getByText("Version", { exact: true }).waitFor();
    await page.getByRole("region", { name: "Nodes" }).waitFor();
    await page.getByRole("region", { name: "Settings" }).waitFor();
    await page.getByRole("heading", { name: "Upstream MCP servers" }).waitFor();
  });
});

test("hooks_are_listed_and_deleted_after_a_question", async () => {
  const pattern = fresh("none");
  const hook = await api("POST", "/hooks", { event: "tool_result_persist", builtin: "redact", options: { patterns: ["sk-[a-z]{8}"] }, match: { tools: [`${pattern}*`] } });
  await withPage("system", {}, async (page) => {
    const row = page.getByRole("row").filter({ hasText: pattern });
    await row.getByRole("button", { name: "Delete" }).click();
    await page.getByRole("button", { name: "Delete the hook" }).click();
    await until(async () => (await row.count()) === 0, "it leaves the list");
    const { hooks } = await api("GET", "/hooks");
    assert.ok(!hooks.some(({ id }) => id === hook.id));
  });
});

test("workers_and_their_queues_are_listed", async () => {
  const [queue, worker, tool] = [fresh("queue"), fresh("worker"), fresh("fetched")];
  await withPage("system", {}, async (page) => {
    await ready(page);
    await page.getByText("python -m toolpost serve module:tools").or(page.getByRole("region", { name: "Queues" })).waitFor();
    await api("PUT", `/workers/${queue}/tools`, { worker, tools: [{ name: tool, description: "Waits for its worker.", input_schema: { type: "object" } }] });
    const row = page.getByRole("region", { name: "Workers" }).getByRole("row").filter({ hasText: worker });
    await row.getByRole("link", { name: tool }).waitFor();
    const call = await makeCall(tool, {}, { wait: "accepted" });
    await page.getByRole("region", { name: "Queues" }).getByRole("row").filter({ hasText: queue }).getByRole("cell", { name: /ms|s/ }).waitFor();
    const { calls: [claimed] } = await api("POST", `/workers/${queue}/claim`, { worker, max: 1, wait_ms: 0 });
    assert.equal(claimed.id, call.id);
    await row.getByRole("cell", { name: "1", exact: true }).waitFor();
    const headers = { authorization: `Bearer ${claimed.token}`, "content-type": "application/json" };
    const settled = await fetch(`${BASE}/tool-calls/${call.id}/result`, { method: "POST", headers, body: JSON.stringify("done") });
    assert.ok(settled.ok, await settled.text());
    await row.getByRole("cell", { name: "0", exact: true }).waitFor();
  });
});

test("a_wrong_key_is_refused_and_the_right_one_leads_back", keyed, async () => {
  await withPage("tools?q=echo", { signIn: false }, async (page) => {
    await page.getByRole("heading", { name: "Sign in to Toolpost" }).waitFor();
    await signIn(page, "tp_wrong");
    await page.getByRole("alert").getByText("unknown, expired or revoked").waitFor();
    await signIn(page, KEY);
    await page.getByRole("heading", { name: "Tools", level: 1 }).waitFor();
    await page.waitForURL(/tools\?q=echo$/);
    assert.equal(await page.evaluate(() => document.cookie), "");
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByRole("heading", { name: "Sign in to Toolpost" }).waitFor();
    await page.goto(`${BASE}/console/calls`);
    await page.getByRole("heading", { name: "Sign in to Toolpost" }).waitFor();
  });
});

test("a_key_is_created_shown_once_and_revoked", keyed, async () => {
  const name = fresh("made");
  await withPage("system", {}, async (page) => {
    await page.getByRole("button", { name: "Create a key" }).click();
    await page.getByLabel("Name", { exact: true }).fill(name);
    await page.getByRole("button", { name: "Create", exact: true }).click();
    await page.getByRole("heading", { name: "The new key" }).waitFor();
    const key = await page.getByRole("dialog").locator(".code").innerText();
    assert.match(key, /^tp_/);
    await page.getByRole("button", { name: "Done" }).click();
    await page.getByRole("dialog").waitFor({ state: "detached" });
    assert.ok(!(await page.content()).includes(key));
    const row = page.getByRole("row").filter({ hasText: name });
    await row.getByRole("button", { name: "Revoke" }).click();
    await page.getByRole("button", { name: "Revoke the key" }).click();
    await row.getByText("revoked").waitFor();
  });
});

test("a_reader_cannot_act", keyed, async () => {
  const name = fresh("reader");
  const { key } = await api("POST", "/keys", { name, scopes: ["read"] });
  const call = await api("POST", "/tool-calls", { name: "calculate", arguments: { expression: "1+1" } });
  await withPage(`calls/${call.id}`, { signIn: false }, async (page) => {
    await signIn(page, key);
    await page.getByRole("heading", { name: "calculate", level: 1 }).waitFor();
    await page.getByRole("button", { name: "Rerun", exact: true, disabled: true }).waitFor();
    await page.getByRole("link", { name: "Tools", exact: true }).click();
    await page.getByRole("link", { name: "echo", exact: true }).click();
    await page.getByRole("button", { name: "Run", exact: true, disabled: true }).waitFor();
    await page.getByRole("link", { name: "System", exact: true }).click();
    await page.getByText("Keys are shown to callers with the scope admin.").waitFor();
    await ready(page);
  });
});

test("a_revoked_key_leads_to_the_sign_in", keyed, async () => {
  const made = await api("POST", "/keys", { name: fresh("short"), scopes: ["read", "call"] });
  const opened = await openPage("tools", { signIn: false });
  try {
    await signIn(opened.page, made.key);
    await opened.page.getByRole("heading", { name: "Tools", level: 1 }).waitFor();
    await api("DELETE", `/keys/${made.id}`);
    await until(async () => {
      await opened.page.getByRole("link", { name: "Sessions", exact: true }).click({ timeout: 500 }).catch(() => {});
      await opened.page.getByRole("link", { name: "Tools", exact: true }).click({ timeout: 500 }).catch(() => {});
      return opened.page.getByRole("heading", { name: "Sign in to Toolpost" }).isVisible();
    }, "the sign-in");
  } finally {
    await opened.close();
  }
});
