// @ts-check
// Statistics by time: what the service answers, added up into steps, and the scales and ticks of its axes.

/** @typedef {{ time: number, success: number, failure: number, rejected: number, total_ms: number, p50: number | null, p95: number | null, p99: number | null }} Point */
/** @typedef {Partial<Api.ToolStats> & Api.MinuteStats} Minute One point of a series; `minute` is the start of its step. */

const MINUTE = 60e3;
const HOUR = 3600e3;

/** The windows of the page, each with a step that gives 15 to 170 points. */
export const WINDOWS = /** @type {const} */ ([
  { name: "15m", label: "15 min", ms: 15 * MINUTE, step: MINUTE },
  { name: "1h", label: "1 h", ms: HOUR, step: MINUTE },
  { name: "6h", label: "6 h", ms: 6 * HOUR, step: 5 * MINUTE },
  { name: "24h", label: "24 h", ms: 24 * HOUR, step: 15 * MINUTE },
  { name: "7d", label: "7 d", ms: 168 * HOUR, step: HOUR },
  { name: "30d", label: "30 d", ms: 720 * HOUR, step: 6 * HOUR },
]);

const STEPS = /** @type {const} */ ([["1m", MINUTE], ["5m", 5 * MINUTE], ["15m", 15 * MINUTE], ["1h", HOUR], ["6h", 6 * HOUR], ["1d", 24 * HOUR]]);
const MAX_POINTS = 2000;

/**
 * Returns the name of a step, as the service takes it.
 * @param {number} step
 */
export const stepName = (step) => STEPS.find(([, ms]) => ms === step)?.[0] ?? "1d";

/**
 * Returns a step for a span of time whose series has to be read from `reach` milliseconds ago.
 * @param {number} span
 * @param {number} [reach]
 */
export function stepOf(span, reach = span) {
  const fine = WINDOWS.find((window) => span <= window.ms)?.step ?? 6 * HOUR;
  return STEPS.find(([, ms]) => ms >= fine && reach / ms <= MAX_POINTS)?.[1] ?? 24 * HOUR;
}

/**
 * Returns the window that reaches back so far, as the service takes it.
 * @param {number} reach
 */
export const windowName = (reach) => (reach <= 168 * HOUR ? `${Math.max(1, Math.ceil(reach / MINUTE))}m` : `${Math.min(720, Math.ceil(reach / HOUR))}h`);

/**
 * Adds minutes up into steps, with zeros where nothing was called.
 * @param {Minute[]} minutes
 * @param {number} from
 * @param {number} to
 * @param {number} step
 * @returns {Point[]}
 */
export function pointsOf(minutes, from, to, step) {
  const start = Math.floor(from / step) * step;
  /** @type {Point[]} */
  const points = [];
  for (let time = start; time < to; time += step) points.push({ time, success: 0, failure: 0, rejected: 0, total_ms: 0, p50: null, p95: null, p99: null });
  for (const minute of minutes) {
    const point = points[Math.floor((Date.parse(minute.minute) - start) / step)];
    if (!point) continue;
    point.success += minute.success_count;
    point.failure += minute.failure_count;
    point.rejected += minute.rejected_count;
    point.total_ms += minute.total_duration_ms;
    // The service sends one row a step, so this is its percentile; of several rows it is the largest.
    point.p50 = largest(point.p50, minute.p50_duration_ms, minute.execution_count);
    point.p95 = largest(point.p95, minute.p95_duration_ms, minute.execution_count);
    point.p99 = largest(point.p99, minute.p99_duration_ms, minute.execution_count);
  }
  return points;
}

/** @type {(a: number | null, b: number | undefined, executions: number) => number | null} */
const largest = (a, b, executions) => (b === undefined || !executions ? a : Math.max(a ?? 0, b));

/**
 * @typedef {{ name: string, calls: number, errors: number, rejected: number, total_ms: number }} ToolTotal
 */

/**
 * Returns what each tool did in a span of time.
 * @param {(Api.StatsAnswer & { window?: Api.ToolStats | null })[]} tools
 * @param {number} from
 * @param {number} to
 * @returns {ToolTotal[]}
 */
