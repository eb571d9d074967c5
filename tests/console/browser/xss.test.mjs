// Hostile strings in everything that a tool, its arguments, its results and errors carry are shown as text.
import { after, test } from "node:test";
import assert from "node:assert/strict";
import { api, BASE, fresh, KEY, makeCall, putTool, ready, shutDown, withPage } from "./support.mjs";

after(shutDown);

const HOSTILE = [
  '<script>alert("x")</script>', '<img src=x onerror=alert(1)>', '"><svg onload=alert(1)>', "' onmouseover='alert(1)", "javascript:alert(1)", "[a](javascript:alert(1))", "![x](x\" onerror=\"alert(1))",
  "<svg><script>alert(1)</script></svg>", "<a href=javascript:alert(1)>x</a>", "<iframe srcdoc='<script>alert(1)</script>'>", "</textarea><script>alert(1)</script>", "</pre><img src=x onerror=alert(1)>", "<style>*{display:none}</style>",
  "${alert(1)}", "{{constructor.constructor('alert(1)')()}}", "<math><mi//xlink:href=\"data:x,<script>alert(1)</script>\">", "\u0000<b>\u202Etxt", "\uE000\uE000", "<base href=//example.org/>", "<form action=javascript:alert(1)><button>x",
];
const ALL = HOSTILE.join(" ");
const members = Object.fromEntries(HOSTILE.map((text, index) => [`${text} ${index}`, { type: "string", title: text, description: text, default: text, enum: [text, "b"] }]));

async function seed() {
  const name = fresh("xss");
  const group = fresh("xss-group");
  const session = `${fresh("xss")} <img src=x onerror=alert(1)>`;
  await api("POST", "/tool-groups", { name: group, description: ALL, active: true });
  await putTool(name, {
    title: "<img src=x onerror=alert(1)>", description: ALL, category: ALL, tags: HOSTILE, version: "<b>1</b>", groups: [group], examples: [{ arguments: { a: ALL }, output: ALL }],
    input_schema: { type: "object", title: ALL, description: ALL, properties: { ...members, choice: { oneOf: [{ title: ALL, type: "string" }, { type: "object", properties: { kind: { const: ALL } } }] }, list: { type: "array", items: { type: "string", description: ALL } } } },
    output_schema: { type: "object", description: ALL, properties: { x: { description: ALL } } }, executor: { type: "external" },
  });
  const good = await makeCall(name, { ...Object.fromEntries(HOSTILE.map((text, index) => [`free ${text} ${index}`, text])) }, { session, wait: "accepted", agent: { id: ALL, name: ALL } });
  await api("POST", `/tool-calls/${good.id}/progress`, { tip: ALL, metadata: { [ALL]: ALL }, progress: { current: 1, total: 2, message: ALL }, content: [{ type: "text", text: ALL }], details: { html: ALL } });
  await api("POST", `/tool-calls/${good.id}/result`, { content: [{ type: "text", text: ALL }, { type: ALL, url: "javascript:alert(1)" }], details: { [ALL]: HOSTILE }, structured: { [ALL]: HOSTILE } });
  const bad = await makeCall(name, { list: ALL, [ALL]: 1 }, { session });
  const failed = await makeCall(name, {}, { session, wait: "accepted" });
  await api("POST", `/tool-calls/${failed.id}/result`, { error: ALL, details: { a: ALL } });
  const unknown = await makeCall(ALL.slice(0, 200), ALL, { session });
  await putTool(`${name}-gated`, { description: ALL, input_schema: { type: "object", title: ALL, properties: members }, executor: { type: "external" } });
  await api("PUT", `/policies/${name}`, { when: `tool.name == '${name}-gated' && '${HOSTILE[1]}' != ''`, effect: "approve", reason: ALL });
  const waiting = await makeCall(`${name}-gated`, { [`${HOSTILE[0]} 0`]: HOSTILE[0], [ALL]: HOSTILE, deep: { [ALL]: ALL } }, { session, wait: "accepted" });
  return { name, session, group, good, bad, failed, unknown, waiting };
}

