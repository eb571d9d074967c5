// @ts-check
// The timeline of a call: its queue, attempts, hooks, approvals, nested calls and progress on one axis.
import { duration, html } from "./parts.js";
import { timeTicks } from "../lib/series.js";

/** @typedef {import("../lib/spans.js").Timeline} Timeline */
/** @typedef {import("../lib/spans.js").Span} Span */

/**
 * @param {Timeline} timeline
 * @param {number} now
 */
export function timelineView({ spans, marks, untimed, from, to }, now) {
  const until = Math.max(to ?? now, from + 1, ...spans.map((span) => span.end ?? 0));
  const at = (/** @type {number} */ time) => `${Math.max(0, Math.min(100, (100 * (time - from)) / (until - from))).toFixed(2)}%`;
  return html`<div class="timeline">${axis(from, until, at)}<ol>${spans.map((span) => row(span, until, at))}</ol>
    ${marks.length ? html`<div class="timeline-row"><span class="timeline-label">Progress <span class="count">${marks.length}</span></span>
      <svg class="track" aria-hidden="true">${marks.slice(-200).map((mark) => html`<circle class="mark" cx=${at(mark.at)} cy="50%" r="3.5"><title>${mark.label} after ${duration(mark.at - from)}</title></circle>`)}</svg>
      <span class="num timeline-note">${marks[marks.length - 1].label}</span></div>` : null}
    ${untimed.length ? html`<details class="timeline-steps"><summary>Progress before this page was opened <span class="count">${untimed.length}</span></summary><ol>${untimed.slice(-200).map((label) => html`<li>${label}</li>`)}</ol></details>` : null}</div>`;
}

/** @type {(from: number, until: number, at: (time: number) => string) => unknown} */
function axis(from, until, at) {
  const { ticks } = timeTicks(0, until - from, 6);
  return html`<div class="timeline-row axis" aria-hidden="true"><span class="timeline-label"></span><svg class="track">${ticks.map(
    (tick) => html`<line x1=${at(from + tick)} x2=${at(from + tick)} y1="0" y2="100%" /><text x=${at(from + tick)} dx="3" y="14">${duration(tick)}</text>`,
  )}</svg><span></span></div>`;
}

/** @type {(span: Span, until: number, at: (time: number) => string) => unknown} */
function row(span, until, at) {
  const end = span.end ?? until;
  const width = Math.max(0.4, parseFloat(at(end)) - parseFloat(at(span.start)));
  const label = span.call ? html`<a href="calls/${encodeURIComponent(span.call)}">${span.label}</a>` : span.label;
  const note = `${duration(end - span.start)}${span.end === null ? " so far" : ""}${span.note && ` · ${span.note}`}`;
  return html`<li class="timeline-row"><span class="timeline-label">${label}</span>
    <svg class="track" aria-hidden="true"><rect class="span span-${span.kind}${span.failed ? " failed" : ""}${span.end === null ? " open" : ""}" x=${at(span.start)} width="${width.toFixed(2)}%" y="4" height="14" rx="2" /></svg>
    <span class="num timeline-note">${note}</span></li>`;
}
