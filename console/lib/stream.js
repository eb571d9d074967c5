// @ts-check
// Event streams that resume where they broke off, and a call that is followed to its end.
import { signal } from "../vendor/signals/signals.js";
import { api, ApiError, apiUrl, send } from "./api.js";
import { parseJson, query } from "./format.js";
import { parseEvents, timelineOf } from "./spans.js";
import { update } from "./kit.js";

/** @typedef {{ id: string, event: string, data: any }} StreamEvent */
/** @typedef {{ onEvent: (event: StreamEvent) => void, onGap?: () => void }} StreamOptions */

/** The streams of the page whose connection is lost. */
export const lostStreams = signal(/** @type {readonly object[]} */ ([]));

/** @type {(stream: object, lost: boolean) => void} */
function setLost(stream, lost) {
  if (lostStreams.peek().includes(stream) !== lost) lostStreams.value = lost ? [...lostStreams.peek(), stream] : lostStreams.peek().filter((one) => one !== stream);
}

const EVENTS = ["tool_call", "status", "progress", "hook_error", "tool_result", "batch", "session"];
const MAX_DELAY_MS = 8000;
const REFUSED = [401, 403, 404, 422];

/**
 * Subscribes to a path of events. `onGap` is called when what was before has to be loaded: at the start, once the stream is open
 * and nothing is missed between, and after a reconnect that could not resume. Returns a function that ends it.
 * @param {string[]} segments
 * @param {Record<string, string>} filters
 * @param {StreamOptions} options
 */
export function subscribe(segments, filters, { onEvent, onGap = () => {} }) {
  /** @type {EventSource} */ let source;
  let lastId = filters.after ?? "";
  let delay = 500;
  let begun = lastId !== "";
  const stream = {};
  let ended = false;
  /** @type {ReturnType<typeof setTimeout> | undefined} */ let timer;

  const connect = () => {
    source = new EventSource(apiUrl(...segments) + query({ ...filters, after: lastId }));
    source.onopen = () => {
      setLost(stream, false);
      begun = true;
      delay = 500;
      if (!lastId) onGap();
    };
    source.onerror = () => {
      setLost(stream, true);
      if (!begun) onGap();
      begun = true;
      // The browser reconnects after a broken connection, with Last-Event-ID. It gives up after an error response.
      if (source.readyState === EventSource.CLOSED) retryLater();
    };
    for (const name of EVENTS) source.addEventListener(name, (event) => receive(name, event));
  };
  const retryLater = () => {
    timer = setTimeout(retry, delay * (0.5 + Math.random() / 2));
    delay = Math.min(delay * 2, MAX_DELAY_MS);
  };
  /** Finds out why the stream was refused: events say no status. */
  const retry = async () => {
    const abort = new AbortController();
    try {
      await send("GET", segments, { query: { ...filters, after: lastId }, signal: abort.signal });
      if (!ended) connect();
    } catch (error) {
      if (ended) return;
      if (!(error instanceof ApiError) || !REFUSED.includes(error.status)) return retryLater();
      // Nothing is there any more, or the caller may not see it: the screen says so.
      setLost(stream, false);
      onGap();
    } finally {
      abort.abort();
    }
  };
  /** @type {(name: string, event: MessageEvent) => void} */
  const receive = (name, event) => {
    lastId = event.lastEventId;
    onEvent({ id: event.lastEventId, event: name, data: parseJson(event.data) });
  };
  connect();
  return () => {
    ended = true;
    clearTimeout(timer);
    source.close();
    setLost(stream, false);
  };
}

/** @typedef {import("./spans.js").TimedEvent} TimedEvent */

const TICK_MS = 100;
const HISTORY_MS = 250;
const RETRY_MS = 1000;

/** @param {{ status: string }} call */
export const isEnded = ({ status }) => status === "SUCCESS" || status === "ERROR";

export class CallWatch {
  /** @type {Api.ToolCall | null} */ call = null;
  /** @type {Api.ToolCall[]} */ nested = [];
  /** @type {(TimedEvent & { id: string })[]} */ events = [];
  /** @type {unknown} */ error = undefined;
  /** Whether the recorded events are read. */ hasEvents = false;
  #closed = false;
  #unsubscribe = () => {};
  /** @type {ReturnType<typeof setInterval> | undefined} */ #clock;

  /** @param {string} id */
  constructor(id) {
    this.id = id;
    this.#start();
  }

  async #start() {
    try {
      /** @type {Api.ToolCall} */
      const call = await api.get(["tool-calls", this.id]);
      if (this.#closed) return;
      this.call = call;
      if (isEnded(call)) await this.#readEvents();
      else this.#follow();
      await this.#loadNested();
    } catch (error) {
      this.error = error;
    }
    update();
  }

  /** Reads the recorded events of an ended call. */
  async #readEvents() {
    update();
    this.events = parseEvents(await api.text(["tool-calls", this.id, "events"]));
    this.hasEvents = true;
  }

  async #loadNested() {
    /** @type {Api.ToolCallPage} */
    const page = await api.get(["tool-calls"], { parent: this.id, limit: 100 });
    this.nested = page.tool_calls.reverse();
  }

  #follow() {
    this.#clock = setInterval(update, TICK_MS);
    // The stream begins with the recorded events, whose times are not known unless they say so.
    let historyEnds = Infinity;
    this.#unsubscribe = subscribe(["tool-calls", this.id, "events"], { after: "0" }, {
      onEvent: (event) => {
        historyEnds = Math.min(historyEnds, Date.now() + HISTORY_MS);
        this.events.push({ ...event, at: Date.now() > historyEnds ? Date.now() : undefined });
        if (event.event === "status") this.#apply(event.data);
        if (event.event === "tool_result") this.#finish();
        update();
      },
    });
  }

  /** @param {any} data */
  #apply(data) {
    // The end is shown once the output is read, which no event has.
    if (!this.call || isEnded(data)) return;
    const { status, phase, tip, progress, started_at, metadata, approval = this.call.approval } = data;
    // Events do not have the arguments that an approver replaced.
    if (approval?.digest !== this.call.approval?.digest) this.refresh();
    Object.assign(this.call, { status, phase, tip, progress, started_at, metadata, approval });
    if (phase === "running" || phase === "external") this.#loadNestedSoon();
  }

  #loadNestedSoon() {
    if (!this.nested.some((child) => !isEnded(child)) && this.nested.length) return;
    this.#loadNested().then(update, () => {});
  }

  /** Reads the call again, as long as it runs. */
  async refresh() {
    /** @type {Api.ToolCall | null} */
    const call = await api.get(["tool-calls", this.id]).catch(() => null);
    if (call && this.call && !isEnded(this.call) && !isEnded(call)) this.call = call;
    update();
  }

  /** Reads the final state, which has what events leave out. */
  async #finish() {
    this.#stop();
    try {
      this.call = await api.get(["tool-calls", this.id]);
      await this.#loadNested();
      this.error = undefined;
    } catch (error) {
      this.error = error;
      // The service may be restarting.
      if (!(error instanceof ApiError) || !REFUSED.includes(error.status)) setTimeout(() => this.#closed || this.#finish(), RETRY_MS);
    }
    update();
  }

  #stop() {
    this.#unsubscribe();
    clearInterval(this.#clock);
  }

  timeline() {
    return this.call && timelineOf(this.call, this.events, this.nested);
  }

  close() {
    this.#closed = true;
    this.#stop();
  }
}
