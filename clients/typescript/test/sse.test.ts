import assert from "node:assert/strict";
import { test } from "node:test";
import { parseEvents } from "#dist/sse.js";
import { collect } from "./support/queue.js";

/** Parses a text that arrives in pieces of this many bytes. */
function parsed(text: string, bytes: number) {
  const all = new TextEncoder().encode(text);
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      for (let at = 0; at < all.length; at += bytes) controller.enqueue(all.slice(at, at + bytes));
      controller.close();
    },
  });
  return collect(parseEvents(body));
}

const expected = [
  { id: "1", event: "status", data: "{\n 北京}" },
  { id: "1", event: "message", data: "" },
  { id: "2", event: "message", data: "x:y" },
];

for (const end of ["\n", "\r\n", "\r"]) {
  test(`events are parsed in pieces of any size with ${JSON.stringify(end)}`, async () => {
    const lines = [": comment", "", "id: 1", "event: status", "data: {", "data:  北京}", "", "data", "", "event: dropped", "",
      "id:2", "data:x:y", "unknown: field", "", "data: partial"];
    for (const bytes of [1, 2, 3, 7, 1000]) assert.deepEqual(await parsed(lines.join(end), bytes), expected, `${bytes}`);
  });
}

test("a byte order mark at the beginning is ignored", async () => {
  assert.deepEqual(await parsed("\uFEFFdata: 1\n\n", 100), [{ id: "", event: "message", data: "1" }]);
});
