import assert from "node:assert/strict";
import { before, test } from "node:test";
import { generateText, isStepCount, streamText, type ModelMessage } from "ai";
import { MockLanguageModelV4 } from "ai/test";
import { Toolpost } from "toolpost";
import { toolpostTools } from "toolpost/ai";
import { Service } from "./support/service.js";
import { Steps } from "./support/steps.js";

type Answer = Extract<ConstructorParameters<typeof MockLanguageModelV4>[0], object>["doGenerate"];
type Result = Exclude<Answer, undefined | Function | unknown[]>;

const usage = {
  inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 1, text: 1, reasoning: 0 },
};

/** Returns a model that calls a tool, and then answers with a text. */
function modelThatCalls(toolName: string, input: object): MockLanguageModelV4 {
  const call = { type: "tool-call", toolCallId: "call_1", toolName, input: JSON.stringify(input) } as const;
  const [calls, stop] = [{ unified: "tool-calls", raw: undefined }, { unified: "stop", raw: undefined }] as const;
  const first: Result = { content: [call], finishReason: calls, usage, warnings: [] };
  const second: Result = { content: [{ type: "text", text: "done" }], finishReason: stop, usage, warnings: [] };
  const stream = (answer: Result) => ({
    stream: new ReadableStream({
      start(controller) {
        controller.enqueue({ type: "stream-start", warnings: [] });
        for (const part of answer.content) {
          if (part.type === "tool-call") controller.enqueue(part);
        }
        controller.enqueue({ type: "finish", finishReason: answer.finishReason, usage });
        controller.close();
      },
    }),
  });
  return new MockLanguageModelV4({ doGenerate: [first, second], doStream: [stream(first), stream(second)] });
}

/** Returns what the model has read as the result of its call. */
function resultIn(messages: ModelMessage[]): unknown {
  const parts = messages.flatMap((message) => (message.role === "tool" ? message.content : []));
  const result = parts.find((part) => part.type === "tool-result");
  return result?.type === "tool-result" ? result.output : undefined;
}

const steps = new Steps();
let service: Service;
let agent: Toolpost;
let approver: Toolpost;
before(async () => {
  service = await Service.start();
  await steps.register(service.client);
  await service.builtin("pay", "echo", { input_schema: { type: "object" }, approval: { required: true } });
  await service.builtin("dotted.name", "echo", { input_schema: { type: "object" } });
  const admin = await service.key({ scopes: ["admin"] });
  agent = new Toolpost(service.url, { apiKey: await service.key({ scopes: ["call", "read"] }, admin) });
  approver = new Toolpost(service.url, { apiKey: await service.key({ scopes: ["approve"] }, admin) });
});

test("a model calls a tool and reads its text", async () => {
  const tools = await toolpostTools(agent);
  const model = modelThatCalls("calculate", { expression: "6 * 7" });
  const { text, responseMessages } = await generateText({ model, ...tools, prompt: "6 * 7?", stopWhen: isStepCount(3) });
  assert.equal(text, "done");
  assert.deepEqual(resultIn(responseMessages), { type: "text", value: "42" });
  const offered = model.doGenerateCalls[0]?.tools?.find(({ name }) => name === "calculate");
  assert.ok(offered?.type === "function" && offered.inputSchema.properties?.["expression"]);
});

test("a failed call is an error that the model reads", async () => {
  const tools = await toolpostTools(agent);
  const model = modelThatCalls("calculate", {});
  const { responseMessages } = await generateText({ model, ...tools, prompt: "?", stopWhen: isStepCount(3) });
  const result = resultIn(responseMessages) as { type: string; value: string };
  assert.equal(result.type, "error-text");
  assert.match(result.value, /^Error: Invalid parameters for tool "calculate"/);
});

test("a tool whose name the model's vendor would refuse is called under its alias", async () => {
  const { tools } = await toolpostTools(agent, { tools: ["dotted.name"] });
  const [alias] = Object.keys(tools);
  assert.match(alias ?? "", /^[A-Za-z0-9_-]{1,64}$/);
  const model = modelThatCalls(alias!, { n: 1 });
  const { responseMessages } = await generateText({ model, tools, prompt: "?", stopWhen: isStepCount(3) });
  assert.deepEqual(resultIn(responseMessages), { type: "text", value: '{"n":1}' });
});

test("progress arrives as preliminary results", async () => {
  const tools = await toolpostTools(agent, { tools: ["steps"] });
  const { stream } = streamText({ model: modelThatCalls("steps", {}), ...tools, prompt: "go", stopWhen: isStepCount(3) });
  let seen = 0;
  let output: unknown;
  for await (const part of stream) {
    if (part.type !== "tool-result") continue;
    if (!part.preliminary) output = (part.output as { output?: string }).output;
    else if (seen === 0 && steps.see(part.output as object)) seen++;
  }
  assert.equal(seen, 1);
  assert.equal(output, "two steps");
});

test("a call that needs approval asks the user of the SDK, and then runs", async () => {
  const tools = await toolpostTools(agent, { approver, tools: ["pay"] });
  assert.deepEqual(tools.toolApproval, { pay: "user-approval" });
  const messages: ModelMessage[] = [{ role: "user", content: "pay 5" }];
  const model = modelThatCalls("pay", { amount: 5 });
  const asked = await generateText({ model, ...tools, messages, stopWhen: isStepCount(3) });
  const request = asked.content.find((part) => part.type === "tool-approval-request");
  assert.ok(request?.type === "tool-approval-request");
  assert.equal((await agent.calls({ name: "pay" })).tool_calls.length, 0);
  messages.push(...asked.responseMessages, {
    role: "tool",
    content: [{ type: "tool-approval-response", approvalId: request.approvalId, approved: true }],
  });
  const paid = await generateText({ model, ...tools, messages, stopWhen: isStepCount(3) });
  assert.equal(paid.text, "done");
  const [call] = (await agent.calls({ name: "pay" })).tool_calls;
  assert.equal(call?.output, '{"amount":5}');
  assert.equal(call?.approval?.status, "approved");
});

test("an aborted generation cancels the call", async () => {
  const abort = new AbortController();
  const onEvent = (event: { type: string; data: object }) => {
    if (event.type === "status" && "status" in event.data && event.data.status === "DOING") abort.abort();
  };
  const tools = await toolpostTools(agent, { tools: ["wait"], session: "aborted", onEvent });
  const model = modelThatCalls("wait", { ms: 60_000 });
  const options = { model, ...tools, prompt: "wait", stopWhen: isStepCount(3), abortSignal: abort.signal };
  await Promise.allSettled([generateText(options)]);
  const [call] = (await agent.calls({ session: "aborted" })).tool_calls;
  assert.equal((await agent.wait(call!.id)).error?.code, "CANCELLED");
});
