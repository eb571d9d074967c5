// Tools: register, try, read, edit and delete them.
import { after, test } from "node:test";
import assert from "node:assert/strict";
import { isDeepStrictEqual } from "node:util";
import { api, fresh, makeCall, putTool, ready, shutDown, until, withPage } from "./support.mjs";

after(shutDown);

const editor = (page, label) => page.getByLabel(label);

test("a_tool_is_registered_with_errors_at_their_places", async () => {
  const name = fresh("registered");
  await withPage("tools", {}, async (page) => {
    await page.getByRole("link", { name: "Register a tool" }).click();
    const field = editor(page, "Definition as JSON");
    const definition = { name, description: "Adds.", input_schema: { type: "object", properties: { a: { type: "strin" } } }, executor: { type: "builtin", name: "echo" } };
    const text = JSON.stringify(definition, null, 2);
    await field.fill(text);
    await page.getByRole("button", { name: "Register", exact: true }).click();
    const line = text.split("\n").findIndex((one) => one.includes("strin\"")) + 1;
    await page.getByRole("button", { name: `line ${line}` }).waitFor();
    await page.getByRole("alert").getByText("Request").waitFor();
    await page.locator(".gutter .wrong").getByText(String(line), { exact: true }).waitFor();
    await page.getByRole("button", { name: `line ${line}` }).click();
    await until(() => field.evaluate((one) => one.value.slice(one.selectionStart, one.selectionEnd) === '"strin"'), "the selected error");
    await field.fill(text.replace('"strin"', '"string"'));
    await page.getByRole("button", { name: "Register", exact: true }).click();
    await page.locator(".notice").getByText(`Registered ${name}.`).waitFor();
    await page.getByRole("heading", { name, level: 1 }).waitFor();
  });
});

test("a_tool_is_tried_with_a_form", async () => {
  const name = fresh("form");
  await putTool(name, {
    input_schema: {
      type: "object", required: ["from", "passengers"], additionalProperties: false,
      properties: {
        from: { $ref: "#/$defs/airport" }, count: { type: "integer", minimum: 1, maximum: 9 }, flexible: { type: "boolean" }, class: { enum: ["economy", "business"] },
        passengers: { type: "array", minItems: 1, items: { type: "object", required: ["name"], properties: { name: { type: "string", minLength: 1 }, age: { type: "integer" } } } },
        payment: { oneOf: [{ type: "object", title: "Card", properties: { kind: { const: "card" }, number: { type: "string" } }, required: ["kind", "number"] }, { type: "object", title: "Invoice", properties: { kind: { const: "invoice" }, company: { type: "string" } }, required: ["kind"] }] },
      },
      $defs: { airport: { type: "string", pattern: "^[A-Z]{3}$" } },
    },
  });
  await withPage(`tools/${name}`, {}, async (page) => {
    await page.getByText("2 errors").waitFor();
    await page.getByLabel("from", { exact: true }).fill("osl");
    await page.locator(".field.wrong").getByText("must match the pattern").waitFor();
    await page.getByLabel("from", { exact: true }).fill("OSL");
    await page.getByRole("button", { name: "Add item" }).click();
    await page.getByLabel("name", { exact: true }).fill("Ada");
    await page.getByLabel("age", { exact: true }).fill("36");
    await page.getByLabel("count", { exact: true }).fill("12");
    await page.locator(".field.wrong").getByText("must be at most 9").waitFor();
    await page.getByLabel("count", { exact: true }).fill("2");
    await page.locator("#field-flexible").selectOption("true");
    await page.locator("#field-class").selectOption("business");
    await page.getByRole("button", { name: "Add payment" }).click();
    await page.getByLabel("number", { exact: true }).fill("4111");
    await page.getByText("Valid.", { exact: true }).waitFor();
    await page.getByLabel("Variant of payment").selectOption({ label: "Invoice" });
    await page.getByLabel("company", { exact: true }).fill("ACME");
    const expected = { from: "OSL", passengers: [{ name: "Ada", age: 36 }], count: 2, flexible: true, class: "business", payment: { kind: "invoice", company: "ACME" } };
    await until(async () => isDeepStrictEqual(JSON.parse(await editor(page, "Arguments as JSON").inputValue()), expected), "the JSON of the form");
    await page.getByRole("button", { name: "Remove class" }).click();
    delete expected.class;
    await page.getByText("Valid.", { exact: true }).waitFor();
    await page.getByRole("button", { name: "Run", exact: true }).click();
    const result = page.getByRole("region", { name: "Result" });
    await result.getByText("Success").waitFor();
    assert.deepEqual(JSON.parse(await result.locator(".code").innerText()), expected);
    // The raw JSON fills the form.
    await editor(page, "Arguments as JSON").fill('{"from": "CDG", "passengers": [{"name": "Bo"}, {"name": "Cy"}]}');
    await until(async () => (await page.getByLabel("name", { exact: true }).count()) === 2, "two passengers");
    await until(async () => (await page.getByLabel("from", { exact: true }).inputValue()) === "CDG", "the airport in its field");
  });
});

test("a_running_result_is_shown_live", async () => {
  const name = fresh("live");
  await putTool(name, { executor: { type: "external" } });
  await withPage(`tools/${name}`, {}, async (page) => {
    await page.getByRole("button", { name: "Run", exact: true }).click();
    const result = page.getByRole("region", { name: "Result" });
    await result.locator(".badge").getByText("External").waitFor();
    const { tool_calls: [{ id }] } = await api("GET", `/tool-calls?name=${name}`);
    await api("POST", `/tool-calls/${id}/progress`, { progress: { current: 1, total: 2, message: "half of it" } });
    await result.getByText("half of it").first().waitFor();
    await api("POST", `/tool-calls/${id}/result`, { content: [{ type: "text", text: "all of it" }] });
    await result.getByText("all of it").waitFor();
    await result.getByText("Success").waitFor();
  });
});

