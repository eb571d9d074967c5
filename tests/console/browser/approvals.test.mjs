// Approvals: the inbox and its count, decisions by keyboard, edits, and decisions that do not count.
import { after, before, test } from "node:test";
import assert from "node:assert/strict";
import { api, BASE, checkAccessibility, checkWidth, fresh, KEY, openPage, PHONE, putTool, ready, shutDown, until, withPage } from "./support.mjs";

after(shutDown);

const SCHEMA = { type: "object", required: ["to", "amount"], additionalProperties: false, properties: { to: { type: "string", description: "Who is paid." }, amount: { type: "number", minimum: 0 }, note: { type: "string" } } };
const ARGUMENTS = { to: "Example Ltd", amount: 250 };

/** A key that makes calls: the key of the console may not approve its own. */
let agent;
before(async () => {
  if (KEY) agent = (await api("POST", "/keys", { name: fresh("agent"), scopes: ["call", "read"] })).key;
});

async function pay(name, args = ARGUMENTS, more = {}, key = agent) {
  const headers = { "content-type": "application/json", ...(key ? { authorization: `Bearer ${key}` } : {}) };
  const response = await fetch(`${BASE}/tool-calls`, { method: "POST", headers, body: JSON.stringify({ name, arguments: args, wait: "accepted", ...more }) });
  const call = await response.json();
  return until(async () => {
    const now = await read(call.id);
    return now.approval && now;
  }, "the approval is requested");
}

const read = (id) => api("GET", `/tool-calls/${id}`);
const decide = (call, decision) => api("POST", `/tool-calls/${call.id}/approval`, { decision, digest: call.approval.digest });
const ended = (id) => until(async () => {
  const call = await api("GET", `/tool-calls/${id}?wait_ms=20000`);
  return ["SUCCESS", "ERROR"].includes(call.status) && call;
}, "the call ends");

async function gated(more = {}) {
  const name = fresh("pay");
  await putTool(name, { description: "Pays an amount.", input_schema: SCHEMA, approval: {}, ...more });
  return name;
}

/** Returns whether the title of a page counts what waits now. */
const counts = async (page) => Number(/^\((\d+)\)/.exec(await page.title())?.[1] ?? 0) === (await api("GET", "/approvals?limit=500")).approvals.length;
const shown = (page, id) => page.waitForFunction((wanted) => document.querySelector("[role=row] a[aria-current=true]")?.href.endsWith(wanted), id);
/** Keys act on the call once its heading has the focus, and write the reason once its field has it. */
const focused = (page, selector) => page.waitForFunction((wanted) => document.activeElement?.matches(wanted), selector);
const notice = (page, text) => page.locator(".notice").getByText(text).waitFor();

test("calls_are_decided_by_keyboard_alone", async () => {
  const name = await gated();
  const calls = [await pay(name), await pay(name, { ...ARGUMENTS, amount: 2 }), await pay(name, { ...ARGUMENTS, amount: 3 })];
  await withPage(`approvals?call=${calls[0].id}`, {}, async (page) => {
    await shown(page, calls[0].id);
    await page.locator("section h1").focus();
    await page.keyboard.press("a");
    await page.getByRole("dialog").getByText('to: "Example Ltd", amount: 250').waitFor();
    await focused(page, "dialog input[name=reason]");
    await page.keyboard.type("Invoice 17");
    await page.keyboard.press("Enter");
    await notice(page, `Approved ${name}.`);
    const approved = await ended(calls[0].id);
    assert.deepEqual([approved.status, approved.approval.decisions[0].reason], ["SUCCESS", "Invoice 17"]);
    // The focus is at the next call, where the keys work at once.
    await shown(page, calls[1].id);
    await focused(page, "#approval h2");
    await page.keyboard.press("j");
    await shown(page, calls[2].id);
    await focused(page, "#approval h2");
    await page.keyboard.press("k");
    await shown(page, calls[1].id);
    await focused(page, "#approval h2");
    await page.keyboard.press("r");
    await page.getByRole("dialog").getByText("the model sees it").waitFor();
    await page.keyboard.press("Escape");
    await focused(page, "#approval h2");
    await page.keyboard.press("r");
    await focused(page, "dialog input[name=reason]");
    await page.keyboard.type("Ask first.");
    await page.keyboard.press("Enter");
    await notice(page, `Rejected ${name}.`);
    const rejected = await ended(calls[1].id);
    assert.deepEqual([rejected.error.code, rejected.output], ["APPROVAL_DENIED", `Error: Tool call "${name}" was rejected: Ask first.`]);
    await shown(page, calls[2].id);
  });
  await decide(await read(calls[2].id), "reject");
});

