// @ts-check
// The list of calls: its filters, and its rows from pages of the history and from events.
import { clip, shortArguments } from "./format.js";

/** @typedef {{ name?: string, status?: string, code?: string, session?: string, min_duration_ms?: string, q?: string, since?: string, until?: string, batch_id?: string }} Filters */

export const FILTER_NAMES = /** @type {const} */ (["name", "status", "code", "session", "min_duration_ms", "q", "since", "until", "batch_id"]);

export const CODES = [
  "TOOL_NOT_FOUND", "TOOL_UNAVAILABLE", "TOOL_PAUSED", "ARGUMENTS_MALFORMED", "ARGUMENTS_TRUNCATED", "TOOL_VALIDATION_ERROR", "TOOL_BLOCKED",
  "POLICY_DENIED", "BUDGET_EXCEEDED", "APPROVAL_DENIED", "APPROVAL_EXPIRED", "HOOK_FAILED", "TOOL_TIMEOUT", "TOOL_EXECUTION_ERROR", "RESULT_INVALID", "CANCELLED", "OUTCOME_UNKNOWN", "OVERLOADED", "SHUTTING_DOWN",
];

const PERIODS = /** @type {Record<string, number>} */ ({ "15m": 900e3, "1h": 3600e3, "6h": 6 * 3600e3, "24h": 86400e3, "7d": 7 * 86400e3 });

/**
 * Reads the filters of an address.
 * @param {URLSearchParams} search
 * @returns {Filters}
 */
export function filtersFrom(search) {
  /** @type {Filters} */
  const filters = {};
  for (const name of FILTER_NAMES) {
    const value = search.get(name)?.trim();
    if (value) filters[name] = value;
  }
  return filters;
}

/**
 * Returns the start of a period such as `1h`, or the given time.
 * @param {string | undefined} since
 * @param {number} now
 */
export function sinceTime(since, now) {
  const ms = PERIODS[since ?? ""];
  return ms ? new Date(now - ms).toISOString() : since;
}

/**
 * Returns the query of `GET /tool-calls`.
 * @param {Filters} filters
 * @param {number} now
 */
export const filterQuery = (filters, now) => ({ ...filters, since: sinceTime(filters.since, now) });

/**
 * Returns `true` if a call of the live events matches. Words are searched for in the arguments and the output.
 * @param {Filters} filters
 * @param {Row} row
 */
export function matches(filters, row) {
  const { name, status, code, session, min_duration_ms: min, q, until, batch_id: batch } = filters;
  if ((name && row.name !== name) || (session && row.session !== session) || (batch && row.batch_id !== batch)) return false;
  if ((status && row.status !== status) || (code && row.code !== code)) return false;
  if (min && !(row.duration_ms !== null && row.duration_ms >= Number(min))) return false;
  if (until && row.created_at >= until) return false;
  return !q || words(q).every((word) => row.text.includes(word));
}

/** @param {string} text */
export const words = (text) => text.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];

/**
 * @typedef {{ id: string, name: string, title: string, session: string | null, batch_id: string | null, status: Api.Status, phase: Api.Phase,
 *   arguments: string, text: string, code: string | null, message: string, attempts: number, cached: boolean, progress: Api.Progress | null,
 *   created_at: string, started_at: string | null, duration_ms: number | null, rerun_of: string | null }} Row
 */

const MAX_ROWS = 120_000;
const MAX_TEXT = 2000;

/**
 * Returns the row of a call.
 * @param {Api.ToolCall} call
 * @returns {Row}
 */
export function rowOf(call) {
  return {
    id: call.id, name: call.name, title: call.title, session: call.session ?? null, batch_id: call.batch_id ?? null,
    status: call.status, phase: call.phase, arguments: shortArguments(call.arguments), text: searchText(call.arguments, call.output),
    code: call.error?.code ?? null, message: clip(call.error?.message ?? "", 200), attempts: call.attempts, cached: call.cached,
    progress: call.progress ?? null, created_at: call.created_at, started_at: call.started_at ?? null, duration_ms: call.duration_ms ?? null,
    rerun_of: /** @type {any} */ (call.metadata)?.rerun_of ?? null,
  };
}

/** @type {(args: unknown, output: unknown) => string} */
const searchText = (args, output) => `${clip(JSON.stringify(args) ?? "", MAX_TEXT)} ${clip(String(output ?? ""), MAX_TEXT)}`.toLowerCase();

/**
 * Applies an event to a row. Returns the row, or `null` if the event does not concern a known call.
 * @param {Row | undefined} row
 * @param {{ event: string, data: any }} event
 * @returns {Row | null}
 */
