// The files that the service sends: `build.rs` removes the same comments and blanks as `sent-text.mjs`, which the unit tests use.
import { test } from "node:test";
import assert from "node:assert/strict";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { sentText } from "../sent-text.mjs";
import { BASE } from "./support.mjs";

const ROOT = fileURLToPath(new URL("../../../console", import.meta.url));

test("files_are_sent_without_comments_and_blanks", async () => {
  const files = readdirSync(ROOT, { recursive: true }).map(String).filter((file) => /\.(js|css|svg)$/.test(file) && statSync(join(ROOT, file)).isFile());
  for (const file of files) {
    const response = await fetch(`${BASE}/console/${file}`);
    assert.equal(await response.text(), sentText(file, readFileSync(join(ROOT, file), "utf8")), file);
  }
});
