// Sessions as conversations: they follow events, show their tree, and are aborted and deleted after a question.
import { after, test } from "node:test";
import { api, fresh, LONG_MS, makeCall, ready, shutDown, until, withPage } from "./support.mjs";

after(shutDown);

test("a_conversation_grows_with_its_calls", async () => {
  const session = fresh("talk");
  await makeCall("calculate", { expression: "6*7" }, { session });
  await withPage("sessions", {}, async (page) => {
    await page.getByRole("link", { name: session }).click();
    await page.getByRole("heading", { name: session, level: 1 }).waitFor();
    await page.locator(".turn-result").getByText("42").waitFor();
    const call = await makeCall("wait", { ms: LONG_MS, steps: 100 }, { session, wait: "accepted" });
    await page.locator(".turn-result").getByText("Running").waitFor();
    await api("POST", `/tool-calls/${call.id}/cancel`);
    await page.locator(".turn-result").getByText("CANCELLED").waitFor();
    await until(async () => (await page.locator(".turn").count()) === 2, "two turns");
    await page.getByText("1 succeeded, 1 failed, 0 pending").waitFor();
  });
});

test("messages_and_prompt_are_shown_in_each_shape", async () => {
  const session = fresh("shapes");
  await makeCall("calculate", { expression: "40 + 2" }, { session });
  const marks = { openai: "tool_call_id", "openai-responses": "function_call_output", anthropic: "tool_result", gemini: "functionResponse" };
  await withPage(`sessions/${session}?tab=messages`, {}, async (page) => {
    for (const [format, mark] of Object.entries(marks)) {
      await page.locator("[role=tabpanel] select").selectOption(format);
      await page.locator("[role=tabpanel] .code").getByText(mark).waitFor();
    }
    await page.getByRole("tab", { name: "Prompt" }).click();
    await page.getByText("Tool Call Status").waitFor();
  });
});

test("the_tree_shows_parents_and_children", async () => {
  const parent = fresh("parent");
  const child = fresh("child");
  await api("POST", "/sessions", { id: parent });
  await api("POST", "/sessions", { id: child, parent });
  await withPage(`sessions/${child}?tab=tree`, {}, async (page) => {
    await page.locator(".tree").getByRole("link", { name: parent }).waitFor();
    await page.locator(".tree strong").getByText(child).waitFor();
    await page.locator(".tree").getByRole("link", { name: parent }).click();
    await page.getByRole("heading", { name: parent, level: 1 }).waitFor();
    await ready(page);
    await page.getByText("No calls in this session").waitFor();
  });
});

test("a_session_is_aborted_and_deleted_after_a_question", async () => {
  const session = fresh("end");
  await makeCall("wait", { ms: LONG_MS }, { session, wait: "accepted" });
  await withPage(`sessions/${session}`, {}, async (page) => {
    await page.getByRole("button", { name: "Abort", exact: true }).click();
    await page.getByRole("button", { name: "Abort the session" }).click();
    await page.locator(".notice").getByText(`Aborted ${session}.`).waitFor();
    await page.locator(".turn-result").getByText("CANCELLED").waitFor();
    await page.locator(".page-head").getByText("aborted").waitFor();
    await page.getByRole("button", { name: "Delete", exact: true }).click();
    await page.getByRole("button", { name: "Delete the session" }).click();
    await page.getByRole("heading", { name: "Sessions", level: 1 }).waitFor();
    await ready(page);
    await until(async () => (await page.getByRole("link", { name: session }).count()) === 0, "it leaves the list");
  });
});
