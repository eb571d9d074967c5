// The screen of one call: its timeline while it runs, its parts, and what can be done with it.
import { after, test } from "node:test";
import assert from "node:assert/strict";
import { api, BASE, fresh, KEY, LONG_MS, makeCall, putTool, ready, shutDown, until, withPage } from "./support.mjs";

after(shutDown);

// An image of one pixel.
const PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

test("a_running_call_moves_and_is_cancelled", async () => {
  const call = await makeCall("wait", { ms: LONG_MS, steps: 100 }, { wait: "accepted" });
  await withPage(`calls/${call.id}`, {}, async (page) => {
    await page.getByText("so far").first().waitFor();
    await page.getByText(new RegExp(`\\d+ of ${LONG_MS} ms`)).first().waitFor();
    const width = () => page.locator(".elapsed").innerText();
    const before = await width();
    await until(async () => (await width()) !== before, "the duration grows");
    await page.locator(".timeline-row").getByText("Attempt 1").waitFor();
    await page.getByRole("button", { name: "Cancel", exact: true }).click();
    await page.getByRole("button", { name: "Cancel the call" }).click();
    await page.locator(".notice").getByText("Asked the tool to stop.").waitFor();
    await page.locator(".error-title").getByText("CANCELLED").waitFor();
    await page.getByRole("button", { name: "Cancel", exact: true }).waitFor({ state: "detached" });
  });
});

test("a_validation_error_is_shown_next_to_the_schema", async () => {
  const call = await makeCall("wait", { ms: -5, stepz: 2 });
  await withPage(`calls/${call.id}`, {}, async (page) => {
    await page.getByRole("tab", { name: "Error" }).waitFor();
    await page.locator(".violations").filter({ hasText: "/ms must be at least 0" }).waitFor();
    await page.locator(".schema .wrong").filter({ hasText: /ms[\s\S]*must be at least 0/ }).first().waitFor();
    await page.getByRole("tab", { name: "Error" }).press("ArrowRight");
    await page.getByRole("tab", { name: "Output for the model", selected: true }).waitFor();
    await page.getByText('Error: Invalid parameters for tool "wait"').waitFor();
    await page.waitForURL(/tab=output/);
  });
});

test("coerced_arguments_are_marked", async () => {
  const call = await makeCall("wait", { ms: "1", steps: null });
  await withPage(`calls/${call.id}?tab=arguments`, {}, async (page) => {
    await page.getByText("converted from string").waitFor();
    await page.getByText("Removed: /steps (null)").or(page.getByText("removed null")).first().waitFor();
  });
});

test("a_call_is_run_again_with_other_arguments", async () => {
  const call = await makeCall("calculate", { expression: "1/0" });
  await withPage(`calls/${call.id}`, {}, async (page) => {
    await page.getByRole("button", { name: "Edit and rerun" }).click();
    const editor = page.getByRole("dialog").getByLabel("Arguments as JSON");
    await editor.fill('{"expression": 5}');
    await page.getByRole("dialog").getByText("1 error").waitFor();
    await editor.fill('{"expression": ');
    await page.getByRole("dialog").getByText("This is not valid JSON.").waitFor();
    await page.getByRole("dialog").getByRole("button", { name: "Run", disabled: true }).waitFor();
    await editor.fill('{"expression": "6*7"}');
    await page.getByRole("dialog").getByText("Valid.").waitFor();
    await page.getByRole("dialog").getByRole("button", { name: "Run" }).click();
    await page.waitForFunction((id) => !location.href.includes(id), call.id);
    await page.locator(".code").getByText("42", { exact: true }).waitFor();
    await page.getByText("Rerun of").waitFor();
  });
});

