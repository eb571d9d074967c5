// @ts-check
// A chart over time, drawn by uPlot: values at the pointer, and a span of time to zoom into.
import uPlot from "../vendor/uplot/uplot.js";
import { useLayoutEffect, useRef, useState } from "../vendor/preact/hooks.js";
import { html, time } from "./parts.js";
import { tickLabel, timeTicks, valueTicks } from "../lib/series.js";

/** @typedef {import("../lib/series.js").Point} Point */
/** @typedef {{ name: string, className: string, value: (point: Point) => number | null }} Series `className` names a colour in `COLOURS`. */
/** @typedef {{ kind: "bars" | "lines", title: string, points: Point[], step: number, series: Series[], format: (value: number) => string, onZoom: (from: number, to: number) => void }} ChartProps */
/** @typedef {{ index: number, left: number, width: number }} Hover */

const HEIGHT = 190;
const LEFT = 52;
const BOTTOM = 22;
const TOP = 8;
const RIGHT = 8;
const FONT = "11px system-ui, sans-serif";
const COLOURS = /** @type {Record<string, string>} */ ({ ok: "--ok-fill", bad: "--bad-fill", warn: "--warn-fill", "line-a": "--line-a", "line-b": "--line-b", "line-c": "--line-c" });

/** Reads a colour when the chart is drawn, so that it follows the colour scheme. @param {string} name */
const colour = (name) => () => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** @param {ChartProps} props */
export function TimeChart(props) {
  const { title, points, step, series, format } = props;
  const element = useRef(/** @type {HTMLElement | null} */ (null));
  const chart = useRef(/** @type {Plot | null} */ (null));
  const [hover, setHover] = useState(/** @type {Hover | null} */ (null));
  useLayoutEffect(() => {
    chart.current = new Plot(/** @type {HTMLElement} */ (element.current), props, setHover);
    return () => chart.current?.destroy();
  }, []);
  useLayoutEffect(() => chart.current?.update(props), [points, step]);
  const point = hover && points[hover.index];
  const side = hover && (hover.left > hover.width / 2 ? { right: `${RIGHT + hover.width - hover.left + 10}px` } : { left: `${LEFT + hover.left + 14}px` });
  const span = points.length ? `, ${time(iso(points[0].time))} to ${time(iso(points[points.length - 1].time + step))}` : "";
  return html`<div class="chart"><div ref=${element} role="img" aria-label="${title}${span}. The values are in the table below."></div>
    ${point ? html`<div class="tooltip" style=${side}><strong>${time(iso(point.time))}</strong>${series.map((one) => html`<span class="key ${one.className}">${one.name} <b>${shown(one.value(point), format)}</b></span>`)}</div>` : null}</div>`;
}

/** @param {number} time */
const iso = (time) => new Date(time).toISOString();

/** @type {(value: number | null, format: (value: number) => string) => string} */
const shown = (value, format) => (value === null ? "–" : format(value));

/** The drawing of a chart, and what the pointer does on it. */
class Plot {
  /** New values that wait for the end of a drag. @type {ChartProps | null} */ #next = null;
  #dragging = false;
  #scheme = matchMedia("(prefers-color-scheme: dark)");

