import { Approvals } from "./approvals.js";
import { Backoff, pause } from "./backoff.js";
import { ConnectionError } from "./errors.js";
import { Sessions } from "./sessions.js";
import { type ConnectionOptions, LONG_WAIT_MS, Transport } from "./transport.js";
import type {
  Agent, BatchResult, JsonObject, LimitsSpec, ListedTool, MessageFormat, RetrySpec, ToolCall, ToolFormat, ToolpostEvent,
} from "./types.js";
import { type EventStream, eventsOf, watch, type WatchOptions } from "./watch.js";
import type { ToolDefinition } from "./tool.js";

/** How often the stream of calls may break soon after its beginning. */
const MAX_STREAMS = 5;

/** Options of a request that makes calls. */
export interface CallOptions {
  /** The session, which is created on first use. */
  session?: string;
  /** Context objects by name, for tools that request them. */
  context?: Record<string, JsonObject>;
  agent?: Agent;
  limits?: LimitsSpec;
  retry?: RetrySpec;
  /** Calls with a higher priority leave the queue first. */
  priority?: number;
  /** Receives the final `ToolCall`, signed. */
  callbackUrl?: string;
  /** Until when to wait: the result, the acceptance, or a number of milliseconds. */
  wait?: "result" | "accepted" | number;
  /** `cancel` stops the call if this request is aborted. */
  onDisconnect?: "cancel" | "continue";
  /** Requests with the same key run once. Default: a random key for each request, so that retries are safe. */
  idempotencyKey?: string;
  /** Aborts the request. The call continues unless `onDisconnect` is `cancel`. */
  signal?: AbortSignal;
}

/** Options of a batch or of a model's message. */
export interface RunOptions extends CallOptions {
  /** Which calls run at the same time. */
  mode?: "auto" | "parallel" | "serial";
  /** The format of the response. Default: detected. */
  format?: MessageFormat;
}

/** One call of a batch. */
export interface CallItem {
  name: string;
  arguments?: unknown;
  id?: string;
}

/** What `run` returns. */
export interface RunResult {
  batchId: string | null;
  /** The calls in the order of the response. */
  results: ToolCall[];
  /** Messages to append to the conversation, in the format of the response. Empty if it has no calls. */
  messages: any[];
}

/** Which tools are listed. */
export interface ToolsOptions {
  /** The tools that this session sees. */
  session?: string;
  /** Only tools of these groups. */
  groups?: string[];
  /** Words to search for; the best match comes first. */
  q?: string;
  includeInactive?: boolean;
  signal?: AbortSignal;
}

/** Which calls are listed, newest first. */
export interface CallsOptions {
  session?: string;
  batch_id?: string;
  name?: string;
  status?: string;
  code?: string;
  phase?: string;
  since?: string;
  until?: string;
  q?: string;
  limit?: number;
  cursor?: string;
}

/** A client of one service. It keeps no connection open; make one and share it. */
export class Toolpost {
  /** Sessions: calls that belong together. */
  readonly sessions: Sessions;
  /** Calls that wait for the decision of a person. */
  readonly approvals: Approvals;
  readonly #transport: Transport;

