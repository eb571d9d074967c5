// @ts-check
// Statistics: calls and durations over time, tools, and error codes.
import { api, count, currentRoute, duration, figures, html, loaded, percent, Resource, setQuery, short, table, time } from "../components/parts.js";
import { errorCodes, pointsOf, stepName, stepOf, toolTotals, windowName, WINDOWS, within } from "../lib/series.js";
import { chartCard, ranking } from "../components/chart.js";

const REFRESH_MS = 10_000;
const OUTCOMES = [
  { name: "Success", className: "ok", value: (/** @type {Point} */ point) => point.success },
  { name: "Failed", className: "bad", value: (/** @type {Point} */ point) => point.failure },
  { name: "Rejected", className: "warn", value: (/** @type {Point} */ point) => point.rejected },
];
const PERCENTILES = [
  { name: "p50", className: "line-a", value: (/** @type {Point} */ point) => point.p50 },
  { name: "p95", className: "line-b", value: (/** @type {Point} */ point) => point.p95 },
  { name: "p99", className: "line-c", value: (/** @type {Point} */ point) => point.p99 },
];

/** @typedef {import("../lib/series.js").Point} Point */
/** @typedef {import("../lib/series.js").Minute} Minute */
/** @typedef {Api.StatsAnswer & { window?: Api.ToolStats | null }} ToolAnswer */
/** @typedef {Omit<Api.AllStats, "tools"> & { tools: ToolAnswer[], series: Minute[] }} Stats */
/** @typedef {ReturnType<typeof spanOf>} Span */
/** @typedef {{ stats: Stats, span: Span }} StatsData */

/** Reads the span of time from the address: a window that ends now, or what was dragged. */
function spanOf() {
  const { query } = currentRoute();
  const now = Date.now();
  const from = Number(query.get("from"));
  const to = Number(query.get("to"));
  const window = WINDOWS.find(({ name }) => name === query.get("window")) ?? WINDOWS[1];
  if (from && to > from && now > from) {
    const step = stepOf(to - from, now - from);
    return { window, reach: windowName(now - from + step), from, to, step, zoomed: true };
  }
  const { step } = window;
  return { window, reach: window.name, from: Math.floor((now - window.ms) / step) * step, to: Math.ceil(now / step) * step, step, zoomed: false };
}

/** @returns {import("../lib/kit.js").View} */
export function statsView() {
  const resource = new Resource(load);
  const timer = setInterval(() => !spanOf().zoomed && resource.load(), REFRESH_MS);
  return {
    title: "Statistics",
    render: () => html`<section class="stats"><header class="page-head"><h1 tabindex="-1">Statistics</h1>${windows()}</header>${loaded(resource, body)}</section>`,
    changed: () => void resource.load(),
    destroy: () => clearInterval(timer),
  };
}

/** @returns {Promise<StatsData>} */
async function load() {
  const span = spanOf();
  return { stats: await api.get(["stats"], { window: span.reach, step: stepName(span.step) }), span };
}

function windows() {
  const { window, zoomed, from, to } = spanOf();
  return html`<div class="segments" role="group" aria-label="Window">${WINDOWS.map((one) => html`<button type="button" aria-pressed=${String(!zoomed && one === window)} onClick=${() => setQuery({ window: one.name, from: null, to: null })}>${one.label}</button>`)}</div>
    ${zoomed ? html`<span class="muted">${time(new Date(from).toISOString())} to ${time(new Date(to).toISOString())}</span><button type="button" class="quiet" onClick=${() => setQuery({ from: null, to: null })}>Reset zoom</button>` : null}`;
}

/** @param {StatsData} data */
function body({ stats, span }) {
  const { from, to, step } = span;
  const points = pointsOf(stats.series, from, to, step);
  const totals = toolTotals(stats.tools, from, to);
  const sum = (/** @type {"success" | "failure" | "rejected" | "total_ms"} */ kind) => points.reduce((total, point) => total + point[kind], 0);
  const calls = sum("success") + sum("failure") + sum("rejected");
  const zoom = (/** @type {number} */ start, /** @type {number} */ end) => setQuery({ from: start, to: end }, { push: true });
  const unit = step === 60e3 ? "a minute" : `every ${duration(step)}`;
  const ended = sum("success") + sum("failure");
  const part = (/** @type {number} */ value) => html`${count(value)} <small>${percent(value, calls)}</small>`;
  return html`${figures({ Calls: count(calls), Failed: part(sum("failure")), Rejected: part(sum("rejected")), "Average duration": ended ? duration(sum("total_ms") / ended) : "–" })}
    ${chartCard({ title: `Calls ${unit}`, kind: "bars", points, step, series: OUTCOMES, format: short, zoom })}
    ${chartCard({ title: "Duration", kind: "lines", points, step, series: PERCENTILES, format: duration, zoom })}
    <div class="columns">${ranking("Tools by calls", totals, (tool) => tool.calls, count)}${ranking("Tools by errors", totals, (tool) => tool.errors + tool.rejected, count)}${ranking("Tools by time", totals, (tool) => tool.total_ms, duration)}${codes(stats, span)}</div>
    ${perTool(stats, span)}`;
}

/** @type {(stats: Stats, span: Span) => unknown} */
function codes(stats, { from, to }) {
  const list = errorCodes(within(stats.series, from, to));
  return html`<section class="card"><h2>Error codes</h2>${list.length ? html`${table("Error codes", "Code|>Calls", list.map(
    ([code, calls]) => html`<tr><th scope="row"><a href="calls?code=${encodeURIComponent(code)}">${code}</a></th><td class="num right">${count(calls)}</td></tr>`))}` : html`<p class="muted">No errors.</p>`}</section>`;
}

/** @type {(stats: Stats, span: Span) => unknown} */
function perTool({ tools, unknown_tools: unknown }, { window, zoomed }) {
  const windowed = !zoomed && tools.some((tool) => tool.window);
  const all = [...tools.map((tool) => (windowed && tool.window ? tool.window : tool)), ...(windowed ? [] : [{ ...unknown, tool_name: "(unknown tools)" }])];
  const rows = all.filter((tool) => tool.execution_count + tool.rejected_count);
  return html`<section class="card"><h2>All tools <span class="muted">${windowed ? `last ${window.label}` : "since the start"}</span></h2>${rows.length ? html`${table("All tools", "Tool|>Executions|>Success|>Failed|>Rejected|>Cached|>Retries|>Average|>p50|>p95|>p99|>Max", rows.map((tool) => html`<tr><th scope="row">${tool.tool_name}</th>${[tool.execution_count, tool.success_count, tool.failure_count, tool.rejected_count, tool.cache_hit_count, tool.retry_count].map((value) => html`<td class="num right">${count(value)}</td>`)}${[tool.average_duration_ms, tool.p50_duration_ms, tool.p95_duration_ms, tool.p99_duration_ms, tool.max_duration_ms].map((value) => html`<td class="num right">${tool.execution_count ? duration(value) : "–"}</td>`)}</tr>`))}` : html`<p class="muted">No calls yet.</p>`}</section>`;
}