test("a_result_is_shown_as_ended_with_its_output", async () => {
  const name = fresh("held");
  await putTool(name, {});
  await withPage(`tools/${name}`, {}, async (page) => {
    let release = () => {};
    const held = new Promise((resolve) => (release = resolve));
    let reads = 0;
    await page.route(/\/tool-calls\/[^/?]+$/, async (route) => {
      // The first answer says that the call runs, so that events tell its end.
      const response = await route.fetch();
      if (++reads === 1) return route.fulfill({ response, json: { ...(await response.json()), status: "DOING", phase: "running", output: null, content: [] } });
      await held;
      await route.fulfill({ response });
    });
    await page.getByRole("button", { name: "Run", exact: true }).click();
    await until(() => reads === 2, "the ended call is read");
    const result = page.getByRole("region", { name: "Result" });
    await result.getByText("Running").waitFor();
    assert.equal(await result.locator(".code").count(), 0);
    release();
    await result.getByText("Success").waitFor();
    assert.equal(await result.locator(".code").innerText(), "{}");
  });
});

test("a_tool_shows_its_parts", async () => {
  const name = fresh("a.dotted");
  await putTool(name, { description: "Dotted name.", input_schema: { type: "object", properties: { secret: { type: "string" }, "n": { type: "integer", minimum: 1, default: 3, description: "How many." } } }, presets: { secret: { value: "hidden-value" } } });
  await makeCall(name, {});
  await withPage(`tools/${name}?tab=schema`, {}, async (page) => {
    await page.locator(".schema").getByText("How many.").waitFor();
    await page.locator(".schema").getByText("at least 1, default 3").waitFor();
    await page.getByRole("tab", { name: "As models see it" }).click();
    await page.locator(".code").getByText('"function"').waitFor();
    for (const format of ["openai-responses", "openai-strict", "anthropic", "gemini", "mcp", "prompt"]) {
      await page.locator("[role=tabpanel] select").selectOption(format);
      await page.waitForFunction((text) => location.search.includes(`format=${text}`), format);
      await page.locator("[role=tabpanel] .code").waitFor();
      await ready(page);
      await page.locator("[role=tabpanel] .code").getByText(/Dotted name/).waitFor();
    }
    await page.getByRole("tab", { name: "Recent calls" }).click();
    await page.locator("tbody tr").first().waitFor();
    await page.getByRole("tab", { name: /Presets/ }).click();
    await page.getByText("does not see it").waitFor();
    assert.ok(!(await page.content()).includes("hidden-value"));
    await page.getByRole("tab", { name: "Limits and policies" }).click();
    await page.getByText("Attempts").waitFor();
  });
});

test("a_definition_is_edited_and_keeps_its_presets", async () => {
  const name = fresh("edited");
  await putTool(name, { description: "Old text.", input_schema: { type: "object", properties: { k: { type: "string" } } }, presets: { k: { value: "v" } } });
  await withPage(`tools/${name}?tab=edit`, {}, async (page) => {
    const field = editor(page, "Definition as JSON");
    await until(async () => (await field.inputValue()).includes("Old text."), "the definition");
    await field.fill((await field.inputValue()).replace("Old text.", "New text."));
    await page.getByRole("button", { name: "Save" }).click();
    await page.locator(".notice").getByText(`Saved ${name} as revision 2.`).waitFor();
    await page.locator(".description").getByText("New text.").waitFor();
    assert.deepEqual((await makeCall(name, {})).error, null);
    assert.ok((await api("GET", `/tools/${name}`)).presets.k);
    await api("PUT", `/tools/${name}`, { description: "Changed elsewhere.", input_schema: { type: "object" }, executor: { type: "builtin", name: "echo" } });
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByRole("alert").waitFor();
  });
});

test("a_tool_is_deleted_after_a_question", async () => {
  const name = fresh("deleted");
  await putTool(name, {});
  await withPage(`tools/${name}`, {}, async (page) => {
    await page.getByRole("button", { name: "Delete", exact: true }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Keep" }).click();
    await page.getByRole("button", { name: "Delete", exact: true }).click();
    await page.keyboard.press("Escape");
    assert.ok(await api("GET", `/tools/${name}`));
    await page.getByRole("button", { name: "Delete", exact: true }).click();
    await page.getByRole("button", { name: "Delete the tool" }).click();
    await page.locator(".notice").getByText(`Deleted ${name}.`).waitFor();
    await page.getByRole("heading", { name: "Tools", level: 1 }).waitFor();
    await ready(page);
    await until(async () => (await page.getByRole("link", { name }).count()) === 0, "it leaves the list");
  });
});

test("the_list_is_searched_and_groups_are_switched", async () => {
  const group = fresh("group");
  const name = fresh("grouped");
  await api("POST", "/tool-groups", { name: group, description: "For a test", active: true });
  await putTool(name, { groups: [group], description: `Finds ${group}.` });
  await makeCall(name, {});
  await withPage(`tools?q=${group}`, {}, async (page) => {
    await page.locator("tbody tr").first().waitFor();
    assert.equal(await page.locator("tbody tr").count(), 1);
    // The figures are refreshed until they count the call.
    await page.locator("tbody .sparkline[aria-label^='1 calls in the last hour']").waitFor();
    await page.locator("summary", { hasText: "Groups" }).click();
    await page.getByRole("switch", { name: group }).click();
    await page.locator(".notice").getByText(`Deactivated the group ${group}.`).waitFor();
    await page.locator("tbody").getByText("inactive").waitFor();
  });
});
