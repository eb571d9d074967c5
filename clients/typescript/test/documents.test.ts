/** The code blocks of the documents, run as they are, except for the port of the service. */
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import type { Toolpost } from "toolpost";
import { Toolpost as Client } from "toolpost";
import { startModels } from "./support/models.js";
import { SECRET, Service } from "./support/service.js";

const SOURCES = new URL("../test/examples/", import.meta.url);
const COMPILED = new URL("./examples/", import.meta.url);
const WEATHER = /Answer: .*18 °C and cloudy in Paris/;

let service: Service;
let variables: Record<string, string>;
const background: ChildProcess[] = [];

/** Starts a block with a service. */
function start(name: string, url: string, more: Record<string, string> = {}): ChildProcess {
  const code = readFileSync(new URL(`${name}.js`, COMPILED), "utf8").replaceAll("http://127.0.0.1:8080", url);
  const file = new URL(`${name}.run.js`, COMPILED);
  writeFileSync(file, code);
  // The Vercel AI SDK needs Node 22.
  const program = name === "agent_ai_sdk" ? process.env["NODE22"]! : process.execPath;
  const env = { ...process.env, ...variables, ...more, TOOLPOST_SIGNING_SECRET: SECRET };
  return spawn(program, [fileURLToPath(file)], { env, stdio: ["ignore", "pipe", "inherit"] });
}

/** Runs a block to its end, and returns its output. */
async function run(name: string, url = service.url, more: Record<string, string> = {}): Promise<string> {
  const child = start(name, url, more);
  const ended = once(child, "exit");
  let output = "";
  for await (const chunk of child.stdout!) output += chunk;
  assert.deepEqual(await ended, [0, null], output);
  return output;
}

/** Returns when the service has the tools. */
async function registered(client: Toolpost, names: string[]): Promise<void> {
  for (;;) {
    const listed = (await client.tools("native")).map(({ name }) => name);
    if (names.every((name) => listed.includes(name))) return;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

before(async () => {
  service = await Service.start();
  variables = await startModels();
  for (const name of ["weather_worker", "report_worker", "http_tools"]) background.push(start(name, service.url));
  await registered(service.client, ["weather", "report", "add"]);
});
after(async () => {
  for (const child of background) child.kill("SIGKILL");
});

const AGENTS = ["openai", "openai_responses", "anthropic", "gemini", "ai_sdk", "openai_agents", "langchain"];
test("each agent calls the tool of the worker and answers with its result", async () => {
  const outputs = await Promise.all(AGENTS.map((name) => run(`agent_${name}`)));
  for (const [index, name] of AGENTS.entries()) assert.match(outputs[index]!, WEATHER, name);
});

test("the agent with a streamed model shows the calls and their messages", async () => {
  const output = await run("agent_streamed");
  assert.match(output, /weather WAIT \{ city: 'Par/);
  assert.match(output, /role: 'tool'[^]*18 °C and cloudy in Paris/);
});

test("the tools of the README work", async () => {
  const { client } = service;
  assert.equal((await client.call("weather", { city: "Oslo" })).output, "18 °C and cloudy in Oslo");
  assert.equal((await client.call("add", { a: 1, b: 2 })).structured, 3);
  const report = await client.call("report", { pages: 2 }, { context: { user: { name: "Ann" } } });
  assert.equal(report.output, "A report of 2 pages for Ann");
  assert.equal(report.progress?.message, "page 2");
});

test("the client of the README prints what it says", async () => {
  const output = await run("client");
  assert.match(output, /^SUCCESS 42 42\nERROR TOOL_/);
  assert.match(output, /SUCCESS 100 of 100 ms/);
  assert.match(output, /\d+ tool_result\n\/limits\/timeout_ms\n$/);
});

test("the approvals of the guide ask and decide", async () => {
  const other = await Service.start();
  await other.builtin("weather", "echo", { input_schema: { type: "object" }, approval: { required: true } });
  const admin = await other.key({ scopes: ["admin"] });
  const AGENT_KEY = await other.key({ scopes: ["call", "read"] }, admin);
  const keys = { AGENT_KEY, APPROVER_KEY: await other.key({ scopes: ["approve"] }, admin) };
  const agent = new Client(other.url, { apiKey: AGENT_KEY });
  const calls = [await agent.call("weather", { city: "Paris" }), await agent.call("weather", { city: "Rome" })];
  await run("approve", other.url, keys);
  const ended = await Promise.all(calls.map(({ id }) => agent.wait(id)));
  assert.deepEqual(ended.map(({ status }) => status), ["SUCCESS", "ERROR"]);
  assert.match(ended[1]!.output ?? "", /Ask for another city/);
  const output = await run("agent_with_approval", other.url, keys);
  assert.match(output, /approved: weather \{"city":"Paris"\}\nAnswer: .*Paris/);
});

test("SIGTERM ends the workers", async () => {
  const workers = background.slice(0, 2);
  for (const child of workers) child.kill("SIGTERM");
  for (const child of workers) assert.equal(child.exitCode ?? (await once(child, "exit"))[0], 0);
});

test("each agent has at most 25 lines, and a tool at most 5 besides its function", () => {
  const lines = (text: string) => text.split("\n").filter((line) => line.trim() !== "");
  const agents = readdirSync(SOURCES).filter((name) => name.startsWith("agent_"));
  assert.equal(agents.length, AGENTS.length + 2);
  for (const name of agents) {
    assert.ok(readFileSync(new URL(name, SOURCES), "utf8").trim().split("\n").length <= 25, name);
  }
  const tool = readFileSync(new URL("weather_worker.ts", SOURCES), "utf8");
  const without = tool.replace(/^async function [^]*?^}$/m, "");
  assert.notEqual(without, tool);
  assert.ok(lines(without).length <= 5, without);
});
