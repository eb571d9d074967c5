// Unit tests of calls, filters, schemas, timelines and statistics as data.
import { test } from "node:test";
import assert from "node:assert/strict";
import { filterQuery, filtersFrom, matches } from "../../../console/lib/rows.js";
import { Rows } from "../../../console/lib/rows.js";
import { choiceOf, choicesOf, firstValue, resolve, rulesOf, typeLabel } from "../../../console/lib/schema.js";
import { timelineOf } from "../../../console/lib/spans.js";
import { errorCodes, pointsOf, stepName, stepOf, toolTotals, windowName } from "../../../console/lib/series.js";

const call = (id, more = {}) => ({
  id, call_id: id, name: "echo", title: "Echo", session: null, batch_id: null, status: "SUCCESS", phase: "done", arguments: {}, output: "", attempts: 1, cached: false,
  coerced: [], metadata: {}, created_at: "2026-01-01T00:00:00.000Z", started_at: "2026-01-01T00:00:00.010Z", ended_at: "2026-01-01T00:00:01.000Z", duration_ms: 990, ...more,
});
const started = (id, more = {}) => ({ event: "tool_call", data: { id, name: "echo", title: "Echo", arguments: { x: id }, at: "2026-01-01T00:00:00.000Z", ...more } });
const status = (id, more) => ({ event: "status", data: { id, name: "echo", status: "DOING", phase: "running", params: {}, metadata: {}, ...more } });
const ids = (rows) => Array.from({ length: rows.length }, (_, index) => rows.at(index).id);

test("filters_are_read_and_sent", () => {
  const filters = filtersFrom(new URLSearchParams("name=echo&q= a &x=1&since=1h&status="));
  assert.deepEqual(filters, { name: "echo", q: "a", since: "1h" });
  assert.equal(filterQuery(filters, 3600e3).since, "1970-01-01T00:00:00.000Z");
});

test("filters_match_live_calls", () => {
  const row = { name: "echo", status: "ERROR", code: "CANCELLED", session: "s", duration_ms: 50, created_at: "2026-01-02", text: 'city "paris" 北京' };
  for (const good of [{}, { name: "echo" }, { code: "CANCELLED" }, { min_duration_ms: "50" }, { q: "Paris" }, { q: "北京" }, { until: "2026-01-03" }]) assert.ok(matches(good, row), JSON.stringify(good));
  for (const bad of [{ name: "ech" }, { status: "DOING" }, { min_duration_ms: "51" }, { q: "paris oslo" }, { session: "t" }, { until: "2026-01-01" }]) assert.ok(!matches(bad, row), JSON.stringify(bad));
});

test("rows_merge_events_and_pages_newest_first", () => {
  const rows = new Rows({});
  assert.equal(rows.apply(started("c")), 1);
  rows.apply(status("c", { started_at: "2026-01-01T00:00:00.010Z" }));
  rows.apply(started("e"));
  rows.addPage([call("d"), call("b"), call("a")]);
  rows.apply(started("c"));
  assert.deepEqual(ids(rows), ["e", "d", "c", "b", "a"]);
  assert.equal(rows.get("c").status, "DOING");
  rows.addPage([call("c", { status: "ERROR", error: { code: "CANCELLED", message: "x" } })]);
  assert.equal(rows.get("c").code, "CANCELLED");
  assert.equal(rows.length, 5);
});

test("rows_count_attempts_and_never_leave_a_final_status", () => {
  const rows = new Rows({});
  rows.apply(started("a"));
  for (const phase of ["running", "retrying", "running"]) rows.apply(status("a", { phase }));
  assert.equal(rows.get("a").attempts, 2);
  rows.apply(status("a", { status: "SUCCESS", phase: "done", duration_ms: 5 }));
  rows.apply(status("a", { status: "DOING" }));
  assert.equal(rows.get("a").status, "SUCCESS");
});

