import assert from "node:assert/strict";
import { after, test } from "node:test";
import { serve, ServiceError, tool, ToolpostError } from "toolpost";
import { ResultSender } from "#dist/results.js";
import { Transport } from "#dist/transport.js";
import { Proxy } from "./support/proxy.js";
import { Service } from "./support/service.js";

interface Sent {
  path: string;
  authorization: string | null;
  body: { worker: string; results: { id: string; token: string; result?: unknown }[] };
  answer: (status: number, outcomes?: string[]) => void;
}

/** Returns a sender, and the requests that it makes. Each is answered when the test says so. */
function sender() {
  const requests: Sent[] = [];
  const receive = (url: string | URL | Request, init: RequestInit = {}) =>
    new Promise<Response>((resolve) => {
      requests.push({
        path: new URL(String(url)).pathname,
        authorization: new Headers(init.headers).get("authorization"),
        body: JSON.parse(init.body as string) as Sent["body"],
        answer: (status, outcomes = []) =>
          resolve(Response.json({ results: outcomes.map((outcome) => ({ outcome })) }, { status })),
      });
    });
  const transport = new Transport("http://service", { fetch: receive, maxRetries: 0 });
  return { requests, results: new ResultSender(transport, "/workers/q", "w") };
}

const settled = () => new Promise((resolve) => setImmediate(resolve));

test("results that end meanwhile share a request", async () => {
  const { requests, results } = sender();
  const sizes = () => requests.map(({ body }) => body.results.length);
  const sending = [];
  for (let n = 0; n < 72; n++) {
    sending.push(results.send(`c${n}`, "t", n === 0 ? undefined : `{"n":${n}}`));
    await settled();
  }
  assert.deepEqual(sizes(), [1, 1]);
  assert.deepEqual(requests[0]?.body, { worker: "w", results: [{ id: "c0", token: "t" }] });
  assert.deepEqual(requests[1]?.body.results, [{ id: "c1", token: "t", result: { n: 1 } }]);
  requests[0]?.answer(200, ["ignored"]);
  await settled();
  assert.deepEqual(sizes(), [1, 1, 64]);
  requests[1]?.answer(200, ["recorded"]);
  await settled();
  assert.deepEqual(sizes(), [1, 1, 64, 6]);
  requests[2]?.answer(200, Array<string>(64).fill("recorded"));
  requests[3]?.answer(200, Array<string>(6).fill("recorded"));
  await Promise.all(sending);
  assert.ok(requests.every(({ path }) => path === "/workers/q/results"));
});

test("a large result is sent alone", async () => {
  const { requests, results } = sender();
  const text = JSON.stringify("x".repeat(70_000));
  const sending = results.send("c", "t", text);
  await settled();
  const [{ path, authorization } = { path: "", authorization: "" }] = requests;
  assert.deepEqual([path, authorization], ["/tool-calls/c/result", "Bearer t"]);
  requests[0]?.answer(200);
  await sending;
});

test("each result has its own outcome", async () => {
  const { requests, results } = sender();
  const sending = ["a", "b", "c"].map((id) => results.send(id, "t", "1"));
  await settled();
  assert.equal(requests.length, 1);
  requests[0]?.answer(200, ["recorded", "retry", "refused"]);
  const [recorded, retry, refused] = await Promise.allSettled(sending);
  assert.equal(recorded?.status, "fulfilled");
  assert.ok(retry?.status === "rejected" && retry.reason instanceof ServiceError && retry.reason.status === 503);
  assert.ok(refused?.status === "rejected" && refused.reason instanceof ToolpostError);
});

test("results of a refused request are sent alone, and those of an unavailable service later", async () => {
  const { requests, results } = sender();
  const sending = ["a", "b"].map((id) => results.send(id, "t", "1"));
  await settled();
  requests[0]?.answer(422);
  await settled();
  assert.deepEqual(requests.slice(1).map(({ path }) => path), ["/tool-calls/a/result", "/tool-calls/b/result"]);
  for (const request of requests.slice(1)) request.answer(200);
  await Promise.all(sending);
  const later = results.send("c", "t", "1");
  await settled();
  requests[3]?.answer(503);
  await assert.rejects(later, ServiceError);
});

test("a worker delivers its results to a service without shared results", async () => {
  const service = await Service.start();
  const proxy = await Proxy.before(service.url);
  proxy.faultOf = ({ path }) => (path.endsWith("/results") ? { kind: "answer", status: 404 } : undefined);
  const echo = tool({ name: "shared", input: { type: "object" }, run: (args) => args });
  const worker = serve(proxy.url, { queue: "q", tools: [echo], waitMs: 200, stopOnSignal: false, onError: () => {} });
  after(() => worker.stop());
  await worker.ready;
  const calls = await service.client.run({ calls: [1, 2, 3].map((n) => ({ name: "shared", arguments: { n } })) });
  assert.deepEqual(calls.results.map(({ structured }) => structured), [{ n: 1 }, { n: 2 }, { n: 3 }]);
});