  /**
   * @param {HTMLElement} element
   * @param {ChartProps} props
   * @param {(hover: Hover | null) => void} onHover
   */
  constructor(element, props, onHover) {
    this.props = props;
    this.plot = new uPlot(this.#options(element, onHover), dataOf(props), element);
    this.plot.over.addEventListener("mousedown", this.#pressed);
    document.addEventListener("mouseup", this.#released);
    this.#scheme.addEventListener("change", this.#redraw);
    this.resize = new ResizeObserver(([{ contentRect }]) => contentRect.width > 0 && this.plot.setSize({ width: contentRect.width, height: HEIGHT }));
    this.resize.observe(element);
  }

  destroy() {
    this.resize.disconnect();
    document.removeEventListener("mouseup", this.#released);
    this.#scheme.removeEventListener("change", this.#redraw);
    this.plot.destroy();
  }

  /** Shows new values. During a drag they wait, so that the pointer keeps its time. @param {ChartProps} props */
  update(props) {
    if (this.#dragging) {
      this.#next = props;
      return;
    }
    this.props = props;
    this.plot.setData(dataOf(props));
  }

  #redraw = () => this.plot.redraw(false);

  #pressed = () => void (this.#dragging = true);

  #released = () => {
    if (!this.#dragging) return;
    this.#dragging = false;
    // The chart handles the same event, and reports the selected span of the old values first.
    setTimeout(() => {
      if (this.#next) this.update(this.#next);
      this.#next = null;
    });
  };

  /** @type {(element: HTMLElement, onHover: (hover: Hover | null) => void) => uPlot.Options} */
  #options(element, onHover) {
    const { kind, series } = this.props;
    const drawn = kind === "bars" ? [...series].reverse() : series;
    return {
      width: Math.max(element.clientWidth, 80), height: HEIGHT, ms: 1, padding: [TOP, RIGHT, 0, 0], legend: { show: false },
      cursor: { y: false, points: { show: false }, drag: { x: true, y: false, setScale: false } },
      scales: { x: { time: true, range: () => this.#times() }, y: { range: () => [0, this.#values().end] } },
      axes: [this.#timeAxis(), this.#valueAxis()],
      series: [{}, ...drawn.map((one) => (kind === "bars" ? barsOf(one) : lineOf(one)))],
      hooks: {
        setCursor: [({ cursor, bbox }) => onHover(typeof cursor.idx === "number" && (cursor.left ?? -1) >= 0 ? { index: cursor.idx, left: cursor.left ?? 0, width: bbox.width / uPlot.pxRatio } : null)],
        setSelect: [(plot) => this.#zoom(plot)],
      },
    };
  }

  /** @returns {[number, number]} */
  #times() {
    const { points, step } = this.props;
    return points.length ? [points[0].time, points[points.length - 1].time + step] : [0, 1];
  }

  #values() {
    const { points, series, kind } = this.props;
    const tops = points.map((point) => {
      const values = series.map((one) => one.value(point) ?? 0);
      return kind === "bars" ? values.reduce((sum, value) => sum + value, 0) : Math.max(...values);
    });
    return valueTicks(Math.max(0, ...tops));
  }

  /** @returns {uPlot.Axis} */
  #timeAxis() {
    const ticks = (/** @type {uPlot} */ { width }) => timeTicks(...this.#times(), Math.max(2, Math.floor(width / 90)));
    return {
      size: BOTTOM, font: FONT, stroke: colour("--muted"), grid: { show: false }, ticks: { show: false }, gap: 4,
      splits: (plot) => ticks(plot).ticks, values: (plot, times) => times.map((one) => tickLabel(one, ticks(plot).step)),
    };
  }

  /** @returns {uPlot.Axis} */
  #valueAxis() {
    return {
      size: LEFT, font: FONT, stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, gap: 6,
      splits: () => this.#values().ticks, values: (_, values) => values.map((value) => this.props.format(value)),
    };
  }

  /** @param {uPlot} plot */
  #zoom(plot) {
    const { left, width } = plot.select;
    if (!width) return;
    const { points, step, onZoom } = this.props;
    const indexAt = (/** @type {number} */ at) => Math.max(0, Math.min(points.length - 1, Math.floor((plot.posToVal(at, "x") - points[0].time) / step)));
    const [from, to] = [indexAt(left), indexAt(left + width)];
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    if (from !== to) onZoom(points[from].time, points[to].time + step);
  }
}

/** @type {(series: Series) => uPlot.Series} A bar begins at its time, and its values are stacked. */
const barsOf = ({ className }) => ({ fill: colour(COLOURS[className]), width: 0, points: { show: false }, paths: uPlot.paths.bars?.({ align: 1, size: [1, Infinity], gap: 1 }) });

/** @type {(series: Series) => uPlot.Series} A value that has no neighbour is a point. */
const lineOf = ({ className }) => ({
  stroke: colour(COLOURS[className]), width: 1.8, dash: className === "line-c" ? [5, 3] : undefined,
  points: { show: true, size: 5, width: 0, fill: colour(COLOURS[className]), filter: (plot, index) => alone(plot.data[index]) },
});

/** @param {ArrayLike<number | null | undefined>} values */
function alone(values) {
  const missing = (/** @type {number} */ index) => values[index] === null || values[index] === undefined;
  return Array.from(values, (_, index) => index).filter((index) => !missing(index) && missing(index - 1) && missing(index + 1));
}

/**
 * Returns the values as uPlot draws them. Bars are drawn over each other, so the last one includes all.
 * @param {ChartProps} props
 * @returns {uPlot.AlignedData}
 */
function dataOf({ kind, points, step, series }) {
  if (kind === "lines") return [points.map(({ time }) => time + step / 2), ...series.map((one) => points.map(one.value))];
  const sums = series.map((_, last) => points.map((point) => series.slice(0, last + 1).reduce((sum, one) => sum + (one.value(point) ?? 0), 0)));
  return [points.map(({ time }) => time), ...sums.reverse()];
}
