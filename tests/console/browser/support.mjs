// A browser on the console of the service at TOOLPOST_URL. TOOLPOST_KEY is an operator's key if the service requires keys.
// TOOLPOST_BROWSER is the address of a running browser (`../browser.mjs`); without it, the tests start one.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

export const BASE = (process.env.TOOLPOST_URL ?? "http://127.0.0.1:8080").replace(/\/+$/, "");
export const KEY = process.env.TOOLPOST_KEY;
export const DESKTOP = { width: 1280, height: 800 };
export const PHONE = { width: 360, height: 740 };
/** How long a test waits for what should happen: a debug build on a busy machine is slow. */
export const PATIENCE_MS = 240_000;
/** The longest wait of the tool `wait`, for calls that run until a test cancels them. */
export const LONG_MS = 300_000;
const AXE = createRequire(import.meta.url).resolve("axe-core/axe.min.js");

/** Sends a request to the API with the key, and returns the JSON. Fails on an error status. */
export async function api(method, path, body, { base = BASE } = {}) {
  const headers = { ...(KEY ? { authorization: `Bearer ${KEY}` } : {}), ...(body === undefined ? {} : { "content-type": "application/json" }) };
  const response = await fetch(base + path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  const text = await response.text();
  assert.ok(response.ok, `${method} ${path}: ${response.status} ${text}`);
  return text ? JSON.parse(text) : undefined;
}

/** Makes a call and returns it. */
export const makeCall = (name, args, more = {}) => api("POST", "/tool-calls", { name, arguments: args, ...more });

/** Creates or replaces a tool. */
export const putTool = (name, definition) => api("PUT", `/tools/${encodeURIComponent(name)}`, { executor: { type: "builtin", name: "echo" }, description: "", input_schema: { type: "object" }, ...definition });

let unique = 0;
/** Returns a name that no other test uses. */
export const fresh = (prefix) => `${prefix}-${Date.now().toString(36)}-${process.pid}-${unique++}`;

/** How a browser is started. */
export const CHROMIUM = { executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"], timeout: PATIENCE_MS };

let browser;
export async function launch() {
  const running = process.env.TOOLPOST_BROWSER;
  browser ??= await (running ? chromium.connect(running, { timeout: PATIENCE_MS }) : chromium.launch(CHROMIUM));
  return browser;
}
export const shutDown = async () => {
  await browser?.close();
  browser = undefined;
};

/**
 * Opens a page that is signed in. `faults` collects errors of scripts, violations of the policy, and requests to other origins.
 */
export async function openPage(path = "", { viewport = DESKTOP, scheme = "light", base = BASE, signIn = true } = {}) {
  const context = await (await launch()).newContext({ viewport, colorScheme: scheme });
  // Also for pages that a test opens itself.
  context.setDefaultTimeout(PATIENCE_MS);
  const page = await context.newPage();
  const faults = [];
  page.on("pageerror", (error) => faults.push(`error: ${error.stack ?? error.message}`));
  page.on("dialog", (dialog) => {
    faults.push(`script dialog: ${dialog.message()}`);
    dialog.dismiss();
  });
  page.on("console", (message) => {
    if (message.type() === "error" && /Content Security Policy|Refused to|TrustedHTML/i.test(message.text())) faults.push(message.text());
  });
  const { origin } = new URL(base);
  page.on("request", (request) => {
    if (!/^(data|blob):/.test(request.url()) && new URL(request.url()).origin !== origin) faults.push(`request to ${request.url()}`);
  });
  if (KEY && signIn) await context.request.post(`${base}/console/login`, { data: { key: KEY }, headers: { origin } });
  await page.goto(`${base}/console/${path}`);
  return { page, context, faults, close: () => context.close() };
}

/** Runs a test body with a page, then checks that nothing went wrong in it. */
export async function withPage(path, options, body) {
  const opened = await openPage(path, options);
  try {
    await body(opened.page, opened);
    assert.deepEqual(opened.faults, []);
  } finally {
    await opened.close();
  }
}

/** Waits until the screen has its heading and nothing says that it loads. */
export async function ready(page) {
  // The page renders in frames: the next one may still show the screen before.
  await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(() => resolve(undefined)))));
  await page.locator("main h1").first().waitFor();
  await page.waitForFunction(() => !document.querySelector("main .loading"));
}

/** Checks that axe-core finds nothing. */
export async function checkAccessibility(page, what) {
  // The protocol evaluates this outside of the page's policy, which forbids adding scripts.
  const { readFile } = await import("node:fs/promises");
  await page.evaluate(await readFile(AXE, "utf8"));
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  const found = violations.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.slice(0, 3).map((node) => `${node.target} ${node.failureSummary}`).join(" | ")}`);
  assert.deepEqual(found, [], what);
}

/** Checks that the page is not wider than the window. */
export async function checkWidth(page, what) {
  const { wide, width } = await page.evaluate(() => ({ wide: document.documentElement.scrollWidth, width: innerWidth }));
  assert.ok(wide <= width, `${what} is ${wide} px wide in a window of ${width} px`);
}

/** Waits until a condition holds, without a fixed sleep. */
export async function until(condition, what) {
  const end = Date.now() + PATIENCE_MS;
  for (;;) {
    const value = await condition();
    if (value) return value;
    assert.ok(Date.now() < end, `waited in vain: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
}
