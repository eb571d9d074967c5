// @ts-check
// The events of a call: their recorded text, and the timeline of queue, attempts, nested calls and progress.
import { parseJson } from "./format.js";

/** @typedef {"queue" | "attempt" | "backoff" | "waiting" | "hook" | "approval" | "nested"} SpanKind */
/** @typedef {{ kind: SpanKind, label: string, start: number, end: number | null, failed: boolean, note: string, call?: string }} Span */
/** @typedef {{ at: number, label: string }} Mark */
/** @typedef {{ spans: Span[], marks: Mark[], untimed: string[], from: number, to: number | null }} Timeline `untimed` is progress whose time is not known. */
/** @typedef {{ event: string, data: any, at?: number }} TimedEvent `at` is when the page received the event of a running call. */

const NAMES = /** @type {Record<string, [SpanKind, string]>} */ ({
  arguments: ["waiting", "Arguments arrive"], queued: ["queue", "Queue"], approval: ["approval", "Approval"],
  retrying: ["backoff", "Backoff"], external: ["waiting", "Waiting for the result"],
});

/**
 * Builds the timeline of a call.
 * @param {Api.ToolCall} call
 * @param {TimedEvent[]} events
 * @param {Api.ToolCall[]} nested
 * @returns {Timeline}
 */
export function timelineOf(call, events, nested) {
  const from = Date.parse(call.created_at);
  const to = call.ended_at ? Date.parse(call.ended_at) : null;
  const timed = events.map((event) => ({ ...event, at: timeOf(event) ?? event.at }));
  const precise = timed.some(({ event, data, at }) => event === "status" && at !== undefined && data.phase !== "done");
  const spans = precise ? phaseSpans(timed, from, to) : coarseSpans(call, from, to);
  spans.push(...hookSpans(call.metadata));
  for (const child of nested) spans.push(nestedSpan(child));
  const marks = timed.filter(({ at }) => at !== undefined).flatMap(markOf);
  const untimed = timed.filter(({ at }) => at === undefined).flatMap(markOf).map(({ label }) => label);
  return { spans, marks, untimed, from, to };
}

/** @param {TimedEvent} event */
function timeOf({ data }) {
  return typeof data.at === "string" ? Date.parse(data.at) : undefined;
}

/**
 * Follows the phases of the status events.
 * @param {TimedEvent[]} events
 * @param {number} from
 * @param {number | null} to
 */
function phaseSpans(events, from, to) {
  /** @type {Span[]} */
  const spans = [];
  let attempt = 0;
  let phase = "";
  let known = from;
  for (const { event, data, at } of events) {
    if (event !== "status" || data.phase === phase) continue;
    phase = data.phase;
    if (phase === "running") attempt++;
    const last = spans[spans.length - 1];
    // An event without a time is drawn at the last known one; the first attempt has its own.
    known = attempt === 1 && phase === "running" ? Date.parse(data.started_at ?? "") || at || known : (at ?? known);
    if (last && last.end === null) last.end = known;
    if (phase === "retrying" && last?.kind === "attempt") last.failed = true;
    if (phase === "running") spans.push(span("attempt", `Attempt ${data.attempt ?? attempt}`, known));
    else if (NAMES[phase]) spans.push(span(...NAMES[phase], known));
    else if (phase === "done" && last) Object.assign(last, { end: to ?? known, failed: data.status === "ERROR", note: data.error?.code ?? "" });
  }
  return spans;
}

/**
 * Draws what the row of a call tells: the queue and one bar for all attempts.
 * @param {Api.ToolCall} call
 * @param {number} from
 * @param {number | null} to
 */
function coarseSpans(call, from, to) {
  const started = call.started_at ? Date.parse(call.started_at) : null;
  const ran = started !== null || call.status !== "ERROR";
  const spans = [{ ...span("queue", ran ? "Queue" : "Not run", from), end: started ?? to, failed: !ran }];
  if (started) {
    const label = call.attempts > 1 ? `${call.attempts} attempts` : call.phase === "external" ? "Waiting for the result" : "Attempt 1";
    spans.push({ ...span("attempt", label, started), end: to, failed: call.status === "ERROR", note: call.error?.code ?? "" });
  }
  return spans;
}

/** @type {(kind: SpanKind, label: string, start: number) => Span} */
const span = (kind, label, start) => ({ kind, label, start, end: null, failed: false, note: "" });

/**
 * The hooks that ran before the call.
 * @param {any} metadata
 */
function hookSpans(metadata) {
  const runs = Array.isArray(metadata?.hooks) ? metadata.hooks : [];
  return runs.map((/** @type {{ id: string, at: string, duration_ms: number }} */ { id, at, duration_ms }) => {
    const start = Date.parse(at);
    return { ...span("hook", `Hook ${id}`, start), end: start + duration_ms };
  });
}

/**
 * @param {Api.ToolCall} child
 * @returns {Span}
 */
function nestedSpan(child) {
  const end = child.ended_at ? Date.parse(child.ended_at) : null;
  return { ...span("nested", child.name, Date.parse(child.created_at)), end, failed: child.status === "ERROR", note: child.error?.code ?? "", call: child.id };
}

/**
 * @param {TimedEvent} event
 * @returns {Mark[]}
 */
function markOf({ event, data, at = 0 }) {
  if (event === "progress") return [{ at, label: data.content?.find((/** @type {any} */ block) => block.text)?.text ?? "progress" }];
  if (event === "hook_error") return [{ at, label: `hook ${data.event}: ${data.reason}` }];
  if (event !== "status" || !data.progress || data.phase === "done") return [];
  const { current, total, message } = data.progress;
  return [{ at, label: message ?? (total ? `${current} of ${total}` : String(current)) }];
}

/** @typedef {{ id: string, event: string, data: any }} StreamEvent */

/**
 * Parses a recorded event stream.
 * @param {string} text
 * @returns {StreamEvent[]}
 */
export function parseEvents(text) {
  return text.split(/\r?\n\r?\n/).flatMap((block) => {
    /** @type {Record<string, string>} */
    const fields = {};
    for (const line of block.split(/\r?\n/)) {
      const colon = line.indexOf(":");
      if (colon < 1) continue;
      const name = line.slice(0, colon);
      const value = line.slice(colon + 1).replace(/^ /, "");
      fields[name] = fields[name] === undefined ? value : `${fields[name]}\n${value}`;
    }
    return fields.data === undefined ? [] : [{ id: fields.id ?? "", event: fields.event ?? "message", data: parseJson(fields.data) }];
  });
}
