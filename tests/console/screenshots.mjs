// Takes screenshots of each screen, light and dark: node screenshots.mjs URL FOLDER [KEY]
// The service should have calls to show, as `toolpost demo` makes them.
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { CHROMIUM } from "./browser/support.mjs";

const [url = "http://127.0.0.1:8080", folder = "screenshots", key = process.env.TOOLPOST_KEY] = process.argv.slice(2);
const base = url.replace(/\/+$/, "");
const headers = key ? { authorization: `Bearer ${key}` } : {};
const get = async (path) => (await fetch(base + path, { headers })).json();

/** Chooses what has most to show: the newest failed call, the longest call, a session, and a tool with many arguments. */
async function chooseScreens() {
  const [failed] = (await get("/tool-calls?code=TOOL_VALIDATION_ERROR&limit=1")).tool_calls;
  const { tool_calls: calls } = await get("/tool-calls?limit=200");
  const long = calls.reduce((best, call) => ((call.duration_ms ?? 0) > (best?.duration_ms ?? -1) ? call : best), undefined);
  const running = (await get("/tool-calls?status=DOING&limit=1")).tool_calls[0] ?? long;
  const session = calls.find((call) => call.session)?.session;
  const { tools } = await get("/tools");
  const members = (tool) => Object.keys(tool.input_schema?.properties ?? {}).length;
  const used = tools.filter((tool) => calls.some((call) => call.name === tool.name));
  const tool = used.reduce((best, one) => (members(one) > members(best) ? one : best));
  return Object.entries({
    live: "calls", call: running && `calls/${running.id}`, error: failed && `calls/${failed.id}`, tools: "tools", tool: `tools/${encodeURIComponent(tool.name)}`,
    approvals: "approvals", policies: "policies?edit=short-reports", session: session && `sessions/${encodeURIComponent(session)}`, sessions: "sessions", stats: "stats", system: "system",
  }).filter(([, path]) => path);
}

/** Waits until the screen has its content. */
async function settle(page) {
  await page.locator("main h1").first().waitFor();
  await page.waitForFunction(() => !document.querySelector("main .loading"));
  await page.evaluate(() => document.fonts.ready.then(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))));
}

const screens = await chooseScreens();
const browser = await chromium.launch(CHROMIUM);
try {
  await mkdir(folder, { recursive: true });
  for (const scheme of ["light", "dark"]) {
    for (const [size, viewport] of [["", { width: 1280, height: 800 }], ["-phone", { width: 390, height: 844 }]]) {
      const context = await browser.newContext({ viewport, colorScheme: scheme, deviceScaleFactor: size ? 2 : 1 });
      if (key) await context.request.post(`${base}/console/login`, { data: { key }, headers: { origin: new URL(base).origin } });
      const page = await context.newPage();
      for (const [name, path] of screens) {
        await page.goto(`${base}/console/${path}`);
        await settle(page);
        await page.screenshot({ path: join(folder, `${name}-${scheme}${size}.png`) });
      }
      await context.close();
    }
  }
} finally {
  await browser.close();
}
