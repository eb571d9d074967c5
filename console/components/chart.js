// @ts-check
// Charts over time in SVG with their tables, rankings and sparklines.
import { html, path, render, schedule, table, time } from "./parts.js";
import { scale, tickLabel, timeTicks, valueTicks } from "../lib/series.js";

/** @typedef {import("../lib/series.js").Point} Point */
/** @typedef {{ name: string, className: string, value: (point: Point) => number | null }} Series */
/** @typedef {{ kind: "bars" | "lines", label: string, points: Point[], step: number, series: Series[], format: (value: number) => string, onZoom: (from: number, to: number) => void }} ChartModel */

const HEIGHT = 190;
const LEFT = 52;
const BOTTOM = 22;
const TOP = 8;

export class TimeChart extends HTMLElement {
  /** @type {ChartModel | null} */ #model = null;
  #width = 0;
  /** @type {number | null} */ #hover = null;
  /** @type {number | null} */ #dragFrom = null;
  #paint = () => this.#draw();
  #resize = new ResizeObserver(([{ contentRect }]) => {
    this.#width = contentRect.width;
    schedule(this.#paint);
  });

  connectedCallback() {
    this.#resize.observe(this);
  }

  disconnectedCallback() {
    this.#resize.disconnect();
  }

  /** @param {ChartModel} model */
  set model(model) {
    // New values may come during a drag, with more or fewer points: the pointer keeps its time.
    const times = this.#model?.points.map((point) => point.time) ?? [];
    const moved = (/** @type {number | null} */ index) => (index === null ? null : model.points.findLastIndex((point) => point.time <= times[index]));
    const [hover, from] = [moved(this.#hover), moved(this.#dragFrom)];
    this.#hover = hover === -1 ? null : hover;
    this.#dragFrom = from === -1 ? null : from;
    this.#model = model;
    this.#draw();
  }

  #draw() {
    const model = this.#model;
    if (!model || this.#width < 80 || !model.points.length) return;
    const { points, step, series, kind } = model;
    const tops = points.map((point) => {
      const values = series.map((one) => one.value(point) ?? 0);
      return kind === "bars" ? values.reduce((sum, value) => sum + value, 0) : Math.max(...values);
    });
    const { ticks, end } = valueTicks(Math.max(...tops));
    const from = points[0].time;
    const to = points[points.length - 1].time + step;
    const x = scale(from, to, LEFT, this.#width - 8);
    const y = scale(0, end, HEIGHT - BOTTOM, TOP);
    const drawn = kind === "bars" ? bars(model, x, y) : series.map((one) => line(one, points, step, x, y));
    render(html`<svg role="img" aria-label=${model.label} width=${this.#width} height=${HEIGHT} viewBox="0 0 ${this.#width} ${HEIGHT}"
        @pointermove=${this.#moved} @pointerleave=${this.#left} @pointerdown=${this.#pressed} @pointerup=${this.#released}>
        ${grid(ticks, y, this.#width, model.format)}${timeAxis(from, to, x, this.#width)}${drawn}${this.#selection(x, points, step)}</svg>
      ${this.#tooltip(model)}`, this);
    this.#placeTooltip(x);
  }

  /** @type {(x: (time: number) => number, points: Point[], step: number) => unknown} */
  #selection(x, points, step) {
    if (this.#hover === null || !points[this.#hover]) return null;
    const first = Math.min(this.#hover, this.#dragFrom ?? this.#hover);
    const last = Math.max(this.#hover, this.#dragFrom ?? this.#hover);
    const left = x(points[first].time);
    return html`<rect class="selection" x=${left} width=${x(points[last].time + step) - left} y=${TOP} height=${HEIGHT - BOTTOM - TOP} />`;
  }

  /** @param {ChartModel} model */
  #tooltip({ points, series, format }) {
    const point = this.#hover === null ? undefined : points[this.#hover];
    if (!point) return null;
    return html`<div class="tooltip"><strong>${time(new Date(point.time).toISOString())}</strong>${series.map(
      (one) => html`<span class="key ${one.className}">${one.name} <b>${one.value(point) === null ? "–" : format(one.value(point) ?? 0)}</b></span>`)}</div>`;
  }

  /** @param {(time: number) => number} x */
  #placeTooltip(x) {
    const tooltip = /** @type {HTMLElement | null} */ (this.querySelector(".tooltip"));
    const point = this.#model?.points[this.#hover ?? -1];
    if (!tooltip || !point) return;
    const left = x(point.time);
    tooltip.style.transform = `translateX(${left > this.#width / 2 ? left - tooltip.offsetWidth - 10 : left + 14}px)`;
  }

  /** @param {PointerEvent} event */
  #indexAt(event) {
    const { points = [] } = this.#model ?? {};
    const ratio = (event.clientX - this.getBoundingClientRect().left - LEFT) / (this.#width - 8 - LEFT);
    return Math.max(0, Math.min(points.length - 1, Math.floor(ratio * points.length)));
  }

  #moved = (/** @type {PointerEvent} */ event) => {
    this.#hover = this.#indexAt(event);
    schedule(this.#paint);
  };

  #left = () => {
    if (this.#dragFrom !== null) return;
    this.#hover = null;
    schedule(this.#paint);
  };

  #pressed = (/** @type {PointerEvent} */ event) => {
    if (event.pointerType === "touch") return;
    this.#dragFrom = this.#indexAt(event);
    /** @type {Element} */ (event.currentTarget).setPointerCapture(event.pointerId);
    event.preventDefault();
  };

  #released = (/** @type {PointerEvent} */ event) => {
    const start = this.#dragFrom;
    const model = this.#model;
    this.#dragFrom = null;
    if (start === null || !model) return;
    const end = this.#indexAt(event);
    if (start !== end) model.onZoom(model.points[Math.min(start, end)].time, model.points[Math.max(start, end)].time + model.step);
    schedule(this.#paint);
  };
}

/** @type {(model: ChartModel, x: (time: number) => number, y: (value: number) => number) => unknown} */
function bars({ points, step, series }, x, y) {
  const width = Math.max(1, x(points[0].time + step) - x(points[0].time) - 1);
  return points.map((point) => {
    let sum = 0;
    return series.map((one) => {
      const value = one.value(point) ?? 0;
      if (!value) return null;
      const top = y((sum += value));
      return html`<rect class=${one.className} x=${x(point.time).toFixed(1)} width=${width.toFixed(1)} y=${top.toFixed(1)} height=${(y(sum - value) - top).toFixed(1)} />`;
    });
  });
}

/** @type {(series: Series, points: Point[], step: number, x: (time: number) => number, y: (value: number) => number) => unknown} */
function line(series, points, step, x, y) {
  let drawing = false;
  let d = "";
  const dots = points.flatMap((point, index) => {
    const value = series.value(point);
    if (value === null) return (drawing = false), [];
    const at = `${x(point.time + step / 2).toFixed(1)} ${y(value).toFixed(1)}`;
    const alone = !drawing && (points[index + 1] === undefined || series.value(points[index + 1]) === null);
    d += `${drawing ? "L" : "M"}${at}`;
    drawing = true;
    return alone ? [html`<circle class=${series.className} cx=${at.split(" ")[0]} cy=${at.split(" ")[1]} r="2.5" />`] : [];
  });
  return [html`<path class="line ${series.className}" d=${d} />`, dots];
}

/** @type {(ticks: number[], y: (value: number) => number, width: number, format: (value: number) => string) => unknown} */
const grid = (ticks, y, width, format) => ticks.map((tick) => html`<line class="grid" x1=${LEFT} x2=${width - 8} y1=${y(tick)} y2=${y(tick)} /><text class="tick end" x=${LEFT - 6} y=${y(tick) + 4}>${format(tick)}</text>`);

/** @type {(from: number, to: number, x: (time: number) => number, width: number) => unknown} */
function timeAxis(from, to, x, width) {
  const { ticks, step } = timeTicks(from, to, Math.max(2, Math.floor(width / 90)));
  return ticks.map((tick) => html`<text class="tick" x=${Math.min(x(tick), width - 20).toFixed(1)} y=${HEIGHT - 6}>${tickLabel(tick, step)}</text>`);
}

customElements.define("tp-chart", TimeChart);

/** @typedef {{ title: string, kind: "bars" | "lines", points: Point[], step: number, series: Series[], format: (value: number) => string, zoom: (from: number, to: number) => void }} Card */

/** @param {Card} card */
export function chartCard({ title, kind, points, step, series, format, zoom }) {
  const filled = points.filter((point) => series.some((one) => one.value(point)));
  return html`<section class="card chart-card"><header><h2>${title}</h2><div class="legend">${series.map((one) => html`<span class="key ${one.className}">${one.name}</span>`)}</div></header>
    <tp-chart .model=${{ kind, label: `${title}. The values are in the table below.`, points, step, series, format, onZoom: zoom }}></tp-chart>
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
