import assert from "node:assert/strict";
import { before, test } from "node:test";
import { Agent, Runner, setTracingDisabled } from "@openai/agents";
import { assistantMessage, functionCall, modelResponse, ScriptedModel } from "@openai/agents/testing";
import { Toolpost, type ToolpostEvent } from "toolpost";
import { toolpostTools } from "toolpost/openai-agents";
import { Service } from "./support/service.js";
import { Steps } from "./support/steps.js";

setTracingDisabled(true);
const runner = new Runner({ tracingDisabled: true });

/** Returns a model that calls a tool, and then answers with a text. */
function modelThatCalls(name: string, args: object): ScriptedModel {
  const call = functionCall(name, args as Record<string, string>, { callId: "call_1" });
  return new ScriptedModel([modelResponse([call]), modelResponse([assistantMessage("done")])]);
}

/** Returns what the model has read as the result of its call. */
function resultRead(model: ScriptedModel): unknown {
  const input = model.calls.at(-1)?.request.input as { type?: string; output?: unknown }[];
  return input.find((item) => item.type === "function_call_result")?.output;
}

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

test("an agent calls a tool and reads its text", async () => {
  const model = modelThatCalls("calculate", { expression: "6 * 7" });
  const agent = new Agent({ name: "a", model, tools: await toolpostTools(client) });
  const result = await runner.run(agent, "6 * 7?");
  assert.equal(result.finalOutput, "done");
  assert.deepEqual(resultRead(model), { type: "text", text: "42" });
  const offered = model.calls[0]?.request.tools.find((tool) => tool.name === "calculate");
  assert.ok(offered?.type === "function" && "expression" in offered.parameters.properties);
});

test("a failed call is an error that the model reads", async () => {
  const model = modelThatCalls("calculate", { expresion: "1" });
  const agent = new Agent({ name: "a", model, tools: await toolpostTools(client) });
  await runner.run(agent, "?");
  assert.match(JSON.stringify(resultRead(model)), /Error: Invalid parameters for tool/);
});

test("the events of calls are received while an agent runs", async () => {
  let seen = 0;
  const onEvent = (event: ToolpostEvent) => {
    if (event.type === "status" && seen === 0 && steps.see(event.data)) seen++;
  };
  const tools = await toolpostTools(client, { tools: ["steps"], onEvent });
  const model = modelThatCalls("steps", {});
  await runner.run(new Agent({ name: "a", model, tools }), "go");
  assert.equal(seen, 1);
  assert.deepEqual(resultRead(model), { type: "text", text: "two steps" });
});

test("a call that needs approval interrupts the run, and runs after the approval", async () => {
  const model = modelThatCalls("pay", { amount: 5 });
  const tools = await toolpostTools(client, { approver, tools: ["pay"] });
  const agent = new Agent({ name: "a", model, tools });
  const interrupted = await runner.run(agent, "pay 5");
  assert.equal(interrupted.interruptions.length, 1);
  assert.equal((await client.calls({ name: "pay" })).tool_calls.length, 0);
  interrupted.state.approve(interrupted.interruptions[0]!);
  const result = await runner.run(agent, interrupted.state);
  assert.equal(result.finalOutput, "done");
  const [call] = (await client.calls({ name: "pay" })).tool_calls;
  assert.deepEqual([call?.output, call?.approval?.status], ['{"amount":5}', "approved"]);
});

test("without an approver, the call waits until it is decided in the service", async () => {
  const model = modelThatCalls("pay", { amount: 6 });
  const onEvent = (event: ToolpostEvent) => {
    if (event.type !== "status" || event.data.approval?.status !== "pending") return;
    void approver.approvals.reject({ id: event.data.id, digest: event.data.approval.digest }, { reason: "no money" });
  };
  const agent = new Agent({ name: "a", model, tools: await toolpostTools(client, { tools: ["pay"], onEvent }) });
  const result = await runner.run(agent, "pay 6");
  assert.equal(result.interruptions.length, 0);
  assert.match(JSON.stringify(resultRead(model)), /was rejected: no money/);
});
