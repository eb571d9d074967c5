import assert from "node:assert/strict";
import { before, test } from "node:test";
import { InvalidRequestError, NotFoundError, Toolpost } from "toolpost";
import { collect } from "./support/queue.js";
import { Service } from "./support/service.js";

let service: Service;
let client: Toolpost;
before(async () => {
  service = await Service.start();
  client = service.client;
  await service.builtin("pay", "echo", { input_schema: { type: "object" }, approval: { required: true } });
  await service.builtin("a.dotted", "echo", { annotations: { read_only: true } });
});

test("a call returns its result as text and as data", async () => {
  const call = await client.call("echo", { city: "北京" }, { id: "call_1" });
  assert.equal(call.status, "SUCCESS");
  assert.equal(call.call_id, "call_1");
  assert.equal(call.output, '{"city":"北京"}');
  assert.deepEqual(call.structured, { city: "北京" });
});

test("a failed call is a value", async () => {
  const unknown = await client.call("ecco", {});
  assert.equal(unknown.error?.code, "TOOL_NOT_FOUND");
  const invalid = await client.call("calculate", { expresion: "1" });
  assert.equal(invalid.error?.code, "TOOL_VALIDATION_ERROR");
  assert.match(invalid.output ?? "", /^Error: Invalid parameters for tool "calculate"/);
});

test("a rejected request throws an error that names the field", async () => {
  const call = client.call("echo", {}, { limits: { timeout: 5 } as object });
  await assert.rejects(call, (error) => {
    assert.ok(error instanceof InvalidRequestError);
    assert.equal(error.status, 422);
    assert.equal(error.errors[0]?.pointer, "/limits/timeout");
    assert.ok(error.requestId);
    return true;
  });
  await assert.rejects(client.sessions.get("none"), NotFoundError);
});

test("a url of another scheme is refused at once", () => {
  assert.throws(() => new Toolpost("ftp://host"), /url: "ftp:" is not supported/);
});

const conversations = {
  "openai chat": {
    response: {
      id: "chatcmpl-1", object: "chat.completion", model: "m", created: 1,
      choices: [{
        index: 0, finish_reason: "tool_calls", logprobs: null,
        message: {
          role: "assistant", content: null, refusal: null,
          tool_calls: [{ id: "call_1", type: "function", function: { name: "calculate", arguments: '{"expression":"6*7"}' } }],
        },
      }],
    },
    messages: [{ role: "tool", tool_call_id: "call_1", content: "42" }],
  },
  "openai responses": {
    response: {
      id: "resp_1", object: "response", status: "completed", parallel_tool_calls: true, tools: [], metadata: {},
      output: [
        { type: "reasoning", id: "rs_1", summary: [] },
        { type: "function_call", id: "fc_1", call_id: "call_1", name: "calculate", arguments: '{"expression":"6*7"}', status: "completed" },
      ],
    },
    messages: [{ type: "function_call_output", call_id: "call_1", output: "42" }],
  },
  anthropic: {
    response: {
      id: "msg_1", type: "message", role: "assistant", model: "m", stop_reason: "tool_use", stop_sequence: null,
      content: [
        { type: "text", text: "I calculate." },
        { type: "tool_use", id: "toolu_1", name: "calculate", input: { expression: "6*7" } },
      ],
      usage: { input_tokens: 1, output_tokens: 1 },
    },
    messages: [{ role: "user", content: [{ type: "tool_result", tool_use_id: "toolu_1", content: "42" }] }],
  },
  gemini: {
    response: {
      candidates: [{
        content: { role: "model", parts: [{ functionCall: { id: "fc-1", name: "calculate", args: { expression: "6*7" } } }] },
        finishReason: "STOP",
      }],
      usageMetadata: { totalTokenCount: 1 },
    },
    messages: [{ role: "user", parts: [{ functionResponse: { id: "fc-1", name: "calculate", response: { output: 42 } } }] }],
  },
};