export function toolTotals(tools, from, to) {
  return tools
    .map((tool) => {
      const total = { name: tool.tool_name, calls: 0, errors: 0, rejected: 0, total_ms: 0 };
      for (const minute of within(tool.series ?? [], from, to)) {
        total.calls += minute.execution_count + minute.rejected_count;
        total.errors += minute.failure_count;
        total.rejected += minute.rejected_count;
        total.total_ms += minute.total_duration_ms;
      }
      return total;
    })
    .filter((total) => total.calls);
}

/**
 * Returns the points that begin in a span of time.
 * @template {{ minute: string }} T
 * @param {T[]} minutes
 * @param {number} from
 * @param {number} to
 */
export const within = (minutes, from, to) => minutes.filter(({ minute }) => Date.parse(minute) >= from && Date.parse(minute) < to);

/**
 * Adds up error codes, most frequent first.
 * @param {{ failures_by_code?: Record<string, number>, rejected_by_code?: Record<string, number> }[]} stats
 */
export function errorCodes(stats) {
  /** @type {Map<string, number>} */
  const codes = new Map();
  for (const { failures_by_code: failed = {}, rejected_by_code: rejected = {} } of stats) {
    for (const [code, count] of [...Object.entries(failed), ...Object.entries(rejected)]) codes.set(code, (codes.get(code) ?? 0) + count);
  }
  return [...codes].sort((a, b) => b[1] - a[1]);
}

const STEPS_MS = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 10e3, 15e3, 30e3, 60e3, 120e3, 300e3, 600e3, 900e3, 1800e3,
  3600e3, 2 * 3600e3, 3 * 3600e3, 6 * 3600e3, 12 * 3600e3, 86400e3, 2 * 86400e3, 5 * 86400e3, 7 * 86400e3, 14 * 86400e3, 30 * 86400e3,
];

/**
 * Returns a function that maps a range of values to a range of pixels.
 * @param {number} from
 * @param {number} to
 * @param {number} start
 * @param {number} end
 * @returns {(value: number) => number}
 */
export const scale = (from, to, start, end) => (value) => start + ((value - from) / (to - from || 1)) * (end - start);

/**
 * Returns at most `max` round values from 0 to `top`, and the first round value that is not below `top`.
 * @param {number} top
 * @param {number} max
 */
export function valueTicks(top, max = 4) {
  const rough = Math.max(top, 1e-9) / max;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= rough) ?? 10 * power;
  const end = Math.max(step, Math.ceil(top / step - 1e-9) * step);
  const ticks = [];
  for (let value = 0; value <= end + step / 2; value += step) ticks.push(Number(value.toPrecision(12)));
  return { ticks, end: ticks[ticks.length - 1] };
}

/**
 * Returns the step of a time axis with at most `max` ticks.
 * @param {number} span
 * @param {number} max
 */
export const timeStep = (span, max) => STEPS_MS.find((step) => span / step <= max) ?? STEPS_MS[STEPS_MS.length - 1];

/**
 * Returns the times of ticks, on round local times.
 * @param {number} from
 * @param {number} to
 * @param {number} max
 */
export function timeTicks(from, to, max) {
  const step = timeStep(to - from, max);
  const offset = step >= 3600e3 ? new Date(from).getTimezoneOffset() * 60e3 : 0;
  const ticks = [];
  for (let time = Math.ceil((from - offset) / step) * step + offset; time <= to; time += step) ticks.push(time);
  return { ticks, step };
}

/**
 * Formats the time of a tick.
 * @param {number} time
 * @param {number} step
 */
export function tickLabel(time, step) {
  const date = new Date(time);
  const two = (/** @type {number} */ value) => String(value).padStart(2, "0");
  if (step >= 86400e3 || (step >= 6 * 3600e3 && !date.getHours())) return date.toLocaleDateString(undefined, { month: "short", day: "numeric" });
  const minutes = `${two(date.getHours())}:${two(date.getMinutes())}`;
  return step >= 60e3 ? minutes : `${minutes}:${two(date.getSeconds())}`;
}
