import assert from "node:assert/strict";
import { before, test } from "node:test";
import { AIMessage, ToolMessage } from "@langchain/core/messages";
import { fakeModel } from "@langchain/core/testing";
import { Command, MemorySaver } from "@langchain/langgraph";
import { createAgent, humanInTheLoopMiddleware } from "langchain";
import { Toolpost } from "toolpost";
import { toolpostTools } from "toolpost/langchain";
import { Service } from "./support/service.js";
import { Steps } from "./support/steps.js";

/** Returns a model that calls a tool, and then answers with a text. */
function modelThatCalls(name: string, args: object) {
  return fakeModel().respondWithTools([{ name, args, id: "call_1" }]).respond(new AIMessage("done"));
}

const user = (content: string) => ({ messages: [{ role: "user", content }] });

const steps = new Steps();
let service: Service;
let client: Toolpost;
let approver: Toolpost;
before(async () => {
  service = await Service.start();
  await steps.register(service.client);
  await service.builtin("pay", "echo", { input_schema: { type: "object" }, approval: { required: true } });
  const admin = await service.key({ scopes: ["admin"] });
  client = new Toolpost(service.url, { apiKey: await service.key({ scopes: ["call", "read"] }, admin) });
  approver = new Toolpost(service.url, { apiKey: await service.key({ scopes: ["approve"] }, admin) });
});

function toolMessage(messages: unknown[]): ToolMessage {
  const found = messages.find((message) => ToolMessage.isInstance(message));
  assert.ok(found);
  return found as ToolMessage;
}

test("an agent calls a tool and reads its text", async () => {
  const { tools } = await toolpostTools(client);
  const agent = createAgent({ model: modelThatCalls("calculate", { expression: "6 * 7" }), tools });
  const { messages } = await agent.invoke(user("6 * 7?"));
  assert.equal(messages.at(-1)?.content, "done");
  const message = toolMessage(messages);
  assert.deepEqual([message.content, message.status, message.tool_call_id], ["42", "success", "call_1"]);
  assert.equal(message.artifact.structured, 42);
});

test("a failed call is a message with the status error", async () => {
  const { tools } = await toolpostTools(client);
  const agent = createAgent({ model: modelThatCalls("calculate", { expression: "1 +" }), tools });
  const message = toolMessage((await agent.invoke(user("?"))).messages);
  assert.equal(message.status, "error");
  assert.match(String(message.content), /^Error/);
});

test("a tool that no model has called returns its output", async () => {
  const { tools } = await toolpostTools(client, { tools: ["calculate"] });
  assert.equal(await tools[0]!.invoke({ expression: "1 + 1" }), "2");
});

test("progress arrives in the custom stream and as custom events", async () => {
  const { tools } = await toolpostTools(client, { tools: ["steps"] });
  const events: any[] = [];
  const callbacks = [{ handleCustomEvent: (name: string, data: unknown) => void events.push([name, data]) }];
  const agent = createAgent({ model: modelThatCalls("steps", {}), tools });
  let seen = 0;
  for await (const state of await agent.stream(user("go"), { streamMode: "custom", callbacks })) {
    if (seen === 0 && steps.see(state as object)) seen++;
  }
  assert.equal(seen, 1);
  assert.ok(events.some(([name, data]) => name === "toolpost" && data.progress?.current === 1));
});

test("a call that needs approval interrupts the agent, and runs with what was decided", async () => {
  const { tools, interruptOn } = await toolpostTools(client, { approver, tools: ["pay"] });
  const middleware = [humanInTheLoopMiddleware({ interruptOn })];
  const model = modelThatCalls("pay", { amount: 5 });
  const agent = createAgent({ model, tools, middleware, checkpointer: new MemorySaver() });
  const thread = { configurable: { thread_id: "1" } };
  const interrupted = await agent.invoke(user("pay 5"), thread);
  assert.equal((interrupted as any).__interrupt__.length, 1);
  assert.equal((await client.calls({ name: "pay" })).tool_calls.length, 0);
  const edit = { type: "edit", editedAction: { name: "pay", args: { amount: 4 } } };
  const resumed = await agent.invoke(new Command({ resume: { decisions: [edit] } }), thread);
  assert.equal(toolMessage(resumed.messages).content, '{"amount":4}');
  const [call] = (await client.calls({ name: "pay" })).tool_calls;
  assert.equal(call?.approval?.status, "approved");
});
