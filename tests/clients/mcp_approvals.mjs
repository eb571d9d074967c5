// The official TypeScript SDKs and calls that wait for an approval: `mcp_approvals.mjs MODE URL`. MODE is `modern` or
// `legacy` (2.x), or `v1` (1.x). Prints `ok` if everything was as a user of the SDK expects.
import assert from "node:assert/strict";
import * as v2 from "@modelcontextprotocol/client";
import { Client as ClientV1 } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport as TransportV1 } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [mode, target] = process.argv.slice(2);
const url = new URL(target);
const about = { name: "test", version: "1" };
const versionNegotiation = { mode: mode === "modern" ? { pin: "2026-07-28" } : "legacy" };
const client = mode === "v1" ? new ClientV1(about) : new v2.Client(about, { versionNegotiation });
await client.connect(mode === "v1" ? new TransportV1(url) : new v2.StreamableHTTPClientTransport(url));

// The names say what the approver does.
for (const [name, text] of [
  ["approve_me", '{"amount":5}'],
  ["reject_me", 'Error: Tool call "reject_me" was rejected: not today'],
  ["expire_me", 'Error: Tool call "expire_me" was not approved in time'],
  ["policy_approves_me", '{"amount":5}'],
]) {
  const result = await client.callTool({ name, arguments: { amount: 5 } });
  assert.equal(result.content[0].text, text);
  assert.equal(Boolean(result.isError), text.startsWith("Error: "));
}
const free = await client.callTool({ name: "calculate", arguments: { expression: "6 * 7" } });
assert.equal(free.content[0].text, "42");

await client.close();
console.log("ok");