test("a_dialog_that_opens_right_after_another_closed_stays_open", async () => {
  const call = await pay(await gated());
  await withPage(`approvals?call=${call.id}`, {}, async (page) => {
    await shown(page, call.id);
    await page.locator("section h1").focus();
    await page.keyboard.press("r");
    await focused(page, "dialog input[name=reason]");
    // The key comes before the event of the dialog that closes.
    const isOpen = await page.evaluate(async () => {
      const first = /** @type {HTMLDialogElement} */ (document.querySelector("dialog"));
      const closed = new Promise((resolve) => first.addEventListener("close", resolve, { once: true }));
      first.close();
      document.querySelector("section h1")?.dispatchEvent(new KeyboardEvent("keydown", { key: "r", bubbles: true }));
      await closed;
      return document.querySelector("dialog")?.open;
    });
    assert.equal(isOpen, true);
  });
  await decide(await read(call.id), "reject");
});

test("the_count_follows_requests_and_decisions_on_every_screen", async () => {
  const name = await gated();
  await withPage("calls", {}, async (page) => {
    await ready(page);
    const count = async () => Number(/^\((\d+)\)/.exec(await page.title())?.[1] ?? 0);
    const pending = (await api("GET", "/approvals?limit=500")).approvals.length;
    await until(async () => (await count()) === pending, "the title counts what waits");
    const call = await pay(name);
    await until(async () => (await count()) === pending + 1, "the title counts the new call");
    await page.locator("nav").getByLabel(`${pending + 1} pending`).waitFor();
    await decide(call, "approve");
    await until(async () => (await count()) === pending, "the decided call is not counted");
  });
});

test("the_one_who_decides_sees_arguments_reason_expiry_and_recent_calls", async () => {
  const name = await gated({ approval: { required: false, expires_ms: 600_000 } });
  const policy = fresh("large");
  await api("POST", "/policies", { name: policy, when: `tool.name == '${name}' && args.amount > 100`, effect: "approve", reason: "Amounts over 100 need a person." });
  await api("POST", "/tool-calls", { name, arguments: { to: "Small Ltd", amount: 1 } });
  const call = await pay(name);
  await withPage(`approvals?call=${call.id}`, {}, async (page) => {
    await shown(page, call.id);
    const panel = page.locator("#approval");
    for (const text of ["Amounts over 100 need a person.", policy, "pending, 0 of 1", "Who is paid.", "Example Ltd", "not set"]) await panel.getByText(text, { exact: true }).first().waitFor();
    await panel.getByText(/^in [1-9] m/).waitFor();
    await panel.getByRole("link", { name: 'to: "Small Ltd", amount: 1' }).waitFor();
    await panel.getByRole("link", { name: policy }).click();
    await page.getByRole("heading", { name: `Change ${policy}` }).waitFor();
  });
  await decide(call, "reject");
  await api("DELETE", `/policies/${policy}`);
});

