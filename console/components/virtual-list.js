// @ts-check
// A list that has elements for its visible rows only. All rows have the height `--row-height`.
import { elementScroll, observeElementOffset, observeElementRect, Virtualizer } from "../vendor/virtual-core/index.js";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "../vendor/preact/hooks.js";
import { html } from "../lib/kit.js";

/** @typedef {{ count: number, row: (index: number) => import("../lib/markup.js").VNode, look?: string, onScroll?: (top: number) => void, onEnd?: () => void }} ListProps Rows have keys. */

const EXTRA_ROWS = 6;

/** @param {Element} element */
const rowHeightOf = (element) => parseFloat(getComputedStyle(element).getPropertyValue("--row-height")) || 34;

/** @param {ListProps} props */
export function VirtualList({ count, row, look = "", onScroll, onEnd }) {
  const element = useRef(/** @type {HTMLElement | null} */ (null));
  const height = useRef(34);
  const [, paint] = useState(0);
  /** @type {import("../vendor/virtual-core/index.js").VirtualizerOptions<HTMLElement, HTMLElement>} */
  const options = {
    count,
    overscan: EXTRA_ROWS,
    getScrollElement: () => element.current,
    estimateSize: () => height.current,
    scrollToFn: elementScroll,
    observeElementOffset,
    // The height of a row depends on the width of the window.
    observeElementRect: (list, use) => observeElementRect(list, (rect) => {
      const now = rowHeightOf(/** @type {Element} */ (list.scrollElement));
      if (now !== height.current) {
        height.current = now;
        list.measure();
      }
      use(rect);
    }),
    onChange: () => paint((version) => version + 1),
  };
  const list = useMemo(() => new Virtualizer(options), []);
  list.setOptions(options);
  useLayoutEffect(() => list._didMount(), []);
  useLayoutEffect(() => list._willUpdate());
  const items = list.getVirtualItems();
  const last = items[items.length - 1]?.index ?? -1;
  useEffect(() => {
    if (last >= 0 && last + 1 >= count - EXTRA_ROWS) onEnd?.();
  });
  const style = { transform: `translateY(${items[0]?.start ?? 0}px)` };
  return html`<div ref=${element} class="virtual-list ${look}" role="presentation" onKeyDown=${(/** @type {KeyboardEvent} */ event) => move(event, height.current)}
      onScroll=${(/** @type {Event} */ event) => onScroll?.(/** @type {Element} */ (event.currentTarget).scrollTop)}>
    <div class="space" role="presentation" style=${{ height: `${list.getTotalSize()}px` }}><div class="rows" role="rowgroup" style=${style}>${items.map(({ index }) => row(index))}</div></div></div>`;
}

/** @type {(event: KeyboardEvent, height: number) => void} Moves the focus between the links of the rows. */
function move(event, height) {
  const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
  const target = /** @type {Element} */ (event.target);
  const row = target.closest("[role=row]");
  if (!step || !row || target.matches("input:not([type=checkbox]), select, textarea")) return;
  event.preventDefault();
  // The next row has elements, as rows around the visible ones have.
  const next = step > 0 ? row.nextElementSibling : row.previousElementSibling;
  /** @type {HTMLElement | null | undefined} */ (next?.querySelector("a[href]"))?.focus({ preventScroll: true });
  /** @type {Element} */ (event.currentTarget).scrollTop += step * height;
}

/** Scrolls the list of the screen. @param {number} row */
export function scrollToRow(row) {
  const list = document.querySelector(".virtual-list");
  if (list) list.scrollTop = row * rowHeightOf(list);
}