test("rows_enter_and_leave_a_filtered_list", () => {
  const rows = new Rows({ status: "DOING" });
  assert.equal(rows.apply(started("a")), 0);
  assert.equal(rows.apply(status("a", {})), 1);
  assert.equal(rows.apply(status("a", { status: "SUCCESS", phase: "done" })), -1);
  assert.equal(rows.apply({ event: "tool_result", data: { id: "a", output: "x" } }), 0);
  assert.equal(rows.get("a"), undefined);
  assert.equal(rows.apply(status("unknown", {})), 0);
});

test("rows_drop_the_oldest_beyond_their_limit", () => {
  const rows = new Rows({});
  for (let index = 0; index <= 120_000; index++) rows.apply(started(String(index).padStart(8, "0")));
  assert.ok(rows.length <= 120_000 && rows.trimmed);
  assert.equal(rows.at(0).id, "00120000");
});

test("schema_resolves_references_and_all_of", () => {
  const root = { $defs: { a: { type: "string", minLength: 1 }, loop: { $ref: "#/$defs/loop" } } };
  assert.deepEqual(resolve({ $ref: "#/$defs/a", description: "x" }, root), { type: "string", minLength: 1, description: "x" });
  assert.deepEqual(resolve({ $ref: "#/$defs/loop" }, root), {});
  assert.deepEqual(resolve({ $ref: "#/none" }, root), {});
  const merged = resolve({ allOf: [{ properties: { a: {} }, required: ["a"] }, { properties: { b: {} }, required: ["b"] }] }, root);
  assert.deepEqual(merged, { properties: { a: {}, b: {} }, required: ["a", "b"] });
  assert.deepEqual(resolve(true, root), {});
});

test("schema_gives_first_values_and_choices", () => {
  const root = {
    type: "object", required: ["s", "n", "l", "o", "e", "c"],
    properties: { s: { type: "string" }, n: { type: "integer", minimum: 3 }, l: { type: "array" }, o: { type: "object", required: ["x"], properties: { x: { default: 7 } } }, e: { enum: ["A", "B"] }, c: { oneOf: [{ type: "object", properties: { kind: { const: "card" } }, required: ["kind"] }, { type: "string" }] }, skip: {} },
  };
  assert.deepEqual(firstValue(root, root), { s: "", n: 3, l: [], o: { x: 7 }, e: "A", c: { kind: "card" } });
  const choices = choicesOf(root.properties.c, root);
  assert.deepEqual(choices.map(({ label }) => label), ['kind: "card"', "string"]);
  assert.equal(choiceOf(choices, "text", root), 1);
  assert.equal(choiceOf(choices, { kind: "card" }, root), 0);
  assert.deepEqual(choicesOf({ type: ["string", "null"] }, root).map(({ label }) => label), ["string", "null"]);
  const recursive = { type: "object", required: ["next"], properties: { next: { $ref: "#" } } };
  assert.ok(firstValue(recursive, recursive).next);
});

test("schema_is_described", () => {
  assert.equal(typeLabel({ type: "array", items: { enum: ["a", 1] } }, {}), 'array of "a" | 1');
  assert.equal(typeLabel({ anyOf: [{ type: "string" }, { type: "null" }] }, {}), "string or null");
  assert.equal(typeLabel({}, {}), "any");
  assert.deepEqual(rulesOf({ minimum: 1, maximum: 7, default: 3, format: "x" }), ["1 to 7", "format x", "default 3"]);
});

test("timeline_draws_an_ended_call_without_event_times", () => {
  const { spans } = timelineOf(call("a", { status: "ERROR", error: { code: "TOOL_TIMEOUT" } }), [status("a", {})], []);
  assert.deepEqual(spans.map(({ kind, failed, note }) => [kind, failed, note]), [["queue", false, ""], ["attempt", true, "TOOL_TIMEOUT"]]);
  assert.equal(spans[1].end - spans[1].start, 990);
  const rejected = timelineOf(call("a", { status: "ERROR", started_at: null }), [], []);
  assert.deepEqual(rejected.spans.map(({ label }) => label), ["Not run"]);
});