test("a_call_is_copied_as_a_program", async () => {
  const call = await makeCall("echo", { text: "it's" });
  await withPage(`calls/${call.id}`, {}, async (page, { context }) => {
    await context.grantPermissions(["clipboard-read", "clipboard-write"]);
    for (const [language, expected] of [["curl", /^curl 'http.*tool-calls'/], ["Python", /urllib\.request/], ["TypeScript", /await fetch\(/]]) {
      await page.getByRole("button", { name: "Copy as…" }).click();
      await page.locator("#copy-menu").getByRole("button", { name: language }).click();
      await page.locator(".notice").getByText(`Copied the call as ${language}.`).waitFor();
      assert.match(await page.evaluate(() => navigator.clipboard.readText()), expected);
    }
  });
});

test("truncated_output_is_opened_in_full", async () => {
  const call = await makeCall("echo", { lines: Array.from({ length: 3000 }, (_, index) => `line ${index} of a long output`) });
  await withPage(`calls/${call.id}`, {}, async (page) => {
    await page.getByText("Truncated for the model").waitFor();
    const address = await page.getByRole("link", { name: "Open the full output" }).getAttribute("href");
    const full = await page.evaluate(async (url) => (await fetch(url)).text(), address);
    assert.match(full, /line 2999/);
  });
});

test("images_are_shown", async () => {
  const name = fresh("camera");
  await putTool(name, { executor: { type: "external" } });
  const call = await makeCall(name, {}, { wait: "accepted" });
  await api("POST", `/tool-calls/${call.id}/result`, { content: [{ type: "text", text: "a photo" }, { type: "image", data: PNG, mime_type: "image/png" }] });
  await withPage(`calls/${call.id}`, {}, async (page) => {
    await page.getByText("a photo").first().waitFor();
    await page.waitForFunction(() => document.querySelector("figure img")?.naturalWidth === 1);
  });
});

test("events_are_not_called_missing_while_they_load", async () => {
  const call = await makeCall("echo", {});
  await withPage("calls", {}, async (page) => {
    let release = () => {};
    const held = new Promise((resolve) => (release = resolve));
    await page.route(/\/tool-calls\/[^/]+\/events$/, async (route) => {
      await held;
      await route.continue();
    });
    await page.goto(`${BASE}/console/calls/${call.id}?tab=events`);
    await page.locator("[role=tabpanel] .loading").waitFor();
    release();
    await page.locator(".events").getByText("tool_result").waitFor();
  });
});

test("a_result_that_cannot_be_read_at_once_is_read_later", async () => {
  const call = await makeCall("wait", { ms: LONG_MS }, { wait: "accepted" });
  await withPage(`calls/${call.id}`, {}, async (page) => {
    await page.locator(".page-head").getByText("Running").waitFor();
    const address = /\/tool-calls\/[^/?]+$/;
    await page.route(address, (route) => route.abort());
    await api("POST", `/tool-calls/${call.id}/cancel`);
    await page.getByRole("alert").getByText("the service cannot be reached").waitFor();
    await page.unroute(address);
    await page.locator(".error-title").getByText("CANCELLED").waitFor();
    await page.getByRole("alert").waitFor({ state: "detached" });
  });
});

test("a_call_that_does_not_exist_says_so_with_its_request", async () => {
  await withPage("calls/01890000-0000-7000-8000-000000000000", {}, async (page) => {
    await page.getByRole("alert").getByText(/Request [0-9a-f-]{36}/).waitFor();
    await ready(page);
  });
});

/** An integer beyond 2^53, and the largest of 64 bits: numbers of JavaScript cannot hold them. */
const [BIG, LARGEST] = ["9007199254740993", "18446744073709551615"];

/** Makes a call with these integers, which `JSON.stringify` would round. */
async function callOfIntegers(name, more = "", key = KEY) {
  const headers = { "content-type": "application/json", ...(key ? { authorization: `Bearer ${key}` } : {}) };
  const response = await fetch(`${BASE}/tool-calls`, { method: "POST", headers, body: `{"name": "${name}", "arguments": {"id": ${BIG}, "deep": [{"id": ${LARGEST}}], "note": "a"}${more}}` });
  return (await response.json()).id;
}

/** Returns the arguments of a call as the service writes them. */
async function sentText(id) {
  const response = await fetch(`${BASE}/tool-calls/${id}`, { headers: KEY ? { authorization: `Bearer ${KEY}` } : {} });
  return /"effective_arguments":(\{.*?\}),"/.exec((await response.text()).replace(/\s/g, ""))?.[1] ?? "";
}

test("large_integers_are_shown_and_sent_again_exactly", async () => {
  const name = fresh("integers");
  await putTool(name, { input_schema: { type: "object", properties: { id: { type: "integer" }, deep: { type: "array", items: { type: "object" } }, note: { type: "string" } } } });
  const id = await callOfIntegers(name);
  await withPage(`calls/${id}?tab=arguments`, {}, async (page, { context }) => {
    for (const integer of [BIG, LARGEST]) await until(async () => (await page.locator(".json-value").getByText(integer, { exact: true }).count()) === 2, `${integer} as sent and as used`);
    await page.getByRole("tab", { name: /^Events/ }).click();
    await page.locator(".events summary").first().click();
    await page.locator(".events .json-value").getByText(BIG, { exact: true }).first().waitFor();
    await context.grantPermissions(["clipboard-read", "clipboard-write"]);
    for (const language of ["curl", "Python", "TypeScript"]) {
      await page.getByRole("button", { name: "Copy as…" }).click();
      await page.locator("#copy-menu").getByRole("button", { name: language }).click();
      await page.locator(".notice").getByText(`Copied the call as ${language}.`).waitFor();
      const program = await page.evaluate(() => navigator.clipboard.readText());
      assert.ok(program.includes(BIG) && program.includes(LARGEST), program);
      if (language === "TypeScript") assert.match(program, /body: "/, "a text, because a number would be rounded");
    }
    await page.getByRole("button", { name: "Edit and rerun" }).click();
    const editor = page.getByRole("dialog").getByLabel("Arguments as JSON");
    await editor.fill((await editor.inputValue()).replace('"a"', '"b"'));
    await page.getByRole("dialog").getByText("Valid.").waitFor();
    await page.getByRole("dialog").getByRole("button", { name: "Run" }).click();
    await page.waitForFunction((old) => !location.href.includes(old), id);
    await page.getByText("Rerun of").waitFor();
    const rerun = new URL(page.url()).pathname.split("/").pop();
    assert.equal(await sentText(rerun), `{"id":${BIG},"deep":[{"id":${LARGEST}}],"note":"b"}`);
  });
});

test("large_integers_are_approved_exactly_next_to_edited_members", async () => {
  const name = fresh("gated-integers");
  await putTool(name, { input_schema: { type: "object", properties: { id: { type: "integer" }, note: { type: "string" } } }, approval: {} });
  const key = KEY && (await api("POST", "/keys", { name: fresh("agent"), scopes: ["call", "read"] })).key;
  const id = await callOfIntegers(name, ', "wait": "accepted"', key);
  await withPage(`approvals?call=${id}`, {}, async (page) => {
    await page.locator("#approval .json-value").getByText(BIG, { exact: true }).waitFor();
    await page.getByRole("button", { name: "Edit and approve" }).click();
    const dialog = page.getByRole("dialog");
    // The form writes the JSON again.
    await dialog.getByLabel("note", { exact: true }).fill("b");
    await dialog.getByRole("row").filter({ hasText: "/note" }).waitFor();
    assert.equal(await dialog.getByRole("row").filter({ hasText: "/id" }).count(), 0, "what is not edited is no change");
    await dialog.getByLabel("id", { exact: true }).fill("9007199254740995");
    await dialog.getByRole("row").filter({ hasText: "/id" }).locator("ins").getByText("9007199254740995").waitFor();
    await dialog.getByRole("button", { name: "Approve", exact: true }).click();
    await page.locator(".notice").getByText(`Approved ${name}.`).waitFor();
  });
  await until(async () => (await sentText(id)) === `{"id":9007199254740995,"deep":[{"id":${LARGEST}}],"note":"b"}`, "the approved arguments");
});
