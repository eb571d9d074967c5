// The live list: calls appear, filters stay in the address, bulk actions, the pill, a burst.
import { after, test } from "node:test";
import assert from "node:assert/strict";
import { api, fresh, LONG_MS, makeCall, shutDown, until, withPage } from "./support.mjs";

after(shutDown);

const rows = (page) => page.locator(".virtual-list [role=row]");

test("calls_appear_as_they_happen", async () => {
  const session = fresh("appear");
  await withPage(`calls?session=${session}`, {}, async (page) => {
    await page.getByText("No call matches").waitFor();
    const call = await makeCall("wait", { ms: LONG_MS, steps: 4 }, { session, wait: "accepted" });
    await rows(page).getByText("Running").waitFor();
    await makeCall("calculate", { expression: "6*7" }, { session });
    await rows(page).nth(1).waitFor();
    await until(async () => (await rows(page).locator(".cell-tool").allInnerTexts()).join() === "calculate,wait", "the newest on top");
    await api("POST", `/tool-calls/${call.id}/cancel`);
    await rows(page).getByText("CANCELLED").waitFor();
    await rows(page).getByRole("link", { name: "calculate" }).click();
    await page.getByRole("heading", { name: "calculate", level: 1 }).waitFor();
  });
});

test("filters_survive_a_reload", async () => {
  const session = fresh("filters");
  await makeCall("calculate", { expression: "1 + 2" }, { session });
  await makeCall("calculate", { expression: "1/0" }, { session });
  await makeCall("echo", { expression: "other" }, { session });
  // Words are indexed a moment after a call has ended.
  await until(async () => (await api("GET", `/tool-calls?q=other&session=${session}`)).tool_calls.length === 1, "the index of words");
  await withPage("calls", {}, async (page) => {
    await page.getByLabel("Session", { exact: true }).fill(session);
    await page.waitForFunction((text) => location.search.includes(text), session);
    await until(async () => (await rows(page).count()) === 3, "three calls");
    await page.locator("#filter-status").selectOption("ERROR");
    await until(async () => (await rows(page).count()) === 1, "one failed call");
    await page.reload();
    await until(async () => (await rows(page).count()) === 1, "one failed call after the reload");
    await until(async () => (await page.getByLabel("Session", { exact: true }).inputValue()) === session, "the session in its field");
    await until(async () => (await page.locator("#filter-status").inputValue()) === "ERROR", "the status in its field");
    await page.getByRole("button", { name: /^Clear \d/ }).click();
    await page.waitForFunction(() => location.search === "");
    await page.getByLabel("Words").fill("other");
    await page.getByLabel("Session", { exact: true }).fill(session);
    await until(async () => (await rows(page).locator(".cell-tool").allInnerTexts()).join() === "echo", "the call with the word");
  });
});

test("selected_calls_are_cancelled_and_run_again", async () => {
  const session = fresh("bulk");
  for (let index = 0; index < 3; index++) await makeCall("wait", { ms: LONG_MS }, { session, wait: "accepted" });
  await withPage(`calls?session=${session}`, {}, async (page) => {
    await until(async () => (await rows(page).count()) === 3, "three calls");
    await page.getByLabel("Select all calls").check();
    await page.getByRole("button", { name: "Cancel 3", exact: true }).click();
    await page.getByRole("button", { name: "Keep" }).click();
    await until(async () => (await rows(page).getByText("Running").count()) === 3, "three running calls");
    await page.getByRole("button", { name: "Cancel 3", exact: true }).click();
    await page.getByRole("button", { name: "Cancel 3 calls" }).click();
    await page.locator(".notice").getByText("Cancelled 3 calls.").waitFor();
    await until(async () => (await rows(page).getByText("CANCELLED").count()) === 3, "three cancelled calls");
    await page.getByRole("button", { name: "Rerun 3", exact: true }).click();
    await page.getByRole("button", { name: "Rerun 3 calls" }).click();
    await page.locator(".notice").getByText("Started 3 calls again.").waitFor();
    await until(async () => (await rows(page).count()) === 6, "six calls");
  });
  await api("POST", "/tool-calls/cancel", { session });
});

test("a_scrolled_list_stays_in_place_and_offers_new_calls", async () => {
  const session = fresh("pill");
  const calls = Array.from({ length: 80 }, (_, index) => ({ name: "echo", arguments: { index } }));
  await api("POST", "/tool-calls", { calls, session });
  await withPage(`calls?session=${session}`, {}, async (page) => {
    await until(async () => (await rows(page).count()) > 10, "rows");
    await until(async () => {
      // The list is as high as its rows one frame after it appears.
      await page.locator(".virtual-list").evaluate((list) => list.scrollTo(0, 1000));
      return (await rows(page).first().getAttribute("aria-rowindex")) !== "2";
    }, "scrolled rows");
    const visible = () => page.locator(".virtual-list").evaluate((list) => document.elementFromPoint(list.getBoundingClientRect().left + 400, list.getBoundingClientRect().top + 100).closest("[role=row]").textContent);
    const before = await visible();
    for (let index = 0; index < 12; index++) await makeCall("echo", { fresh: index }, { session });
    await page.getByRole("button", { name: "12 new" }).click({ trial: true });
    assert.equal(await visible(), before);
    await page.getByRole("button", { name: "12 new" }).click();
    await page.getByText("fresh: 11").waitFor();
    await until(() => page.locator(".virtual-list").evaluate((list) => list.scrollTop === 0), "the top of the list");
  });
});

test("older_pages_load_while_scrolling", async () => {
  const session = fresh("pages");
  for (let page = 0; page < 3; page++) await api("POST", "/tool-calls", { calls: Array.from({ length: 90 }, (_, index) => ({ name: "echo", arguments: { index: page * 90 + index } })), session });
  await withPage(`calls?session=${session}`, {}, async (page) => {
    await page.getByText(/^200\+ calls/).waitFor();
    // The list is as high as its rows one frame after it appears, and after each page.
    const toEnd = () => page.locator(".virtual-list").evaluate((list) => list.scrollTo(0, list.scrollHeight));
    await until(async () => {
      await toEnd();
      return page.getByText(/^270 calls/).isVisible();
    }, "the older page");
    await until(async () => {
      await toEnd();
      return page.getByText("index: 0", { exact: true }).isVisible();
    }, "the oldest call");
    assert.ok((await rows(page).count()) < 80, "only visible rows have elements");
  });
});

test("a_burst_of_events_arrives_completely", async () => {
  const session = fresh("burst");
  await withPage(`calls?session=${session}`, {}, async (page) => {
    await page.getByText("No call matches").waitFor();
    // About four events a call: 250 calls within about two seconds.
    for (let turn = 0; turn < 10; turn++) await api("POST", "/tool-calls", { calls: Array.from({ length: 25 }, (_, index) => ({ name: "echo", arguments: { index: turn * 25 + index } })), session });
    await page.getByText(/^250 calls/).waitFor();
    await page.getByText("index: 249").waitFor();
    await until(async () => (await rows(page).getByText("Success").count()) === (await rows(page).count()), "all have ended");
  });
});
