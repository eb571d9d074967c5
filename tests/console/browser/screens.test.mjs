// Every screen on a desktop and a phone, light and dark: it loads, fits, and axe-core finds nothing. An open service differs in
// little, so one look is enough there.
import { after, before, test } from "node:test";
import { api, checkAccessibility, checkWidth, DESKTOP, fresh, KEY, makeCall, PHONE, putTool, ready, shutDown, withPage } from "./support.mjs";

const session = fresh("screens");
const tool = fresh("screens-tool");
let ok, failed, running, waiting;

before(async () => {
  await putTool(tool, {
    description: "A tool with every kind of field.", title: "Fields", tags: ["a"],
    input_schema: {
      type: "object", required: ["text", "list"],
      properties: {
        text: { type: "string", description: "A text." }, number: { type: "number", minimum: 0, maximum: 9 }, flag: { type: "boolean" }, choice: { enum: ["a", "b"] }, day: { type: "string", format: "date" },
        list: { type: "array", items: { type: "object", properties: { x: { type: "integer" } } } }, either: { anyOf: [{ type: "string" }, { type: "integer" }] }, any: {}, tree: { $ref: "#/$defs/tree" },
      },
      $defs: { tree: { type: "object", properties: { name: { type: "string" }, children: { type: "array", items: { $ref: "#/$defs/tree" } } } } },
    },
  });
  ok = await makeCall(tool, { text: "a", list: [{ x: "1" }], number: 3 }, { session });
  failed = await makeCall(tool, { text: 1, nubmer: 2 }, { session });
  await makeCall("calculate", { expression: "1/0" }, { session });
  await putTool(`${tool}-gated`, { description: "A tool for which a person is asked.", input_schema: { type: "object", properties: { text: { type: "string", description: "A text." } } }, approval: { min_approvals: 2 } });
  waiting = await makeCall(`${tool}-gated`, { text: "a", other: [1] }, { session, wait: "accepted" });
  await api("PUT", `/policies/${session}`, { when: "tool.name == 'nothing'", effect: "deny", reason: "For a test." });
  await putTool(`${tool}-external`, { description: "A tool that a person answers.", executor: { type: "external" } });
  running = await makeCall(`${tool}-external`, {}, { session, wait: "accepted" });
  await api("POST", `/tool-calls/${running.id}/progress`, { progress: { current: 1, total: 2, message: "half of it" } });
});
after(async () => {
  await shutDown();
  await api("DELETE", `/policies/${session}`);
  for (const { id } of [waiting, running]) await api("POST", `/tool-calls/${id}/cancel`);
});

const SCREENS = () => ({
  live: `calls?session=${session}`, "live without a match": "calls?q=nothinglikethis", "an ended call": `calls/${ok.id}`, "a failed call": `calls/${failed.id}`, "a running call": `calls/${running.id}`,
  arguments: `calls/${ok.id}?tab=arguments`, events: `calls/${ok.id}?tab=events`, details: `calls/${ok.id}?tab=details`, tools: "tools", register: "tools?register=1", "try it": `tools/${tool}`, schema: `tools/${tool}?tab=schema`,
  vendors: `tools/${tool}?tab=vendors`, "recent calls": `tools/${tool}?tab=calls`, limits: `tools/${tool}?tab=policy`, presets: `tools/${tool}?tab=presets`, definition: `tools/${tool}?tab=edit`, sessions: "sessions",
  session: `sessions/${session}`, tree: `sessions/${session}?tab=tree`, messages: `sessions/${session}?tab=messages&format=anthropic`, prompt: `sessions/${session}?tab=prompt`, settings: `sessions/${session}?tab=settings`,
  approvals: "approvals", "an approval": `approvals?call=${waiting.id}`, "a waiting call": `calls/${waiting.id}`, policies: "policies", "a policy": `policies?edit=${session}`, "a new policy": "policies?edit=",
  stats: "stats", "stats of 30 days": "stats?window=30d", system: "system", "not found": "nowhere", "unknown call": "calls/01890000-0000-7000-8000-000000000000",
});

for (const [size, viewport] of KEY ? [["desktop", DESKTOP], ["phone", PHONE]] : [["desktop", DESKTOP]]) {
  for (const scheme of KEY ? ["light", "dark"] : ["light"]) {
    test(`every_screen_works_on_a_${size}_in_${scheme}`, async () => {
      await withPage("calls", { viewport, scheme }, async (page) => {
        await ready(page);
        for (const [name, path] of Object.entries(SCREENS())) {
          await page.evaluate((address) => {
            const link = document.querySelector("nav a");
            link.href = address;
            link.click();
          }, path);
          await page.waitForFunction((address) => location.href.endsWith(address), path);
          await ready(page);
          await checkWidth(page, `${name} on a ${size}`);
          await checkAccessibility(page, `${name} on a ${size} in ${scheme}`);
        }
      });
    });
  }
}

test("every_screen_opens_by_its_address", async () => {
  await withPage("", {}, async (page) => {
    for (const path of ["", "calls", `calls/${ok.id}`, "tools", `tools/${tool}?tab=schema`, "sessions", `sessions/${session}`, "stats?window=6h", "approvals", "policies?edit=", "system"]) {
      const root = new URL(page.url()).href.replace(/\/console.*/, "/console/");
      await page.goto(root + path);
      await ready(page);
    }
    await page.goto(page.url().replace(/\/console.*/, "/console"));
    await ready(page);
    await page.getByRole("link", { name: "Tools", exact: true }).click();
    await page.getByRole("heading", { name: "Tools", level: 1 }).waitFor();
  });
});

test("focus_moves_to_the_heading_on_navigation", async () => {
  await withPage("calls", {}, async (page) => {
    await ready(page);
    for (const name of ["Tools", "Sessions", "Statistics", "Policies", "System"]) {
      await page.getByRole("link", { name, exact: true }).focus();
      await page.keyboard.press("Enter");
      await page.waitForFunction((text) => document.activeElement?.tagName === "H1" && document.activeElement.textContent === text, name);
      await page.waitForFunction((text) => document.title.includes(text), name);
    }
    await page.goBack();
    await page.getByRole("heading", { name: "Policies", level: 1 }).waitFor();
  });
});
