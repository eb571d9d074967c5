// Unit tests of the modules that need no document.
import { test } from "node:test";
import assert from "node:assert/strict";
import { html } from "../../../console/lib/markup.js";
import { path, query, safeUrl } from "../../../console/lib/format.js";
import { parseEvents } from "../../../console/lib/spans.js";
import { pointerOf, valueAt, withValueAt } from "../../../console/lib/json-source.js";
import { parseSource, placeOf } from "../../../console/lib/json-source.js";
import { bytes, clip, duration, percent, shortArguments } from "../../../console/lib/format.js";
import { timeTicks, valueTicks } from "../../../console/lib/series.js";
import { snippet } from "../../../console/lib/snippets.js";
import { execFileSync } from "node:child_process";

test("template_creates_elements_with_texts_and_properties", () => {
  const click = () => {};
  const { type, props } = html`<div class="a ${"b"}" hidden=${true} title=${null} onClick=${click}>text ${"<b>"}<br /><b /></div>`;
  const { children, ...others } = props;
  assert.equal(type, "div");
  assert.deepEqual(others, { class: "a b", hidden: true, onClick: click });
  assert.deepEqual(children.map((child) => child?.type ?? child), ["text ", "<b>", "br", "b"]);
});

test("template_rejects_scripts_handlers_and_styles", () => {
  for (const tag of ["script", "iframe", "style", "object", "embed", "base", "foreignObject", "SCRIPT"]) assert.throws(() => html`<${tag} />`, SyntaxError, tag);
  for (const properties of [{ onclick: "alert(1)" }, { style: "x" }, { srcdoc: "x" }, { innerHTML: "x" }, { outerHTML: "x" }, { dangerouslySetInnerHTML: { __html: "x" } }]) {
    assert.throws(() => html`<a ...${properties}></a>`, SyntaxError, JSON.stringify(properties));
  }
});

test("template_blocks_addresses_that_run_scripts", () => {
  for (const name of ["href", "src", "action", "formaction", "poster"]) {
    assert.equal(html`<a ...${{ [name]: "javascript:alert(1)" }}></a>`.props[name], "about:blank#blocked", name);
    assert.equal(html`<a ...${{ [name]: "calls/1" }}></a>`.props[name], "calls/1", name);
  }
});

