// A restart of the service on the same address and database: the page says so, resumes on its own, and misses nothing.
import { after, test } from "node:test";
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { api, PATIENCE_MS, shutDown, until, withPage } from "./support.mjs";
import { withService } from "./service.mjs";

after(shutDown);

const LOST = "Connection lost";
const lost = (page) => page.getByText(LOST).waitFor();
const found = (page) => page.getByText(LOST).waitFor({ state: "detached" });
const turns = (page) => page.locator(".virtual-list .cell-arguments").allInnerTexts();
const call = (base, turn, more = {}) => api("POST", "/tool-calls", { name: "echo", arguments: { turn }, ...more }, { base });

/** Runs calls while the page is away: the service answers them on another port, with the same database. */
async function elsewhere(service, body) {
  const base = await service.restart(0);
  await body(base);
  await service.stop();
}

for (const signal of ["SIGTERM", "SIGKILL"]) {
  test(`the_live_list_survives_a_restart_after_${signal}`, () => withService([], async (service) => {
    await withPage("calls?name=echo", { base: service.base }, async (page) => {
      await page.getByText("No call matches").waitFor();
      await call(service.base, 1);
      await page.getByText("turn: 1").waitFor();
      for (const round of [2, 5]) {
        await service.stop(signal);
        await lost(page);
        await elsewhere(service, (base) => api("POST", "/tool-calls", { calls: [round, round + 1].map((turn) => ({ name: "echo", arguments: { turn } })) }, { base }));
        await service.restart();
        await found(page);
        await page.getByText(`turn: ${round + 1}`).waitFor();
        await call(service.base, round + 2);
        await page.getByText(`turn: ${round + 2}`).waitFor();
      }
      const expected = [7, 6, 5, 4, 3, 2, 1].map((turn) => `turn: ${turn}`);
      await until(async () => (await turns(page)).join() === expected.join(), "each call once, newest on top");
      await page.locator("#live-count").getByText("7 calls", { exact: true }).waitFor();
    });
  }));
}

test("a_list_without_an_event_before_the_restart_loads_what_it_missed", () => withService([], async (service) => {
  await call(service.base, 1);
  await withPage("calls?name=echo", { base: service.base }, async (page) => {
    await page.getByText("turn: 1").waitFor();
    await service.stop();
    await lost(page);
    await elsewhere(service, (base) => call(base, 2));
    await service.restart();
    await page.getByText("turn: 2").waitFor();
    await found(page);
    assert.deepEqual(await turns(page), ["turn: 2", "turn: 1"]);
  });
}));

test("the_page_of_a_waiting_call_survives_a_restart", () => withService([], async (service) => {
  const definition = { description: "A person answers.", input_schema: { type: "object" }, executor: { type: "external" } };
  await api("PUT", "/tools/ask", definition, { base: service.base });
  const { id } = await api("POST", "/tool-calls", { name: "ask", arguments: {}, wait: "accepted" }, { base: service.base });
  await withPage(`calls/${id}`, { base: service.base }, async (page) => {
    await page.locator(".elapsed").getByText("so far").waitFor();
    await service.stop();
    await lost(page);
    await service.restart();
    await found(page);
    await api("POST", `/tool-calls/${id}/progress`, { tip: "Almost there" }, { base: service.base });
    await page.locator(".live-progress").getByText("Almost there").waitFor();
    await service.stop("SIGKILL");
    await lost(page);
    await elsewhere(service, (base) => api("POST", `/tool-calls/${id}/result`, { content: [{ type: "text", text: "the answer" }] }, { base }));
    await service.restart();
    await page.locator("[role=tabpanel]").getByText("the answer").waitFor();
    await page.locator(".page-head").getByText("Success").waitFor();
    await found(page);
    await page.getByRole("tab", { name: /^Events/ }).click();
    const events = () => page.locator(".events summary .num").allInnerTexts();
    await until(async () => (await events()).length > 1, "the events");
    const ids = await events();
    assert.deepEqual(ids, [...new Set(ids)], "no event is shown twice");
  });
}));

test("the_page_of_a_running_call_shows_its_next_attempt_after_a_crash", () => withService([], async (service) => {
  const { id } = await api("POST", "/tool-calls", { name: "wait", arguments: { ms: 250_000, steps: 100 }, wait: "accepted" }, { base: service.base });
  await withPage(`calls/${id}`, { base: service.base }, async (page) => {
    await page.locator(".timeline-row").getByText("Attempt 1").waitFor();
    await service.stop("SIGKILL");
    await lost(page);
    await service.restart();
    await page.locator(".live-progress").getByText(/Attempt 2 .* of 250000 ms/).waitFor();
    await found(page);
    await page.getByRole("button", { name: "Cancel", exact: true }).click();
    await page.getByRole("button", { name: "Cancel the call" }).click();
    await page.locator(".error-title").getByText("CANCELLED").waitFor();
  });
}));

test("the_page_of_a_call_that_ends_during_the_shutdown_shows_its_result", () => withService(["--egress-allow", "127.0.0.1"], async (service) => {
  let answer;
  const tool = createServer((_, response) => (answer = () => response.end("the answer"))).listen(0, "127.0.0.1");
  await once(tool, "listening");
  try {
    const executor = { type: "http", url: `http://127.0.0.1:${tool.address().port}/` };
    await api("PUT", "/tools/slow", { description: "Answers late.", input_schema: { type: "object" }, executor, limits: { timeout_ms: PATIENCE_MS } }, { base: service.base });
    const { id } = await api("POST", "/tool-calls", { name: "slow", arguments: {}, wait: "accepted" }, { base: service.base });
    await withPage(`calls/${id}`, { base: service.base }, async (page) => {
      await page.locator(".page-head").getByText("Running").waitFor();
      await until(() => answer, "the tool is asked");
      // The page may read the result before the service is gone, or after it is back.
      const stopped = service.stop();
      answer();
      await stopped;
      await service.restart();
      await page.locator("[role=tabpanel]").getByText("the answer").waitFor();
      await found(page);
      await until(async () => (await page.getByRole("alert").count()) === 0, "no error remains");
    });
  } finally {
    tool.closeAllConnections();
    tool.close();
  }
}));

test("a_screen_that_is_refreshed_shows_and_forgets_an_outage", () => withService([], async (service) => {
  await withPage("system", { base: service.base }, async (page) => {
    const nodes = page.getByRole("region", { name: "Nodes" });
    await nodes.waitFor();
    await service.stop();
    await page.getByRole("alert").getByText("the service cannot be reached").first().waitFor();
    assert.ok(await nodes.isVisible(), "what was loaded stays");
    await service.restart();
    await until(async () => (await page.getByRole("alert").count()) === 0, "the errors disappear");
    await nodes.waitFor();
  });
}));
