import assert from "node:assert/strict";
import { before, test } from "node:test";
import { AuthenticationError, ConnectionError, NotFoundError, PermissionDeniedError, Toolpost } from "toolpost";
import { Proxy } from "./support/proxy.js";
import { collect } from "./support/queue.js";
import { Service } from "./support/service.js";

let service: Service;
let proxy: Proxy;
let apiKey: string;
let client: Toolpost;
before(async () => {
  service = await Service.start();
  apiKey = await service.key({ scopes: ["call", "read"] });
  proxy = await Proxy.before(service.url);
  client = new Toolpost(proxy.url, { apiKey });
});

test("the events of a call resume with the key after each break, without a gap and without a repeat", async () => {
  const call = await client.call("wait", { ms: 100, steps: 3 }, { wait: "accepted" });
  proxy.seen.length = 0;
  // The first block of each answer is a comment.
  for (const events of [2, 1, 3, 2]) proxy.faults.push({ kind: "cut", events });
  const events = await collect(client.watch({ call: call.id }));
  const numbers = events.flatMap((event) => ("seq" in event.data ? [event.data.seq] : []));
  assert.deepEqual(numbers, events.map((_, index) => index + 1));
  assert.equal(events[0]?.type, "tool_call");
  assert.equal(events.at(-1)?.type, "tool_result");
  assert.equal(proxy.seen.length, 5);
  assert.ok(proxy.seen.every(({ headers }) => headers.authorization === `Bearer ${apiKey}`));
  const resumed = proxy.seen.slice(1).map(({ headers }) => headers["last-event-id"]);
  assert.ok(resumed.every((id) => events.some((event) => event.id === id)));
});

test("a stream continues behind an event that the caller names, also behind the last one", async () => {
  const call = await client.call("wait", { ms: 5, steps: 1 }, {});
  const all = await collect(client.watch({ call: call.id }));
  const rest = await collect(client.watch({ call: call.id, after: all[2]!.id }));
  assert.deepEqual(rest, all.slice(3));
  assert.deepEqual(await collect(client.watch({ call: call.id, after: all.at(-1)!.id })), []);
});

test("the events of a session and of a tool are followed until the signal is aborted", async () => {
  await client.sessions.create({ id: "watched" });
  const abort = new AbortController();
  const session = client.sessions.watch("watched", { signal: abort.signal });
  const tool = client.watch({ name: "calculate", signal: abort.signal });
  await Promise.all([session.opened, tool.opened]);
  await client.call("echo", {}, { session: "watched" });
  await client.call("echo", {});
  await client.call("calculate", { expression: "1" });
  const names: string[] = [];
  for await (const event of session) {
    if ("name" in event.data) names.push(event.data.name);
    if (event.type === "tool_result") break;
  }
  for await (const event of tool) {
    if ("name" in event.data) names.push(event.data.name);
    if (event.type === "tool_result") abort.abort();
  }
  assert.deepEqual([...new Set(names)], ["echo", "calculate"]);
});

test("a stream that the service refuses throws, and is not repeated", async () => {
  await assert.rejects(collect(client.watch({ call: "01a21405-f701-712b-af31-1981f0349000" })), NotFoundError);
  const stranger = new Toolpost(service.url, { apiKey: "tp_wrong" });
  const events = stranger.watch();
  await assert.rejects(events.opened, AuthenticationError);
  await assert.rejects(collect(events), AuthenticationError);
});

test("a key without a scope is refused with an error of its own", async () => {
  await assert.rejects(client.register({ name: "x", executor: { type: "external" } }), PermissionDeniedError);
  await assert.rejects(new Toolpost(service.url).call("echo"), AuthenticationError);
});

test("a service that does not exist is a connection error with its reason", async () => {
  const nobody = new Toolpost("http://127.0.0.1:1", { maxRetries: 0 });
  await assert.rejects(nobody.call("echo"), (error) => {
    assert.ok(error instanceof ConnectionError);
    assert.match(error.message, /POST \/tool-calls: .*ECONNREFUSED|bad port/);
    return true;
  });
});
