import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { ROOT, Service } from "./support/service.js";

const folder = mkdtempSync(join(tmpdir(), "toolpost-package-"));
after(() => rmSync(folder, { recursive: true }));

function npm(cwd: string, ...args: string[]): void {
  execFileSync("npm", [...args, "--offline", "--ignore-scripts", "--no-audit", "--no-fund"], { cwd, stdio: "pipe" });
}

let project: string;
before(() => {
  npm(ROOT, "pack", "--pack-destination", folder);
  const [tarball] = readdirSync(folder).filter((name) => name.endsWith(".tgz"));
  project = join(folder, "project");
  mkdirSync(project);
  writeFileSync(join(project, "package.json"), '{"private": true, "type": "module"}');
  npm(project, "install", join("..", tarball!));
});

test("the packed package installs without any other package", () => {
  const installed = readdirSync(join(project, "node_modules")).filter((name) => !name.startsWith("."));
  assert.deepEqual(installed, ["toolpost"]);
  const files = readdirSync(join(project, "node_modules/toolpost"));
  assert.deepEqual(files.sort(), ["LICENSE-APACHE", "LICENSE-MIT", "README.md", "dist", "package.json"]);
});

test("the installed package calls a tool, serves one, and type-checks without Node's types", async () => {
  const service = await Service.start();
  const program = `
    import { httpApp, tool, Toolpost } from "toolpost";
    import { listen } from "toolpost/node";
    const double = tool({
      name: "double",
      input: { type: "object", properties: { n: { type: "number" } }, required: ["n"] },
      run: ({ n }) => n * 2,
    });
    const app = httpApp({ tools: [double], allowUnsigned: true });
    const listener = await listen(app);
    const toolpost = new Toolpost("${service.url}");
    for (const definition of app.definitions(listener.url)) await toolpost.register(definition);
    console.log((await toolpost.call("double", { n: 21 })).output);
    await listener.close();
  `;
  writeFileSync(join(project, "program.mjs"), program);
  const output = execFileSync(process.execPath, ["program.mjs"], { cwd: project, encoding: "utf8" });
  assert.equal(output, "42\n");
  writeFileSync(join(project, "program.ts"), program.replace(/.*listen.*\n/g, "").replace("listener.url", '"http://h"'));
  writeFileSync(join(project, "tsconfig.json"), JSON.stringify({
    compilerOptions: { module: "NodeNext", target: "ES2022", lib: ["ES2022", "DOM"], strict: true, noEmit: true, types: [] },
    files: ["program.ts"],
  }));
  execFileSync(process.execPath, [join(ROOT, "node_modules/typescript/bin/tsc"), "-p", "."], { cwd: project, stdio: "pipe" });
});

test("the version is that of the service, and the one that requests name", () => {
  const { version } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as { version: string };
  assert.ok(readFileSync(join(ROOT, "../../Cargo.toml"), "utf8").includes(`\nversion = "${version}"\n`));
  assert.ok(readFileSync(join(ROOT, "src/transport.ts"), "utf8").includes(`"toolpost-typescript/${version}"`));
});

test("the sources have no dependency on Node, except for toolpost/node", () => {
  for (const name of readdirSync(join(project, "node_modules/toolpost/dist"), { recursive: true }) as string[]) {
    if (!name.endsWith(".js") || name === "node.js") continue;
    const code = readFileSync(join(project, "node_modules/toolpost/dist", name), "utf8");
    assert.doesNotMatch(code, /from "node:|require\(|\bBuffer\b/, name);
  }
});
