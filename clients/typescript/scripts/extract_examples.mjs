// Writes the code blocks of the documents to test/examples, so that they are compiled and run with the tests.
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";

const examples = new URL("../test/examples/", import.meta.url);
rmSync(examples, { recursive: true, force: true });
mkdirSync(examples);
const names = new Set();
for (const document of ["../README.md", "../../../docs/guide/typescript.md"]) {
  const text = readFileSync(new URL(document, import.meta.url), "utf8");
  for (const [, words, code] of text.matchAll(/^```(.*)\n([^]*?)^```$/gm)) {
    const [language, name] = words.split(" ");
    if (language !== "ts" || !/^[a-z_]+\.ts$/.test(name ?? "") || names.has(name)) {
      throw new Error(`${document}: the block "${words}" has no language "ts" or no name of its own`);
    }
    names.add(name);
    writeFileSync(new URL(name, examples), code);
  }
}
