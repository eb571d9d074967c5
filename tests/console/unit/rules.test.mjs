// Unit tests of approvals, policies and budgets as data.
import { test } from "node:test";
import assert from "node:assert/strict";
import { shares } from "../../../console/lib/format.js";
import { changesOf, placeInText } from "../../../console/lib/json-source.js";

test("changed_arguments_are_listed_with_their_places", () => {
  assert.deepEqual(changesOf({ a: 1 }, { a: 1 }), []);
  const before = { to: "x", "a/b": [1, { c: 2 }], gone: null, same: { deep: [1] } };
  const after = { to: "y", "a/b": [1, { c: 3 }, 4], same: { deep: [1] }, added: false };
  assert.deepEqual(changesOf(before, after), [
    { pointer: "/to", before: "x", after: "y" }, { pointer: "/a~1b/1/c", before: 2, after: 3 }, { pointer: "/a~1b/2", before: undefined, after: 4 },
    { pointer: "/gone", before: null, after: undefined }, { pointer: "/added", before: undefined, after: false },
  ]);
  assert.deepEqual(changesOf({ a: [1] }, { a: { 0: 1 } }), [{ pointer: "/a", before: [1], after: { 0: 1 } }]);
  assert.deepEqual(changesOf({}, JSON.parse('{"__proto__": 1}')).map(({ pointer }) => pointer), ["/__proto__"]);
});

test("errors_of_expressions_point_at_their_place", () => {
  const text = "tool.name ==\n  foo &&\n";
  assert.deepEqual(placeInText(text, "line 2, column 3: unknown variable `foo`"), { line: 2, start: 15, end: 16, message: "unknown variable `foo`" });
  assert.equal(text.slice(15, 18), "foo");
  assert.deepEqual(placeInText(text, "must not be empty"), { line: 1, start: 0, end: 1, message: "must not be empty" });
});

test("use_of_a_budget_is_drawn_within_its_bar", () => {
  assert.deepEqual(shares({ used: 25, reserved: 25, limit: 100 }), [25, 50]);
  assert.deepEqual(shares({ used: 0.5, reserved: 0, limit: 2 }), [25, 25]);
  assert.deepEqual(shares({ used: 120, reserved: 10, limit: 100 }), [100, 100]);
  assert.deepEqual(shares({ used: 0, reserved: 0, limit: 0 }), [100, 100]);
});
