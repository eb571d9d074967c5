// @ts-check
// JSON text with the place of each value, JSON Pointers (RFC 6901), and changes at a path.
import { parseJson } from "./format.js";

/** @typedef {{ start: number, end: number, line: number }} Place */
/** @typedef {{ value: unknown, places: Map<string, Place>, error: { message: string, at: number, line: number } | null }} Source */

const TOKEN = /\s*(?:([{}[\],:])|("(?:[^"\\\u0000-\u001f]|\\.)*")|(-?\d[\d.eE+-]*|true|false|null))/y;

/**
 * Parses a text. `places` maps JSON Pointers to ranges of the text.
 * @param {string} text
 * @returns {Source}
 */
export function parseSource(text) {
  const places = new Map();
  const reader = new Reader(text, places);
  try {
    reader.document();
    return { value: parseJson(text), places, error: null };
  } catch (error) {
    const at = Math.min(reader.at, text.length);
    const message = reader.message ?? `invalid JSON: ${/** @type {Error} */ (error).message}`;
    return { value: undefined, places, error: { message, at, line: lineOf(text, at) } };
  }
}

/**
 * Returns the number of the line at an offset, counted from 1.
 * @param {string} text
 * @param {number} offset
 */
export function lineOf(text, offset) {
  let line = 1;
  for (let at = text.indexOf("\n"); at >= 0 && at < offset; at = text.indexOf("\n", at + 1)) line++;
  return line;
}

/**
 * Returns the place of an error such as `line 2, column 3: unknown variable`.
 * @param {string} text
 * @param {string} message
 */
export function placeInText(text, message) {
  const [, line = 1, column = 1, rest = message] = /^line (\d+), column (\d+): ([^]*)/.exec(message) ?? [];
  const before = text.split("\n", Number(line) - 1).reduce((sum, one) => sum + one.length + 1, 0);
  const start = before + Number(column) - 1;
  return { line: Number(line), start, end: start + 1, message: rest };
}

/**
 * Returns the place of a pointer, or of its nearest parent that is in the text.
 * @param {Map<string, Place>} places
 * @param {string} pointer
 */
export function placeOf(places, pointer) {
  for (let at = pointer; ; at = at.slice(0, at.lastIndexOf("/"))) {
    const place = places.get(at);
    if (place || !at) return place ?? null;
  }
}

class Reader {
  at = 0;
  /** @type {string | null} */ message = null;

  /**
   * @param {string} text
   * @param {Map<string, Place>} places
   */
  constructor(text, places) {
    this.text = text;
    this.places = places;
  }

  document() {
    this.value("");
    if (this.text.slice(this.at).trim()) this.fail("text after the end of the JSON value");
  }

  /** @param {string} pointer */
  value(pointer) {
    const token = this.next();
    const start = this.at - token.length;
    if (token === "{") this.members("}", (name) => this.value(`${pointer}/${name}`));
    else if (token === "[") this.members("]", (name) => this.value(`${pointer}/${name}`));
    else if (!token || ",:}]".includes(token)) this.fail(`expected a value${token && `, got ${token}`}`, start);
    this.places.set(pointer, { start, end: this.at, line: lineOf(this.text, start) });
  }

  /**
   * @param {"}" | "]"} close
   * @param {(name: string) => void} member
   */
  members(close, member) {
    if (this.peek() === close) return void this.next();
    for (let index = 0; ; index++) {
      member(close === "}" ? this.name() : String(index));
      const token = this.next();
      if (token === close) return;
      if (token !== ",") this.fail(`expected , or ${close}`, this.at - token.length);
    }
  }

  name() {
    const token = this.next();
    if (token[0] !== '"') this.fail("expected a member name in double quotes", this.at - token.length);
    if (this.next() !== ":") this.fail("expected : after the member name");
    return JSON.parse(token).replace(/~/g, "~0").replace(/\//g, "~1");
  }

  next() {
    TOKEN.lastIndex = this.at;
    const match = TOKEN.exec(this.text);
    if (!match) {
      this.at += /^\s*/.exec(this.text.slice(this.at))?.[0].length ?? 0;
      this.fail(this.at < this.text.length ? "invalid JSON here" : "the JSON ends too early");
    } else this.at = TOKEN.lastIndex;
    return match ? (match[1] ?? match[2] ?? match[3]) : "";
  }

  peek() {
    const at = this.at;
    const token = this.next();
    this.at = at;
    return token;
  }

  /**
   * @param {string} message
   * @param {number} [at]
   */
  fail(message, at = this.at) {
    this.at = at;
    this.message = message;
    throw new SyntaxError(message);
  }
}

/** @typedef {(string | number)[]} Path */

/** @param {Path} path */
export const pointerOf = (path) => path.map((step) => `/${String(step).replace(/~/g, "~0").replace(/\//g, "~1")}`).join("");

/**
 * Returns the value at a path, or `undefined`.
 * @param {any} value
 * @param {Path} path
 */
export function valueAt(value, path) {
  for (const step of path) {
    if (value === null || typeof value !== "object" || !Object.hasOwn(value, step)) return undefined;
    value = value[step];
  }
  return value;
}

/** @typedef {{ pointer: string, before: unknown, after: unknown }} Change `undefined` is an absent member. */

/**
 * Returns what differs between two values, with its place.
 * @param {any} before
 * @param {any} after
 * @param {Path} [path]
 * @returns {Change[]}
 */
export function changesOf(before, after, path = []) {
  if (JSON.stringify(before) === JSON.stringify(after)) return [];
  const isBoth = [before, after].every((value) => value !== null && typeof value === "object") && Array.isArray(before) === Array.isArray(after);
  if (!isBoth) return [{ pointer: pointerOf(path), before, after }];
  const names = new Set([...Object.keys(before), ...Object.keys(after)]);
  return [...names].flatMap((name) => changesOf(valueAt(before, [name]), valueAt(after, [name]), [...path, name]));
}

/**
 * Returns a copy with another value at the path. `undefined` removes the member.
 * @param {any} value
 * @param {Path} path
 * @param {unknown} next
 * @returns {any}
 */
export function withValueAt(value, path, next) {
  if (!path.length) return next;
  const [step, ...rest] = path;
  if (typeof step === "number") {
    const copy = Array.isArray(value) ? [...value] : [];
    const inner = withValueAt(copy[step], rest, next);
    if (inner === undefined) copy.splice(step, 1);
    else copy[step] = inner;
    return copy;
  }
  const copy = value && typeof value === "object" && !Array.isArray(value) ? { ...value } : {};
  const inner = withValueAt(Object.hasOwn(copy, step) ? copy[step] : undefined, rest, next);
  if (inner === undefined) delete copy[step];
  // A member called `__proto__` is data like any other.
  else Object.defineProperty(copy, step, { value: inner, enumerable: true, configurable: true, writable: true });
  return copy;
}
