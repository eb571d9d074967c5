// Rules for the files of the console as a whole.
import { test } from "node:test";
import assert from "node:assert/strict";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join, posix } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../../../console", import.meta.url));
// package.json is for these tests only and is not served.
const all = readdirSync(ROOT, { recursive: true }).map(String).filter((file) => statSync(join(ROOT, file)).isFile() && file !== "package.json").sort();
const files = all.filter((file) => !file.startsWith("vendor/"));
const vendored = all.filter((file) => /^vendor\/.*\.js$/.test(file));
const read = (file) => readFileSync(join(ROOT, file), "utf8");
const scripts = files.filter((file) => file.endsWith(".js"));

/** Returns the modules that a module imports statically. */
const imports = (file) => {
  // Vendored modules may have their imports anywhere in a line.
  const found = file.startsWith("vendor/") ? read(file).matchAll(/\b(?:from|import)\s*"(\.[^"]+)"/g) : read(file).matchAll(/^(?:import|export) (?:[^"\n]* from )?"([^"]+)";/gm);
  return [...found].map(([, path]) => posix.join(posix.dirname(file), path));
};

test("scripts_have_one_idea_and_are_checked", () => {
  for (const file of scripts) {
    const text = read(file);
    assert.ok(text.split("\n").length < 250, `${file} has 250 lines or more`);
    assert.match(text, /^\/\/ @ts-check\n\/\/ [A-Z]/, `${file} begins with @ts-check and its idea`);
  }
});

test("no_file_writes_markup_or_refers_to_another_origin", () => {
  for (const file of files.filter((one) => !one.endsWith(".svg"))) {
    assert.doesNotMatch(read(file), /insertAdjacentHTML|document\.write|\beval\(|new Function|setHTMLUnsafe|createContextualFragment|\.innerHTML\s*=/, file);
    const origins = [...read(file).matchAll(/https?:\/\/[^\s"'`)]+/g)].map(([url]) => url).filter((url) => !url.startsWith("http://www.w3.org/") && !url.startsWith("http://127.0.0.1:9000"));
    assert.deepEqual(origins, [], file);
  }
});

test("vendored_scripts_run_no_text_and_load_nothing", () => {
  for (const file of vendored) assert.doesNotMatch(read(file), /document\.write|\beval\(|new Function\(|\bfetch\(|XMLHttpRequest|importScripts|\bimport\s*\(|insertAdjacentHTML/, file);
});

test("types_have_the_versions_of_the_vendored_packages", () => {
  const { packages } = JSON.parse(read("vendor/lock.json"));
  const { devDependencies } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"));
  for (const [name, { version }] of Object.entries(packages)) assert.equal(devDependencies[name], version, name);
});

test("every_script_is_used", () => {
  const reached = new Set(["app.js"]);
  for (const file of reached) {
    for (const path of imports(file)) reached.add(path);
    for (const [, path] of read(file).matchAll(/import\("([^"]+)"\)/g)) reached.add(posix.join(posix.dirname(file), path));
  }
  assert.deepEqual([...scripts, ...vendored].filter((file) => !reached.has(file)), []);
});

test("index_preloads_the_modules_of_the_first_screen", () => {
  const first = new Set(["app.js"]);
  for (const file of first) for (const path of imports(file)) first.add(path);
  first.delete("app.js");
  const preloaded = [...read("index.html").matchAll(/rel="modulepreload" href="([^"]+)"/g)].map(([, path]) => path);
  assert.deepEqual(preloaded, [...first].sort());
});
