// @ts-check
// The client of the public API, and who its caller is.
import { signal } from "../vendor/signals/signals.js";
import { parseJson, query } from "./format.js";
import { apiRoot } from "./router.js";

/** A request that the service rejected, or that did not reach it (`status` 0). */
export class ApiError extends Error {
  /**
   * @param {number} status
   * @param {Partial<Api.Problem>} problem
   */
  constructor(status, problem) {
    super(problem.detail || problem.title || `status ${status}`);
    this.status = status;
    this.code = problem.code ?? "";
    this.requestId = problem.request_id ?? "";
    /** @type {{ pointer: string, message: string }[]} */
    this.errors = problem.errors ?? [];
  }
}

/** @typedef {{ query?: Parameters<typeof query>[0], body?: unknown, headers?: Record<string, string>, signal?: AbortSignal }} RequestOptions */

/** @type {() => void} */
let onUnauthorized = () => {};

/**
 * Sets what happens after a response 401.
 * @param {() => void} listener
 */
export const whenUnauthorized = (listener) => void (onUnauthorized = listener);

/**
 * Returns the absolute address of a path of the API.
 * @param {string[]} segments
 */
export const apiUrl = (...segments) => apiRoot + segments.map(encodeURIComponent).join("/");

/**
 * Sends a request and returns the response.
 * @param {string} method
 * @param {string[]} segments
 * @param {RequestOptions} [options]
 */
export async function send(method, segments, { query: search = {}, body, headers = {}, signal } = {}) {
  const sent = body === undefined ? headers : { "content-type": "application/json", ...headers };
  const text = body === undefined ? undefined : typeof body === "string" ? body : JSON.stringify(body);
  const address = apiUrl(...segments) + query(search);
  const response = await fetch(address, { method, headers: sent, body: text, signal, credentials: "same-origin" }).catch((error) => {
    if (signal?.aborted) throw error;
    throw new ApiError(0, { detail: "the service cannot be reached" });
  });
  if (response.ok) return response;
  if (response.status === 401) onUnauthorized();
  const problem = await response.json().catch(() => ({ detail: `the service answered with status ${response.status}` }));
  throw new ApiError(response.status, { request_id: response.headers.get("x-request-id") ?? "", ...problem });
}

/**
 * Sends a request and returns the JSON of the response.
 * @template T
 * @param {string} method
 * @param {string[]} segments
 * @param {RequestOptions} [options]
 * @returns {Promise<T>}
 */
async function json(method, segments, options) {
  const response = await send(method, segments, options);
  return response.status === 204 ? /** @type {T} */ (undefined) : parseJson(await response.text());
}

export const api = {
  /** @type {<T>(segments: string[], query?: RequestOptions["query"]) => Promise<T>} */
  get: (segments, search) => json("GET", segments, { query: search }),
  /** @type {<T>(segments: string[], body?: unknown, options?: RequestOptions) => Promise<T>} */
  post: (segments, body, options) => json("POST", segments, { body, ...options }),
  /** @type {<T>(segments: string[], body: unknown, options?: RequestOptions) => Promise<T>} */
  put: (segments, body, options) => json("PUT", segments, { body, ...options }),
  /** @type {<T>(segments: string[], body: unknown, options?: RequestOptions) => Promise<T>} */
  patch: (segments, body, options) => json("PATCH", segments, { body, ...options }),
  /** @type {(segments: string[], options?: RequestOptions) => Promise<void>} */
  delete: (segments, options) => json("DELETE", segments, options),
  /** @type {(segments: string[], query?: RequestOptions["query"]) => Promise<string>} */
  text: async (segments, search) => (await send("GET", segments, { query: search })).text(),
};

/** @typedef {{ open: boolean, name: string | null, key_id: string | null, tenant: string | null, scopes: string[], tools: string[] | null, expires_at: string | null }} Caller */

/** @typedef {"call" | "read" | "tools" | "approve" | "admin"} Scope */

const caller = signal(/** @type {Caller | null} */ (null));

/** @type {{ caller: Caller | null }} `null` until the caller signs in. */
export const me = {
  get caller() {
    return caller.value;
  },
  set caller(value) {
    caller.value = value;
  },
};

/** Reads who the caller is. Returns `true` if it may use the service. */
export async function loadCaller() {
  try {
    me.caller = await api.get(["whoami"]);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.status === 401) me.caller = null;
    else throw error;
  }
  return me.caller !== null;
}

/**
 * Signs in with an API key.
 * @param {string} key
 */
export async function signIn(key) {
  await api.post(["console", "login"], { key });
  return loadCaller();
}

export async function signOut() {
  await api.post(["console", "logout"]);
  me.caller = null;
}

/**
 * Returns `true` if the caller has a scope.
 * @param {Scope} scope
 */
export const can = (scope) => Boolean(me.caller?.open || [scope, "admin"].some((one) => me.caller?.scopes.includes(one)));

/**
 * Returns why an action is disabled, or `null`.
 * @param {Scope} scope
 */
export const missing = (scope) => (can(scope) ? null : `needs a key with the scope ${scope}`);
