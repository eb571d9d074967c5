// Measures the console against the service at TOOLPOST_URL: frames of the live screen under load, and the first paint of
// every screen. `--json` prints the figures as JSON, and `--seconds N` sets how long frames are counted.
import { parseArgs } from "node:util";
import { api, fresh, makeCall, openPage, ready, shutDown } from "./browser/support.mjs";

const { values } = parseArgs({ options: { json: { type: "boolean", default: false }, seconds: { type: "string", default: "20" } } });
const SECONDS = Number(values.seconds);
/** Each call has about four events: accepted, queued or running, ended, and its result. */
const BATCH = 25;
const BATCH_MS = 200;
const PAINTS = 5;

const at = (sorted, share) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];
const ascending = (list) => [...list].sort((a, b) => a - b);
const round = (value) => Math.round(value * 10) / 10;

/** Makes calls in batches until the time is over. Returns how many. */
async function load(session, end) {
  let calls = 0;
  const open = new Set();
  for (let next = Date.now(); next < end; next += BATCH_MS) {
    await new Promise((resolve) => setTimeout(resolve, Math.max(0, next - Date.now())));
    const batch = Array.from({ length: BATCH }, () => ({ name: "echo", arguments: { index: calls++ } }));
    const sent = api("POST", "/tool-calls", { calls: batch, session, mode: "parallel" }).finally(() => open.delete(sent));
    open.add(sent);
  }
  await Promise.all(open);
  return calls;
}

/** Counts frames while calls arrive. */
async function frames() {
  const session = fresh("frames");
  const { page, close } = await openPage(`calls?session=${session}`);
  try {
    await ready(page);
    await page.evaluate(() => {
      const seen = (globalThis.measured = { times: [], tasks: [] });
      new PerformanceObserver((list) => seen.tasks.push(...list.getEntries().map(({ duration }) => duration))).observe({ type: "longtask" });
      let last = performance.now();
      const step = (now) => {
        seen.times.push(now - last);
        last = now;
        requestAnimationFrame(step);
      };
      requestAnimationFrame(step);
    });
    const begin = Date.now();
    const calls = await load(session, begin + SECONDS * 1000);
    const seconds = (Date.now() - begin) / 1000;
    const { times, tasks } = await page.evaluate(() => globalThis.measured);
    const sample = await api("GET", `/tool-calls?session=${session}&limit=1`);
    const events = (await (await fetch(new URL(`${process.env.TOOLPOST_URL ?? "http://127.0.0.1:8080"}/tool-calls/${sample.tool_calls[0].id}/events`), { headers: process.env.TOOLPOST_KEY ? { authorization: `Bearer ${process.env.TOOLPOST_KEY}` } : {} })).text()).match(/^event:/gm)?.length ?? 0;
    const sorted = ascending(times);
    return {
      seconds: round(seconds), calls, events_per_second: Math.round((calls * events) / seconds), frames_per_second: round(times.length / seconds),
      median_ms: round(at(sorted, 0.5)), p95_ms: round(at(sorted, 0.95)), p99_ms: round(at(sorted, 0.99)), longest_ms: round(sorted.at(-1) ?? 0), long_tasks: tasks.length, longest_task_ms: round(Math.max(0, ...tasks)),
    };
  } finally {
    await close();
  }
}

/** Returns the median first contentful paint of a screen in fresh contexts. */
async function firstPaint(path) {
  const times = [];
  for (let turn = 0; turn < PAINTS; turn++) {
    const { page, close } = await openPage(path);
    try {
      const paint = await page.waitForFunction(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime);
      times.push(await paint.jsonValue());
    } finally {
      await close();
    }
  }
  return round(at(ascending(times), 0.5));
}

const call = await makeCall("echo", { text: "paint" }, { session: fresh("paint") });
const live = await frames();
const screens = { Live: "calls", "A call": `calls/${call.id}`, Tools: "tools", "A tool": "tools/echo", Sessions: "sessions", "A session": `sessions/${call.session}`, Statistics: "stats", Approvals: "approvals", Policies: "policies", System: "system" };
const paints = {};
for (const [name, path] of Object.entries(screens)) paints[name] = await firstPaint(path);
await shutDown();

if (values.json) console.log(JSON.stringify({ live, first_paint_ms: paints }, null, 2));
else {
  console.log("live screen under load");
  for (const [name, value] of Object.entries(live)) console.log(`  ${name.replaceAll("_", " ").padEnd(20)}${String(value).padStart(8)}`);
  console.log("first contentful paint, ms");
  for (const [name, value] of Object.entries(paints)) console.log(`  ${name.padEnd(20)}${String(value).padStart(8)}`);
}
