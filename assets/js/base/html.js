/**
 * Templates: the one door to lit-html. What a template is given goes in as text or as a value, never as markup; drawing
 * again changes only what is different, so that focus, selections and open folds stay where they are.
 * @module html
 */

export { repeat } from "../../vendor/lit-html/directives/repeat.js";
export { html, nothing, render, svg } from "../../vendor/lit-html/lit-html.js";

import { html, render } from "../../vendor/lit-html/lit-html.js";

/**
 * A button as most are.
 * @param {unknown} words
 * @param {string} testid
 * @param {() => void} click
 * @param {string} [kind] its class
 */
export const button = (words, testid, click, kind = "quiet") =>
  html`<button type="button" class=${kind} data-testid=${testid} @click=${click}>${words}</button>`;

/**
 * The element of a template that is drawn once.
 * @param {import("../../vendor/lit-html/lit-html.js").TemplateResult} template
 */
export function made(template) {
  const place = document.createElement("div");
  render(template, place);
  return /** @type {HTMLElement} */ (place.firstElementChild);
}
