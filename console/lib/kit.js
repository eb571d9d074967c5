// @ts-check
// What every screen uses in one import: rendering once per frame, loaded data, and notices of what actions did.
import { ApiError } from "./api.js";
export { html, keyed, render } from "./html.js";
export * from "./api.js";
export * from "./format.js";
export { apiRoot, currentRoute, navigate, setQuery, startRouter } from "./router.js";

/** @type {Set<() => void>} */
const pending = new Set();

/**
 * Runs a function in the next frame, once, however often it is requested before.
 * @param {() => void} paint
 */
export function schedule(paint) {
  if (!pending.size) requestAnimationFrame(flush);
  pending.add(paint);
}

function flush() {
  const paints = [...pending];
  pending.clear();
  for (const paint of paints) paint();
}

/** @type {() => void} */
let renderPage = () => {};

/**
 * Sets the function that renders the whole page.
 * @param {() => void} paint
 */
export const setPage = (paint) => void (renderPage = paint);

const paintPage = () => renderPage();

/** Renders the page in the next frame. */
export const update = () => schedule(paintPage);

/**
 * Returns a function that runs `action` after calls have stopped for a while.
 * @param {number} ms
 * @param {() => void} action
 */
export function debounced(ms, action) {
  /** @type {ReturnType<typeof setTimeout> | undefined} */ let timer;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(action, ms);
  };
}

/** @typedef {import("./html.js").Template} Template */
/** @typedef {import("./router.js").Route} Route */
/** @typedef {{ title: string, render: () => Template, changed?: (route: Route) => void, destroy?: () => void }} View */

/**
 * A value that is loaded, and can be loaded again without being hidden meanwhile.
 * @template T
 */
export class Resource {
  /** @type {T | undefined} */ value = undefined;
  /** @type {unknown} */ error = undefined;
  loading = false;
  #version = 0;

  /** @param {() => Promise<T>} load */
  constructor(load) {
    this.loadValue = load;
  }

  /** Loads the value; an earlier load that has not ended is ignored. */
  async load() {
    const version = ++this.#version;
    this.loading = true;
    update();
    try {
      const value = await this.loadValue();
      if (version !== this.#version) return;
      this.value = value;
      this.error = undefined;
    } catch (error) {
      if (version !== this.#version) return;
      this.error = error;
    }
    this.loading = false;
    update();
  }
}

/**
 * Returns a listener that is given the value of the field.
 * @param {(value: string) => void} use
 */
export const onText = (use) => (/** @type {Event} */ event) => use(/** @type {HTMLInputElement} */ (event.target).value);

/** @param {Event} event */
export const prevent = (event) => event.preventDefault();

/** @typedef {{ id: number, text: string, detail: string, bad: boolean }} Notice */

const SHOWN_MS = 6000;
let lastId = 0;

/** @type {Notice[]} */
export const notices = [];

/**
 * Says what happened.
 * @param {string} text
 * @param {{ detail?: string, bad?: boolean }} [options]
 */
export function say(text, { detail = "", bad = false } = {}) {
  const notice = { id: ++lastId, text, detail, bad };
  notices.push(notice);
  if (notices.length > 4) notices.shift();
  if (!bad) setTimeout(() => dismiss(notice.id), SHOWN_MS);
  update();
}

/** @param {number} id */
export function dismiss(id) {
  const index = notices.findIndex((notice) => notice.id === id);
  if (index >= 0) notices.splice(index, 1);
  update();
}

/**
 * Says what failed, with the detail and the request id of the problem.
 * @param {string} what
 * @param {unknown} error
 */
export function sayError(what, error) {
  const { message, requestId } = describe(error);
  say(`${what}: ${message}`, { detail: requestId && `request ${requestId}`, bad: true });
}

/**
 * Returns the text of an error for people.
 * @param {unknown} error
 */
export function describe(error) {
  const message = error instanceof Error ? error.message : String(error);
  return { message, requestId: error instanceof ApiError ? error.requestId : "" };
}

/**
 * Runs an action and says how it ended. Returns its result, or `undefined` after an error.
 * @template T
 * @param {string} failed What to say before the reason of a failure.
 * @param {() => Promise<T>} action
 * @param {(result: T) => string} [done]
 * @returns {Promise<T | undefined>}
 */
export async function act(failed, action, done) {
  try {
    const result = await action();
    if (done) say(done(result));
    return result;
  } catch (error) {
    sayError(failed, error);
    return undefined;
  }
}

/**
 * Copies a text and says so.
 * @param {string} text
 * @param {string} what
 */
export const copy = (text, what) => act("cannot copy", () => navigator.clipboard.writeText(text), () => `Copied ${what}.`);
