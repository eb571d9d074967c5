// @ts-check
// Dialogs: one is open at a time, and its end is a promise.
import { useLayoutEffect, useRef } from "../vendor/preact/hooks.js";
import { act, followUpdates, html, render } from "../lib/kit.js";

/** @typedef {{ title: string, body: () => unknown, wide?: boolean }} DialogContent */
/** @typedef {{ number: number, content: DialogContent, resolve: (value: unknown) => void }} OpenDialog */

/** @type {OpenDialog | null} */
let open = null;
let lastDialog = 0;
/** @type {HTMLElement | undefined} */
let dialogs;

/** Renders the dialog at once: the next key is meant for it. */
function paintDialog() {
  dialogs ??= document.body.appendChild(document.createElement("div"));
  render(open && html`<${Modal} key=${open.number} dialog=${open} />`, dialogs);
}

/**
 * Opens a dialog. The promise resolves with what `closeDialog` is given, or `undefined` if the dialog is dismissed.
 * @param {DialogContent} content
 * @returns {Promise<unknown>}
 */
export function openDialog(content) {
  closeDialog();
  return new Promise((resolve) => {
    open = { number: ++lastDialog, content, resolve };
    paintDialog();
  });
}

/** @param {unknown} [value] */
export function closeDialog(value) {
  if (!open) return;
  const { resolve } = open;
  open = null;
  paintDialog();
  resolve(value);
}

/** @param {{ dialog: OpenDialog }} props */
function Modal({ dialog }) {
  followUpdates();
  const element = useRef(/** @type {HTMLDialogElement | null} */ (null));
  useLayoutEffect(() => {
    const shown = element.current;
    shown?.showModal();
    // Closing returns the focus to where it was.
    return () => shown?.close();
  }, []);
  const { title, body, wide } = dialog.content;
  // The event comes later than the closing, when another dialog may be open.
  const closed = () => open === dialog && closeDialog();
  return html`<dialog ref=${element} class=${wide ? "wide" : ""} aria-labelledby="dialog-title" onClose=${closed}><h2 id="dialog-title">${title}</h2>${body()}</dialog>`;
}

/**
 * Asks for confirmation, acts, and says how it ended. Returns the result, or `undefined`.
 * @template T
 * @param {string} title
 * @param {unknown} text
 * @param {string} action The label of the button.
 * @param {() => Promise<T>} request
 * @param {(result: T) => string} done
 */
export async function confirmed(title, text, action, request, done) {
  if (await confirmAction(title, text, action)) return act("not done", request, done);
}

/** @type {(title: string, text: unknown, action: string) => Promise<boolean>} */
export async function confirmAction(title, text, action) {
  const body = () => html`<p>${text}</p><div class="actions">
    <button type="button" onClick=${() => closeDialog(false)}>Keep</button>
    <button type="button" class="danger" onClick=${() => closeDialog(true)}>${action}</button></div>`;
  return (await openDialog({ title, body })) === true;
}
