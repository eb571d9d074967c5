// A history of 100,000 calls in the live list: its pages load, and the page keeps elements for the visible rows only.
import { after, test } from "node:test";
import assert from "node:assert/strict";
import { api, shutDown, until, withPage } from "./support.mjs";
import { LARGE, withService } from "./service.mjs";

after(shutDown);

const CALLS = 100_000;
const BATCH = 1000;
/** One call of a batch fails. */
const FAILED = 500;
const MAX_ROWS = 80;
const MAX_ELEMENTS = 2500;
const MAX_NODES = 30_000;

/** Makes the calls in order, so that the index of a call tells its row. */
async function fill(base) {
  for (let start = 0; start < CALLS; start += BATCH) {
    const calls = Array.from({ length: BATCH }, (_, at) => (at === FAILED ? { name: "calculate", arguments: { expression: "1/0", index: start + at } } : { name: "echo", arguments: { index: start + at, text: `word${(start + at) % BATCH}` } }));
    await api("POST", "/tool-calls", { calls, session: "large", mode: "parallel" }, { base });
  }
}

/** Returns the number of each rendered row and the index of its call. */
const rendered = (page) => page.locator(".virtual-list [role=row]").evaluateAll((rows) => rows.map((row) => [Number(row.getAttribute("aria-rowindex")) - 2, Number(/index: (\d+)/.exec(row.querySelector(".cell-arguments").textContent)?.[1])]));

/** Scrolls to a row and checks what is rendered there: each call in its row, and elements for the visible rows only. */
async function checkAt(page, row) {
  await page.locator(".virtual-list").evaluate((list, at) => list.scrollTo(0, at * Number.parseFloat(getComputedStyle(list).getPropertyValue("--row-height"))), row);
  const rows = await until(async () => {
    const found = await rendered(page);
    return found.some(([number]) => number === row) && found;
  }, `row ${row}`);
  for (const [at, [number, index]] of rows.entries()) {
    assert.equal(index, CALLS - 1 - number, `the call in row ${number}`);
    assert.equal(number, rows[0][0] + at, "no row is missing");
  }
  assert.ok(rows.length < MAX_ROWS, `${rows.length} rows have elements`);
  const elements = await page.locator("*").count();
  assert.ok(elements < MAX_ELEMENTS, `${elements} elements`);
}

test("a_history_of_100000_calls_is_read_to_its_end", () => withService(LARGE, async (service) => {
  await fill(service.base);
  await withPage("calls", { base: service.base }, async (page, { context }) => {
    const list = page.locator(".virtual-list");
    await page.getByText(/^200\+ calls/).waitFor();
    await checkAt(page, 0);
    await checkAt(page, 150);
    // Stays at the end while pages load, as a held key does.
    await list.evaluate((element) => new Promise((resolve) => {
      const step = () => {
        element.scrollTo(0, element.scrollHeight);
        if (document.getElementById("live-count").textContent.includes("+")) requestAnimationFrame(step);
        else resolve(undefined);
      };
      step();
    }));
    await page.getByText(`${CALLS} calls`, { exact: true }).waitFor();
    for (const row of [CALLS - 1, 50_000, 12_345, 77_777, 0]) await checkAt(page, row);
    const session = await context.newCDPSession(page);
    await session.send("HeapProfiler.collectGarbage");
    const { nodes } = await session.send("Memory.getDOMCounters");
    assert.ok(nodes < MAX_NODES, `${nodes} nodes after scrolling through ${CALLS} rows`);
    // A new call is offered without moving the rows.
    await checkAt(page, 60_000);
    await api("POST", "/tool-calls", { name: "current_time", arguments: {} }, { base: service.base });
    await page.getByRole("button", { name: "1 new" }).click();
    await page.locator(".virtual-list [role=row]").getByRole("link", { name: "current_time" }).waitFor();
    await page.locator("#filter-status").selectOption("ERROR");
    await page.getByText(`${CALLS / BATCH} calls`, { exact: true }).waitFor();
    await page.locator(".virtual-list [role=row]").getByText(`index: ${CALLS - BATCH + FAILED}`).waitFor();
    await page.locator("#filter-status").selectOption("");
    await page.getByText(/^200\+ calls/).waitFor();
    await page.getByLabel("Words").fill("word123");
    // The index of words may still be catching up, so not all of them are there yet.
    await page.waitForFunction(() => location.search.includes("q=word123"));
    await until(async () => {
      const rows = await rendered(page);
      return rows.length > 0 && rows.every(([, index], at) => index % BATCH === 123 && (at === 0 || index < rows[at - 1][1]));
    }, "calls with the word only, newest on top");
  });
}));
