// @ts-check
// The calls that wait for approval, oldest first, from pages and events. The navigation counts them.
import { api, apiUrl, can, me, update } from "./kit.js";
import { subscribe } from "./stream.js";

const PAGE = 200;
const COLLECT_MS = 100;

/** @typedef {{ id: string, phase: string, approval: Api.Approval }} ApprovalEvent */

export class Inbox {
  /** Sorted by id. @type {Api.ToolCall[]} */ calls = [];
  /** The end of what is loaded; `null` if it is all. @type {string | null} */ cursor = null;
  /** @type {unknown} */ error = undefined;
  loaded = false;
  #loading = false;
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
    this.calls = [];
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
      // Before, another page may have closed without passing on its last events.
      if (this.loaded) this.reload();
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

  /** What the navigation shows: `200+` if more wait than are loaded. */
  get count() {
    return this.calls.length ? `${this.calls.length}${this.cursor ? "+" : ""}` : "";
  }

  /** @param {string | null} id */
  get(id) {
    return this.calls.find((call) => call.id === id);
  }

  reload() {
    Object.assign(this, { calls: [], cursor: null, loaded: false, error: undefined });
    this.#decided.clear();
    return this.more();
  }

  /** Loads the next page. */
  async more() {
    if (this.#loading || this.error || (this.loaded && !this.cursor)) return;
    this.#loading = true;
    try {
      this.cursor = await this.#page(this.cursor);
      this.loaded = true;
    } catch (error) {
      this.error = error;
    }
    this.#loading = false;
    update();
  }

  /** @param {string | null | undefined} cursor */
  async #page(cursor) {
    /** @type {Api.ApprovalPage} */
    const page = await api.get(["approvals"], { limit: PAGE, cursor });
    const found = new Map(this.calls.map((call) => [call.id, call]));
    for (const call of page.approvals) if (!this.#decided.has(call.id)) found.set(call.id, call);
    this.calls = [...found.values()].sort((a, b) => (a.id < b.id ? -1 : 1));
    for (const { id } of page.approvals) this.#missing.delete(id);
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
    if (!waits) this.#remove(id);
    update();
  }

  /** @param {string} id */
  #remove(id) {
    this.#decided.add(id);
    this.#missing.delete(id);
    this.calls = this.calls.filter((call) => call.id !== id);
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
      while (this.#missing.size && cursor !== null) cursor = await this.#page(cursor);
      // What is on no page does not wait any more.
      for (const id of wanted) if (this.#missing.has(id)) this.#remove(id);
    } catch (error) {
      this.error = error;
    }
    update();
  }
}

export const inbox = new Inbox();
