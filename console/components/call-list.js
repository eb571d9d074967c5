// @ts-check
// The list of calls: a line, the filters, and actions on selected lines.
import { api, badge, button, choice, confirmAction, confirmed, debounced, durationBar, html, onText, path, prevent, say, sayError, setQuery, time, update } from "./parts.js";
import { CODES, FILTER_NAMES } from "../lib/rows.js";

/** @typedef {import("../lib/rows.js").Row} Row */

const MAX_SELECTED = 1000;

/** @param {{ rows: import("../lib/rows.js").Rows, selected: Set<string> }} list */
export function rowHeader(list) {
  const all = list.selected.size > 0 && list.selected.size >= Math.min(list.rows.length, MAX_SELECTED);
  const toggle = () => {
    if (all) list.selected.clear();
    else for (let index = 0; index < Math.min(list.rows.length, MAX_SELECTED); index++) list.selected.add(list.rows.at(index).id);
    update();
  };
  return html`<div role="rowgroup"><div role="row" aria-rowindex="1" class="call-row head"><span role="columnheader"><input type="checkbox" aria-label="Select all calls" checked=${all} onChange=${toggle} /></span>
    <span role="columnheader">Status</span><span role="columnheader">Tool</span><span role="columnheader" class="wide-only">Arguments</span><span role="columnheader" class="wide-only">Session</span>
    <span role="columnheader">Duration</span><span role="columnheader" class="wide-only">Notes</span><span role="columnheader">Time</span></div></div>`;
}

/**
 * @param {Row} row
 * @param {number} index
 * @param {Set<string>} selected
 */
export function callRow(row, index, selected) {
  const toggle = (/** @type {Event} */ event) => {
    if (/** @type {HTMLInputElement} */ (event.target).checked) selected.add(row.id);
    else selected.delete(row.id);
    update();
  };
  const running = row.status === "DOING" && row.started_at !== null;
  const elapsed = running ? Math.max(0, Date.now() - Date.parse(row.started_at ?? "")) : row.duration_ms;
  return html`<div key=${row.id} role="row" aria-rowindex=${index + 2} class="call-row${selected.has(row.id) ? " selected" : ""}">
    <span role="cell"><input type="checkbox" aria-label="Select call of ${row.name}" checked=${selected.has(row.id)} onChange=${toggle} /></span>
    <span role="cell" class="cell-status">${badge(row.status, row.phase)}</span>
    <span role="cell" class="cell-tool"><a href=${path("calls", row.id)} title=${row.title}>${row.name}</a></span>
    <span role="cell" class="cell-arguments mono" title=${row.arguments}>${row.code ? html`<span class="bad">${row.code}</span> ` : null}${progressText(row)}${row.arguments}</span>
    <span role="cell" class="cell-session wide-only">${row.session ? html`<a class="quiet-link" href=${path("sessions", row.session)}>${row.session}</a>` : null}</span>
    <span role="cell" class="cell-duration">${durationBar(elapsed, running)}</span>
    <span role="cell" class="cell-notes wide-only">${notes(row)}</span>
    <span role="cell" class="cell-time num">${time(row.created_at)}</span></div>`;
}

/** @param {Row} row */
function progressText({ progress, status }) {
  if (!progress || status !== "DOING") return null;
  return html`<span class="muted">${progress.message ?? (progress.total ? `${progress.current} of ${progress.total}` : progress.current)}</span> `;
}

/** @param {Row} row */
function notes(row) {
  const list = [];
  if (row.attempts > 1) list.push(`${row.attempts} attempts`);
  if (row.cached) list.push("cached");
  if (row.rerun_of) list.push("rerun");
  return list.map((note) => html`<span class="chip">${note}</span>`);
}

/** @typedef {import("../lib/rows.js").Filters} Filters */

const STATUSES = [["WAIT", "Waiting"], ["DOING", "Running"], ["SUCCESS", "Success"], ["ERROR", "Error"]];
const PERIODS = [["15m", "Last 15 min"], ["1h", "Last hour"], ["6h", "Last 6 hours"], ["24h", "Last 24 hours"], ["7d", "Last 7 days"]];
const TYPING_MS = 300;

