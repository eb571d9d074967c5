// @ts-check
// A list that has elements for its visible rows only. All rows have the height `--row-height`.
import { html, keyed, render, schedule } from "../lib/kit.js";

/** @typedef {import("../lib/html.js").Template} Template */
/** @typedef {{ count: number, key: (index: number) => string, row: (index: number) => Template, onScroll?: (top: number) => void, onEnd?: () => void }} ListModel */

const EXTRA_ROWS = 6;

export class VirtualList extends HTMLElement {
  /** @type {ListModel | null} */ #model = null;
  #rowHeight = 0;
  #paint = () => this.paint();
  #resize = new ResizeObserver(() => {
    this.#rowHeight = 0;
    schedule(this.#paint);
  });

  connectedCallback() {
    this.#resize.observe(this);
    this.addEventListener("scroll", this.#scrolled, { passive: true });
    this.addEventListener("keydown", this.#moved);
  }

  disconnectedCallback() {
    this.#resize.disconnect();
    this.removeEventListener("scroll", this.#scrolled);
    this.removeEventListener("keydown", this.#moved);
  }

  /** @param {ListModel} model */
  set model(model) {
    this.#model = model;
    if (this.isConnected) this.paint();
    else schedule(this.#paint);
  }

  #scrolled = () => {
    this.#model?.onScroll?.(this.scrollTop);
    schedule(this.#paint);
  };

  /** Moves the focus between the links of the rows. */
  #moved = (/** @type {KeyboardEvent} */ event) => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    const row = /** @type {Element} */ (event.target).closest("[role=row]");
    if (!step || !row || /** @type {Element} */ (event.target).matches("input:not([type=checkbox]), select, textarea")) return;
    event.preventDefault();
    this.scrollTop += step * this.#rowHeight;
    this.paint();
    const next = step > 0 ? row.nextElementSibling : row.previousElementSibling;
    /** @type {HTMLElement | null | undefined} */ (next?.querySelector("a[href]"))?.focus({ preventScroll: true });
  };

  paint() {
    const model = this.#model;
    if (!model || !this.isConnected) return;
    this.#rowHeight ||= parseFloat(getComputedStyle(this).getPropertyValue("--row-height")) || 34;
    const height = this.#rowHeight;
    const first = Math.max(0, Math.floor(this.scrollTop / height) - EXTRA_ROWS);
    const last = Math.min(model.count, Math.ceil((this.scrollTop + this.clientHeight) / height) + EXTRA_ROWS);
    const rows = [];
    for (let index = first; index < last; index++) rows.push(keyed(model.key(index), model.row(index)));
    render(html`<div class="space" role="presentation"><div class="rows" role="rowgroup">${rows}</div></div>`, this);
    const space = /** @type {HTMLElement} */ (this.firstElementChild);
    space.style.height = `${model.count * height}px`;
    /** @type {HTMLElement} */ (space.firstElementChild).style.transform = `translateY(${first * height}px)`;
    if (last >= model.count - EXTRA_ROWS) model.onEnd?.();
  }
}

customElements.define("tp-list", VirtualList);
