import { Backoff, pause } from "./backoff.js";
import { parseEvents } from "./sse.js";
import { isTransient, type Transport } from "./transport.js";
import type { ToolpostEvent } from "./types.js";

/** What `watch` follows: one call, one session, or everything that the key may see. */
export interface WatchOptions {
  /** The id of a call. The stream has its history, and ends after its end. */
  call?: string;
  /** The id of a session. */
  session?: string;
  /** The name of a tool, if no call is given. */
  name?: string;
  /** The id of an event: the stream begins after it. */
  after?: string;
  /** Ends the stream. */
  signal?: AbortSignal;
}

/** Follows events. */
export function watch(transport: Transport, options: WatchOptions): EventStream {
  const { call, session, name, after, signal } = options;
  const query: Record<string, string | undefined> = {};
  let path = "/events";
  if (call !== undefined) path = `/tool-calls/${encodeURIComponent(call)}/events`;
  else if (session !== undefined && name === undefined) path = `/sessions/${encodeURIComponent(session)}/events`;
  else Object.assign(query, { session, name });
  return new EventStream(transport, path, { query, after, signal, isEnd: endOf(transport, call) });
}

export interface FollowOptions {
  query?: Record<string, string | undefined>;
  after?: string | undefined;
  signal?: AbortSignal | undefined;
  /** Decides, when the service has closed the stream after `last`, whether the stream is over. */
  isEnd?: ((last: ToolpostEvent | undefined) => Promise<boolean>) | undefined;
}

/**
 * Events, for `for await`. The stream connects at once. After a lost connection it resumes behind the last event, without
 * a gap and without a repeat. It ends with its call, with its signal, or when the loop ends.
 */
export class EventStream implements AsyncIterableIterator<ToolpostEvent, void, void> {
  /** Resolves when the stream is connected: it has all events from then on. */
  readonly opened: Promise<void>;
  readonly #abort = new AbortController();
  readonly #events: AsyncGenerator<ToolpostEvent, void, void>;
  #first: Promise<IteratorResult<ToolpostEvent, void>> | undefined;

  constructor(transport: Transport, path: string, options: FollowOptions) {
    const { signal } = options;
    const abort = () => this.#abort.abort();
    if (signal?.aborted) abort();
    signal?.addEventListener("abort", abort);
    let isOpen = () => {};
    const connected = new Promise<void>((resolve) => (isOpen = resolve));
    this.#events = follow(transport, path, { ...options, signal: this.#abort.signal }, () => isOpen());
    this.#first = this.#events.next();
    this.opened = Promise.race([connected, this.#first.then(() => {})]);
    // An error is thrown where the stream is iterated or its connection awaited.
    this.#first.catch(() => {});
    this.opened.catch(() => {});
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<IteratorResult<ToolpostEvent, void>> {
    const first = this.#first;
    this.#first = undefined;
    return first ?? this.#events.next();
  }

  async return(): Promise<IteratorResult<ToolpostEvent, void>> {
    this.#abort.abort();
    return this.#events.return();
  }
}

async function* follow(
  transport: Transport,
  path: string,
  options: FollowOptions,
  onOpen: () => void,
): AsyncGenerator<ToolpostEvent, void, void> {
  const { signal, query = {}, isEnd } = options;
  const backoff = new Backoff(100, 10_000);
  let after = options.after;
  let last: ToolpostEvent | undefined;
  while (!signal?.aborted) {
    let leastMs = 0;
    try {
      const headers: Record<string, string> = { accept: "text/event-stream" };
      if (after !== undefined) headers["last-event-id"] = after;
      const response = await transport.once("GET", path, { headers, query, signal });
      onOpen();
      for await (const event of eventsOf(response)) {
        backoff.reset();
        last = event;
        after = event.id || after;
        yield event;
      }
      if (await isEnd?.(last)) return;
    } catch (error) {
      if (signal?.aborted) return;
      if (!isTransient(error)) throw error;
      leastMs = (error as { retryAfterMs?: number }).retryAfterMs ?? 0;
    }
    await pause(backoff.next(leastMs), signal);
  }
}

/** Yields the events of an answer. */
export async function* eventsOf(response: Response): AsyncGenerator<ToolpostEvent, void, void> {
  if (!response.body) return;
  for await (const { id, event, data } of parseEvents(response.body)) {
    yield { type: event, id, data: JSON.parse(data) } as ToolpostEvent;
  }
}

function endOf(transport: Transport, call: string | undefined): FollowOptions["isEnd"] {
  if (call === undefined) return undefined;
  return async (last) => {
    if (last?.type === "tool_result") return true;
    // The stream may begin after the end of the call: then it has no event.
    const path = `/tool-calls/${encodeURIComponent(call)}`;
    const { status } = await transport.json<{ status: string }>("GET", path);
    return last === undefined && (status === "SUCCESS" || status === "ERROR");
  };
}
