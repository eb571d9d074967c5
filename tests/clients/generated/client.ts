// Calls tools through the types that openapi-typescript has generated: node client.js URL.

import createClient from "openapi-fetch";
import type { components, paths } from "./schema.js";

type ToolCall = components["schemas"]["ToolCall"];

declare const process: { argv: string[] };

const client = createClient<paths>({ baseUrl: process.argv[2] });

function assert(condition: unknown, what: unknown): asserts condition {
  if (!condition) throw new Error(JSON.stringify(what));
}

async function call(body: components["schemas"]["SingleCall"]): Promise<ToolCall> {
  const { data, error } = await client.POST("/tool-calls", { body });
  assert(data !== undefined && "status" in data, error ?? data);
  return data;
}

const tools = await client.GET("/tools");
assert(tools.data !== undefined && typeof tools.data === "object" && "total" in tools.data, tools.error);
const names = tools.data.tools.map((tool) => (typeof tool === "object" && tool !== null && "name" in tool ? tool.name : "?"));
console.log(`tools: ${names.join(", ")}`);

const echoed = await call({ name: "echo", arguments: { city: "Paris" } });
assert(echoed.status === "SUCCESS", echoed);
const structured = echoed.structured as { city: string };
console.log(`${echoed.status}: ${structured.city}`);

const unknown = await call({ name: "nobody" });
console.log(unknown.error?.code);

const calls = [{ name: "echo", id: "a", arguments: { n: 1 } }, { name: "calculate", arguments: { expression: "6 * 7" } }];
const batch = await client.POST("/tool-calls", { body: { calls } });
assert(batch.data !== undefined && "results" in batch.data, batch.error);
assert(batch.data.results[1]?.output === "42", batch.data);
console.log(`batch: ${batch.data.results.map((result) => result.status).join(", ")}`);
