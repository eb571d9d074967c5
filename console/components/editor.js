// @ts-check
// A text field for JSON with errors at their lines, and the editor of a definition.
import { useMemo, useRef } from "../vendor/preact/hooks.js";
import { api, ApiError, button, html, navigate, onText, path, pretty, problem, say, update } from "./parts.js";
import { lineOf, parseSource, placeOf } from "../lib/json-source.js";

/** @typedef {{ line: number, start: number, end: number, message: string }} SourceError */
/** @typedef {{ label: string, value: string, errors: SourceError[], onInput: (value: string) => void, rows?: number, readOnly?: boolean }} EditorProps */

const MAX_LINES = 5000;
const MAX_ERRORS = 20;

/** @param {EditorProps} props */
export function JsonEditor({ label, value, errors, onInput, rows = 12, readOnly = false }) {
  const field = useRef(/** @type {HTMLTextAreaElement | null} */ (null));
  const lines = Math.min(MAX_LINES, value.split("\n").length);
  const wrong = [...new Set(errors.map((error) => error.line))].join(" ");
  const numbers = useMemo(() => lineNumbers(lines, wrong.split(" ")), [lines, wrong]);
  const select = (/** @type {SourceError} */ error) => {
    field.current?.focus();
    field.current?.setSelectionRange(error.start, error.end);
  };
  return html`<div class="json-editor"><div class="editor"><div class="gutter" aria-hidden="true">${numbers}</div>
      <textarea ref=${field} spellcheck=${false} autocomplete="off" autocapitalize="off" wrap="off" aria-label=${label} rows=${rows} readOnly=${readOnly}
        aria-invalid=${errors.length ? "true" : null} value=${value} onKeyDown=${(/** @type {KeyboardEvent} */ event) => indent(event, onInput)} onInput=${onText(onInput)} onScroll=${follow}></textarea></div>
    ${errors.length ? html`<ul class="editor-errors" aria-live="polite">${errors.slice(0, MAX_ERRORS).map(
      (error) => html`<li><button type="button" class="link" onClick=${() => select(error)}>line ${error.line}</button> ${error.message}</li>`)}</ul>` : null}</div>`;
}

/** @type {(lines: number, wrong: string[]) => unknown} */
const lineNumbers = (lines, wrong) => Array.from({ length: lines }, (_, index) => html`<span class=${wrong.includes(String(index + 1)) ? "wrong" : ""}>${index + 1}</span>`);

/** Scrolls the numbers with the text. @param {Event} event */
function follow(event) {
  const field = /** @type {HTMLElement} */ (event.target);
  /** @type {HTMLElement} */ (field.previousElementSibling).scrollTop = field.scrollTop;
}

/**
 * Indents a new line with the text of the line before. The tab key moves the focus, as in every form.
 * @param {KeyboardEvent} event
 * @param {(value: string) => void} onInput
 */
function indent(event, onInput) {
  if (event.key !== "Enter" || event.ctrlKey || event.metaKey) return;
  const field = /** @type {HTMLTextAreaElement} */ (event.currentTarget);
  const { value, selectionStart: at } = field;
  const before = /^[ ]*/.exec(value.slice(value.lastIndexOf("\n", at - 1) + 1))?.[0] ?? "";
  const deeper = /[[{]$/.test(value.slice(0, at)) ? "  " : "";
  event.preventDefault();
  field.setRangeText(`\n${before}${deeper}`, at, field.selectionEnd, "end");
  onInput(field.value);
}

const READ_ONLY = ["source", "revision", "active", "paused", "created_at", "updated_at", "upstream", "definition_error", "quarantined", "warnings"];

/**
 * Returns what a client may send of a definition, without the kinds of presets and members that are not set.
 * @param {Record<string, any>} tool
 */
export function editable(tool) {
  const copy = Object.fromEntries(Object.entries(tool).filter(([name, value]) => !READ_ONLY.includes(name) && value !== null));
  if (copy.limits) copy.limits = Object.fromEntries(Object.entries(copy.limits).filter(([, value]) => value !== null));
  if (copy.presets) copy.presets = Object.fromEntries(Object.entries(copy.presets).map(([name, { kind, ...rest }]) => [name, rest]));
  return copy;
}

export class DefinitionEditor {
  /** @type {import("./editor.js").SourceError[]} */ errors = [];
  /** @type {unknown} */ failure = undefined;
  busy = false;

  /**
   * @param {string | null} name The tool to replace; `null` registers a new one.
   * @param {unknown} definition
   * @param {{ etag?: string, saved?: () => void }} [options]
   */
  constructor(name, definition, { etag = "", saved = () => {} } = {}) {
    this.name = name;
    this.text = pretty(definition);
    this.etag = etag;
    this.saved = saved;
  }

  /** @param {string} text */
  #input = (text) => {
    this.text = text;
    const { error } = parseSource(text);
    this.errors = error ? [{ line: error.line, start: error.at, end: error.at + 1, message: error.message }] : [];
    this.failure = undefined;
    update();
  };

  #save = async () => {
    const { value, error } = parseSource(this.text);
    if (error) return;
    this.busy = true;
    update();
    try {
      const headers = this.etag ? { "if-match": this.etag } : undefined;
      /** @type {Api.ListedTool} */
      const tool = this.name ? await api.put(["tools", this.name], value, { headers }) : await api.post(["tools"], value);
      this.failure = undefined;
      say(this.name ? `Saved ${tool.name} as revision ${tool.revision}.` : `Registered ${tool.name}.`);
      this.saved();
      if (!this.name) navigate(path("tools", tool.name));
    } catch (failure) {
      this.#fail(failure);
    }
    this.busy = false;
    update();
  };

  /** @param {unknown} failure */
  #fail(failure) {
    this.failure = failure;
    const { places } = parseSource(this.text);
    const errors = failure instanceof ApiError ? failure.errors : [];
    this.errors = errors.map(({ pointer, message }) => {
      const place = placeOf(places, pointer) ?? { start: 0, end: 0, line: 1 };
      return { line: lineOf(this.text, place.start), start: place.start, end: place.end, message: `${pointer || "/"}: ${message}` };
    });
  }

  render() {
    return html`<section class="definition">${this.name ? null : html`<header class="page-head"><h1 tabindex="-1">Register a tool</h1></header>
      <p class="muted">A definition is a name, a description for the model, a JSON Schema of the arguments, and an executor (<code>http</code>, <code>builtin</code>, <code>mcp</code> or <code>external</code>).</p>`}
      <${JsonEditor} label="Definition as JSON" value=${this.text} errors=${this.errors} onInput=${this.#input} rows=${22} />
      ${this.failure ? problem(this.failure) : null}
      <div class="actions">${button("tools", this.name ? "Save" : "Register", this.#save, "primary", this.busy || (this.errors.length > 0 && !this.failure) ? "" : null)}
      ${this.name ? null : html`<a class="button" href="tools">Back</a>`}</div></section>`;
  }
}
