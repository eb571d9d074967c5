// @ts-check
// What a call shows of itself: its timeline, its arguments and output, and JSON and JSON Schemas as trees that can be folded.
import { apiUrl, bytes, copy, duration, html } from "./parts.js";
import { isEnded } from "../lib/stream.js";
import { pointerOf } from "../lib/json-source.js";
import { resolve, rulesOf, typeLabel, typesOf } from "../lib/schema.js";
import { timeTicks } from "../lib/series.js";

const MAX_NODES = 3000;
const OPEN_DEPTH = 3;
const LONG_TEXT = 400;

/** @typedef {{ marks: Map<string, string>, left: number }} TreeState */

/**
 * @param {unknown} value
 * @param {Map<string, string>} [marks] Notes by JSON Pointer.
 */
export function jsonTree(value, marks = new Map()) {
  const state = { marks, left: MAX_NODES };
  return html`<div class="json">${node(null, value, [], state)}${state.left <= 0 ? html`<p class="muted">Only the first ${MAX_NODES} values are shown.</p>` : null}</div>`;
}

/** @type {(name: string | null, value: unknown, path: (string | number)[], state: TreeState) => unknown} */
function node(name, value, path, state) {
  if (state.left-- <= 0) return null;
  const note = state.marks.get(pointerOf(path));
  const label = [name === null ? null : html`<span class="json-name">${name}</span>`, name === null ? null : ": "];
  const mark = note ? html` <mark>${note}</mark>` : null;
  if (value === null || typeof value !== "object") return html`<div class="json-leaf">${label}${leaf(value)}${mark}</div>`;
  const entries = Array.isArray(value) ? value.map((member, index) => [index, member]) : Object.entries(value);
  const brackets = Array.isArray(value) ? "[]" : "{}";
  if (!entries.length) return html`<div class="json-leaf">${label}<span class="muted">${brackets}</span>${mark}</div>`;
  const size = `${entries.length} ${Array.isArray(value) ? "item" : "member"}${entries.length === 1 ? "" : "s"}`;
  return html`<details class="json-node" open=${path.length < OPEN_DEPTH}><summary>${label}<span class="muted">${brackets[0]} ${size} ${brackets[1]}</span>${mark}</summary>
    <div class="json-members">${entries.map(([key, member]) => node(String(key), member, [...path, key], state))}</div></details>`;
}

/** @param {unknown} value */
function leaf(value) {
  if (typeof value !== "string") return html`<span class="json-value">${String(value)}</span>`;
  if (value.length <= LONG_TEXT) return html`<span class="json-text">${JSON.stringify(value)}</span>`;
  return html`<details class="json-long"><summary><span class="json-text">${JSON.stringify(value.slice(0, 80))}…</span> <span class="muted">${value.length} characters</span></summary><pre class="code" tabindex="0">${value}</pre></details>`;
}

/**
 * Lays arguments out by the schema of their tool: its members in order, then others.
 * @param {Record<string, unknown>} given
 * @param {Schema} schema
 */
export function argumentList(given, schema) {
  const declared = resolve(schema, schema).properties ?? {};
  const names = new Set([...Object.keys(declared), ...Object.keys(given)]);
  if (!names.size) return html`<p class="muted">No arguments.</p>`;
  return html`<dl class="arguments">${[...names].map((name) => {
    const member = resolve(declared[name], schema);
    const value = given[name];
    return html`<div><dt><span class="schema-name">${name}</span> <span class="type">${declared[name] ? typeLabel(member, schema) : schema.type && "not in the schema"}</span></dt>
      <dd>${!Object.hasOwn(given, name) ? html`<span class="muted">not set</span>` : typeof value === "string" ? html`<pre class="text">${value}</pre>` : jsonTree(value)}
        ${typeof member.description === "string" ? html`<p class="muted">${member.description}</p>` : null}</dd></div>`;
  })}</dl>`;
}

const MAX_DEPTH = 10;

/** @typedef {import("../lib/schema.js").Schema} Schema */

/**
 * @param {Schema} schema
 * @param {Map<string, string[]>} [errors] Messages by the name of a member of the root.
 */
export function schemaTree(schema, errors = new Map()) {
  const members = membersOf(resolve(schema, schema), schema, 0, errors);
  return members ?? html`<p class="muted">Accepts any arguments.</p>`;
}

/** @type {(schema: Schema, root: Schema, depth: number, errors: Map<string, string[]>) => unknown} */
function membersOf(schema, root, depth, errors) {
  const entries = Object.entries(schema.properties ?? {});
  const branches = schema.anyOf ?? schema.oneOf;
  const extra = schema.additionalProperties && typeof schema.additionalProperties === "object" ? [["(any other member)", schema.additionalProperties]] : [];
  if (!entries.length && !extra.length && !Array.isArray(branches)) return null;
  const required = new Set(schema.required ?? []);
  return [
    html`<ul class="schema">${[...entries, ...extra].map(([name, member]) => entry(String(name), member, required.has(name), root, depth, errors))}</ul>`,
    Array.isArray(branches) ? html`<div class="schema-choice"><p class="muted">${schema.oneOf ? "Exactly one of:" : "One of:"}</p><ul class="schema">${branches.map((branch, index) => entry(`${index + 1}`, branch, false, root, depth, new Map()))}</ul></div>` : null,
  ];
}