for (const [vendor, { response, messages }] of Object.entries(conversations)) {
  test(`run takes a response of ${vendor} and returns messages to append`, async () => {
    const run = await client.run(response);
    assert.deepEqual(run.results.map((call) => call.output), ["42"]);
    const [message] = run.messages;
    const [expected] = messages as any[];
    assert.deepEqual(Object.keys(message).sort(), Object.keys(expected).sort());
    if (vendor !== "gemini" && vendor !== "anthropic") assert.deepEqual(message, expected);
    else assert.match(JSON.stringify(message), /42/);
  });
}

test("run takes an instance of a class, as SDKs return it", async () => {
  class Message {
    role = "assistant";
    content = [{ type: "tool_use", id: "toolu_2", name: "echo", input: {} }];
    get text(): string {
      throw new Error("a getter that is no part of the message");
    }
  }
  const run = await client.run(new Message());
  assert.equal(run.results[0]?.call_id, "toolu_2");
});

test("run of a response without calls returns nothing to append", async () => {
  const run = await client.run({ choices: [{ message: { role: "assistant", content: "hi" }, finish_reason: "stop" }] });
  assert.deepEqual([run.results, run.messages], [[], []]);
});

test("a batch keeps the order of its calls", async () => {
  const { results } = await client.batch(
    [{ name: "wait", arguments: { ms: 60 } }, { name: "echo", arguments: { n: 2 } }, { name: "none" }],
    { mode: "parallel" },
  );
  assert.deepEqual(results.map((call) => call.name), ["wait", "echo", "none"]);
  assert.deepEqual(results.map((call) => call.status), ["SUCCESS", "SUCCESS", "ERROR"]);
});

test("tools are listed for vendors", async () => {
  const openai = await client.tools("openai", { q: "calculate" });
  assert.equal(openai[0].function.name, "calculate");
  const anthropic = await client.tools("anthropic", { q: "calculate" });
  assert.equal(anthropic[0].name, "calculate");
  assert.ok(anthropic[0].input_schema);
  const native = await client.tools("native");
  assert.ok(native.find((tool) => tool.name === "pay")?.approval?.required);
});

test("a call that is accepted is waited for, and one that is cancelled ends", async () => {
  const accepted = await client.call("wait", { ms: 50 }, { wait: "accepted" });
  assert.equal((await client.wait(accepted.id)).output, "Waited 50 ms");
  const long = await client.call("wait", { ms: 60_000 }, { wait: "accepted" });
  await client.cancel(long.id);
  assert.equal((await client.wait(long.id)).error?.code, "CANCELLED");
  const other = await client.call("wait", { ms: 60_000 }, { wait: "accepted", session: "to-cancel" });
  await client.cancel({ session: "to-cancel" });
  assert.equal((await client.wait(other.id)).error?.code, "CANCELLED");
});

test("an aborted request throws, and with onDisconnect its call is cancelled", async () => {
  const abort = new AbortController();
  const events = client.watch({ session: "gone", name: "wait" });
  await events.opened;
  const options = { session: "gone", onDisconnect: "cancel", signal: abort.signal } as const;
  const rejected = assert.rejects(client.call("wait", { ms: 60_000 }, options), { name: "AbortError" });
  for await (const event of events) {
    if (event.type === "status" && event.data.status === "DOING") abort.abort();
    if (event.type === "tool_result") {
      assert.equal(event.data.error?.code, "CANCELLED");
      break;
    }
  }
  await rejected;
});