  constructor(url: string | URL, options: ConnectionOptions = {}) {
    this.#transport = new Transport(url, options);
    this.sessions = new Sessions(this.#transport);
    this.approvals = new Approvals(this.#transport);
  }

  /** Calls a tool. A failed call is a `ToolCall` in status `ERROR`, never an exception. */
  call(name: string, args: unknown = {}, options: CallOptions & { id?: string } = {}): Promise<ToolCall> {
    const { id } = options;
    return this.#post<ToolCall>({ name, arguments: args, id, ...bodyOf(options) }, options);
  }

  /** Makes several calls in one request. */
  async batch(calls: CallItem[], options: RunOptions = {}): Promise<RunResult> {
    return resultOf(await this.#post<BatchResult>({ calls, ...bodyOf(options) }, options));
  }

  /** Runs the tool calls of a model's response: of OpenAI (both APIs), Anthropic or Gemini, as the model's SDK returns it. */
  async run(response: object, options: RunOptions = {}): Promise<RunResult> {
    return resultOf(await this.#post<BatchResult>({ ...messageOf(response), ...bodyOf(options) }, options));
  }

  /** Lists the tools in the format of a vendor, ready for the request to its model. */
  tools(format: "native", options?: ToolsOptions): Promise<ListedTool[]>;
  tools(format?: Exclude<ToolFormat, "native">, options?: ToolsOptions): Promise<any[]>;
  async tools(format: ToolFormat = "openai", options: ToolsOptions = {}): Promise<unknown[]> {
    const { session, groups, q, includeInactive, signal } = options;
    const query = { format, session, groups: groups?.join(","), q, include_inactive: includeInactive };
    return (await this.#transport.json<{ tools: unknown[] }>("GET", "/tools", { query, signal })).tools;
  }

  /** Creates or replaces a tool. */
  register(definition: ToolDefinition): Promise<ListedTool> {
    return this.#transport.json("PUT", `/tools/${encodeURIComponent(definition.name)}`, { json: definition });
  }

  /** Deletes a tool that was registered over the API. */
  async unregister(name: string): Promise<void> {
    await this.#transport.send("DELETE", `/tools/${encodeURIComponent(name)}`);
  }

  /**
   * Makes one call, or the calls of a model's response, and yields their events while they run. The last event is
   * `batch`. If `input` is the model's raw response stream, each call starts while the model is still generating.
   */
  async *stream(
    input: CallItem | Response | ReadableStream<Uint8Array> | object,
    options: RunOptions = {},
  ): AsyncGenerator<ToolpostEvent, void, void> {
    const raw = input instanceof Response ? input.body : input instanceof ReadableStream ? input : undefined;
    yield* raw ? this.#streamRaw(raw, options) : this.#streamCalls(input, options);
  }

  /**
   * Follows events. The stream of a call begins with its history, any other one with what happens from now on. It
   * resumes after a lost connection, and ends with its call or with `signal`.
   */
  watch(options: WatchOptions = {}): EventStream {
    return watch(this.#transport, options);
  }

  /** Reads a call. */
  get(id: string, options: { signal?: AbortSignal } = {}): Promise<ToolCall> {
    return this.#transport.json("GET", pathOf(id), options);
  }

  /** Waits until a call has ended. */
  async wait(id: string, options: { signal?: AbortSignal } = {}): Promise<ToolCall> {
    for (;;) {
      const call = await this.#transport.json<ToolCall>("GET", pathOf(id), { ...options, query: { wait_ms: 25_000 } });
      if (call.status === "SUCCESS" || call.status === "ERROR") return call;
    }
  }

  /** Lists calls, newest first. */
  calls(options: CallsOptions = {}): Promise<{ tool_calls: ToolCall[]; next_cursor: string | null }> {
    return this.#transport.json("GET", "/tool-calls", { query: { ...options } });
  }

  /** Cancels a call, or all calls that match. A call that has ended stays unchanged. */
  async cancel(which: string | { session?: string; batch_id?: string; name?: string; ids?: string[] }): Promise<void> {
    if (typeof which === "string") await this.#transport.send("POST", `${pathOf(which)}/cancel`, { repeatable: true });
    else await this.#transport.send("POST", "/tool-calls/cancel", { json: which, repeatable: true });
  }

  #post<T>(json: object, options: RunOptions): Promise<T> {
    const headers = { "idempotency-key": options.idempotencyKey ?? crypto.randomUUID() };
    return this.#transport.json("POST", "/tool-calls", { json, headers, signal: options.signal, repeatable: true });
  }

  /** A repeated request joins the same calls by its key, and receives their events again from the beginning. */
  async *#streamCalls(input: object, options: RunOptions): AsyncGenerator<ToolpostEvent, void, void> {
    const isCall = typeof (input as CallItem).name === "string";
    const json = { ...(isCall ? input : messageOf(input)), ...bodyOf(options) };
    const key = options.idempotencyKey ?? crypto.randomUUID();
    const headers = { accept: "text/event-stream", "idempotency-key": key };
    const backoff = new Backoff(100, 8_000);
    let last: string | undefined;
    for (let attempt = 1; ; attempt++) {
      const started = Date.now();
      const request = { json, headers, signal: options.signal, repeatable: true };
      const response = await this.#transport.send("POST", "/tool-calls", request);
      let isRepeat = last !== undefined;
      try {
        for await (const event of eventsOf(response)) {
          if (!isRepeat || event.type === "batch") yield event;
          if (event.type === "batch") return;
          if (event.id === last) isRepeat = false;
          if (!isRepeat) last = event.id;
        }
        throw new ConnectionError("POST /tool-calls: the stream ended without `batch`");
      } catch (error) {
        options.signal?.throwIfAborted();
        if (!(error instanceof ConnectionError)) throw error;
        if (Date.now() - started > LONG_WAIT_MS) attempt = 1;
        if (attempt > MAX_STREAMS) throw error;
        await pause(backoff.next(), options.signal);
      }
    }
  }

  /** A model's stream can be read only once, so this request is never repeated. */
  async *#streamRaw(body: ReadableStream<Uint8Array>, options: RunOptions): AsyncGenerator<ToolpostEvent, void, void> {
    const { format, session, signal } = options;
    if (!format) throw new TypeError('format: name the format of the stream, as in { format: "openai" }');
    const headers = { accept: "text/event-stream", "content-type": "text/event-stream" };
    const request = { body, headers, query: { format, session }, signal };
    yield* eventsOf(await this.#transport.once("POST", "/tool-calls/stream", request));
  }
}

function pathOf(id: string): string {
  return `/tool-calls/${encodeURIComponent(id)}`;
}

function resultOf(batch: BatchResult): RunResult {
  return { batchId: batch.batch_id, results: batch.results, messages: batch.messages ?? [] };
}

/** Returns the members of the request's body. Members without a value are left out by JSON. */
function bodyOf(options: RunOptions): JsonObject {
  const { session, context, agent, limits, retry, priority, mode, format, wait } = options;
  const [callback_url, on_disconnect] = [options.callbackUrl, options.onDisconnect];
  return { session, context, agent, limits, retry, priority, mode, format, wait, callback_url, on_disconnect };
}

/** Returns the plain object of a response. Responses of SDKs are instances of classes with methods and getters. */
function messageOf(response: object): JsonObject {
  return JSON.parse(JSON.stringify(response)) as JsonObject;
}
