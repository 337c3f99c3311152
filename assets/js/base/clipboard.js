/**
 * Texts to the clipboard.
 * @module clipboard
 */

import { html, nothing } from "./html.js";

const SAID_MS = 1500;

/**
 * Copies a text and says so on the button that was pressed, for a moment.
 * @param {HTMLElement} button whose words no template changes meanwhile
 * @param {string} text
 */
export async function copyFrom(button, text) {
  await copy(text);
  button.dataset.words ??= button.textContent;
  button.textContent = "Copied";
  setTimeout(() => {
    button.textContent = button.dataset.words ?? "";
  }, SAID_MS);
}

/**
 * A button that copies a text.
 * @param {string} words
 * @param {() => string} text asked for when it is pressed
 * @param {{testid?: string, kind?: string}} [more]
 */
export const copyButton = (words, text, { testid, kind = "act-quiet" } = {}) =>
  html`<button type="button" class=${kind} data-testid=${testid ?? nothing}
    @click=${(/** @type {Event & {currentTarget: HTMLElement}} */ event) => copyFrom(event.currentTarget, text())}
  >${words}</button>`;

/**
 * Copies a text; falls back to a hidden field where the clipboard needs a secure context.
 * @param {string} text
 * @returns {Promise<boolean>} whether it was copied
 */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = document.createElement("textarea");
    field.setAttribute("aria-hidden", "true");
    field.style.cssText = "position:fixed;left:-9999px;top:0";
    field.value = text;
    document.body.append(field);
    field.select();
    const isDone = document.execCommand("copy");
    field.remove();
    return isDone;
  }
}