test("sessions group calls and render them for a model", async () => {
  const session = await client.sessions.create({ id: "s1", context: { user: { name: "Ann" } } });
  assert.equal(session.id, "s1");
  await client.call("echo", { n: 1 }, { session: "s1", id: "call_s" });
  const detail = await client.sessions.get("s1");
  assert.equal(detail.tool_calls.length, 1);
  const messages = await client.sessions.messages("s1", "openai");
  assert.equal(messages.at(-1).tool_call_id, "call_s");
  assert.match(await client.sessions.prompt("s1"), /echo/);
  assert.ok((await client.sessions.list()).sessions.some(({ id }) => id === "s1"));
  assert.equal((await client.calls({ session: "s1" })).tool_calls.length, 1);
  await client.sessions.abort("s1");
  await client.sessions.delete("s1");
  await assert.rejects(client.sessions.get("s1"), NotFoundError);
});

test("a call waits for its approval and runs with what was approved", async () => {
  const waiting = await client.call("pay", { amount: 5 });
  assert.equal(waiting.phase, "approval");
  const pending = (await client.approvals.list()).approvals.find(({ id }) => id === waiting.id);
  assert.ok(pending);
  await client.approvals.approve(pending, { arguments: { amount: 4 } });
  assert.deepEqual((await client.wait(waiting.id)).structured, { amount: 4 });
  const rejected = await client.call("pay", { amount: 6 });
  await client.approvals.reject(rejected, { reason: "too much" });
  const ended = await client.wait(rejected.id);
  assert.equal(ended.error?.code, "APPROVAL_DENIED");
  assert.match(ended.output ?? "", /too much/);
  await assert.rejects(client.approvals.approve(rejected), { code: "APPROVAL_DECIDED" });
  const plain = await client.call("echo");
  await assert.rejects(client.approvals.approve(plain), /has no approval to decide/);
});

test("run does not wait for an approval unless the caller does, and says so to the model", async () => {
  const tool_calls = [{ id: "call_p", type: "function", function: { name: "pay", arguments: '{"amount":8}' } }];
  const response = { role: "assistant", content: null, tool_calls };
  const waiting = await client.run(response);
  assert.equal(waiting.results[0]?.phase, "approval");
  assert.equal(waiting.messages[0].tool_call_id, "call_p");
  const followed = client.approvals.watch();
  await followed.opened;
  const waited = client.run(response, { wait: "result" });
  for await (const event of followed) {
    if (event.type !== "status" || event.data.id === waiting.results[0]!.id) continue;
    await client.approvals.approve({ id: event.data.id, digest: event.data.approval!.digest });
    break;
  }
  assert.equal((await waited).messages[0].content, '{"amount":8}');
  await client.cancel(waiting.results[0]!.id);
});

test("approvals are followed", async () => {
  const followed = client.approvals.watch();
  await followed.opened;
  const waiting = await client.call("pay", { amount: 7 });
  for await (const event of followed) {
    if (event.type !== "status" || event.data.id !== waiting.id) continue;
    assert.equal(event.data.approval?.status, "pending");
    break;
  }
  await client.cancel(waiting.id);
});

test("a model's stream starts calls while it is read", async () => {
  const chunk = (delta: object, finish_reason: string | null = null) =>
    `data: ${JSON.stringify({ object: "chat.completion.chunk", choices: [{ index: 0, delta, finish_reason }] })}\n\n`;
  const call = (more: object) => ({ tool_calls: [{ index: 0, ...more }] });
  const parts = [
    chunk(call({ id: "call_9", type: "function", function: { name: "echo", arguments: "" } })),
    chunk(call({ function: { arguments: '{"n":' } })),
    chunk(call({ function: { arguments: "9}" } })),
    chunk({}, "tool_calls"),
    "data: [DONE]\n\n",
  ];
  const body = new Response(parts.join(""));
  const events = await collect(client.stream(body, { format: "openai" }));
  const last = events.at(-1);
  assert.ok(last?.type === "batch");
  assert.deepEqual(last.data.messages, [{ role: "tool", tool_call_id: "call_9", content: '{"n":9}' }]);
});

test("a model's stream needs a format", async () => {
  await assert.rejects(collect(client.stream(new Response("data: [DONE]\n\n"))), /format: name the format/);
});
