// @ts-check
// The strings of a tagged template as a tree, and what a template may set.
import { safeUrl } from "./format.js";

/** @typedef {{ name: string, value: string[], holes: number }} Attribute `value` are the static parts around `holes`. */
/** @typedef {{ tag: string, attributes: Attribute[], children: TreeNode[] }} ElementNode */
/** @typedef {string | null | ElementNode} TreeNode A text, a hole (`null`) or an element. */

const HOLE = "\uE000";
const TOKEN = /<\/([a-z][\w-]*)\s*>|<([a-z][\w-]*)((?:[^>"']|"[^"]*"|'[^']*')*?)(\/?)>|([^<]+)/gi;
const ATTRIBUTE = /([@.?]?[\w:-]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+)))?/g;
const VOID = new Set(["br", "col", "hr", "img", "input", "link", "meta", "wbr"]);
const FORBIDDEN_TAGS = new Set(["script", "style", "iframe", "object", "embed", "base", "foreignobject"]);

const URL_ATTRIBUTES = new Set(["href", "src", "action", "formaction", "xlink:href", "poster"]);
const FORBIDDEN_PROPERTIES = new Set(["innerHTML", "outerHTML", "srcdoc", "style"]);

/** @type {WeakMap<TemplateStringsArray, TreeNode[]>} */
const cache = new WeakMap();

/**
 * Returns the tree of a template.
 * @param {TemplateStringsArray} strings
 */
export function treeOf(strings) {
  let tree = cache.get(strings);
  if (!tree) cache.set(strings, (tree = parse(strings.join(HOLE))));
  return tree;
}

/**
 * Parses a template in which every hole is one character.
 * @param {string} text
 * @returns {TreeNode[]}
 */
export function parse(text) {
  /** @type {ElementNode} */
  const root = { tag: "", attributes: [], children: [] };
  const open = [root];
  for (const [, closed, opened, attributes, selfClosed, content] of text.matchAll(TOKEN)) {
    const parent = open[open.length - 1];
    if (content !== undefined) parent.children.push(...textNodes(content));
    else if (closed) {
      if (open.length < 2 || parent.tag !== closed) throw new SyntaxError(`</${closed}> closes <${parent.tag}>`);
      open.pop();
    } else {
      const node = { tag: opened, attributes: parseAttributes(opened, attributes), children: [] };
      parent.children.push(node);
      if (!selfClosed && !VOID.has(opened)) open.push(node);
    }
  }
  if (open.length > 1) throw new SyntaxError(`<${open[open.length - 1].tag}> is not closed`);
  return root.children;
}

/**
 * @param {string} content
 * @returns {TreeNode[]}
 */
function textNodes(content) {
  /** @type {TreeNode[]} */
  const nodes = [];
  content.split(HOLE).forEach((part, index) => {
    if (index > 0) nodes.push(null);
    // Line breaks between elements are the layout of the source, not text.
    if (part.trim() || (part && !part.includes("\n"))) nodes.push(part.replace(/\s+/g, " "));
  });
  return nodes;
}

/**
 * @param {string} tag
 * @param {string} text
 * @returns {Attribute[]}
 */
function parseAttributes(tag, text) {
  if (FORBIDDEN_TAGS.has(tag.toLowerCase())) throw new SyntaxError(`<${tag}> is not allowed in a template`);
  return [...text.matchAll(ATTRIBUTE)].map(([, name, double, single, bare]) => {
    if (/^(on|style$|srcdoc$)/i.test(name)) throw new SyntaxError(`attribute ${name} is not allowed in a template`);
    const value = (double ?? single ?? bare ?? "").split(HOLE);
    return { name, value, holes: value.length - 1 };
  });
}

/**
 * @param {any} element
 * @param {string} name
 * @param {unknown} value
 */
export function setProperty(element, name, value) {
  if (FORBIDDEN_PROPERTIES.has(name)) throw new TypeError(`property ${name} is not allowed in a template`);
  // Writing an equal value would move the cursor of a text field.
  if (element[name] !== value) element[name] = value;
}

/**
 * @param {Element} element
 * @param {string} name
 * @param {unknown} value
 */
export function setAttribute(element, name, value) {
  if (value === null || value === undefined || value === false) return element.removeAttribute(name);
  const text = value === true ? "" : String(value);
  element.setAttribute(name, URL_ATTRIBUTES.has(name) ? safeUrl(text) : text);
}