test("hostile_strings_are_text_on_every_screen", async () => {
  const { name, session, good, bad, failed, unknown, waiting } = await seed();
  const at = encodeURIComponent(session);
  // As links of the console are written.
  const segment = (text) => encodeURIComponent(/[%/]/.test(text) ? encodeURIComponent(text) : text);
  const paths = [
    `calls?session=${at}`, `calls?q=${encodeURIComponent(ALL)}&name=${encodeURIComponent(HOSTILE[0])}&since=${encodeURIComponent(HOSTILE[1])}`, ...["output", "arguments", "structured", "details", "events"].map((tab) => `calls/${good.id}?tab=${tab}`),
    `calls/${bad.id}`, `calls/${bad.id}?tab=arguments`, `calls/${failed.id}`, `calls/${failed.id}?tab=output`, `calls/${unknown.id}`, `calls/${unknown.id}?tab=arguments`, `tools?q=${name}`,
    ...["try", "schema", "vendors", "calls", "presets", "policy", "edit"].map((tab) => `tools/${name}?tab=${tab}`), `tools/${name}?tab=vendors&format=prompt`, "sessions",
    ...["conversation", "tree", "messages", "prompt", "settings"].map((tab) => `sessions/${segment(session)}?tab=${tab}`), "stats", "system", `approvals?call=${waiting.id}`, `calls/${waiting.id}`, "policies", `policies?edit=${name}`, `policies?edit=${encodeURIComponent(HOSTILE[1])}`, `tools/${segment(HOSTILE[0])}`, `calls/${segment(HOSTILE[1])}`, segment(HOSTILE[1]),
  ];
  await withPage("calls", {}, async (page) => {
    for (const path of paths) {
      await page.goto(`${BASE}/console/${path}`);
      await ready(page);
      await page.locator("details:not([open]) > summary").evaluateAll((summaries) => summaries.slice(0, 60).forEach((one) => one.click()));
      const found = await page.evaluate(() => ({
        elements: document.querySelectorAll("main script, main iframe, main style, main base, main math, main object, [onerror], [onload], [onmouseover], img[src='x']").length,
        links: [...document.querySelectorAll("a[href], form[action]")].map((one) => one.getAttribute("href") ?? one.getAttribute("action")).filter((href) => /^\s*(javascript|data|vbscript):/i.test(href)),
      }));
      assert.deepEqual(found, { elements: 0, links: [] }, path);
    }
    await page.goto(`${BASE}/console/approvals?call=${waiting.id}`);
    await page.getByRole("button", { name: "Edit and approve" }).click();
    await page.getByRole("dialog").getByLabel("Arguments as JSON").fill(JSON.stringify({ [ALL]: [ALL] }));
    await page.getByRole("dialog").locator("ins").first().waitFor();
    assert.equal(await page.locator("dialog script, dialog iframe, dialog [onerror], dialog img").count(), 0);
    await page.keyboard.press("Escape");
    await page.goto(`${BASE}/console/calls/${good.id}`);
    await page.locator(".code").getByText('<script>alert("x")</script>', { exact: false }).first().waitFor();
    await api("DELETE", `/policies/${name}`);
    await api("POST", `/tool-calls/${waiting.id}/cancel`);
  });
});

test("the_sign_in_returns_to_pages_of_the_console_only", { skip: !KEY && "the service is open" }, async () => {
  for (const to of ["https://example.org/", "//example.org/", "javascript:alert(1)", "/\\example.org"]) {
    await withPage(`sign-in?to=${encodeURIComponent(to)}`, { signIn: false }, async (page) => {
      await page.getByLabel("API key").fill(KEY);
      await page.getByRole("button", { name: "Sign in" }).click();
      await page.locator("nav").waitFor();
      assert.equal(new URL(page.url()).origin, new URL(BASE).origin);
    });
  }
});
