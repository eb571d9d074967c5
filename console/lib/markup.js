// @ts-check
// What views are written with: Preact elements from tagged templates, and what a template may set.
import { cloneElement, createElement, options, render } from "../vendor/preact/preact.js";
import htm from "../vendor/htm/htm.js";
import { safeUrl } from "./format.js";

/** @typedef {import("../vendor/preact/preact.js").VNode<any>} VNode */

const FORBIDDEN_TAGS = new Set(["script", "style", "iframe", "object", "embed", "base", "foreignobject"]);
const FORBIDDEN_PROPERTIES = new Set(["innerhtml", "outerhtml", "srcdoc", "dangerouslysetinnerhtml"]);
const URL_ATTRIBUTES = new Set(["href", "src", "action", "formaction", "xlink:href", "poster"]);

// Events may come faster than frames: what changes between two frames is rendered once.
if (typeof requestAnimationFrame === "function") options.debounceRendering = (paint) => requestAnimationFrame(paint);

/**
 * Creates an element. Data becomes text, attributes and properties only, and addresses are relative or http.
 * @param {any} type
 * @param {Record<string, any> | null} props
 * @param {any[]} children
 * @returns {VNode}
 */
function element(type, props, ...children) {
  if (typeof type !== "string") return createElement(type, props, ...children);
  if (FORBIDDEN_TAGS.has(type.toLowerCase())) throw new SyntaxError(`<${type}> is not allowed in a template`);
  /** @type {Record<string, any>} */
  const checked = {};
  for (const [name, value] of Object.entries(props ?? {})) {
    if (FORBIDDEN_PROPERTIES.has(name.toLowerCase())) throw new SyntaxError(`property ${name} is not allowed in a template`);
    if (/^on/i.test(name) && value && typeof value !== "function") throw new SyntaxError(`attribute ${name} is not allowed in a template`);
    if (name === "style" && typeof value !== "object") throw new SyntaxError("attribute style is not allowed in a template");
    // An absent property leaves no empty attribute.
    if (value !== null && value !== undefined) checked[name] = URL_ATTRIBUTES.has(name.toLowerCase()) ? safeUrl(String(value)) : value;
  }
  return createElement(type, checked, ...children);
}

/** Creates elements from a tagged template in the syntax of htm. */
export const html = /** @type {(strings: TemplateStringsArray, ...values: any[]) => any} */ (htm.bind(/** @type {any} */ (element)));

/**
 * Gives an element of a list an identity, so that its DOM moves with it.
 * @param {string | number} key
 * @param {VNode} node
 */
export const keyed = (key, node) => cloneElement(node, { key });

export { render };
