// @ts-check
// A text field for JSON with errors at their lines, and the editor of a definition.
import { api, ApiError, button, html, navigate, onText, path, pretty, problem, render, say, update } from "./parts.js";
import { lineOf, parseSource, placeOf } from "../lib/json-source.js";

/** @typedef {{ line: number, start: number, end: number, message: string }} SourceError */
/** @typedef {{ label: string, value: string, errors: SourceError[], onInput: (value: string) => void, rows?: number, readOnly?: boolean }} EditorModel */

export class JsonEditor extends HTMLElement {
  /** @type {HTMLTextAreaElement | null} */ #field = null;
  /** @type {EditorModel | null} */ #model = null;

  /** @param {EditorModel} model */
  set model(model) {
    this.#model = model;
    this.#paint();
  }

  #paint() {
    const model = /** @type {EditorModel} */ (this.#model);
    const wrong = new Set(model.errors.map((error) => error.line));
    const lines = Math.min(5000, model.value.split("\n").length);
    const numbers = Array.from({ length: lines }, (_, index) => html`<span class=${wrong.has(index + 1) ? "wrong" : ""}>${index + 1}</span>`);
    render(html`<div class="editor"><div class="gutter" aria-hidden="true">${numbers}</div>
        <textarea ref=${(/** @type {HTMLTextAreaElement} */ field) => (this.#field = field)} spellcheck="false" autocomplete="off" autocapitalize="off" wrap="off" aria-label=${model.label}
          rows=${model.rows ?? 12} ?readonly=${model.readOnly ?? false} aria-invalid=${model.errors.length ? "true" : null} .value=${model.value} @keydown=${this.#tab}
          @input=${onText(model.onInput)} @scroll=${this.#scrolled}></textarea></div>
      ${model.errors.length ? html`<ul class="editor-errors" aria-live="polite">${model.errors.slice(0, 20).map(
        (error) => html`<li><button type="button" class="link" @click=${() => this.select(error)}>line ${error.line}</button> ${error.message}</li>`)}</ul>` : null}`, this);
  }

  #scrolled = (/** @type {Event} */ event) => {
    const field = /** @type {HTMLElement} */ (event.target);
    /** @type {HTMLElement} */ (field.previousElementSibling).scrollTop = field.scrollTop;
  };

  // The tab key moves the focus, as in every form; lines are indented with the text of the line before.
  #tab = (/** @type {KeyboardEvent} */ event) => {
    if (event.key !== "Enter" || event.ctrlKey || event.metaKey || !this.#field) return;
    const { value, selectionStart: at } = this.#field;
    const indent = /^[ ]*/.exec(value.slice(value.lastIndexOf("\n", at - 1) + 1))?.[0] ?? "";
    const deeper = /[[{]$/.test(value.slice(0, at)) ? "  " : "";
    event.preventDefault();
    this.#field.setRangeText(`\n${indent}${deeper}`, at, this.#field.selectionEnd, "end");
    this.#model?.onInput(this.#field.value);
  };

  /**
   * Selects the place of an error.
   * @param {SourceError} error
   */
  select(error) {
    this.#field?.focus();
    this.#field?.setSelectionRange(error.start, error.end);
  }
}

customElements.define("tp-editor", JsonEditor);

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
      <tp-editor .model=${{ label: "Definition as JSON", value: this.text, errors: this.errors, onInput: this.#input, rows: 22 }}></tp-editor>
      ${this.failure ? problem(this.failure) : null}
      <div class="actions">${button("tools", this.name ? "Save" : "Register", this.#save, "primary", this.busy || (this.errors.length > 0 && !this.failure) ? "" : null)}
      ${this.name ? null : html`<a class="button" href="tools">Back</a>`}</div></section>`;
  }
}