test("url_is_relative_or_http", () => {
  for (const url of ["calls/1", "?a=b:c", "#x", "https://example.org", "HTTP://x", "calls/a:b"]) assert.equal(safeUrl(url), url);
  for (const url of ["javascript:alert(1)", " java\nscript:alert(1)", "\u0001javascript:x", "data:text/html,x", "vbscript:x", "blob:x", "file:///etc"]) {
    assert.equal(safeUrl(url), "about:blank#blocked", url);
  }
  assert.equal(path("tools", "a:c ?"), "tools/a%3Ac%20%3F");
  // A gateway that decodes the path once changes neither its depth nor its meaning.
  for (const id of ["a/b", "100%", "</script>"]) {
    const [, segment] = path("sessions", id).split("/");
    assert.equal(decodeURIComponent(decodeURIComponent(segment)), id);
    assert.doesNotMatch(decodeURIComponent(segment), /\//);
  }
  assert.equal(query({ a: 1, b: "", c: null, d: "x y" }), "?a=1&d=x+y");
  assert.equal(query({}), "");
});

test("event_text_is_parsed", () => {
  const events = parseEvents(': hello\n\nid: 7\nevent: status\ndata: {"a":\ndata: 1}\n\ndata: 2\r\n\r\n');
  assert.deepEqual(events, [{ id: "7", event: "status", data: { a: 1 } }, { id: "", event: "message", data: 2 }]);
});

test("pointer_reads_and_copies", () => {
  assert.equal(pointerOf(["a/b", 0, "c~d"]), "/a~1b/0/c~0d");
  const value = { list: [{ a: 1 }] };
  const next = withValueAt(value, ["list", 0, "b"], 2);
  assert.deepEqual(next, { list: [{ a: 1, b: 2 }] });
  assert.deepEqual(value, { list: [{ a: 1 }] });
  assert.deepEqual(withValueAt(next, ["list", 0], undefined), { list: [] });
  assert.deepEqual(withValueAt({ a: 1 }, ["a"], undefined), {});
  assert.equal(valueAt({ a: null }, ["a", "b"]), undefined);
  assert.equal(valueAt({}, ["constructor"]), undefined);
  const polluted = withValueAt({}, ["__proto__", "x"], 1);
  assert.equal({}.x, undefined);
  assert.deepEqual(Object.keys(polluted), ["__proto__"]);
});

test("source_knows_the_place_of_each_value", () => {
  const text = '{\n  "a": [1,\n    {"b/c": true}],\n  "d": "x"\n}';
  const { value, places, error } = parseSource(text);
  assert.equal(error, null);
  assert.deepEqual(value, JSON.parse(text));
  assert.equal(places.get("/a/1/b~1c").line, 3);
  assert.equal(text.slice(places.get("/d").start, places.get("/d").end), '"x"');
  assert.equal(placeOf(places, "/a/1/none/deeper").line, 3);
  assert.equal(placeOf(places, "/none").line, 1);
});

test("source_says_where_json_is_invalid", () => {
  const cases = [['{"a": }', 1], ['{\n"a" 1}', 2], ["[1,\n2", 2], ["{a: 1}", 1], ['{"a": 1} x', 1], ["", 1], ['{"a": 01}', 1], ['["\n"]', 1], ["[1,]", 1]];
  for (const [text, line] of cases) {
    const { error } = parseSource(text);
    assert.ok(error?.message, text);
    assert.equal(error.line, line, text);
  }
});

test("formats_are_short", () => {
  assert.deepEqual([0, 999, 1250, 12_340, 65_000, 3_700_000, 90_000_000, null].map((ms) => duration(ms)), ["0 ms", "999 ms", "1.25 s", "12.3 s", "1 m 05 s", "1 h 01 m", "1 d 01 h", "–"]);
  assert.deepEqual([5, 2048, 52428800].map(bytes), ["5 B", "2.0 KiB", "50.0 MiB"]);
  assert.deepEqual([percent(0, 0), percent(1, 3), percent(1, 200), percent(0, 4)], ["–", "33 %", "0.5 %", "0 %"]);
  assert.equal(shortArguments({ city: "Paris", days: 3 }), 'city: "Paris", days: 3');
  assert.equal(shortArguments('{"ci'), '{"ci');
  assert.equal(shortArguments(null), "");
  assert.ok(shortArguments({ a: "x".repeat(500), b: [1, 2], c: { d: 1 } }).length <= 160);
  assert.equal(clip("abcdef", 4), "abc…");
});

test("ticks_are_round", () => {
  assert.deepEqual(valueTicks(7).ticks, [0, 2, 4, 6, 8]);
  assert.deepEqual(valueTicks(0.3), { ticks: [0, 0.1, 0.2, 0.3], end: 0.3 });
  assert.ok(valueTicks(0).end > 0);
  const { ticks, step } = timeTicks(0, 3600e3, 6);
  assert.equal(step, 600e3);
  assert.equal(ticks.length, 7);
});

test("snippets_keep_any_text", () => {
  const call = { name: "echo", arguments: { text: `it's "fine" $HOME \`x\` \\ \n 北京 😀` }, session: "s'1" };
  const curl = snippet("curl", "http://127.0.0.1:1/", call, false);
  const shown = execFileSync("sh", ["-c", `curl() { for arg; do last=$arg; done; printf %s "$last"; }\n${curl}`]).toString();
  assert.deepEqual(JSON.parse(shown), call);
  assert.match(snippet("curl", "http://h/", call, true), /Bearer \$TOOLPOST_KEY/);
  const python = snippet("python", "http://127.0.0.1:1/", call, false).split("request =")[0];
  const echoed = execFileSync("python3", ["-c", `${python}\nprint(json.dumps(body))`]).toString();
  assert.deepEqual(JSON.parse(echoed), call);
  const typescript = snippet("typescript", "http://h/", call, true);
  const body = /body: JSON\.stringify\(([\s\S]*)\),\n\}\);/.exec(typescript)[1];
  assert.deepEqual(Function(`return ${body}`)(), call);
});
