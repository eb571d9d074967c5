// @ts-check
// The calls as they happen, newest on top.
import { api, currentRoute, empty, html, loading, problem, update } from "../components/parts.js";
import { FILTER_NAMES, filterQuery, filtersFrom, Rows } from "../lib/rows.js";
import { subscribe } from "../lib/stream.js";
import { bulkBar, callRow, filterBar, rowHeader } from "../components/call-list.js";
import { scrollToRow, VirtualList } from "../components/virtual-list.js";

const PAGE = 200;
const NEXT_PAGE = 500;
const TICK_MS = 1000;

/** The list of one set of filters. */
class LiveList {
  rows;
  /** @type {Set<string>} */ selected = new Set();
  /** @type {string | null} */ cursor = null;
  /** @type {unknown} */ error = undefined;
  loading = false;
  loaded = false;
  /** New calls above the shown ones, while the list is scrolled. */ hidden = 0;
  scrolled = false;
  #closed = false;
  /** Grows with each reload, so that pages of before are ignored. */ #version = 0;
  #unsubscribe;

  /** @param {import("../lib/rows.js").Filters} filters */
  constructor(filters) {
    this.filters = filters;
    this.rows = new Rows(filters);
    const { name = "", session = "" } = filters;
    this.#unsubscribe = subscribe(["events"], { name, session }, { onEvent: (event) => this.#receive(event), onGap: () => this.reload() });
  }

  /** @param {{ event: string, data: any }} event */
  #receive(event) {
    if (!event.data.id) return;
    const change = this.rows.apply(event);
    if (this.scrolled) this.hidden = Math.max(0, this.hidden + change);
    update();
  }

  /** Loads the next older page. */
  async load() {
    if (this.loading || (this.loaded && !this.cursor)) return;
    this.loading = true;
    const version = this.#version;
    try {
      /** @type {Api.ToolCallPage} */
      const page = await api.get(["tool-calls"], { ...filterQuery(this.filters, Date.now()), limit: this.cursor ? NEXT_PAGE : PAGE, cursor: this.cursor });
      if (this.#closed || version !== this.#version) return;
      this.rows.addPage(page.tool_calls);
      this.cursor = page.next_cursor ?? null;
      this.error = undefined;
    } catch (error) {
      if (version !== this.#version) return;
      this.error = error;
    }
    this.loading = false;
    this.loaded = true;
    update();
  }

  /** Loads what was missed while no event could be resumed. */
  reload() {
    this.cursor = null;
    this.loaded = false;
    this.loading = false;
    this.#version++;
    this.load();
  }

  end() {
    if (this.rows.trimmed) this.cursor = this.rows.oldest;
    this.rows.trimmed = false;
    if (!this.error) this.load();
  }

  close() {
    this.#closed = true;
    this.#unsubscribe();
  }
}

/** @returns {import("../lib/kit.js").View} */
export function liveView() {
  let list = new LiveList(filtersFrom(currentRoute().query));
  // The durations of running calls grow without an event.
  const clock = setInterval(update, TICK_MS);
  return {
    title: "Live",
    render: () => page(list),
    changed({ query }) {
      const filters = filtersFrom(query);
      if (JSON.stringify(filters) === JSON.stringify(list.filters)) return;
      list.close();
      list = new LiveList(filters);
      scrollToRow(0);
    },
    destroy() {
      clearInterval(clock);
      list.close();
    },
  };
}

/** @param {LiveList} list */
function page(list) {
  const filtered = FILTER_NAMES.some((name) => list.filters[name]);
  const count = list.rows.length - list.hidden;
  return html`<section class="live">
    <header class="page-head"><h1 tabindex="-1">Live</h1><span class="muted" id="live-count">${list.loaded ? `${list.rows.length}${list.cursor ? "+" : ""} calls` : ""}</span></header>
    ${filterBar(list.filters)}
    ${bulkBar(list.selected, (id) => list.rows.get(id))}
    ${list.error ? problem(list.error, () => list.reload()) : null}
    ${count <= 0 && list.loaded && !list.error ? nothing(filtered) : null}
    ${count <= 0 && !list.loaded ? loading() : null}
    ${list.rows.length ? html`<div class="list-frame">
      ${list.hidden ? html`<button type="button" class="pill" onClick=${() => toTop(list)}>${list.hidden} new</button>` : null}
      <div role="table" aria-label="Calls" aria-rowcount=${list.rows.length + 1} class="table-frame">${rowHeader(list)}
      <${VirtualList} ...${model(list, count)} /></div></div>` : null}
  </section>`;
}

/** @param {LiveList} list */
function toTop(list) {
  list.hidden = 0;
  list.scrolled = false;
  scrollToRow(0);
  update();
}

/** @type {(list: LiveList, count: number) => import("../components/virtual-list.js").ListProps} */
const model = (list, count) => ({
  count,
  look: "calls",
  row: (index) => callRow(list.rows.at(index + list.hidden), index, list.selected),
  onScroll: (top) => {
    list.scrolled = top > 4;
    if (!list.scrolled && list.hidden) toTop(list);
  },
  onEnd: () => list.end(),
});

/** @param {boolean} filtered */
function nothing(filtered) {
  if (filtered) return empty("No call matches", "Change or clear the filters. New calls that match appear here on their own.");
  return empty("No calls yet", "Make the first one; it appears here at once:", ["tool-calls", { name: "calculate", arguments: { expression: "6 * 7" } }]);
}
