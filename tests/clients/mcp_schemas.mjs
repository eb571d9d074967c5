// The official TypeScript SDKs and tools with unusual schemas: `mcp_schemas.mjs VERSION URL`, where VERSION is `v1` or `v2`.
// Prints `ok` if nothing was raised and every result was as expected.
import assert from "node:assert/strict";

const [version, url] = process.argv.slice(2);
const load = {
  v1: async () => [
    (await import("@modelcontextprotocol/sdk/client/index.js")).Client,
    (await import("@modelcontextprotocol/sdk/client/streamableHttp.js")).StreamableHTTPClientTransport,
  ],
  v2: async () => {
    const { Client, StreamableHTTPClientTransport } = await import("@modelcontextprotocol/client");
    return [Client, StreamableHTTPClientTransport];
  },
};
const [Client, Transport] = await load[version]();
const client = new Client({ name: "test", version: "1" });
await client.connect(new Transport(new URL(url)));

const { tools } = await client.listTools();
for (const name of ["either", "union", "flags", "query"]) {
  assert.equal(tools.find((tool) => tool.name === name).inputSchema.type, "object", name);
  const result = await client.callTool({ name, arguments: { a: "x" } });
  assert.deepEqual([Boolean(result.isError), result.structuredContent], [false, { a: "x" }], name);
}
for (const name of ["promise", "old_promise", "letters"]) {
  const fits = await client.callTool({ name, arguments: { n: 5, word: "ab" } });
  assert.deepEqual([Boolean(fits.isError), fits.structuredContent], [false, { n: 5, word: "ab" }], name);
  const odd = await client.callTool({ name, arguments: { n: "five" } });
  assert.equal(odd.isError, true, name);
  assert.match(odd.content[0].text, /^The tool has run/);
}
const text = await client.callTool({ name: "text", arguments: {} });
assert.deepEqual([text.isError, text.content[1].text], [true, "plain words"]);
assert(!(await client.callTool({ name: "items", arguments: { n: 1 } })).isError);

await client.close();
console.log("ok");
