/**
 * Several values of a field as chips: what will be as many runs, each with a button that takes it away.
 * @module value_chips
 */

import { plain } from "../base/format.js";
import { html, nothing, repeat } from "../base/html.js";
import { tr, trCount } from "../base/messages.js";

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
    ({
      name,
      title,
      values,
    }) => html`<div class="value-chips" role="group" aria-label=${tr("Values of {field}", { field: tr(title) })}>
      <span>${tr(title)}</span>${repeat(
        values,
        (value) => value,
        (
          value,
        ) => html`<span class="value-chip">${words(value)}<button type="button" aria-label=${tr("Remove {field} = {value}", { field: tr(title), value: words(value) })}
          @click=${() => takeAway(name, value)}>×</button></span>`,
      )}</div>`,
  )}<p role="status">${
    fields.length > 1
      ? trCount("{count} run, one for each combination", "{count} runs, one for each combination", runs)
      : trCount("{count} run, one for each value", "{count} runs, one for each value", runs)
  }</p>`;
}
