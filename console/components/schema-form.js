// @ts-check
// A form made from a JSON Schema: nested objects, arrays, choices and single values.
import { html, icon, keyed, onText, parseJson } from "./parts.js";
import { pointerOf, valueAt } from "../lib/json-source.js";
import { choiceOf, choicesOf, firstValue, resolve, rulesOf, typeLabel, typesOf } from "../lib/schema.js";

/** @typedef {import("../lib/schema.js").Schema} Schema */
/** @typedef {import("../lib/json-source.js").Path} Path */
/** @typedef {{ root: Schema, value: unknown, errors: Map<string, string[]>, set: (path: Path, value: unknown) => void }} Form */

const MAX_DEPTH = 12;

/**
 * Renders the members of the root object.
 * @param {Form} form
 */
export function schemaForm(form) {
  const root = resolve(form.root, form.root);
  const wrong = form.errors.get("") ?? [];
  const choice = choicesOf(root, form.root).length ? choiceField(form, root, []) : members(form, root, []);
  return html`<div class="form-members">${choice}${wrong.map((message) => html`<p class="bad">${message}</p>`)}</div>`;
}

/** @type {(form: Form, schema: Schema, path: Path) => unknown} */
function members(form, schema, path) {
  const given = /** @type {Record<string, unknown>} */ (valueAt(form.value, path) ?? {});
  const declared = Object.entries(schema.properties ?? {});
  const others = typeof given === "object" && !Array.isArray(given) ? Object.keys(given).filter((name) => !Object.hasOwn(schema.properties ?? {}, name)) : [];
  const required = new Set(schema.required ?? []);
  const other = schema.additionalProperties && typeof schema.additionalProperties === "object" ? schema.additionalProperties : {};
  if (!declared.length && !others.length) return [html`<p class="muted">No members are declared${schema.additionalProperties === false ? "." : ": write any JSON object."}</p>`];
  return [
    ...declared.map(([name, member]) => keyed(name, field(form, member, [...path, name], name, required.has(name)))),
    ...others.map((name) => keyed(`other ${name}`, field(form, other, [...path, name], name, false))),
  ];
}

/** @type {(form: Form, member: unknown, path: Path, name: string, required: boolean) => any} */
function field(form, member, path, name, required) {
  const schema = resolve(member, form.root);
  const id = `field${pointerOf(path).replaceAll("/", "-")}`;
  const wrong = form.errors.get(pointerOf(path)) ?? [];
  const value = valueAt(form.value, path);
  const choices = choicesOf(schema, form.root);
  const compound = choices.length || typesOf(schema).some((type) => type === "object" || type === "array");
  const hint = [typeLabel(schema, form.root), ...rulesOf(schema)].join(", ");
  const clear = value !== undefined && !required && typeof path[path.length - 1] === "string"
    ? html`<button type="button" class="quiet small" aria-label="Remove ${name}" onClick=${() => form.set(path, undefined)}>${icon("close")}</button>` : null;
  const about = [
    typeof schema.description === "string" ? html`<p class="field-text">${schema.description}</p>` : null,
    wrong.length ? html`<p class="bad" id="${id}-error">${wrong.join(", ")}</p>` : null,
  ];
  if (compound) {
    return html`<fieldset class=${wrong.length ? "field wrong" : "field"}><legend>${name}${required ? html`<span class="required"> required</span>` : null} <span class="type">${hint}</span> ${clear}</legend>
      ${about}${value === undefined || path.length > MAX_DEPTH ? addButton(form, schema, path, name) : body(form, schema, path, choices)}</fieldset>`;
  }
  return html`<div class=${wrong.length ? "field wrong" : "field"}><div class="field-head"><label for=${id}>${name}</label>${required ? html`<span class="required">required</span>` : null}<span class="type">${hint}</span>${clear}</div>
    ${scalarField({ id, schema, value, required, wrong: wrong.length > 0, set: (next) => form.set(path, next) })}${about}</div>`;
}

/** @type {(form: Form, schema: Schema, path: Path, name: string) => unknown} */
const addButton = (form, schema, path, name) =>
  html`<button type="button" class="small" onClick=${() => form.set(path, firstValue(schema, form.root))}>${icon("plus")} Add ${name}</button>`;

/** @type {(form: Form, schema: Schema, path: Path, choices: import("../lib/schema.js").Choice[]) => unknown} */
function body(form, schema, path, choices) {
  if (choices.length) return choiceField(form, schema, path);
  const types = typesOf(schema);
  if (types[0] === "array") return items(form, schema, path);
  if (types[0] === "object") return html`<div class="form-members">${members(form, schema, path)}</div>`;
  const id = `field${pointerOf(path).replaceAll("/", "-")}`;
  return scalarField({ id, schema, value: valueAt(form.value, path), required: true, wrong: false, set: (next) => form.set(path, next) });
}

/** @type {(form: Form, schema: Schema, path: Path) => unknown} */
function choiceField(form, schema, path) {
  const choices = choicesOf(schema, form.root);
  const current = choiceOf(choices, valueAt(form.value, path), form.root);
  const choose = onText((index) => form.set(path, firstValue(choices[Number(index)].schema, form.root)));
  const chosen = choices[current].schema;
  const inner = typesOf(chosen)[0] === "object" ? html`<div class="form-members">${members(form, chosen, path)}</div>` : body(form, chosen, path, choicesOf(chosen, form.root));
  return html`<select aria-label="Variant of ${path[path.length - 1] ?? "the arguments"}" value=${String(current)} onChange=${choose}>${choices.map(
    (choice, index) => html`<option value=${String(index)}>${choice.label}</option>`)}</select>${inner}`;
}

