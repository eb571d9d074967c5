// @ts-check
// Parts of every screen: icons, badges, buttons, errors, tabs, tables and choices.
import { ApiError, apiUrl, count, describe, duration, html, me, missing, onText, setQuery } from "../lib/kit.js";
export * from "./dialog.js";
export * from "../lib/kit.js";

const PATHS = {
  live: "M1.5 8h3l2-5 3 10 2-5h3",
  tools: "M2 4h12M2 8h12M2 12h12M5 2.5v3M11 6.5v3M7 10.5v3",
  sessions: "M2 3h12v8H7l-3 2.5V11H2z",
  stats: "M2 14V2M2 14h12M5 11V8M8 11V4M11 11V6",
  policies: "M8 1.5l5.5 2v4c0 3.5-2.5 5.8-5.5 7-3-1.2-5.5-3.5-5.5-7v-4z",
  budgets: "M2 8a6 6 0 0 1 12 0M8 8l3-2.5M2 11.5h12",
  system: "M3 2.5h10v4H3zM3 9.5h10v4H3zM5 4.5h1M5 11.5h1",
  close: "M4 4l8 8M12 4l-8 8",
  ok: "M3 8.5l3.5 3.5L13 4.5",
  error: "M4 4l8 8M12 4l-8 8",
  wait: "M8 3a5 5 0 1 0 0 10A5 5 0 0 0 8 3z",
  doing: "M8 3a5 5 0 1 1-5 5",
  plus: "M8 3v10M3 8h10",
  person: "M8 8a2.8 2.8 0 1 0 0-5.6A2.8 2.8 0 0 0 8 8zM3 14c.4-3 2.4-4.2 5-4.2s4.6 1.2 5 4.2",
};

/**
 * Renders an icon. It says nothing to screen readers, so text has to be next to it.
 * @param {keyof typeof PATHS} name
 */
export const icon = (name) => html`<svg class="icon icon-${name}" viewBox="0 0 16 16" aria-hidden="true"><path d=${PATHS[name]} /></svg>`;

const LABELS = /** @type {Record<string, string>} */ ({ arguments: "Arguments", queued: "Queued", approval: "Approval", running: "Running", retrying: "Retrying", external: "External" });

/**
 * Returns the class, the icon and the word of a status.
 * @param {string} status
 * @param {string} phase
 * @returns {["ok" | "error" | "doing" | "wait", string]}
 */
export function statusOf(status, phase) {
  if (status === "SUCCESS") return ["ok", "Success"];
  if (status === "ERROR") return ["error", "Error"];
  return [status === "DOING" ? "doing" : "wait", LABELS[phase] ?? phase];
}

/**
 * @param {string} status
 * @param {string} phase
 */
export function badge(status, phase) {
  const [kind, word] = statusOf(status, phase);
  return html`<span class="badge badge-${kind}">${icon(kind)}<span>${word}</span></span>`;
}

/**
 * Draws a duration as a bar on a logarithmic axis from 1 ms to 5 min, so that short and long calls can be compared.
 * @param {number | null} ms
 * @param {boolean} running
 */
export function durationBar(ms, running = false) {
  const width = ms === null ? 0 : Math.max(2, (100 * Math.log10(1 + ms)) / Math.log10(300_001));
  return html`<span class="duration"><svg class=${running ? "bar running" : "bar"} aria-hidden="true"><rect width="${Math.min(100, width).toFixed(1)}%" height="100%" rx="1.5" /></svg><span class="num">${duration(ms)}</span></span>`;
}

/**
 * Shows an error with its detail, its request id and a way to try again.
 * @param {unknown} error
 * @param {() => void} [retry]
 */
export function problem(error, retry) {
  const { message, requestId } = describe(error);
  const places = error instanceof ApiError ? error.errors.filter(({ message: one }) => !message.includes(one)) : [];
  return html`<div class="problem" role="alert"><p><strong>${message}</strong></p>
    ${places.length ? html`<ul>${places.map((place) => html`<li><code>${place.pointer || "/"}</code> ${place.message}</li>`)}</ul>` : null}
    ${requestId ? html`<p class="muted">Request <code>${requestId}</code></p>` : null}
    ${retry ? html`<button type="button" onClick=${retry}>Try again</button>` : null}</div>`;
}

export const loading = () => html`<p class="muted loading" role="status">Loading…</p>`;

/**
 * Shows the content of a resource, or its error, or that it loads. What was never loaded is loaded now.
 * @template T
 * @param {import("../lib/kit.js").Resource<T>} resource
 * @param {(value: T) => unknown} content
 */
export function loaded(resource, content) {
  if (resource.value === undefined && resource.error === undefined && !resource.loading) resource.load();
  const failed = resource.error !== undefined ? problem(resource.error, () => resource.load()) : null;
  if (resource.value === undefined) return failed ?? loading();
  return [failed, content(resource.value)];
}

