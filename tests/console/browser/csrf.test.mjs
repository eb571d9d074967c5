// A page of another origin, in a browser that is signed in, can neither change nor read anything.
import { after, before, test } from "node:test";
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { api, BASE, fresh, KEY, openPage, putTool, ready, shutDown, until } from "./support.mjs";

/** A server of pages, for the origins of two names: one of the same site as the service, and one of another. */
const server = createServer((_, response) => response.setHeader("content-type", "text/html").end("<!doctype html><title>Elsewhere</title><link rel=icon href=data:,><h1>Elsewhere</h1>"));
before(async () => {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
});
after(async () => {
  await shutDown();
  server.closeAllConnections();
  server.close();
});

/** Returns what a hostile page would send, each with a change that the service must refuse. */
const attacks = (tool, session) => [
  ["POST", "/tool-calls", { name: "echo", arguments: {}, session }],
  ["POST", "/tools", { name: `${tool}-new`, description: "", input_schema: { type: "object" }, executor: { type: "builtin", name: "echo" } }],
  ["PUT", `/tools/${tool}`, { description: "Changed.", input_schema: { type: "object" }, executor: { type: "builtin", name: "echo" } }],
  ["DELETE", `/tools/${tool}`],
  ["POST", "/tool-groups", { name: `${tool}-group`, description: "", active: true }],
  ["POST", "/keys", { name: tool, scopes: ["admin"] }],
  ["POST", "/sessions", { id: session }],
  ["POST", "/console/login", { key: "tp_of_somebody_else" }],
  ["POST", "/console/logout"],
  ["POST", "/mcp", { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "echo", arguments: { session } } }],
];

/** Returns what could have changed. */
async function state(tool, session) {
  const { tools } = await api("GET", "/tools?include_inactive=true");
  const { keys } = await api("GET", "/keys");
  const { groups } = await api("GET", "/tool-groups");
  const { sessions } = await api("GET", "/sessions");
  const { tool_calls: calls } = await api("GET", `/tool-calls?session=${session}`);
  const has = (list, member) => list.filter((one) => one[member].startsWith(tool)).map((one) => [one[member], one.description ?? null]);
  return { tools: has(tools, "name"), keys: has(keys, "name"), groups: has(groups, "name"), session: sessions.some(({ id }) => id === session), calls: calls.length };
}

/** Sends every attack with `fetch`, as a page that hopes for the cookie. Returns what the page has learnt. */
const sendAll = (page, mode, type, list) => page.evaluate(async ({ mode, type, list, base }) => {
  const results = [];
  for (const [method, path, body] of list) {
    // Other methods and types need a preflight request, which a page without CORS cannot avoid.
    if (mode === "no-cors" && method !== "POST") continue;
    const text = body === undefined ? undefined : JSON.stringify(body);
    const headers = text === undefined ? {} : { "content-type": type };
    results.push(await fetch(base + path, { method, mode, credentials: "include", headers, body: text }).then((response) => response.type, (error) => error.name));
  }
  return results;
}, { mode, type, list, base: BASE });

/** Submits a form, which leaves the page, and takes the cookie with it if the site is the same. Returns the status. */
async function submitForm(page, action, body) {
  const answer = page.waitForNavigation();
  await page.evaluate(({ action, body }) => {
    const form = document.body.appendChild(document.createElement("form"));
    Object.assign(form, { method: "post", enctype: "text/plain", action });
    // The name and the value of the field are JSON together, with "=" in a text.
    const field = form.appendChild(document.createElement("input"));
    field.name = `${JSON.stringify(body).slice(0, -1)},"x":"`;
    field.value = '"}';
    form.submit();
  }, { action, body });
  return (await answer)?.status();
}

