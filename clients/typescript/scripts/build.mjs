// Builds `dist` from `src`, with strict checks. Only src/node.ts may use what browsers do not have.
import { spawnSync } from "node:child_process";
import { copyFileSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
rmSync(new URL("../dist", import.meta.url), { recursive: true, force: true });
// The package contains the licences, which the repository has once.
for (const name of ["LICENSE-MIT", "LICENSE-APACHE"]) {
  copyFileSync(new URL(`../../../${name}`, import.meta.url), new URL(`../${name}`, import.meta.url));
}
const tsc = fileURLToPath(new URL("../node_modules/typescript/bin/tsc", import.meta.url));
for (const project of ["tsconfig.json", "tsconfig.node.json"]) {
  const { status } = spawnSync(process.execPath, [tsc, "-p", project], { cwd: root, stdio: "inherit" });
  if (status !== 0) process.exit(status ?? 1);
}