/** @type {Record<string, string>} */
let typed = {};
const applyTyped = debounced(TYPING_MS, () => {
  const changes = typed;
  typed = {};
  setQuery(changes);
});

/** @param {Filters} filters */
export function filterBar(filters) {
  const active = FILTER_NAMES.filter((name) => filters[name]).length;
  const clear = () => setQuery(Object.fromEntries(FILTER_NAMES.map((name) => [name, null])));
  return html`<form class="filters" role="search" aria-label="Filter calls" onSubmit=${prevent}>
    ${textFilter(filters, "q", "Words", "search", "words in arguments or output")}
    ${textFilter(filters, "name", "Tool", "text", "any tool")}
    ${choice("status", "Status", STATUSES, filters.status, { any: "Any status" })}
    ${choice("code", "Error", CODES, filters.code, { any: "Any error" })}
    ${textFilter(filters, "session", "Session", "text", "any session")}
    ${textFilter(filters, "min_duration_ms", "Over (ms)", "number", "0")}
    ${choice("since", "Time", custom(filters.since), filters.since, { any: "Any time" })}
    ${fixed("Before", filters.until)}${fixed("Batch", filters.batch_id)}
    ${active ? html`<button type="button" class="quiet" onClick=${clear}>Clear ${active}</button>` : null}</form>`;
}

/** @type {(label: string, value: string | undefined) => unknown} A filter that only links set. */
const fixed = (label, value) => (value ? html`<label><span>${label}</span><input readonly value=${value} /></label>` : null);

/** @param {string | undefined} since */
const custom = (since) => (since && !PERIODS.some(([value]) => value === since) ? [...PERIODS, [since, `Since ${since}`]] : PERIODS);

/** @type {(filters: Filters, name: keyof Filters, label: string, type: string, hint: string) => unknown} */
function textFilter(filters, name, label, type, hint) {
  const change = onText((value) => {
    typed[name] = value.trim();
    applyTyped();
  });
  const id = `filter-${name}`;
  const focused = document.activeElement?.id === id;
  // The field keeps what is being typed; the address follows a moment later.
  const value = focused ? /** @type {HTMLInputElement} */ (document.activeElement).value : (typed[name] ?? filters[name] ?? "");
  return html`<label class="filter-${name}"><span>${label}</span><input id=${id} type=${type} min=${type === "number" ? "0" : null} placeholder=${hint} autocomplete="off" value=${value} onInput=${change} /></label>`;
}

/** @param {number} count */
const calls = (count) => `${count} ${count === 1 ? "call" : "calls"}`;

/**
 * @param {Set<string>} selected
 * @param {(id: string) => Row | undefined} rowOf
 */
export function bulkBar(selected, rowOf) {
  if (!selected.size) return null;
  const ended = [...selected].filter((id) => ["SUCCESS", "ERROR"].includes(rowOf(id)?.status ?? ""));
  const open = selected.size - ended.length;
  const clear = () => {
    selected.clear();
    update();
  };
  return html`<div class="bulk" role="group" aria-label="Selected calls"><strong>${selected.size} selected</strong>
    ${button("call", `Cancel ${open}`, () => cancel(selected, open), "danger", open ? null : "")}${button("call", `Rerun ${ended.length}`, () => rerun(ended), "", ended.length ? null : "")}
    <button type="button" class="quiet" onClick=${clear}>Clear selection</button></div>`;
}

/** @type {(selected: Set<string>, open: number) => void} */
function cancel(selected, open) {
  confirmed(`Cancel ${calls(open)}?`, "Their work is stopped, and each ends with the error CANCELLED.", `Cancel ${calls(open)}`, () => api.post(["tool-calls", "cancel"], { ids: [...selected] }), (answer) => `Cancelled ${calls(/** @type {any} */ (answer).cancelled)}.`);
}

/** @param {string[]} ids */
async function rerun(ids) {
  if (!(await confirmAction(`Rerun ${calls(ids.length)}?`, "Each tool runs again with the same arguments. What it changes, it changes again.", `Rerun ${calls(ids.length)}`))) return;
  let started = 0;
  for (const id of ids) {
    try {
      await api.post(["tool-calls", id, "rerun"], {});
      started++;
    } catch (error) {
      sayError("cannot rerun a call", error);
    }
  }
  say(`Started ${calls(started)} again.`);
}
