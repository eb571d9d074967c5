// The official TypeScript SDK (2.x) against a server: `mcp_client.mjs MODE URL`, or `mcp_client.mjs MODE -- COMMAND ARGS…`.
// MODE is `modern` or `legacy`. Prints `ok` if everything was as a user of the SDK expects.
import assert from "node:assert/strict";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

const [mode, target, command, ...args] = process.argv.slice(2);
const transport =
  target === "--"
    ? new StdioClientTransport({ command, args, env: process.env })
    : new StreamableHTTPClientTransport(new URL(target));
const versionNegotiation = { mode: mode === "modern" ? { pin: "2026-07-28" } : "legacy" };
const client = new Client({ name: "test", version: "1" }, { versionNegotiation });
await client.connect(transport);

const { tools } = await client.listTools();
assert(tools.some((tool) => tool.name === "calculate" && tool.annotations.readOnlyHint), "calculate is listed");
assert(tools.every((tool) => /^[A-Za-z0-9_-]{1,64}$/.test(tool.name)), "every vendor accepts the names");
const dotted = await client.callTool({ name: "client__echo", arguments: { a: 1 } });
assert.deepEqual(dotted.structuredContent, { a: 1 });

const good = await client.callTool({ name: "calculate", arguments: { expression: "6 * 7" } });
assert.equal(good.content[0].text, "42");
assert.deepEqual(good.structuredContent, { result: 42 });
assert(!good.isError);

const bad = await client.callTool({ name: "calculate", arguments: { expresion: "1" } });
assert.equal(bad.isError, true);
assert.match(bad.content[0].text, /^Error: Invalid parameters/);

const steps = [];
const onprogress = ({ progress, total }) => steps.push([progress, total]);
const waited = await client.callTool({ name: "wait", arguments: { ms: 300, steps: 3 } }, { onprogress });
assert.equal(waited.content[0].text, "Waited 300 ms");
// This SDK forgets progress that comes with the result in one piece.
assert(steps.length > 0 && steps.every(([progress, total]) => progress <= 3 && total === 3), `${steps}`);

const stop = new AbortController();
const long = { name: "wait", arguments: { ms: 60000, steps: 100 } };
// As soon as it is known to run.
await assert.rejects(client.callTool(long, { signal: stop.signal, onprogress: () => stop.abort("no more") }));

await client.close();
console.log("ok");
