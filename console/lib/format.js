// @ts-check
// Values from and as texts, and addresses as the console links to and requests them.

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });
const day = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });
const number = new Intl.NumberFormat("en");
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

/** @param {number} value */
export const count = (value) => number.format(value);

/** @param {number} value */
export const short = (value) => (Math.abs(value) < 10000 ? number.format(value) : compact.format(value));

/**
 * Formats milliseconds: `850 ms`, `1.25 s`, `2 m 05 s`, `3 h 10 m`, `4 d 02 h`.
 * @param {number | null | undefined} ms
 */
export function duration(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 1)} s`;
  const seconds = Math.floor(ms / 1000);
  const [big, small, units] =
    seconds < 3600 ? [seconds / 60, seconds % 60, "ms"] : seconds < 86400 ? [seconds / 3600, (seconds / 60) % 60, "hm"] : [seconds / 86400, (seconds / 3600) % 24, "dh"];
  return `${Math.floor(big)} ${units[0]} ${String(Math.floor(small)).padStart(2, "0")} ${units[1]}`;
}

/** @param {number} bytes */
export function bytes(bytes) {
  const unit = bytes < 1024 ? 0 : bytes < 1024 ** 2 ? 1 : bytes < 1024 ** 3 ? 2 : 3;
  return `${(bytes / 1024 ** unit).toFixed(unit && bytes / 1024 ** unit < 100 ? 1 : 0)} ${["B", "KiB", "MiB", "GiB"][unit]}`;
}

/**
 * Formats the time of day, with the date if it is another day.
 * @param {string | null | undefined} time
 * @param {number} [now]
 */
export function time(time, now = Date.now()) {
  if (!time) return "–";
  const date = new Date(time);
  const text = clock.format(date);
  return new Date(now).toDateString() === date.toDateString() ? text : `${day.format(date)}, ${text}`;
}

/**
 * Formats how long ago something was.
 * @param {string | null | undefined} time
 * @param {number} [now]
 */
export function ago(time, now = Date.now()) {
  if (!time) return "never";
  const ms = now - Date.parse(time);
  if (ms < 5000) return "just now";
  if (ms < 60_000) return `${Math.floor(ms / 1000)} s ago`;
  if (ms < 3_600_000) return `${Math.floor(ms / 60_000)} min ago`;
  return ms < 86_400_000 ? `${Math.floor(ms / 3_600_000)} h ago` : `${Math.floor(ms / 86_400_000)} d ago`;
}

/**
 * Formats a part of a total.
 * @param {number} part
 * @param {number} total
 */
export function percent(part, total) {
  if (!total) return "–";
  const value = (100 * part) / total;
  return `${value === 0 || value >= 10 ? Math.round(value) : value.toFixed(1)} %`;
}

/**
 * Shortens arguments to one line: `city: "Paris", days: 3`.
 * @param {unknown} value
 * @param {number} [max]
 */
export function shortArguments(value, max = 160) {
  if (value === null || value === undefined) return "";
  if (typeof value === "string") return clip(value, max);
  if (typeof value !== "object" || Array.isArray(value)) return clip(JSON.stringify(value), max);
  let text = "";
  for (const [name, member] of Object.entries(value)) {
    if (text.length > max) break;
    text += `${text && ", "}${name}: ${clip(JSON.stringify(member) ?? "", 60)}`;
  }
  return clip(text, max);
}

/**
 * @param {string} text
 * @param {number} max
 */
export function clip(text, max) {
  return text.length > max ? `${text.slice(0, max - 1)}…` : text;
}

/** Makes what `JSON.stringify` writes as this text, in browsers that can. */
const { rawJSON } = /** @type {{ rawJSON?: (text: string) => unknown }} */ (JSON);
if (rawJSON) Object.defineProperty(BigInt.prototype, "toJSON", { value() { return rawJSON(String(this)); } });

/**
 * Parses JSON. Integers that a number cannot hold become `bigint`, so that they are shown and sent as they are.
 * @param {string} text
 */
export function parseJson(text) {
  if (!rawJSON || !/\d{16}/.test(text)) return JSON.parse(text);
  const parse = /** @type {(text: string, exact: (name: string, value: unknown, context: { source: string }) => unknown) => any} */ (JSON.parse);
  return parse(text, (_, value, { source }) => (typeof value === "number" && !Number.isSafeInteger(value) && /^-?\d+$/.test(source) ? BigInt(source) : value));
}

/** @param {unknown} value */
export const pretty = (value) => JSON.stringify(value, null, 2) ?? "";

/**
 * Returns an address if it is relative, http or https, else `about:blank#blocked`.
 * @param {string} text
 */
export function safeUrl(text) {
  // Browsers ignore control characters and blanks in a scheme, so the check does too.
  const scheme = /^([^/?#:]*):/.exec(text.replace(/[\u0000-\u0020\u007f-\u009f]/g, ""))?.[1];
  return scheme === undefined || /^https?$/i.test(scheme) ? text : "about:blank#blocked";
}

/**
 * Joins path segments, each encoded. A gateway may decode a path once, so a slash or a percent sign is encoded twice.
 * @param {string[]} segments
 */
export const path = (...segments) => segments.map((one) => encodeURIComponent(/[%/]/.test(one) ? encodeURIComponent(one) : one)).join("/");

/**
 * Returns a query string with its `?`, or nothing. Empty values are omitted.
 * @param {Record<string, string | number | boolean | null | undefined>} values
 */
export function query(values) {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    if (value !== null && value !== undefined && value !== "") search.set(name, String(value));
  }
  const text = search.toString();
  return text && `?${text}`;
}

/** @typedef {{ used: number, reserved: number, limit: number }} Amounts */

/**
 * Returns where the used part of a bar and the reserved part end, in percent.
 * @param {Amounts} amounts
 */
export const shares = ({ used, reserved, limit }) => [used, used + reserved].map((value) => Math.min(100, limit ? (100 * value) / limit : 100));
