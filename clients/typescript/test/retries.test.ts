import assert from "node:assert/strict";
import { before, test } from "node:test";
import { ConnectionError, RateLimitError, ServiceError, Toolpost } from "toolpost";
import { Proxy } from "./support/proxy.js";
import { collect } from "./support/queue.js";
import { Service } from "./support/service.js";

let service: Service;
let proxy: Proxy;
let client: Toolpost;
before(async () => {
  service = await Service.start();
  proxy = await Proxy.before(service.url);
  client = new Toolpost(proxy.url);
});

async function executions(name: string): Promise<number> {
  const stats = await fetch(`${service.url}/tools/${name}/stats`);
  return ((await stats.json()) as { execution_count: number }).execution_count;
}

test("a call whose answer was lost is repeated with the same key and runs once", async () => {
  await service.builtin("once", "echo");
  proxy.seen.length = 0;
  proxy.faults.push({ kind: "lose" }, { kind: "lose" });
  const call = await client.call("once", { n: 1 });
  assert.equal(call.output, '{"n":1}');
  const keys = proxy.seen.map(({ headers }) => headers["idempotency-key"]);
  assert.equal(keys.length, 3);
  assert.equal(new Set(keys).size, 1);
  assert.equal(await executions("once"), 1);
});

test("two calls have different keys, and a key of the caller is used", async () => {
  proxy.seen.length = 0;
  await client.call("echo", { n: 1 });
  await client.call("echo", { n: 1 });
  const first = await client.call("echo", { n: 1 }, { idempotencyKey: "mine" });
  const second = await client.call("echo", { n: 1 }, { idempotencyKey: "mine" });
  assert.equal(first.id, second.id);
  const keys = proxy.seen.map(({ headers }) => headers["idempotency-key"]);
  assert.equal(new Set(keys).size, 3);
});

test("a run is repeated like a call", async () => {
  await service.builtin("run_once", "echo");
  proxy.faults.push({ kind: "lose" });
  const message = { role: "assistant", content: [{ type: "tool_use", id: "toolu_1", name: "run_once", input: {} }] };
  assert.equal((await client.run(message)).messages.length, 1);
  assert.equal(await executions("run_once"), 1);
});

test("the answer of a gateway is retried after the time that it names", async () => {
  proxy.faults.push({ kind: "answer", status: 503, headers: { "retry-after": "0" } });
  proxy.faults.push({ kind: "answer", status: 429, headers: { "retry-after": "0" } });
  assert.equal((await client.call("echo", {})).status, "SUCCESS");
});

test("retries end, with an error of the last answer", async () => {
  const impatient = new Toolpost(proxy.url, { maxRetries: 1 });
  proxy.faults.push({ kind: "answer", status: 503 }, { kind: "answer", status: 503 });
  await assert.rejects(impatient.call("echo", {}), ServiceError);
  proxy.faults.push({ kind: "answer", status: 429 }, { kind: "answer", status: 429 });
  await assert.rejects(impatient.call("echo", {}), RateLimitError);
});

test("a wait that is too long is left to the caller", async () => {
  proxy.seen.length = 0;
  proxy.faults.push({ kind: "answer", status: 429, headers: { "retry-after": "3600" } });
  await assert.rejects(client.call("echo", {}), (error) => error instanceof RateLimitError && error.retryAfterMs === 3_600_000);
  assert.equal(proxy.seen.length, 1);
});

test("a request that could do harm twice is not repeated after a lost answer", async () => {
  proxy.seen.length = 0;
  proxy.faults.push({ kind: "lose" });
  await assert.rejects(client.sessions.create(), ConnectionError);
  assert.equal(proxy.seen.length, 1);
});

test("an internal error is not repeated", async () => {
  proxy.seen.length = 0;
  proxy.faults.push({ kind: "answer", status: 500 });
  await assert.rejects(client.call("echo", {}), ServiceError);
  assert.equal(proxy.seen.length, 1);
});

test("the stream of a call that breaks continues without a gap and without a repeat", async () => {
  await service.builtin("stream_once", "wait", { annotations: { read_only: false } });
  for (const events of [0, 1, 3]) proxy.faults.push({ kind: "cut", events });
  const seen = await collect(client.stream({ name: "stream_once", arguments: { ms: 40, steps: 2 } }));
  const numbers = seen.flatMap((event) => ("seq" in event.data ? [event.data.seq] : []));
  assert.deepEqual(numbers, numbers.map((_, index) => index + 1));
  assert.equal(seen.at(-1)?.type, "batch");
  assert.equal(await executions("stream_once"), 1);
});