test("arguments_are_edited_with_a_diff_and_errors_at_their_places", async () => {
  const name = await gated();
  const policy = fresh("limit");
  await api("POST", "/policies", { name: policy, when: `tool.name == '${name}' && args.amount > 1000`, effect: "deny", reason: "Too much." });
  const call = await pay(name);
  await withPage(`approvals?call=${call.id}`, {}, async (page) => {
    await shown(page, call.id);
    await page.getByRole("button", { name: "Edit and approve" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText("Nothing is changed.").waitFor();
    await dialog.getByLabel("Arguments as JSON").fill('{"to": "Example Ltd",\n "amount": "many"}');
    await dialog.getByRole("row").filter({ hasText: "/amount" }).getByText('"many"').waitFor();
    await dialog.getByRole("button", { name: "Approve", exact: true }).click();
    await dialog.getByRole("alert").waitFor();
    await dialog.locator(".editor-errors").getByText(/line 2/).waitFor();
    // A policy sees the new arguments, too.
    await dialog.getByLabel("Arguments as JSON").fill('{"to": "Example Ltd", "amount": 5000}');
    await dialog.getByRole("button", { name: "Approve", exact: true }).click();
    await dialog.getByRole("alert").getByText(/Too much|not allowed/).first().waitFor();
    await dialog.getByLabel("amount").fill("300");
    const row = dialog.getByRole("row").filter({ hasText: "/amount" });
    await row.locator("del").getByText("250").waitFor();
    await row.locator("ins").getByText("300").waitFor();
    await checkAccessibility(page, "the edit of arguments");
    await dialog.getByRole("button", { name: "Approve", exact: true }).click();
    await notice(page, `Approved ${name}.`);
  });
  const { status, effective_arguments } = await ended(call.id);
  assert.deepEqual([status, effective_arguments], ["SUCCESS", { to: "Example Ltd", amount: 300 }]);
  await api("DELETE", `/policies/${policy}`);
});

test("of_two_approvers_one_decides_and_the_other_learns_it", async () => {
  const name = await gated();
  const call = await pay(name);
  const other = await openPage(`approvals?call=${call.id}`);
  try {
    await withPage(`approvals?call=${call.id}`, {}, async (page) => {
      await shown(page, call.id);
      await page.getByRole("button", { name: "Reject" }).click();
      await shown(other.page, call.id);
      await other.page.getByRole("button", { name: "Approve", exact: true }).click();
      await other.page.getByRole("dialog").getByRole("button", { name: "Approve", exact: true }).click();
      await notice(other.page, `Approved ${name}.`);
      await page.getByRole("dialog").getByRole("button", { name: "Reject" }).click();
      await notice(page, "This call no longer waits");
      await page.getByRole("dialog").waitFor({ state: "detached" });
      await until(async () => !(await page.locator(`a[href='approvals?call=${call.id}']`).count()), "the call leaves the list");
    });
    assert.deepEqual(other.faults, []);
  } finally {
    await other.close();
  }
  assert.equal((await ended(call.id)).status, "SUCCESS");
});

test("a_call_that_is_decided_elsewhere_says_so_where_it_is_read", async () => {
  const name = await gated();
  const call = await pay(name);
  await withPage(`approvals?call=${call.id}`, {}, async (page) => {
    await shown(page, call.id);
    await decide(call, "reject");
    await page.locator("#approval").getByText("rejected, 0 of 1").waitFor();
    assert.equal(await page.locator("#approval").getByRole("button", { name: "Reject" }).count(), 0);
  });
});

test("a_decision_about_a_changed_call_does_not_count", async () => {
  const name = await gated();
  const call = await pay(name);
  await withPage(`approvals?call=${call.id}`, {}, async (page) => {
    await shown(page, call.id);
    await page.getByRole("button", { name: "Approve", exact: true }).click();
    await putTool(name, { description: "Pays an amount at once.", input_schema: SCHEMA, approval: {} });
    await until(async () => (await read(call.id)).approval.digest !== call.approval.digest, "approval is requested again");
    await page.getByRole("dialog").getByRole("button", { name: "Approve", exact: true }).click();
    await notice(page, "The call has changed since you read it.");
    assert.equal((await read(call.id)).status, "WAIT");
    // The call can be approved once the page has read it again.
    await until(async () => {
      await page.getByRole("button", { name: "Approve", exact: true }).click();
      await page.getByRole("dialog").getByRole("button", { name: "Approve", exact: true }).click();
      await page.getByRole("dialog").waitFor({ state: "detached" });
      return (await read(call.id)).approval.status === "approved";
    }, "the call is approved");
  });
  assert.equal((await ended(call.id)).status, "SUCCESS");
});

test("own_calls_are_not_approved", { skip: !KEY && "the service does not know people" }, async () => {
  const name = await gated();
  const call = await pay(name, ARGUMENTS, {}, KEY);
  await withPage(`approvals?call=${call.id}`, {}, async (page) => {
    await shown(page, call.id);
    await page.locator("#approval").getByText("(your key)").waitFor();
    await page.getByRole("button", { name: "Approve", exact: true }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Approve", exact: true }).click();
    await notice(page, "You made this call, so another person must approve it.");
    await shown(page, call.id);
    await page.getByRole("button", { name: "Reject" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Reject" }).click();
    await notice(page, `Rejected ${name}.`);
  });
});

test("two_people_approve_where_two_are_required", { skip: !KEY && "the service does not know people" }, async () => {
  const name = await gated({ approval: { min_approvals: 2 } });
  const call = await pay(name);
  const { key } = await api("POST", "/keys", { name: fresh("ann"), scopes: ["approve", "read"] });
  await withPage(`approvals?call=${call.id}`, {}, async (page) => {
    await shown(page, call.id);
    await page.getByRole("button", { name: "Approve", exact: true }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Approve", exact: true }).click();
    await notice(page, "It waits for 1 more.");
    await page.locator("#approval").getByText("pending, 1 of 2").waitFor();
  });
  const { page, context, close } = await openPage("calls", { signIn: false });
  await context.request.post(`${BASE}/console/login`, { data: { key }, headers: { origin: new URL(BASE).origin } });
  await page.goto(`${BASE}/console/approvals?call=${call.id}`);
  await shown(page, call.id);
  assert.equal(await page.locator("nav").getByRole("link", { name: "Policies" }).count(), 0, "what the key may not do is not offered");
  await page.locator("#approval").getByText("Approved by").waitFor();
  await page.getByRole("button", { name: "Approve", exact: true }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Approve", exact: true }).click();
  await notice(page, `Approved ${name}.`);
  await close();
  assert.equal((await ended(call.id)).status, "SUCCESS");
});

test("a_decision_is_remembered_for_the_session", async () => {
  const name = await gated();
  const session = fresh("deal");
  const call = await pay(name, ARGUMENTS, { session });
  await withPage(`approvals?call=${call.id}`, {}, async (page) => {
    await shown(page, call.id);
    await page.getByRole("button", { name: "Approve", exact: true }).click();
    await page.getByLabel("Also approve equal calls for the rest of the session").check();
    await page.getByRole("dialog").getByRole("button", { name: "Approve", exact: true }).click();
    await notice(page, `Approved ${name}.`);
  });
  assert.equal((await ended(call.id)).status, "SUCCESS");
  const again = await pay(name, ARGUMENTS, { session });
  assert.equal((await ended(again.id)).status, "SUCCESS");
});

test("the_screen_of_a_call_shows_its_approval_and_decides", async () => {
  const name = await gated();
  const call = await pay(name);
  await withPage(`calls/${call.id}`, {}, async (page) => {
    const approval = page.getByRole("region", { name: "Approval" });
    await approval.getByText("pending, 0 of 1").waitFor();
    await approval.getByText("Who is paid.").waitFor();
    await approval.getByRole("button", { name: "Approve", exact: true }).click();
    await page.getByLabel("Reason").fill("Invoice 18");
    await page.getByRole("dialog").getByRole("button", { name: "Approve", exact: true }).click();
    await notice(page, `Approved ${name}.`);
    await approval.getByText("approved, 1 of 1").waitFor();
    await approval.getByText("Invoice 18").waitFor();
    await page.locator(".page-head").getByText("Success").waitFor();
  });
});

test("approvals_are_decided_on_a_phone", async () => {
  const name = await gated();
  const call = await pay(name);
  await withPage(`approvals?call=${call.id}`, { viewport: PHONE, scheme: "dark" }, async (page) => {
    await shown(page, call.id);
    await checkWidth(page, "the approvals on a phone");
    await checkAccessibility(page, "the approvals on a phone");
    await page.getByRole("button", { name: "Reject" }).click();
    await checkAccessibility(page, "the decision on a phone");
    await page.getByRole("dialog").getByRole("button", { name: "Reject" }).click();
    await notice(page, `Rejected ${name}.`);
  });
});

test("pages_of_one_browser_share_a_stream_of_approvals", async () => {
  const name = await gated();
  await withPage("calls", {}, async (page, { context }) => {
    const streams = [];
    context.on("request", (request) => request.url().includes("/approvals/events") && streams.push(request.frame().page()));
    await page.reload();
    await ready(page);
    await until(() => streams.length, "the first page reads the stream");
    const second = await context.newPage();
    await second.goto(page.url());
    await ready(second);
    const calls = [await pay(name), await pay(name)];
    for (const one of [page, second]) await until(() => counts(one), "each page counts what waits");
    assert.ok(!streams.includes(second), "the second page opens no stream");
    // The other page goes on alone.
    await page.goto("about:blank");
    await until(() => streams.includes(second), "the second page reads the stream");
    for (const call of calls) await decide(call, "reject");
    await until(() => counts(second), "the second page follows the decisions");
  });
});
