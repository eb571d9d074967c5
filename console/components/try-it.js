// @ts-check
// Arguments that are written and checked while they change, and the form that calls a tool with them.
import { act, api, badge, debounced, duration, html, missing, onText, path, pretty, problem, update } from "./parts.js";
import { parseSource, placeOf, withValueAt } from "../lib/json-source.js";
import { firstValue } from "../lib/schema.js";
import { CallWatch, isEnded } from "../lib/stream.js";
import { output, timelineView } from "./trees.js";
import { JsonEditor } from "./editor.js";
import { schemaForm } from "./schema-form.js";

/** @typedef {import("./editor.js").SourceError} SourceError */

const CHECK_MS = 250;

export class ArgumentsDraft {
  /** @type {unknown} */ value = {};
  /** Whether the text is no JSON. */ broken = false;
  /** @type {SourceError[]} */ errors = [];
  /** Messages by JSON Pointer. @type {Map<string, string[]>} */ messages = new Map();
  /** @type {{ pointer: string, from: string, to: string }[]} */ coerced = [];
  /** @type {boolean | null} */ valid = null;
  /** @type {unknown} */ failure = undefined;
  #version = 0;
  #check = debounced(CHECK_MS, () => this.#validate());

  /**
   * @param {string} tool
   * @param {string} text
   * @param {() => void} changed
   */
  constructor(tool, text, changed) {
    this.tool = tool;
    this.text = text;
    this.changed = changed;
    this.setText(text);
  }

  /** @param {string} text */
  setText(text) {
    this.text = text;
    const source = parseSource(text);
    this.broken = source.error !== null;
    this.errors = [];
    if (source.error) {
      this.valid = false;
      this.#version++;
      const { line, at, message } = source.error;
      this.errors = [{ line, start: at, end: at + 1, message }];
    } else {
      this.value = source.value;
      this.#check();
    }
    this.changed();
  }

  /**
   * Changes a value at a path, as the form does.
   * @param {(string | number)[]} path
   * @param {unknown} value
   */
  set(path, value) {
    this.setText(pretty(withValueAt(this.value, path, value)));
  }

  async #validate() {
    const version = ++this.#version;
    try {
      /** @type {Api.Validation} */
      const answer = await api.post(["tools", this.tool, "validate"], { arguments: this.value });
      if (version !== this.#version) return;
      this.failure = undefined;
      this.fail(answer.errors.map((error) => ({ ...error, pointer: pointerOf(error) })));
      this.coerced = answer.coerced;
    } catch (error) {
      if (version === this.#version) this.failure = error;
    }
    this.changed();
  }

  /**
   * Shows errors at their places.
   * @param {{ pointer: string, message: string }[]} errors
   */
  fail(errors) {
    this.valid = !errors.length;
    const { places } = parseSource(this.text);
    this.messages = new Map();
    for (const { pointer, message } of errors) this.messages.set(pointer, [...(this.messages.get(pointer) ?? []), message]);
    this.errors = errors.map(({ pointer, message }) => {
      const { line, start, end } = placeOf(places, pointer) ?? { line: 1, start: 0, end: 0 };
      return { line, start, end, message: `${pointer || "/"}: ${message}` };
    });
  }

  get summary() {
    if (this.broken) return "This is not valid JSON.";
    if (this.failure) return `Not checked: ${/** @type {Error} */ (this.failure).message}`;
    if (this.valid === null) return "Checking…";
    if (!this.valid) return `${this.errors.length} ${this.errors.length === 1 ? "error" : "errors"}; the call would end with TOOL_VALIDATION_ERROR.`;
    return this.coerced.length ? `Valid. Converted: ${this.coerced.map(({ pointer, from, to }) => `${pointer} from ${from} to ${to}`).join(", ")}.` : "Valid.";
  }
}

/**
 * Points at the member that is missing or unexpected, not at its object.
 * @param {{ pointer: string, property?: string | null }} error
 */
function pointerOf({ pointer, property }) {
  return property ? `${pointer}/${property.replace(/~/g, "~0").replace(/\//g, "~1")}` : pointer;
}

/**
 * Renders the form and the JSON of a draft next to each other.
 * @param {ArgumentsDraft} draft
 * @param {import("../lib/schema.js").Schema} root
 */
export function draftFields(draft, root) {
  const form = { root, value: draft.value, errors: draft.messages, set: draft.set.bind(draft) };
  return html`<div class="columns"><div class="try-form">${draft.broken ? html`<p class="muted">Fix the JSON to use the form.</p>` : schemaForm(form)}</div>
    <div class="try-json"><${JsonEditor} label="Arguments as JSON" value=${draft.text} errors=${draft.errors} onInput=${(/** @type {string} */ text) => draft.setText(text)} />
      <p class=${draft.valid === false ? "bad" : "muted"} role="status" id="try-check">${draft.summary}</p></div></div>`;
}

export class TryIt {
  /** @type {CallWatch | null} */ watch = null;
  session = "";
  busy = false;

  /** @param {Api.ListedTool} tool */
  constructor(tool) {
    this.tool = tool;
    this.schema = /** @type {import("../lib/schema.js").Schema} */ (tool.input_schema ?? { type: "object" });
    const example = /** @type {any} */ (tool.examples?.[0])?.arguments;
    this.draft = new ArgumentsDraft(tool.name, pretty(example ?? firstValue({ type: "object", ...this.schema }, this.schema) ?? {}), update);
  }

  #run = async (/** @type {Event} */ event) => {
    event.preventDefault();
    this.busy = true;
    this.watch?.close();
    this.watch = null;
    update();
    const body = { name: this.tool.name, arguments: this.draft.value, wait: "accepted", ...(this.session ? { session: this.session } : {}) };
    /** @type {Api.ToolCall | undefined} */
    const call = await act("cannot call the tool", () => api.post(["tool-calls"], body), () => `Called ${this.tool.name}.`);
    if (call) this.watch = new CallWatch(call.id);
    this.busy = false;
    update();
  };

  close() {
    this.watch?.close();
  }

  render() {
    const { draft } = this;
    return html`<form class="try" onSubmit=${this.#run} novalidate>${draftFields(draft, this.schema)}
      <div class="actions"><button type="submit" class="primary" disabled=${this.busy || draft.broken || missing("call") !== null} title=${missing("call")}>${this.busy ? "Calling…" : "Run"}</button>
        <label class="inline"><span>Session</span> <input autocomplete="off" placeholder="none" value=${this.session} onInput=${onText((text) => (this.session = text.trim()))} /></label></div></form>
      ${this.watch ? this.#result(this.watch) : null}`;
  }

  /** @param {CallWatch} watch */
  #result(watch) {
    if (watch.error) return problem(watch.error);
    const { call } = watch;
    const timeline = watch.timeline();
    if (!call || !timeline) return null;
    return html`<section class="card result" aria-label="Result"><header class="page-head">${badge(call.status, call.phase)}<span class="num">${isEnded(call) ? duration(call.duration_ms) : call.progress?.message ?? ""}</span>
      ${call.error ? html`<code class="bad">${call.error.code}</code>` : null}<a href=${path("calls", call.id)}>Open the call</a></header>${timelineView(timeline, Date.now())}${output(call)}</section>`;
  }
}
