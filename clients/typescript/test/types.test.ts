import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { test } from "node:test";
import { ROOT } from "./support/service.js";

test("the types are those of openapi/openapi.json; `npm run types` generates them", () => {
  const cli = fileURLToPath(import.meta.resolve("openapi-typescript")).replace(/dist.*/, "bin/cli.js");
  const [input, output] = [`${ROOT}../../openapi/openapi.json`, `${ROOT}build/openapi.ts`];
  execFileSync(process.execPath, [cli, input, "-o", output], { cwd: ROOT, stdio: "pipe" });
  const isCurrent = readFileSync(output, "utf8") === readFileSync(`${ROOT}src/openapi.ts`, "utf8");
  assert.ok(isCurrent, "src/openapi.ts is not current: run `npm run types` in clients/typescript");
});
