// @ts-check
// Renders tagged templates into the DOM and updates them in place. Data becomes text nodes, attributes and properties only.
import { setAttribute, setProperty, treeOf } from "./template.js";

/** @typedef {import("./template.js").TreeNode} TreeNode */
/** @typedef {{ set(values: unknown[]): void }} Part */

const SVG = "http://www.w3.org/2000/svg";

/** The result of a tagged template: its strings and the values between them. */
export class Template {
  /** @type {unknown} */ key = undefined;

  /**
   * @param {TemplateStringsArray} strings
   * @param {unknown[]} values
   */
  constructor(strings, values) {
    this.strings = strings;
    this.values = values;
  }
}

/**
 * Creates a template. `@name` adds a listener, `.name` sets a property, `?name` toggles an attribute, `ref` receives the element.
 * @param {TemplateStringsArray} strings
 * @param {unknown[]} values
 */
export const html = (strings, ...values) => new Template(strings, values);

/**
 * Gives a template of a list an identity, so that its elements move with it.
 * @param {unknown} key
 * @param {Template} template
 */
export function keyed(key, template) {
  template.key = key;
  return template;
}

/** @type {WeakMap<Element, Content>} */
const roots = new WeakMap();

/**
 * Renders a value into a container that has no other content.
 * @param {unknown} value
 * @param {Element} container
 */
export function render(value, container) {
  let content = roots.get(container);
  if (!content) roots.set(container, (content = new Content(container, null)));
  content.set(value);
}

/** The content of one hole between two empty text nodes. */
class Content {
  /** @type {Instance | null} */ #instance = null;
  /** @type {Map<unknown, Content> | null} */ #items = null;
  /** @type {unknown} */ #value = undefined;

  /**
   * @param {Node} parent
   * @param {Node | null} before
   */
  constructor(parent, before) {
    this.start = parent.insertBefore(document.createTextNode(""), before);
    this.end = parent.insertBefore(document.createTextNode(""), before);
  }

  get parent() {
    return /** @type {Element} */ (this.end.parentNode);
  }

  /** @param {unknown} value */
  set(value) {
    if (value instanceof Template) this.#setTemplate(value);
    else if (Array.isArray(value)) this.#setList(value);
    else if (value !== this.#value || this.#instance || this.#items) this.#setLeaf(value);
  }

  /** @param {Template} template */
  #setTemplate(template) {
    if (this.#instance?.strings === template.strings) return this.#instance.update(template.values);
    this.clear();
    const fragment = document.createDocumentFragment();
    this.#instance = new Instance(template.strings, fragment, this.parent.namespaceURI);
    // Inserted first, so that a hole between SVG elements knows its namespace.
    this.parent.insertBefore(fragment, this.end);
    this.#instance.update(template.values);
  }

  /** @param {unknown[]} list */
  #setList(list) {
    if (!this.#items) {
      this.clear();
      this.#items = new Map();
    }
    const before = this.#items;
    this.#items = new Map();
    list.forEach((value, index) => {
      let key = value instanceof Template && value.key !== undefined ? value.key : index;
      if (this.#items?.has(key)) key = Symbol("repeated key");
      this.#items?.set(key, before.get(key) ?? new Content(this.parent, this.end));
      before.delete(key);
    });
    for (const item of before.values()) item.remove();
    this.#order();
    let index = 0;
    for (const item of this.#items.values()) item.set(list[index++]);
  }

  /** Moves the items that are not in the order of the list. */
  #order() {
    let next = this.start.nextSibling;
    for (const item of this.#items?.values() ?? []) {
      if (item.start === next) next = item.end.nextSibling;
      else item.moveBefore(next);
    }
  }

  /** @param {unknown} value */
  #setLeaf(value) {
    this.clear();
    this.#value = value;
    if (value === null || value === undefined || typeof value === "boolean") return;
    const node = value instanceof Node ? value : document.createTextNode(String(value));
    this.parent.insertBefore(node, this.end);
  }

  clear() {
    this.#instance = this.#items = null;
    this.#value = undefined;
    while (this.start.nextSibling !== this.end) this.start.nextSibling?.remove();
  }

  remove() {
    this.clear();
    this.start.remove();
    this.end.remove();
  }

  /** @param {Node | null} node */
  moveBefore(node) {
    const range = document.createRange();
    range.setStartBefore(this.start);
    range.setEndAfter(this.end);
    const parent = this.parent;
    parent.insertBefore(range.extractContents(), node);
  }
}

/** The DOM of one template. */
class Instance {
  /** @type {Part[]} */ #parts = [];

  /**
   * @param {TemplateStringsArray} strings
   * @param {Node} parent
   * @param {string | null} namespace
   */
  constructor(strings, parent, namespace) {
    this.strings = strings;
    let hole = 0;
    /** @type {(nodes: TreeNode[], parent: Node, namespace: string | null) => void} */
    const build = (nodes, parent, namespace) => {
      for (const node of nodes) {
        if (typeof node === "string") parent.appendChild(document.createTextNode(node));
        else if (node === null) this.#parts.push(contentPart(new Content(parent, null), hole++));
        else {
          const inner = node.tag === "svg" ? SVG : namespace;
          const element = inner === SVG ? document.createElementNS(SVG, node.tag) : document.createElement(node.tag);
          for (const attribute of node.attributes) {
            const part = attributePart(/** @type {HTMLElement} */ (element), attribute.name, attribute.value, hole);
            if (attribute.holes) this.#parts.push(part);
            else part.set([]);
            hole += attribute.holes;
          }
          build(node.children, element, inner);
          parent.appendChild(element);
        }
      }
    };
    build(treeOf(strings), parent, namespace);
  }

  /** @param {unknown[]} values */
  update(values) {
    for (const part of this.#parts) part.set(values);
  }
}

/**
 * @param {Content} content
 * @param {number} index
 * @returns {Part}
 */
const contentPart = (content, index) => ({ set: (values) => content.set(values[index]) });

/**
 * @param {HTMLElement} element
 * @param {string} name
 * @param {string[]} statics
 * @param {number} index
 * @returns {Part}
 */
function attributePart(element, name, statics, index) {
  if (name[0] === "@") return listenerPart(element, name.slice(1), index);
  /** @type {unknown} */ let last;
  /** @param {(value: unknown) => void} apply @returns {Part} */
  const changed = (apply) => ({
    set(values) {
      const value = statics.length === 2 && !statics[0] && !statics[1] ? values[index] : joined(statics, values, index);
      if (value !== last || name[0] === ".") apply((last = value));
    },
  });
  if (name === "ref") return changed((value) => /** @type {(element: Element) => void} */ (value)(element));
  if (name[0] === "?") return changed((value) => element.toggleAttribute(name.slice(1), Boolean(value)));
  if (name[0] === ".") return changed((value) => setProperty(element, name.slice(1), value));
  return changed((value) => setAttribute(element, name, value));
}

/**
 * @param {string[]} statics
 * @param {unknown[]} values
 * @param {number} index
 */
const joined = (statics, values, index) => statics.reduce((text, part, at) => text + (values[index + at - 1] ?? "") + part);

/**
 * @param {HTMLElement} element
 * @param {string} type
 * @param {number} index
 * @returns {Part}
 */
function listenerPart(element, type, index) {
  /** @type {unknown} */ let handler;
  element.addEventListener(type, (event) => typeof handler === "function" && handler(event));
  return { set: (values) => void (handler = values[index]) };
}
