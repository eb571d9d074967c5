// The official TypeScript SDK (1.x), which most clients are built on today: `mcp_client_v1.mjs URL`. Prints `ok` if
// everything was as its users expect.
import assert from "node:assert/strict";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const client = new Client({ name: "test", version: "1" });
await client.connect(new StreamableHTTPClientTransport(new URL(process.argv[2])));

const { tools } = await client.listTools();
assert(tools.some((tool) => tool.name === "wait"), "wait is listed");
assert(tools.every((tool) => /^[A-Za-z0-9_-]{1,64}$/.test(tool.name)), "every vendor accepts the names");
const dotted = await client.callTool({ name: "client__echo", arguments: { a: 1 } });
assert.deepEqual(dotted.structuredContent, { a: 1 });

const steps = [];
const onprogress = ({ progress }) => steps.push(progress);
const waited = await client.callTool({ name: "wait", arguments: { ms: 300, steps: 3 } }, undefined, { onprogress });
assert.equal(waited.content[0].text, "Waited 300 ms");
// This SDK forgets progress that comes with the result in one piece.
assert(steps.length > 0 && steps.every((progress) => progress <= 3), `${steps}`);

const stop = new AbortController();
const long = { name: "wait", arguments: { ms: 60000, steps: 100 } };
// As soon as it is known to run.
const options = { signal: stop.signal, onprogress: () => stop.abort("no more") };
await assert.rejects(client.callTool(long, undefined, options));

await client.close();
console.log("ok");
