import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";
import { listen, type Listener } from "toolpost/node";
import { ROOT, Service } from "./support/service.js";

/** What this test uses of playwright-core, which the tests of the console install. */
interface Chromium {
  launch(options: object): Promise<{ newPage(): Promise<Page>; close(): Promise<void> }>;
}
interface Page {
  goto(url: string): Promise<unknown>;
  evaluate<Result, Argument>(run: (argument: Argument) => Promise<Result>, argument: Argument): Promise<Result>;
}

let pages: Listener;
let browser: Awaited<ReturnType<Chromium["launch"]>>;
before(async () => {
  pages = await listen(serveModules);
  const require = createRequire(new URL("../../../tests/console/package.json", import.meta.url));
  const { chromium } = require("playwright-core") as { chromium: Chromium };
  const executablePath = process.env["CHROMIUM"] ?? "/usr/bin/chromium";
  browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
});
after(async () => {
  await browser.close();
  await pages.close();
});

/** Answers with an empty page, and with the modules of the package. */
function serveModules(request: Request): Response {
  const { pathname } = new URL(request.url);
  if (!pathname.endsWith(".js")) return new Response("<!doctype html>", { headers: { "content-type": "text/html" } });
  return new Response(readFileSync(`${ROOT}dist${pathname}`), { headers: { "content-type": "text/javascript" } });
}

test("a page of another origin calls tools, follows events and works for a queue, with its key", async () => {
  const service = await Service.start({ TOOLPOST__SERVER__CORS_ORIGINS: pages.url });
  const apiKey = await service.key({ scopes: ["call", "read", "work", "tools"] });
  const page = await browser.newPage();
  await page.goto(pages.url);
  const result = await page.evaluate(async ({ url, apiKey }) => {
    const path = "/index.js"; // a path of the page, which the compiler does not know
    const { serve, tool, Toolpost } = (await import(path)) as typeof import("toolpost");
    const shout = tool({
      name: "shout",
      input: { type: "object", properties: { text: { type: "string" } }, required: ["text"] },
      run: async ({ text }, run) => {
        await run.progress(1, 1);
        return text.toUpperCase();
      },
    });
    const worker = serve(url, { queue: "page", tools: [shout], apiKey, waitMs: 200 });
    await worker.ready;
    const client = new Toolpost(url, { apiKey });
    const call = await client.call("shout", { text: "hi" });
    const types: string[] = [];
    // With `after`, the request has the header of a resumed stream.
    for await (const event of client.watch({ call: call.id, after: "0" })) types.push(event.type);
    await worker.stop();
    return { output: call.output, types };
  }, { url: service.url, apiKey });
  assert.equal(result.output, "HI");
  assert.equal(result.types.at(-1), "tool_result");
});
