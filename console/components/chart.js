// @ts-check
// Charts over time with their tables, rankings and sparklines.
import { TimeChart } from "./time-chart.js";
import { html, path, table, time } from "./parts.js";

/** @typedef {import("../lib/series.js").Point} Point */
/** @typedef {import("./time-chart.js").Series} Series */
/** @typedef {{ title: string, kind: "bars" | "lines", points: Point[], step: number, series: Series[], format: (value: number) => string, zoom: (from: number, to: number) => void }} Card */

/** @param {Card} card */
export function chartCard({ title, kind, points, step, series, format, zoom }) {
  const filled = points.filter((point) => series.some((one) => one.value(point)));
  return html`<section class="card chart-card"><header><h2>${title}</h2><div class="legend">${series.map((one) => html`<span class="key ${one.className}">${one.name}</span>`)}</div></header>
    <${TimeChart} kind=${kind} title=${title} points=${points} step=${step} series=${series} format=${format} onZoom=${zoom} />
    <details><summary>Table</summary>${filled.length ? html`${table(title, `Time${series.map((one) => `|>${one.name}`).join("")}`, filled.map((point) => html`<tr><th scope="row" class="num">${time(new Date(point.time).toISOString())}</th>${series.map((one) => cell(one.value(point), format))}</tr>`))}` : html`<p class="muted">No calls in this window.</p>`}</details></section>`;
}

/** @type {(value: number | null, format: (value: number) => string) => unknown} */
const cell = (value, format) => html`<td class="num right">${value === null ? "–" : format(value)}</td>`;

/** @typedef {import("../lib/series.js").ToolTotal} ToolTotal */

const SHOWN = 8;

/** @type {(title: string, totals: ToolTotal[], value: (total: ToolTotal) => number, format: (value: number) => string) => unknown} */
export function ranking(title, totals, value, format) {
  const top = totals.filter(value).sort((a, b) => value(b) - value(a)).slice(0, SHOWN);
  const largest = top.length ? value(top[0]) : 1;
  return html`<section class="card"><h2>${title}</h2>${top.length ? html`<ol class="ranking">${top.map((total) => html`<li><a href=${path("tools", total.name)}>${total.name}</a>
    <svg class="bar" aria-hidden="true"><rect width="${((100 * value(total)) / largest).toFixed(1)}%" height="100%" rx="1.5" /></svg><span class="num">${format(value(total))}</span></li>`)}</ol>` : html`<p class="muted">None in this window.</p>`}</section>`;
}

const SPARK_WIDTH = 96;
const SPARK_HEIGHT = 20;

/**
 * @param {{ success: number, failure: number, rejected: number }[]} points
 * @param {string} label
 */
export function sparkline(points, label) {
  const top = Math.max(1, ...points.map((point) => point.success + point.failure + point.rejected));
  const step = SPARK_WIDTH / Math.max(1, points.length);
  const bars = points.flatMap((point, index) => {
    const bad = point.failure + point.rejected;
    const all = point.success + bad;
    if (!all) return [];
    const height = Math.max(1.5, (SPARK_HEIGHT * all) / top);
    const failed = (height * bad) / all;
    const x = (index * step).toFixed(1);
    const width = Math.max(1, step - 0.5).toFixed(1);
    return [
      html`<rect class="ok" x=${x} width=${width} y=${(SPARK_HEIGHT - height + failed).toFixed(1)} height=${(height - failed).toFixed(1)} />`,
      bad ? html`<rect class="bad" x=${x} width=${width} y=${(SPARK_HEIGHT - height).toFixed(1)} height=${failed.toFixed(1)} />` : null,
    ];
  });
  return html`<svg class="sparkline" viewBox="0 0 ${SPARK_WIDTH} ${SPARK_HEIGHT}" role="img" aria-label=${label}><line x1="0" x2=${SPARK_WIDTH} y1=${SPARK_HEIGHT - 0.5} y2=${SPARK_HEIGHT - 0.5} />${bars}</svg>`;
}