for (const [name, host] of [["the_same_site", "127.0.0.1"], ["another_site", "localhost"]]) {
  test(`a_page_of_${name}_changes_and_reads_nothing`, async () => {
    const tool = fresh("csrf");
    const session = fresh("csrf-session");
    await putTool(tool, { description: "As it was." });
    const opened = await openPage("calls");
    try {
      const { page: own, context } = opened;
      await ready(own);
      const elsewhere = `http://${host}:${server.address().port}/`;
      const page = await context.newPage();
      const failures = [];
      page.on("requestfailed", (request) => failures.push(request.failure()?.errorText));
      await page.goto(elsewhere);
      const earlier = await state(tool, session);
      const list = attacks(tool, session);
      const posts = list.filter(([method]) => method === "POST");

      // Requests without a preflight reach the service, whose responses the browser hides from the page.
      assert.deepEqual(new Set(await sendAll(page, "no-cors", "text/plain", list)), new Set(["TypeError"]), "no-cors");
      await until(() => failures.length === posts.length, "the hidden responses");
      assert.deepEqual(new Set(failures), new Set(["net::ERR_BLOCKED_BY_RESPONSE.NotSameOrigin"]));
      assert.deepEqual(new Set(await sendAll(page, "cors", "application/json", list)), new Set(["TypeError"]), "cors with a preflight");
      for (const [, path, body] of posts) {
        await page.goto(elsewhere);
        const status = await submitForm(page, BASE + path, body ?? { x: 1 });
        // MCP accepts no forms, whoever sends them.
        assert.ok(status === 403 || (path === "/mcp" && [401, 415].includes(status)), `form to ${path}: ${status}`);
      }

      await page.goto(elsewhere);
      // Nothing is read either: no JSON, no script, no image, no events.
      for (const path of ["/whoami", "/tool-calls", "/keys", `/tools/${tool}`, "/events"]) {
        assert.equal(await page.evaluate((url) => fetch(url, { credentials: "include" }).then(() => "read", (error) => error.name), BASE + path), "TypeError", path);
      }
      assert.equal(await page.evaluate((url) => new Promise((resolve) => {
        const source = new EventSource(url, { withCredentials: true });
        source.onopen = source.onmessage = () => resolve("open");
        source.onerror = () => resolve("error");
      }), `${BASE}/events`), "error", "events");
      for (const element of ["img", "script"]) {
        const loaded = await page.evaluate(({ element, url }) => new Promise((resolve) => {
          const one = document.createElement(element);
          one.onload = () => resolve("loaded");
          one.onerror = () => resolve("hidden");
          one.src = url;
          document.body.append(one);
        }), { element, url: `${BASE}/tool-calls?session=${session}` });
        assert.equal(loaded, "hidden", element);
      }

      assert.deepEqual(await state(tool, session), earlier, "nothing has changed");
      // The caller is still signed in, as before.
      await own.reload();
      await ready(own);
      if (KEY) await own.getByRole("button", { name: "Sign out" }).waitFor();
      else await own.getByText("Open: no key required").waitFor();
    } finally {
      await opened.close();
    }
  });
}

test("the_same_requests_from_the_console_itself_are_accepted", async () => {
  const tool = fresh("csrf-own");
  const session = fresh("csrf-own-session");
  await putTool(tool, {});
  const opened = await openPage("calls");
  try {
    await ready(opened.page);
    const list = attacks(tool, session).filter(([, path]) => !/console|keys|mcp/.test(path));
    const statuses = await opened.page.evaluate(async ({ list, base }) => {
      const found = [];
      for (const [method, path, body] of list) {
        const response = await fetch(base + path, { method, headers: body ? { "content-type": "application/json" } : {}, body: body && JSON.stringify(body) });
        found.push(`${response.ok || (await response.text())}`);
      }
      return found;
    }, { list, base: BASE });
    // The session exists since its first call.
    assert.deepEqual(statuses.filter((status) => status !== "true").length, 1, statuses.join("\n"));
    assert.match(statuses.at(-1), /CONFLICT|exists/i);
  } finally {
    await opened.close();
  }
});