/** @type {(form: Form, schema: Schema, path: Path) => unknown} */
function items(form, schema, path) {
  const value = valueAt(form.value, path);
  const list = Array.isArray(value) ? value : [];
  const schemaOf = (/** @type {number} */ index) => schema.prefixItems?.[index] ?? schema.items ?? {};
  return html`<ol class="items">${list.map((_, index) => html`<li>${field(form, schemaOf(index), [...path, index], `${path[path.length - 1]} ${index + 1}`, true)}
      <button type="button" class="quiet small" aria-label="Remove item ${index + 1}" onClick=${() => form.set([...path, index], undefined)}>${icon("close")}</button></li>`)}</ol>
    <button type="button" class="small" onClick=${() => form.set([...path, list.length], firstValue(schemaOf(list.length), form.root) ?? "")}>${icon("plus")} Add item</button>`;
}

/** @typedef {{ id: string, schema: import("../lib/schema.js").Schema, value: unknown, required: boolean, wrong: boolean, set: (value: unknown) => void }} Field */

const NUMBER = /^\s*-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?\s*$/;
const INPUT_TYPES = /** @type {Record<string, string>} */ ({ date: "date" });

/** @param {Field} field */
export function scalarField(field) {
  const { schema } = field;
  if (schema.const !== undefined) return html`<output id=${field.id}><code>${JSON.stringify(schema.const)}</code></output>`;
  if (Array.isArray(schema.enum)) return selectField(field, schema.enum);
  switch (typesOf(schema)[0]) {
    case "boolean": return selectField(field, [true, false]);
    case "integer": case "number": return numberField(field);
    case "null": return html`<output id=${field.id}><code>null</code></output>`;
    case "string": return textField(field);
    default: return jsonField(field);
  }
}

/**
 * @param {Field} field
 * @param {unknown[]} options
 */
function selectField({ id, value, required, wrong, set }, options) {
  const current = options.findIndex((option) => JSON.stringify(option) === JSON.stringify(value));
  const choose = onText((index) => set(index === "" ? undefined : options[Number(index)]));
  return html`<select id=${id} value=${current < 0 ? "" : String(current)} aria-invalid=${wrong ? "true" : null} aria-describedby=${wrong ? `${id}-error` : null} onChange=${choose}>
    ${current < 0 || !required ? html`<option value="">${value !== undefined && current < 0 ? JSON.stringify(value) : "not set"}</option>` : null}
    ${options.map((option, index) => html`<option value=${String(index)}>${typeof option === "string" ? option : JSON.stringify(option)}</option>`)}</select>`;
}

/** @param {Field} field */
function numberField({ id, value, wrong, set }) {
  const change = onText((text) => {
    // A text that is not a number stays a text, so that the check of the service explains it.
    set(text.trim() === "" ? undefined : NUMBER.test(text) ? parseJson(text) : text);
  });
  const shown = value === undefined ? "" : typeof value === "string" ? value : JSON.stringify(value);
  return html`<input id=${id} inputmode="decimal" autocomplete="off" placeholder="not set" value=${live(id, shown, (text) => NUMBER.test(text) && parseJson(text) === value)} aria-invalid=${wrong ? "true" : null} aria-describedby=${wrong ? `${id}-error` : null} onInput=${change} />`;
}

/**
 * Keeps what is typed while it means the same value, such as `1.0` for 1.
 * @param {string} id
 * @param {string} shown
 * @param {(text: string) => boolean} same
 */
function live(id, shown, same) {
  const element = document.activeElement;
  return element instanceof HTMLInputElement && element.id === id && same(element.value) ? element.value : shown;
}

/** @param {Field} field */
function textField({ id, schema, value, wrong, set }) {
  const shown = value === undefined ? "" : typeof value === "string" ? value : JSON.stringify(value);
  const type = INPUT_TYPES[schema.format];
  const change = onText(set);
  const invalid = wrong ? "true" : null;
  const described = wrong ? `${id}-error` : null;
  const hint = value === undefined ? "not set" : "";
  if (type) return html`<input id=${id} type=${type} autocomplete="off" placeholder=${hint} value=${shown} aria-invalid=${invalid} aria-describedby=${described} onInput=${change} />`;
  return html`<textarea id=${id} rows="1" placeholder=${hint} value=${shown} aria-invalid=${invalid} aria-describedby=${described} onInput=${change}></textarea>`;
}

/** @param {Field} field */
function jsonField({ id, value, wrong, set }) {
  const change = onText((text) => {
    try {
      set(text.trim() ? parseJson(text) : undefined);
    } catch {
      set(text);
    }
  });
  const shown = value === undefined ? "" : typeof value === "string" ? value : JSON.stringify(value);
  return html`<textarea id=${id} rows="1" placeholder="any JSON, or a text" value=${shown} aria-invalid=${wrong ? "true" : null} aria-describedby=${wrong ? `${id}-error` : null} onChange=${change}></textarea>`;
}