/**
 * Says what would be here, and the commands that make the first one appear.
 * @param {string} title
 * @param {unknown} text
 * @param {[path: string, body: unknown][]} posts
 */
export const empty = (title, text, ...posts) =>
  html`<div class="empty"><h2>${title}</h2><p>${text}</p>${posts.length ? html`<pre class="code" tabindex="0">${posts.map(curl).join("\n")}</pre>` : null}</div>`;

/** @param {[path: string, body: unknown]} post The body has no single quote, which would end the text of the shell. */
function curl([path, body]) {
  const key = me.caller?.open ? "" : ' -H "authorization: Bearer $TOOLPOST_KEY"';
  return `curl ${apiUrl(path)}${key} -H 'content-type: application/json' \\\n  -d '${JSON.stringify(body)}'`;
}

/**
 * Lists values with their names. What is not set is left out.
 * @param {Record<string, unknown>} values
 * @param {string} [look]
 */
export const figures = (values, look = "figures") =>
  html`<dl class=${look}>${Object.entries(values).map(([name, value]) => (value === null || value === undefined || value === "" ? null : html`<div><dt>${name}</dt><dd>${value}</dd></div>`))}</dl>`;

/** @type {(value: number) => unknown} A number of failures. */
export const failures = (value) => html`<span class=${value ? "bad" : ""}>${count(value)}</span>`;

/** @typedef {{ name: string, label: string, note?: string | number, content: () => unknown }} Tab */

/**
 * @param {string} label
 * @param {Tab[]} tabs
 * @param {string | null} selected
 * @param {string} [parameter] The member of the query that names the tab.
 */
export function tabs(label, tabs, selected, parameter = "tab") {
  const current = tabs.find((tab) => tab.name === selected) ?? tabs[0];
  /** @param {Tab} tab */
  const choose = (tab) => setQuery({ [parameter]: tab === tabs[0] ? null : tab.name });
  /** @param {KeyboardEvent} event */
  const move = (event) => {
    const at = tabs.indexOf(current);
    const to = { ArrowRight: (at + 1) % tabs.length, ArrowLeft: (at + tabs.length - 1) % tabs.length, Home: 0, End: tabs.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    choose(tabs[to]);
    /** @type {HTMLElement} */ (/** @type {Element} */ (event.currentTarget).children[to]).focus();
  };
  return html`<div class="tabs"><div role="tablist" aria-label=${label} onKeyDown=${move}>${tabs.map(
    (tab) => html`<button type="button" role="tab" id="${parameter}-${tab.name}" aria-selected=${String(tab === current)} aria-controls="${parameter}-panel"
      tabindex=${tab === current ? 0 : -1} onClick=${() => choose(tab)}>${tab.label}${tab.note ? html` <span class="count">${tab.note}</span>` : null}</button>`,
  )}</div><div role="tabpanel" id="${parameter}-panel" aria-labelledby="${parameter}-${current.name}" tabindex="0">${current.content()}</div></div>`;
}

/**
 * Renders a button that is disabled, and says why, if the caller lacks a scope or `off` is a reason.
 * @param {import("../lib/api.js").Scope} scope
 * @param {unknown} label
 * @param {() => unknown} click
 * @param {string} [look]
 * @param {string | null} [off]
 */
export function button(scope, label, click, look, off = null) {
  const why = missing(scope) ?? off;
  return html`<button type="button" class=${look} disabled=${why !== null} title=${why} onClick=${click}>${label}</button>`;
}

/**
 * Renders a table that scrolls in itself. `columns` are separated by `|`; `>` aligns a column to the right, `!` hides its heading.
 * @param {string} label
 * @param {string} columns
 * @param {unknown} rows
 * @param {string} [kind]
 */
export function table(label, columns, rows, kind = "") {
  return html`<div class="table-scroll" tabindex="0" role="region" aria-label=${label}><table class="data ${kind}"><thead><tr>${columns.split("|").map(
    (column) => html`<th scope="col" class=${column[0] === ">" ? "right" : null}>${column[0] === "!" ? html`<span class="hidden">${column.slice(1)}</span>` : column.replace(">", "")}</th>`,
  )}</tr></thead><tbody>${rows}</tbody></table></div>`;
}

/**
 * Renders a choice that is a member of the query. An option is its value, or its value and its label.
 * @param {string} name
 * @param {string} label
 * @param {readonly (string | readonly string[])[]} options
 * @param {string | null | undefined} selected
 * @param {{ any?: string, className?: string }} [look] `any` is the label of no choice.
 */
export function choice(name, label, options, selected, { any, className } = {}) {
  const pairs = options.map((option) => (typeof option === "string" ? [option, option] : option));
  if (any) pairs.unshift(["", any]);
  return html`<label class=${className}><span>${label}</span> <select id="filter-${name}" value=${selected ?? ""} onChange=${onText((value) => setQuery({ [name]: value }))}>${pairs.map(
    ([value, text]) => html`<option value=${value}>${text}</option>`)}</select></label>`;
}
