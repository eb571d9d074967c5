import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { httpApp, tool, type Toolpost } from "toolpost";
import { type Listener, listen } from "toolpost/node";
import { z } from "zod";
import { aborted, collect, Queue } from "./support/queue.js";
import { SECRET, Service } from "./support/service.js";

const stopped = new Queue<unknown>();

const app = httpApp({
  signingSecret: SECRET,
  tools: [
    tool({
      name: "greet",
      input: z.object({ name: z.string() }),
      context: ["user"],
      run: ({ name }, run) => `Hello ${name}, from ${run.context["user"]?.name} in ${run.agent?.name}`,
    }),
    tool({
      name: "count",
      input: z.object({ to: z.number().int() }),
      run: async ({ to }, run) => {
        for (let n = 1; n <= to; n++) await run.progress(n, to, `step ${n}`);
        await run.report({ tip: "nearly done", content: "a note", details: { deep: true } });
        return { counted: to };
      },
    }),
    tool({ name: "nothing", input: { type: "object" }, run: () => {} }),
    tool({ name: "counted_nothing", input: { type: "object" }, run: (_, run) => run.progress(1) }),
    tool({
      name: "fail",
      input: { type: "object" },
      run: () => {
        throw new Error("the disk is full");
      },
    }),
    tool({ name: "unserializable", input: { type: "object" }, run: () => 1n }),
    tool({
      name: "strict",
      input: z.object({ even: z.number().refine((n) => n % 2 === 0, "must be even").transform((n) => n * 10) }),
      run: ({ even }) => even,
    }),
    tool({
      name: "endless",
      input: { type: "object", properties: { reports: { type: "boolean" } } },
      run: async ({ reports }, run) => {
        if (reports) await run.progress(1);
        stopped.push(await aborted(run.signal));
      },
    }),
  ],
});

let client: Toolpost;
let url: string;
let listener: Listener;
// Not in the hook before: what a hook registers for its end runs at the end of the hook.
after(() => listener.close());
before(async () => {
  const service = await Service.start();
  listener = await listen(app);
  url = listener.url;
  client = service.client;
  for (const definition of app.definitions(url)) await client.register(definition);
});

test("a tool receives its arguments, context and agent", async () => {
  const options = { context: { user: { name: "Ann" } }, agent: { name: "planner" } };
  const call = await client.call("greet", { name: "北京" }, options);
  assert.equal(call.output, "Hello 北京, from Ann in planner");
});

test("progress and reports are streamed while the tool runs", async () => {
  const events = await collect(client.stream({ name: "count", arguments: { to: 3 } }));
  const states = events.flatMap((event) => (event.type === "status" ? [event.data] : []));
  assert.ok(states.some(({ progress }) => progress?.message === "step 3" && progress.total === 3));
  assert.ok(states.some(({ tip }) => tip === "nearly done"));
  const reports = events.flatMap((event) => (event.type === "progress" ? [event.data] : []));
  assert.deepEqual(reports.map(({ content }) => content), [[{ type: "text", text: "a note" }]]);
  const last = events.at(-1);
  assert.ok(last?.type === "batch");
  assert.deepEqual(last.data.results[0]?.structured, { counted: 3 });
});

test("a tool that returns nothing is done", async () => {
  assert.equal((await client.call("nothing")).output, "Done");
  assert.equal((await client.call("counted_nothing")).output, "Done");
});

test("an exception is a failed call without its stack trace", async () => {
  const call = await client.call("fail");
  assert.equal(call.error?.code, "TOOL_EXECUTION_ERROR");
  assert.equal(call.output, 'Error executing tool "fail": the disk is full');
  assert.ok(!JSON.stringify(call).includes("http_app.test"));
  assert.match((await client.call("unserializable")).output ?? "", /BigInt/);
});

test("the checks and changes of a zod type apply", async () => {
  assert.equal((await client.call("strict", { even: 4 })).structured, 40);
  assert.match((await client.call("strict", { even: 3 })).output ?? "", /\/even: must be even/);
});

for (const reports of [false, true]) {
  test(`a cancelled call aborts the signal of a tool that ${reports ? "reports" : "has not reported"}`, async () => {
    const call = await client.call("endless", { reports }, { wait: "accepted" });
    for await (const event of client.watch({ call: call.id })) {
      const isRunning = event.type === "status" && event.data.status === "DOING";
      if (isRunning && (!reports || event.data.progress)) await client.cancel(call.id);
    }
    assert.match(String(await stopped.next()), /has closed the connection|has disconnected/);
  });
}

test("requests without a valid signature are refused", async () => {
  const body = JSON.stringify({ id: "1", call_id: "1", name: "nothing", arguments: {} });
  assert.equal((await fetch(url, { method: "POST", body })).status, 401);
  const now = String(Math.floor(Date.now() / 1000));
  const headers = { "webhook-id": "1", "webhook-timestamp": now, "webhook-signature": "v1,AAAA v1,!" };
  assert.equal((await fetch(url, { method: "POST", body, headers })).status, 401);
  assert.equal((await fetch(url)).status, 405);
});

test("an app without a secret must say that it accepts everyone", async () => {
  const tools = [tool({ name: "nothing", input: { type: "object" }, run: () => {} })];
  assert.throws(() => httpApp({ tools }), /signingSecret: required/);
  const open = httpApp({ tools, allowUnsigned: true });
  const post = (body: string) => open(new Request("http://host/", { method: "POST", body }));
  assert.equal((await post('{"name":"nothing"}')).status, 204);
  assert.equal((await post('{"name":"other"}')).status, 404);
  assert.equal((await post("{")).status, 400);
});