test("timeline_follows_phases_of_timed_events", () => {
  const at = (ms) => `2026-01-01T00:00:00.${String(ms).padStart(3, "0")}Z`;
  const events = [["queued", 0], ["running", 10], ["retrying", 100], ["running", 300], ["done", 400]].map(([phase, ms]) => status("a", { phase, at: at(ms), status: phase === "done" ? "SUCCESS" : "DOING", started_at: at(10) }));
  events.splice(2, 0, status("a", { phase: "running", at: at(50), progress: { current: 1, total: 2 } }));
  const { spans, marks } = timelineOf(call("a", { ended_at: at(400) }), events, [call("n", { name: "nested" })]);
  assert.deepEqual(spans.map(({ kind, start, end, failed }) => [kind, start % 1000, end % 1000, failed]), [
    ["queue", 0, 10, false], ["attempt", 10, 100, true], ["backoff", 100, 300, false], ["attempt", 300, 400, false], ["nested", 0, 0, false],
  ]);
  assert.deepEqual(marks.map(({ label }) => label), ["1 of 2"]);
});

test("timeline_draws_the_hooks_of_a_call", () => {
  const hooks = [{ id: "h", event: "before_tool_call", at: "2026-01-01T00:00:00.003Z", duration_ms: 4 }];
  const { spans } = timelineOf(call("a", { metadata: { hooks } }), [], []);
  const hook = spans.find(({ kind }) => kind === "hook");
  assert.deepEqual([hook.label, hook.start % 1000, hook.end % 1000], ["Hook h", 3, 7]);
});

test("timeline_of_a_running_call_uses_its_start", () => {
  const events = [status("a", { phase: "queued" }), status("a", { started_at: "2026-01-01T00:00:00.010Z" }), { ...status("a", { progress: { current: 1 } }), at: Date.parse("2026-01-01T00:00:09Z") }];
  const { spans } = timelineOf(call("a", { status: "DOING", ended_at: null }), events, []);
  assert.deepEqual(spans.map(({ kind, start, end }) => [kind, start % 1000, end === null ? null : end % 1000]), [["queue", 0, 10], ["attempt", 10, null]]);
});

test("series_are_added_into_steps", () => {
  const minute = (time, success, failure, p95) => ({ minute: new Date(time).toISOString(), execution_count: success + failure, success_count: success, failure_count: failure, rejected_count: 1, cache_hit_count: 0, total_duration_ms: 10, p95_duration_ms: p95 });
  const minutes = [minute(0, 1, 0, 5), minute(60e3, 2, 1, 9), minute(300e3, 0, 0), minute(9e9, 1, 1)];
  const points = pointsOf(minutes, 0, 600e3, 300e3);
  assert.deepEqual(points.map(({ success, failure, rejected, p95 }) => [success, failure, rejected, p95]), [[3, 1, 2, 9], [0, 0, 1, null]]);
  const tools = [{ tool_name: "a", execution_count: 4, p95_duration_ms: 9, series: minutes }, { tool_name: "b", execution_count: 0, series: [] }];
  assert.deepEqual(toolTotals(tools, 0, 600e3), [{ name: "a", calls: 7, errors: 1, rejected: 3, total_ms: 30 }]);
  assert.deepEqual(errorCodes([{ failures_by_code: { A: 1 }, rejected_by_code: { B: 5 } }, { failures_by_code: { A: 2 }, rejected_by_code: {} }]), [["B", 5], ["A", 3]]);
  assert.equal(stepOf(3600e3), 60e3);
  assert.equal(stepOf(99 * 86400e3), 6 * 3600e3);
  assert.equal(stepOf(3600e3, 30 * 86400e3), 3600e3);
  assert.deepEqual([stepName(900e3), windowName(90e3), windowName(30 * 86400e3)], ["15m", "2m", "720h"]);
});
