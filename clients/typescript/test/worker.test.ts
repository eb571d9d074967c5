import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { after, before, test } from "node:test";
import { InvalidRequestError, serve, type ServeOptions, tool, type Toolpost, AuthenticationError } from "toolpost";
import { z } from "zod";
import { Proxy } from "./support/proxy.js";
import { aborted, collect, Queue } from "./support/queue.js";
import { ROOT, Service } from "./support/service.js";

let service: Service;
let client: Toolpost;
before(async () => {
  service = await Service.start();
  client = service.client;
});

const workers: { stop(): Promise<void> }[] = [];
after(() => Promise.all(workers.map((worker) => worker.stop())));

/** Starts a worker with short waits. It stops with the test file. */
async function started(url: string, options: ServeOptions) {
  const worker = serve(url, { waitMs: 200, drainMs: 5_000, stopOnSignal: false, onError: () => {}, ...options });
  workers.push(worker);
  await worker.ready;
  return worker;
}

/** What a worker shows of itself. */
async function shown(name: string) {
  const listed = (await (await fetch(`${service.url}/workers`)).json()) as { workers: { worker: string }[] };
  return listed.workers.find(({ worker }) => worker === name) as
    | { tools: unknown[]; running: number; sdk: string } | undefined;
}

test("a worker registers its tools, runs their calls and delivers their results", async () => {
  const greet = tool({
    name: "greet",
    input: z.object({ name: z.string() }),
    context: ["user"],
    run: ({ name }, run) => `Hello ${name}, from ${run.context["user"]?.name} in ${run.session}, attempt ${run.attempt}`,
  });
  const empty = tool({ name: "empty", input: { type: "object" }, run: () => {} });
  const failing = tool({
    name: "failing",
    input: { type: "object" },
    run: () => {
      throw new Error("the disk is full");
    },
  });
  const worker = await started(service.url, { queue: "first", tools: [greet, empty, failing] });
  const options = { session: "s1", context: { user: { name: "Ann" } } };
  const call = await client.call("greet", { name: "北京" }, options);
  assert.equal(call.output, "Hello 北京, from Ann in s1, attempt 1");
  assert.equal((await client.call("empty")).output, "Done");
  const failed = await client.call("failing");
  assert.equal(failed.error?.code, "TOOL_EXECUTION_ERROR");
  assert.match(failed.output ?? "", /the disk is full$/);
  const itself = await shown(worker.worker);
  assert.equal(itself?.tools.length, 3);
  assert.match(itself?.sdk ?? "", /^toolpost-typescript\//);
});

test("a concurrency that is not an integer of 1 or more is rejected", () => {
  const idle = tool({ name: "idle", input: { type: "object" }, run: () => null });
  for (const concurrency of [0, 1.5, Number.NaN]) {
    const start = () => serve(service.url, { queue: "none", tools: [idle], concurrency });
    assert.throws(start, new TypeError(`concurrency: ${concurrency} is not an integer of 1 or more`));
  }
});

test("progress and reports reach the caller while the tool runs", async () => {
  const count = tool({
    name: "count",
    input: { type: "object", properties: { to: { type: "integer" } }, required: ["to"] },
    run: async ({ to }, run) => {
      for (let n = 1; n <= to; n++) await run.progress(n, to);
      await run.report({ tip: "nearly done", content: "a note" });
      return { counted: to };
    },
  });
  await started(service.url, { queue: "progress", tools: [count] });
  const events = await collect(client.stream({ name: "count", arguments: { to: 3 } }));
  const states = events.flatMap((event) => (event.type === "status" ? [event.data] : []));
  assert.ok(states.some(({ progress }) => progress?.current === 3 && progress.total === 3));
  assert.ok(states.some(({ tip }) => tip === "nearly done"));
  const last = events.at(-1);
  assert.ok(last?.type === "batch");
  assert.deepEqual(last.data.results[0]?.structured, { counted: 3 });
});

test("a cancelled call aborts the signal of its tool", async () => {
  const [begun, ended] = [new Queue<string>(), new Queue<unknown>()];
  const endless = tool({
    name: "endless",
    input: { type: "object" },
    run: async (_, run) => {
      begun.push(run.id);
      ended.push(await aborted(run.signal));
    },
  });
  await started(service.url, { queue: "endless", tools: [endless], leaseMs: 3_000 });
  const call = await client.call("endless", {}, { wait: "accepted" });
  assert.equal(await begun.next(), call.id);
  await client.cancel(call.id);
  assert.match(String(await ended.next()), /the call was cancelled/);
  assert.equal((await client.wait(call.id)).error?.code, "CANCELLED");
});

test("the signal of a tool is aborted when the time of its call is up", async () => {
  const ended = new Queue<unknown>();
  const late = tool({
    name: "late",
    input: { type: "object" },
    run: async (_, run) => ended.push(await aborted(run.signal)),
  });
  await started(service.url, { queue: "late", tools: [late] });
  const call = await client.call("late", {}, { limits: { timeout_ms: 200 } });
  assert.equal(call.error?.code, "TOOL_TIMEOUT");
  assert.match(String(await ended.next()), /the time of the call is up/);
});

test("a worker runs as many calls as it may at the same time, and no more", async () => {
  const gates = new Queue<() => void>();
  let [running, most] = [0, 0];
  const gated = tool({
    name: "gated",
    input: { type: "object" },
    annotations: { read_only: true },
    run: async () => {
      most = Math.max(most, ++running);
      await new Promise<void>((resolve) => gates.push(resolve));
      running--;
    },
  });
  await started(service.url, { queue: "gated", tools: [gated], concurrency: 2 });
  const calls = client.batch(Array.from({ length: 5 }, () => ({ name: "gated" })), { mode: "parallel" });
  const first = [await gates.next(), await gates.next()];
  for (const open of first) open();
  for (let left = 3; left > 0; left--) (await gates.next())();
  assert.ok((await calls).results.every(({ output }) => output === "Done"));
  assert.equal(most, 2);
});

test("a call whose result is being delivered keeps no place", async () => {
  const begun = new Queue<number>();
  const noted = tool({
    name: "noted",
    input: { type: "object", properties: { n: { type: "integer" } }, required: ["n"] },
    annotations: { read_only: true },
    run: ({ n }) => {
      begun.push(n);
      return n;
    },
  });
  let accept = () => {};
  const accepts = new Promise<void>((resolve) => (accept = resolve));
  const claims: number[] = [];
  const later: typeof fetch = async (input, init) => {
    if (String(input).endsWith("/results")) await accepts;
    if (String(input).endsWith("/claim")) claims.push(JSON.parse(String(init?.body)).max);
    return fetch(input, init);
  };
  await started(service.url, { queue: "noted", tools: [noted], concurrency: 1, fetch: later });
  const calls = [0, 1, 2].map((n) => client.call("noted", { n }));
  // The second call runs although the result of the first is not recorded. The third waits for one of the two.
  const first = [await begun.next(), await begun.next()];
  accept();
  assert.deepEqual([...first, await begun.next()].sort(), [0, 1, 2]);
  assert.deepEqual((await Promise.all(calls)).map(({ output }) => output), ["0", "1", "2"]);
  assert.ok(claims.every((max) => max === 1));
});

test("a heartbeat names at most a thousand calls", async () => {
  const hung = tool({ name: "hung", input: { type: "object" }, run: (_, run) => aborted(run.signal) });
  const sizes = new Queue<number>();
  let left = 1001;
  // Calls that the service does not know, so that heartbeats say that they are lost.
  const withCalls: typeof fetch = async (input, init) => {
    if (String(input).endsWith("/heartbeat")) sizes.push(JSON.parse(String(init?.body)).calls.length);
    if (!String(input).endsWith("/claim") || left === 0) return fetch(input, init);
    const calls = Array.from({ length: Math.min(64, left) }, () => {
      const id = crypto.randomUUID();
      return { id, call_id: id, name: "hung", arguments: {}, token: "t", lease_ms: 3_000 };
    });
    left -= calls.length;
    return Response.json({ calls });
  };
  await started(service.url, { queue: "hung", tools: [hung], concurrency: 1001, fetch: withCalls });
  assert.deepEqual([await sizes.next(), await sizes.next()], [1000, 1]);
});

test("a long call keeps its lease, and stop lets it end", async () => {
  const [begun, gate] = [new Queue<number>(), new Queue<string>()];
  const slow = tool({
    name: "slow",
    input: { type: "object" },
    run: async (_, run) => {
      begun.push(run.attempt);
      return gate.next();
    },
  });
  const proxy = await Proxy.before(service.url);
  const worker = await started(proxy.url, { queue: "slow", tools: [slow], leaseMs: 3_000 });
  const call = await client.call("slow", {}, { wait: "accepted" });
  await begun.next();
  const stopped = worker.stop();
  // Four heartbeats take longer than the lease, which each of them renews.
  while (proxy.seen.filter(({ path }) => path.endsWith("/heartbeat")).length < 4) await proxy.next();
  gate.push("at last");
  await stopped;
  assert.equal((await client.wait(call.id)).output, "at last");
});

test("stop aborts calls that take too long", async () => {
  const begun = new Queue<string>();
  const stubborn = tool({
    name: "stubborn",
    input: { type: "object" },
    run: async (_, run) => {
      begun.push(run.id);
      throw await aborted(run.signal);
    },
  });
  const worker = await started(service.url, { queue: "stubborn", tools: [stubborn], drainMs: 50, concurrency: 1 });
  const call = await client.call("stubborn", {}, { wait: "accepted" });
  await begun.next();
  await worker.stop();
  assert.match((await client.wait(call.id)).output ?? "", /the worker is shutting down/);
});

test("a lost connection is taken up again, and a result is delivered once", async () => {
  const seen: string[] = [];
  const echoed = tool({
    name: "echoed",
    input: { type: "object" },
    run: (args, run) => {
      seen.push(run.id);
      return args;
    },
  });
  const proxy = await Proxy.before(service.url);
  const isResult = (path: string) => /\/results?$/.test(path);
  proxy.faultOf = ({ path }) => {
    if (!isResult(path) || proxy.seen.filter((one) => isResult(one.path)).length > 2) return undefined;
    return proxy.seen.filter((one) => isResult(one.path)).length === 1 ? { kind: "answer", status: 503 } : { kind: "lose" };
  };
  // The registration and the first claims fail, too.
  proxy.faults.push({ kind: "answer", status: 503 }, { kind: "answer", status: 502 });
  await started(proxy.url, { queue: "echoed", tools: [echoed] });
  proxy.faults.push({ kind: "answer", status: 503 });
  const call = await client.call("echoed", { n: 1 });
  assert.deepEqual(call.structured, { n: 1 });
  assert.deepEqual(seen, [call.id]);
});

test("a worker that the service refuses ends with the error", async () => {
  const tools = [tool({ name: "x", input: { type: "object" }, run: () => {} })];
  const bad = serve(service.url, { queue: "bad", tools, leaseMs: -1, stopOnSignal: false });
  await assert.rejects(bad.ready, InvalidRequestError);
  await assert.rejects(bad.finished, InvalidRequestError);
  await bad.stop();
});

test("SIGTERM stops a worker program, which ends", async () => {
  const program = `
    import { serve, tool } from "toolpost";
    const hello = tool({ name: "hello", input: { type: "object" }, run: () => "hello" });
    const worker = serve("${service.url}", { queue: "program", tools: [hello], waitMs: 200 });
    await worker.ready;
    console.log("ready");
  `;
  const options = ["--input-type=module", "--eval", program];
  const child = spawn(process.execPath, options, { cwd: ROOT, stdio: ["ignore", "pipe", "inherit"] });
  await once(child.stdout, "data");
  assert.equal((await client.call("hello")).output, "hello");
  child.kill("SIGTERM");
  const [code, signal] = await once(child, "exit");
  assert.deepEqual([code, signal], [0, null]);
});

test("a worker program that the service refuses ends with its error", async () => {
  const program = `
    import { serve, tool } from "toolpost";
    const hello = tool({ name: "hello", input: { type: "object" }, run: () => "hello" });
    serve("${service.url}", { queue: "not a queue", tools: [hello] });
  `;
  const child = spawn(process.execPath, ["--input-type=module", "--eval", program], { cwd: ROOT, stdio: ["ignore", "ignore", "pipe"] });
  const ended = once(child, "exit");
  let errors = "";
  for await (const chunk of child.stderr) errors += chunk;
  assert.notEqual((await ended)[0], 0);
  assert.match(errors, /NotFoundError.*the name of a queue has/);
});

test("a worker needs the scopes work and tools", async () => {
  const admin = await service.key({ scopes: ["admin"] });
  const apiKey = await service.key({ scopes: ["work", "tools"] }, admin);
  const tools = [tool({ name: "keyed", input: { type: "object" }, run: () => "keyed" })];
  await started(service.url, { queue: "keyed", tools, apiKey });
  const stranger = serve(service.url, { queue: "keyed", tools, apiKey: "tp_wrong", stopOnSignal: false });
  await assert.rejects(stranger.ready, AuthenticationError);
});
