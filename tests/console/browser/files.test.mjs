// The files that the service sends: `build.rs` minifies them, and they mean the same as the source.
import { test } from "node:test";
import assert from "node:assert/strict";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { BASE } from "./support.mjs";

const ROOT = fileURLToPath(new URL("../../../console", import.meta.url));
const files = readdirSync(ROOT, { recursive: true }).map(String).filter((file) => /\.(js|css|svg)$/.test(file) && statSync(join(ROOT, file)).isFile());
const sent = async (file) => (await fetch(`${BASE}/console/${file}`)).text();
const load = (text) => import(`data:text/javascript,${encodeURIComponent(text)}`);

test("files_are_sent_without_comments_and_layout", async () => {
  for (const file of files) {
    const [text, source] = [await sent(file), readFileSync(join(ROOT, file), "utf8")];
    assert.ok(text.length > 0 && text.length <= source.length, file);
    assert.doesNotMatch(text, /\/\*\*|\/\/ @ts-check|\n {4,}(?:const|return|if) /, file);
  }
});

test("programs_are_indented_as_in_the_source", async () => {
  const file = "lib/snippets.js";
  const [one, other] = [await load(await sent(file)), await load(readFileSync(join(ROOT, file), "utf8"))];
  for (const language of ["curl", "python", "typescript"]) {
    const program = ({ snippet }) => snippet(language, "http://127.0.0.1/", { name: "echo", arguments: { a: [1] } }, true);
    assert.equal(program(one), program(other), language);
    assert.match(program(one), /\n {2}/, language);
  }
});