/** @type {(name: string, member: unknown, required: boolean, root: Schema, depth: number, errors: Map<string, string[]>) => unknown} */
function entry(name, member, required, root, depth, errors) {
  const schema = resolve(member, root);
  const wrong = errors.get(name) ?? [];
  const rules = rulesOf(schema);
  const head = html`<code class="schema-name">${name}</code> <span class="type">${typeLabel(schema, root)}</span>${required ? html` <span class="required">required</span>` : null}
    ${rules.length ? html` <span class="muted">${rules.join(", ")}</span>` : null}${schema.deprecated ? html` <span class="muted">deprecated</span>` : null}`;
  return html`<li class=${wrong.length ? "wrong" : ""}>${head}
    ${typeof schema.description === "string" ? html`<p>${schema.description}</p>` : null}${wrong.map((message) => html`<p class="bad">${message}</p>`)}
    ${depth < MAX_DEPTH ? nested(schema, member, root, depth) : null}</li>`;
}

/** @type {(schema: Schema, member: unknown, root: Schema, depth: number) => unknown} */
function nested(schema, member, root, depth) {
  const inner = typesOf(schema).includes("array") && schema.items ? resolve(schema.items, root) : schema;
  // A reference below the second level may refer to itself, so it is named and not followed.
  const ref = refOf(schema.items) ?? refOf(member);
  if (ref && depth > 1) return html`<p class="muted">as <code>${ref}</code></p>`;
  return membersOf(inner, root, depth + 1, new Map());
}

/** @param {unknown} schema */
const refOf = (schema) => (schema && typeof schema === "object" && "$ref" in schema ? String(schema.$ref) : null);

/** @param {Api.ToolCall} call */
export function output(call) {
  if (!isEnded(call)) return html`<p class="muted">The call has not ended.</p>`;
  const truncated = /** @type {any} */ (call.metadata)?.truncated;
  const full = apiUrl("tool-calls", call.id, "output");
  return html`${truncated ? html`<p class="note">Truncated for the model: ${bytes(truncated.left_out_bytes ?? 0)} of ${bytes(truncated.bytes ?? 0)} left out. <a href=${full} target="_blank" rel="noopener">Open the full output</a></p>` : null}
    ${call.output ? html`<div class="tools-right"><button type="button" class="quiet small" onClick=${() => copy(call.output ?? "", "the output")}>Copy text</button></div>` : null}
    ${call.content.length ? call.content.map((content, index) => block(call, content, index)) : html`<pre class="code" tabindex="0">${call.output ?? ""}</pre>`}`;
}

/** @type {(call: Api.ToolCall, content: any, index: number) => unknown} */
function block(call, content, index) {
  if (content.type === "text") return html`<pre class=${call.is_error ? "code failed" : "code"} tabindex="0">${content.text}</pre>`;
  if (content.type === "image") {
    const url = apiUrl("tool-calls", call.id, "content", String(index));
    return html`<figure><a href=${url} target="_blank" rel="noopener"><img src=${url} alt="Image ${index + 1} of the output" loading="lazy" /></a><figcaption class="muted">${content.mime_type ?? "image"}</figcaption></figure>`;
  }
  return jsonTree(content);
}

/** @typedef {import("../lib/spans.js").Timeline} Timeline */
/** @typedef {import("../lib/spans.js").Span} Span */

/**
 * @param {Timeline} timeline
 * @param {number} now
 */
export function timelineView({ spans, marks, untimed, from, to }, now) {
  const until = Math.max(to ?? now, from + 1, ...spans.map((span) => span.end ?? 0));
  const at = (/** @type {number} */ time) => `${Math.max(0, Math.min(100, (100 * (time - from)) / (until - from))).toFixed(2)}%`;
  return html`<div class="timeline">${axis(from, until, at)}<ol>${spans.map((span) => spanRow(span, until, at))}</ol>
    ${marks.length ? html`<div class="timeline-row"><span class="timeline-label">Progress <span class="count">${marks.length}</span></span>
      <svg class="track" aria-hidden="true">${marks.slice(-200).map((mark) => html`<circle class="mark" cx=${at(mark.at)} cy="50%" r="3.5"><title>${mark.label} after ${duration(mark.at - from)}</title></circle>`)}</svg>
      <span class="num timeline-note">${marks[marks.length - 1].label}</span></div>` : null}
    ${untimed.length ? html`<details class="timeline-steps"><summary>Progress before this page was opened <span class="count">${untimed.length}</span></summary><ol>${untimed.slice(-200).map((label) => html`<li>${label}</li>`)}</ol></details>` : null}</div>`;
}

/** @type {(from: number, until: number, at: (time: number) => string) => unknown} */
function axis(from, until, at) {
  const { ticks } = timeTicks(0, until - from, 6);
  return html`<div class="timeline-row axis" aria-hidden="true"><span class="timeline-label"></span><svg class="track">${ticks.map(
    (tick) => html`<line x1=${at(from + tick)} x2=${at(from + tick)} y1="0" y2="100%" /><text x=${at(from + tick)} dx="3" y="14">${duration(tick)}</text>`,
  )}</svg><span></span></div>`;
}

/** @type {(span: Span, until: number, at: (time: number) => string) => unknown} */
function spanRow(span, until, at) {
  const end = span.end ?? until;
  const width = Math.max(0.4, parseFloat(at(end)) - parseFloat(at(span.start)));
  const label = span.call ? html`<a href="calls/${encodeURIComponent(span.call)}">${span.label}</a>` : span.label;
  const note = `${duration(end - span.start)}${span.end === null ? " so far" : ""}${span.note && ` · ${span.note}`}`;
  return html`<li class="timeline-row"><span class="timeline-label">${label}</span>
    <svg class="track" aria-hidden="true"><rect class="span span-${span.kind}${span.failed ? " failed" : ""}${span.end === null ? " open" : ""}" x=${at(span.start)} width="${width.toFixed(2)}%" y="4" height="14" rx="2" /></svg>
    <span class="num timeline-note">${note}</span></li>`;
}
