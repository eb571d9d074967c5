// @ts-check
// The calls that wait for approval, oldest first, from pages and events. The navigation counts them.
import { signal } from "../vendor/signals/signals.js";
import { api, apiUrl, can, me } from "./api.js";
import { subscribe } from "./stream.js";

const PAGE = 200;
const NEXT_PAGE = 500;
const COLLECT_MS = 100;
const RETRY_MS = 5000;

/** @typedef {{ id: string, phase: string, approval: Api.Approval }} ApprovalEvent */

export class Inbox {
  /** Counts changes. What is read of the inbox is read again after one. */ #changes = signal(0);
  /** @type {Map<string, Api.ToolCall>} */ #byId = new Map();
  /** Sorted when it is read: many events may come before. @type {Api.ToolCall[] | undefined} */ #sorted;
  /** The end of what is loaded; `null` if it is all. @type {string | null} */ cursor = null;
  /** @type {unknown} */ error = undefined;
  loaded = false;
  #loading = false;
  /** Grows with each reload, so that pages of before are ignored. */ #version = 0;
  /** @type {unknown} */ #caller = null;
  #missing = new Set();
  #decided = new Set();
  /** @type {Promise<void> | undefined} */ #reading;
  #close = () => {};

  /** Follows what the present caller may see. */
  sync() {
    if (me.caller === this.#caller) return;
    this.#caller = me.caller;
    this.#close();
    this.#byId.clear();
    Object.assign(this, { cursor: null, loaded: false });
    this.#sorted = undefined;
    if (!can("approve") && !can("read")) return;
    this.#close = this.#follow();
    this.reload();
  }

  /** Follows events. One page reads the stream for all pages of this browser, which opens few connections to a server. */
  #follow() {
    const name = apiUrl("approvals");
    const channel = new BroadcastChannel(name);
    channel.onmessage = ({ data }) => void (data ? this.apply(data) : this.reload());
    /** @type {(value?: unknown) => void} */ let end = () => {};
    const ended = new Promise((resolve) => (end = resolve));
    const read = async () => {
      const stop = subscribe(["approvals", "events"], {}, {
        onEvent: ({ data }) => {
          this.apply(data);
          channel.postMessage(data);
        },
        onGap: () => {
          this.reload();
          channel.postMessage(null);
        },
      });
      await ended;
      stop();
    };
    // Browsers have locks on HTTPS and on their own machine.
    if (navigator.locks) navigator.locks.request(name, read);
    else read();
    return () => {
      channel.close();
      end();
    };
  }

  #changed() {
    this.#changes.value = this.#changes.peek() + 1;
  }

  /** The calls, oldest first. */
  get calls() {
    this.#changes.value;
    return (this.#sorted ??= [...this.#byId.values()].sort((a, b) => (a.id < b.id ? -1 : 1)));
  }

  /** What the navigation shows: `200+` if more wait than are loaded. */
  get count() {
    this.#changes.value;
    const { size } = this.#byId;
    return size ? `${size}${this.cursor ? "+" : ""}` : "";
  }

  /** @param {string | null} id */
  get(id) {
    this.#changes.value;
    return this.#byId.get(id ?? "");
  }

  /** Begins again. What is known stays until the first page is there. */
  reload() {
    this.error = undefined;
    this.#decided.clear();
    this.#version++;
    return this.#load(null, [...this.#byId.keys()]);
  }

  /** Loads the next page. */
  async more() {
    if (!this.#loading && !this.error && this.cursor) await this.#load(this.cursor);
  }

  /** @type {(cursor: string | null, replaced?: string[]) => Promise<void>} */
  async #load(cursor, replaced) {
    this.#loading = true;
    const version = this.#version;
    try {
      const next = await this.#page(cursor, replaced);
      if (version !== this.#version) return;
      this.cursor = next;
      this.loaded = true;
    } catch (error) {
      if (version !== this.#version) return;
      this.#fail(error);
    }
    this.#loading = false;
    this.#changed();
  }

  /** @param {unknown} error The service may only be busy or restarting, so it is asked again. */
  #fail(error) {
    this.error = error;
    setTimeout(() => this.error === error && this.reload(), RETRY_MS);
  }

  /** @type {(cursor: string | null | undefined, replaced?: string[]) => Promise<string | null>} */
  async #page(cursor, replaced = []) {
    const version = this.#version;
    /** @type {Api.ApprovalPage} */
    const page = await api.get(["approvals"], { limit: cursor ? NEXT_PAGE : PAGE, cursor });
    if (version === this.#version) for (const id of replaced) this.#byId.delete(id);
    for (const call of page.approvals) {
      if (version === this.#version && !this.#decided.has(call.id)) this.#byId.set(call.id, call);
      this.#missing.delete(call.id);
    }
    this.#sorted = undefined;
    return page.next_cursor ?? null;
  }

  /** @param {ApprovalEvent} event */
  apply({ id, phase, approval }) {
    const known = this.get(id);
    const waits = approval.status === "pending" && phase === "approval";
    // Events do not have the arguments of a new digest.
    if (waits && known?.approval?.digest !== approval.digest) this.read(id);
    // Who looks at the call sees what was decided.
    else if (known) Object.assign(known, { phase, approval });
    if (!waits) {
      this.#decided.add(id);
      this.#remove(id);
    }
    this.#changed();
  }

  /** @param {string} id */
  #remove(id) {
    this.#missing.delete(id);
    if (this.#byId.delete(id)) this.#sorted = undefined;
  }

  /**
   * Reads a call, with others that are wanted at the same time. Calls behind the last loaded page come with theirs.
   * @param {string} id
   */
  read(id) {
    if (!this.cursor || id <= this.cursor) this.#missing.add(id);
    return (this.#reading ??= new Promise((resolve) => setTimeout(resolve, COLLECT_MS)).then(() => this.#readMissing()));
  }

  async #readMissing() {
    this.#reading = undefined;
    const wanted = [...this.#missing].sort();
    try {
      /** @type {string | null | undefined} */ let cursor = this.calls.findLast(({ id }) => id < wanted[0])?.id;
      // What is not before the end of a page is on no page.
      const last = wanted[wanted.length - 1];
      while (wanted.some((id) => this.#missing.has(id)) && cursor !== null && (cursor ?? "") < last) cursor = await this.#page(cursor);
      // What is on no page does not wait any more.
      for (const id of wanted) if (this.#missing.has(id)) this.#remove(id);
    } catch (error) {
      this.#fail(error);
    }
    this.#changed();
  }
}

export const inbox = new Inbox();