export function applyEvent(row, { event, data }) {
  if (event === "tool_call") {
    if (row) return row;
    return {
      id: data.id, name: data.name, title: data.title, session: data.session ?? null, batch_id: data.batch_id ?? null, status: "WAIT", phase: "queued",
      arguments: shortArguments(data.arguments), text: searchText(data.arguments, ""), code: null, message: "", attempts: 0, cached: false,
      progress: null, created_at: data.at, started_at: null, duration_ms: null, rerun_of: null,
    };
  }
  if (!row) return null;
  if (event === "status") applyStatus(row, data);
  if (event === "tool_result" && typeof data.output === "string") row.text += ` ${clip(data.output, MAX_TEXT).toLowerCase()}`;
  return row;
}

/**
 * @param {Row} row
 * @param {any} data
 */
function applyStatus(row, data) {
  if (row.status === "SUCCESS" || row.status === "ERROR") return;
  const attempt = data.phase === "running" && row.phase !== "running" ? row.attempts + 1 : row.attempts;
  row.attempts = data.attempts ?? data.attempt ?? attempt;
  row.cached = data.cached ?? row.cached;
  row.status = data.status;
  row.phase = data.phase;
  row.progress = data.progress ?? null;
  row.started_at = data.started_at ?? row.started_at;
  row.duration_ms = data.duration_ms ?? null;
  row.code = data.error?.code ?? null;
  row.message = clip(data.error?.message ?? "", 200);
  row.rerun_of = data.metadata?.rerun_of ?? row.rerun_of;
  if (Object.keys(data.params ?? {}).length) row.arguments = shortArguments(data.params);
}

/** The list, oldest first in memory, so that a new call is appended without moving the others. */
export class Rows {
  /** @type {Row[]} */ #list = [];
  /** @type {Map<string, Row>} */ #all = new Map();
  /** Whether the oldest rows were dropped, so that more can be loaded. */ trimmed = false;

  /** @param {import("./rows.js").Filters} filters */
  constructor(filters) {
    this.filters = filters;
  }

  get length() {
    return this.#list.length;
  }

  get oldest() {
    return this.#list[0]?.id ?? null;
  }

  /** @param {number} index */
  at(index) {
    return this.#list[this.#list.length - 1 - index];
  }

  /** @param {string} id */
  get(id) {
    return this.#all.get(id);
  }

  /**
   * Adds a page of the history. Calls that are known from events keep their row.
   * @param {Api.ToolCall[]} calls
   */
  addPage(calls) {
    const added = calls.filter((call) => !this.#listed(call.id)).map((call) => this.#all.get(call.id) ?? rowOf(call));
    for (const row of added) this.#all.set(row.id, row);
    for (const call of calls) Object.assign(/** @type {Row} */ (this.#all.get(call.id)), this.#newer(call));
    this.#list = [...this.#list, ...added].sort((a, b) => (a.id < b.id ? -1 : 1));
    return added.length;
  }

  /** @param {string} id */
  #listed(id) {
    return this.#find(id) >= 0;
  }

  /** @param {Api.ToolCall} call */
  #newer(call) {
    const ended = call.status === "SUCCESS" || call.status === "ERROR";
    return ended ? rowOf(call) : {};
  }

  /**
   * Applies an event. Returns how the number of rows changed.
   * @param {{ event: string, data: any }} event
   */
  apply(event) {
    const row = applyEvent(this.#all.get(event.data.id), event);
    if (!row) return 0;
    this.#all.set(row.id, row);
    const listed = this.#listed(row.id);
    const wanted = matches(this.filters, row);
    if (wanted && !listed) return this.#insert(row);
    // A call that no longer matches leaves the list; the row stays known until the call ends.
    if (!wanted && listed) return this.#remove(row);
    if (!wanted && event.event === "tool_result") this.#all.delete(row.id);
    return 0;
  }

  /** @param {Row} row */
  #insert(row) {
    let at = this.#list.length;
    while (at > 0 && this.#list[at - 1].id > row.id) at--;
    if (at === this.#list.length) this.#list.push(row);
    else this.#list.splice(at, 0, row);
    if (this.#list.length > MAX_ROWS) this.#trim();
    return 1;
  }

  #trim() {
    for (const row of this.#list.splice(0, MAX_ROWS / 10)) this.#all.delete(row.id);
    this.trimmed = true;
  }

  /** @param {Row} row */
  #remove(row) {
    this.#list.splice(this.#find(row.id), 1);
    return -1;
  }

  /** @param {string} id */
  #find(id) {
    let low = 0;
    let high = this.#list.length - 1;
    while (low <= high) {
      const middle = (low + high) >> 1;
      const found = this.#list[middle].id;
      if (found === id) return middle;
      if (found < id) low = middle + 1;
      else high = middle - 1;
    }
    return -1;
  }
}
