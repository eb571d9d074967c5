import { Backoff, pause } from "./backoff.js";
import { ConnectionError, errorOf, RequestError } from "./errors.js";

/** How the service is reached. */
export interface ConnectionOptions {
  /** The API key, `tp_…`. */
  apiKey?: string;
  /** How often a request is repeated that may be repeated. Default: 4. */
  maxRetries?: number;
  /** Headers of every request, for gateways. */
  headers?: Record<string, string>;
  /** A replacement for the global `fetch`. */
  fetch?: typeof fetch;
}

/** One request. */
export interface RequestOptions {
  query?: Record<string, string | number | boolean | undefined | null>;
  /** Sent as JSON. */
  json?: unknown;
  /** Sent as it is. */
  body?: ReadableStream<Uint8Array> | string;
  headers?: Record<string, string>;
  signal?: AbortSignal | undefined;
  /** Whether a second request after a lost answer does no harm. */
  repeatable?: boolean;
}

/** A failure after this time does not count as a retry: a gateway cut off a long wait, and the request is joined again. */
export const LONG_WAIT_MS = 20_000;
/** A service that names a longer wait gets no retry. */
const MAX_RETRY_AFTER_MS = 60_000;
const SDK = "toolpost-typescript/0.1.0";

/** Sends requests to one service, and repeats them where this is safe. */
export class Transport {
  readonly url: string;
  readonly #fetch: typeof fetch;
  readonly #headers: Record<string, string>;
  readonly #maxRetries: number;

  constructor(url: string | URL, options: ConnectionOptions = {}) {
    const parsed = new URL(url);
    if (parsed.protocol !== "http:" && parsed.protocol !== "https:") {
      throw new TypeError(`url: "${parsed.protocol}" is not supported; use http: or https:`);
    }
    this.url = parsed.origin + parsed.pathname.replace(/\/+$/, "");
    // The global is looked up at each request, so that a test or a framework can replace it later.
    this.#fetch = options.fetch ?? ((...request) => globalThis.fetch(...request));
    this.#maxRetries = options.maxRetries ?? 4;
    this.#headers = { ...options.headers };
    if (options.apiKey) this.#headers["authorization"] = `Bearer ${options.apiKey}`;
    // Browsers add a preflight request for a header of our own and set their own user agent.
    if (!("document" in globalThis)) this.#headers["user-agent"] = SDK;
  }

  /** Sends a request and returns the JSON of its answer. */
  async json<T>(method: string, path: string, options: RequestOptions = {}): Promise<T> {
    const response = await this.send(method, path, options);
    const text = await response.text().catch((cause) => {
      throw new ConnectionError(`${method} ${path}: the answer was cut off`, { cause });
    });
    return (text === "" ? undefined : JSON.parse(text)) as T;
  }

  /** Sends a request and returns its 2xx answer. */
  async send(method: string, path: string, options: RequestOptions = {}): Promise<Response> {
    const repeatable = options.repeatable ?? method !== "POST";
    const backoff = new Backoff(250, 8_000);
    for (let retries = 0; ; retries++) {
      const started = Date.now();
      try {
        return await this.once(method, path, options);
      } catch (error) {
        options.signal?.throwIfAborted();
        if (!(repeatable ? isTransient(error) : wasNotAccepted(error))) throw error;
        if (Date.now() - started > LONG_WAIT_MS) retries = 0;
        const { retryAfterMs = 0 } = error as RequestError;
        if (retries >= this.#maxRetries || retryAfterMs > MAX_RETRY_AFTER_MS) throw error;
        await pause(backoff.next(retryAfterMs), options.signal);
        options.signal?.throwIfAborted();
      }
    }
  }

  /** Sends a request once. */
  async once(method: string, path: string, options: RequestOptions = {}): Promise<Response> {
    const headers: Record<string, string> = { ...this.#headers, ...options.headers };
    if (options.json !== undefined) headers["content-type"] = "application/json";
    const body = options.json === undefined ? options.body : JSON.stringify(options.json);
    // Node requires `duplex` for a streamed body; the DOM's types do not know it.
    const init: RequestInit & { duplex?: "half" } = { method, headers };
    if (body !== undefined) init.body = body;
    if (body instanceof ReadableStream) init.duplex = "half";
    if (options.signal) init.signal = options.signal;
    let response: Response;
    try {
      response = await this.#fetch(this.url + path + queryOf(options.query), init);
    } catch (cause) {
      options.signal?.throwIfAborted();
      throw new ConnectionError(`${method} ${path}: ${reasonOf(cause)}`, { cause });
    }
    if (!response.ok) throw await errorOf(response);
    return response;
  }
}

/** Returns whether the same request may succeed later. */
export function isTransient(error: unknown): boolean {
  if (error instanceof RequestError) return [408, 429, 502, 503, 504].includes(error.status);
  return error instanceof ConnectionError;
}

/** Returns whether the service rejected the request before it did anything. */
function wasNotAccepted(error: unknown): boolean {
  return error instanceof RequestError && (error.status === 429 || error.code === "OVERLOADED");
}

/** Returns the innermost message, because `fetch failed` alone says nothing. */
function reasonOf(cause: unknown): string {
  if (!(cause instanceof Error)) return String(cause);
  const inner = cause.cause as { code?: string; message?: string } | undefined;
  return inner?.message || inner?.code || cause.message;
}

function queryOf(query: RequestOptions["query"]): string {
  const entries = Object.entries(query ?? {}).filter(([, value]) => value !== undefined && value !== null);
  const text = new URLSearchParams(entries.map(([name, value]) => [name, String(value)])).toString();
  return text && `?${text}`;
}
