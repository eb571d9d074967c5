// @ts-check
// Routes by the history API, below the address in `<base>`.
import { query } from "./format.js";

/** @typedef {{ segments: string[], query: URLSearchParams, path: string }} Route */

const base = new URL(document.baseURI);
// An absolute base stays the same when the address changes.
document.querySelector("base")?.setAttribute("href", base.href);

/** The address below which the API is. */
export const apiRoot = new URL("..", base).href;

/** @type {(route: Route) => void} */
let onChange = () => {};

/**
 * Returns the route of the current address.
 * @returns {Route}
 */
export function currentRoute() {
  const path = location.pathname.startsWith(base.pathname) ? location.pathname.slice(base.pathname.length) : "";
  const segments = path.split("/").filter(Boolean).map(decode);
  return { segments, query: new URLSearchParams(location.search), path };
}

/** @param {string} segment */
function decode(segment) {
  try {
    return decodeURIComponent(decodeURIComponent(segment));
  } catch {
    return segment;
  }
}

/**
 * Goes to an address relative to the console. An address elsewhere leads to the first screen.
 * @param {string} address
 * @param {{ replace?: boolean }} [options]
 */
export function navigate(address, { replace = false } = {}) {
  const given = new URL(address, base);
  const url = isWithin(given) ? given : base;
  if (url.href === location.href) return;
  history[replace ? "replaceState" : "pushState"](null, "", url);
  onChange(currentRoute());
}

/** @param {{ origin: string, pathname: string }} url */
const isWithin = ({ origin, pathname }) => origin === base.origin && pathname.startsWith(base.pathname);

/**
 * Changes members of the query; empty values remove them.
 * @param {Record<string, string | number | null | undefined>} changes
 * @param {{ push?: boolean }} [options]
 */
export function setQuery(changes, { push = false } = {}) {
  const { path, query: current } = currentRoute();
  navigate((path || "./") + query({ ...Object.fromEntries(current), ...changes }), { replace: !push });
}

/**
 * Calls `listener` after every change of the address, and follows links within the console.
 * @param {(route: Route) => void} listener
 */
export function startRouter(listener) {
  onChange = listener;
  addEventListener("popstate", () => listener(currentRoute()));
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = /** @type {Element} */ (event.target).closest?.("a[href]");
    if (!(link instanceof HTMLAnchorElement) || link.target || link.hasAttribute("download")) return;
    if (!isWithin(link) || link.getAttribute("href")?.startsWith("#")) return;
    event.preventDefault();
    navigate(link.href);
  });
}
