// Runs the compiled tests. Those of the Vercel AI SDK need Node 22, which tests/clients installs for the conformance suite.
import { spawnSync } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";

const build = new URL("../build/", import.meta.url);
const clients = new URL("../../../tests/clients/node_modules/", import.meta.url);
const only = process.argv.slice(2);

/** Returns a program of Node 22 or later. */
function node22() {
  const own = process.env.NODE22 ?? (Number(process.versions.node.split(".")[0]) >= 22 ? process.execPath : undefined);
  const installed = fileURLToPath(new URL(`node-${process.platform}-${process.arch}/bin/node`, clients));
  const found = own ?? installed;
  if (!existsSync(found)) throw new Error(`no Node 22 at ${found}: run scripts/test, or set NODE22`);
  return found;
}

const files = readdirSync(build).filter((name) => name.endsWith(".test.js"));
const selected = files.filter((name) => only.length === 0 || only.some((word) => name.includes(word)));
const ofNode22 = (name) => name.startsWith("ai");
let failed = false;
for (const [program, names] of [
  [() => process.execPath, selected.filter((name) => !ofNode22(name))],
  [node22, selected.filter(ofNode22)],
]) {
  if (names.length === 0) continue;
  const paths = names.map((name) => fileURLToPath(new URL(name, build)));
  const options = ["--test", "--test-concurrency=4", "--test-timeout=300000", "--enable-source-maps"];
  const env = { ...process.env };
  if (names.some((name) => name.startsWith("documents"))) env.NODE22 = node22();
  const { status } = spawnSync(program(), [...options, ...paths], { stdio: "inherit", env });
  failed ||= status !== 0;
}
process.exit(failed ? 1 : 0);
