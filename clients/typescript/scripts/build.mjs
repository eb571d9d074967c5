// Builds `dist` from `src` and the description of the API, with strict checks. Only src/node.ts may use what browsers do not have.
import { execFileSync, spawn } from "node:child_process";
import { copyFileSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
rmSync(new URL("../dist", import.meta.url), { recursive: true, force: true });
// The package contains the licences, which the repository has once.
for (const name of ["LICENSE-MIT", "LICENSE-APACHE"]) {
  copyFileSync(new URL(`../../../${name}`, import.meta.url), new URL(`../${name}`, import.meta.url));
}
// The types of the API are generated, not committed.
const generator = fileURLToPath(import.meta.resolve("openapi-typescript")).replace(/dist.*/, "bin/cli.js");
execFileSync(process.execPath, [generator, "../../openapi/openapi.json", "-o", "src/openapi.ts"], { cwd: root, stdio: "pipe" });
const tsc = fileURLToPath(new URL("../node_modules/typescript/bin/tsc", import.meta.url));
const builds = ["tsconfig.json", "tsconfig.node.json"].map((project) => {
  const build = spawn(process.execPath, [tsc, "-p", project], { cwd: root, stdio: "inherit" });
  return new Promise((resolve) => build.once("exit", (code) => resolve(code ?? 1)));
});
process.exitCode = Math.max(...(await Promise.all(builds)));
