/**
 * Several values of a field as chips: what will be as many runs, each with a button that takes it away.
 * @module value_chips
 */

import { plain } from "../base/format.js";
import { html, nothing, repeat } from "../base/html.js";

/** @typedef {{name: string, title: string, values: (number | string)[]}} Several values of a field, by its name */

/** @param {number | string} value */
const words = (value) => (typeof value === "number" ? plain(value) : value);

/**
 * @param {Several[]} fields
 * @param {(name: string, value: number | string) => void} takeAway
 */
export function valueChips(fields, takeAway) {
  if (!fields.length) return nothing;
  const runs = fields.reduce((count, { values }) => count * values.length, 1);
  return html`${fields.map(
    ({ name, title, values }) => html`<div class="value-chips" role="group" aria-label="Values of ${title}">
      <span>${title}</span>${repeat(
        values,
        (value) => value,
        (
          value,
        ) => html`<span class="value-chip">${words(value)}<button type="button" aria-label="Remove ${title} = ${words(value)}"
          @click=${() => takeAway(name, value)}>×</button></span>`,
      )}</div>`,
  )}<p role="status">${runs} runs, one for each ${fields.length > 1 ? "combination" : "value"}</p>`;
}
