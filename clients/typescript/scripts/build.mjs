// Builds `dist` from `src`, with strict checks. Only src/node.ts may use what browsers do not have.
import { spawn } from "node:child_process";
import { copyFileSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
rmSync(new URL("../dist", import.meta.url), { recursive: true, force: true });
// The package contains the licences, which the repository has once.
for (const name of ["LICENSE-MIT", "LICENSE-APACHE"]) {
  copyFileSync(new URL(`../../../${name}`, import.meta.url), new URL(`../${name}`, import.meta.url));
}
const tsc = fileURLToPath(new URL("../node_modules/typescript/bin/tsc", import.meta.url));
const builds = ["tsconfig.json", "tsconfig.node.json"].map((project) => {
  const build = spawn(process.execPath, [tsc, "-p", project], { cwd: root, stdio: "inherit" });
  return new Promise((resolve) => build.once("exit", (code) => resolve(code ?? 1)));
});
process.exitCode = Math.max(...(await Promise.all(builds)));
