// @ts-check
// What every screen uses in one import: changes, loaded data, and notices of what actions did.
import { batch, signal } from "../vendor/signals/signals.js";
import { ApiError } from "./api.js";
export { html, keyed, render } from "./markup.js";
export * from "./api.js";
export * from "./format.js";
export { apiRoot, currentRoute, navigate, setQuery, startRouter } from "./router.js";

/** Counts changes of what views hold themselves. */
const changes = signal(0);

/** Renders the screen in the next frame. */
export const update = () => void (changes.value = changes.peek() + 1);

/** Renders the calling component again after each `update`. */
export const followUpdates = () => void changes.value;

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

/** @typedef {import("./markup.js").VNode} VNode */
/** @typedef {import("./router.js").Route} Route */
/** @typedef {{ title: string, render: () => any, changed?: (route: Route) => void, destroy?: () => void }} View */

/**
 * A value that is loaded, and can be loaded again without being hidden meanwhile.
 * @template T
 */
export class Resource {
  #value = signal(/** @type {T | undefined} */ (undefined));
  #error = signal(/** @type {unknown} */ (undefined));
  #loading = signal(false);
  #version = 0;

  /** @param {() => Promise<T>} load */
  constructor(load) {
    this.loadValue = load;
  }

  get value() {
    return this.#value.value;
  }

  get error() {
    return this.#error.value;
  }

  get loading() {
    return this.#loading.value;
  }

  /** Loads the value; an earlier load that has not ended is ignored. */
  async load() {
    const version = ++this.#version;
    this.#loading.value = true;
    try {
      const value = await this.loadValue();
      if (version === this.#version) this.#end(value, undefined);
    } catch (error) {
      if (version === this.#version) this.#end(this.#value.peek(), error);
    }
  }

  /** @type {(value: T | undefined, error: unknown) => void} */
  #end(value, error) {
    batch(() => {
      this.#value.value = value;
      this.#error.value = error;
      this.#loading.value = false;
    });
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
const MAX_NOTICES = 4;
let lastId = 0;

export const notices = signal(/** @type {Notice[]} */ ([]));

/**
 * Says what happened.
 * @param {string} text
 * @param {{ detail?: string, bad?: boolean }} [options]
 */
export function say(text, { detail = "", bad = false } = {}) {
  const notice = { id: ++lastId, text, detail, bad };
  notices.value = [...notices.peek(), notice].slice(-MAX_NOTICES);
  if (!bad) setTimeout(() => dismiss(notice.id), SHOWN_MS);
}

/** @param {number} id */
export const dismiss = (id) => void (notices.value = notices.peek().filter((notice) => notice.id !== id));

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
