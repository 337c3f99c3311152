/**
 * What others made of the models of this host, and what was exported here: to open one, or what is open.
 * @module opened_note
 */

import { button, html, nothing } from "../base/html.js";
import { AS_FOUND } from "../base/recipe_contract.js";
import { shortModel } from "./recipe_form.js";

/** @import { ModelEntry } from "../base/types.d.ts" */
/** @typedef {{model: string, name: string}} Offered a checkpoint, as a recipe names it, and the model that it was made of */

const EXPORTED = /^[0-9A-Z]{26}\//; // by the export's id

/**
 * The checkpoints that can be opened: of one model, or of all.
 * @param {readonly Pick<ModelEntry, "name" | "opened">[]} models
 * @param {string | null} [only] that model
 * @returns {Offered[]}
 */
export const toOpen = (models, only = null) =>
  models
    .filter(({ name }) => only === null || name === only)
    .flatMap(({ name: model, opened }) => opened.map((name) => ({ model, name })));

/** What people call a checkpoint. @param {string} name */
export const openedTitle = (name) => (EXPORTED.test(name) ? `${shortModel(name)}, exported here` : name);

/**
 * @param {object} form
 * @param {readonly Offered[]} form.offered what this host has of the model, or of all where one is looked for
 * @param {string} form.opened the name of what is open, or empty
 * @param {string} form.method the chosen one
 * @param {boolean} form.isSought whether somebody came to inspect a checkpoint
 * @param {string} form.folders where checkpoints are looked for; empty where that is not told
 * @param {{open: (chosen: Offered) => void, close: () => void}} acts
 */
export function openedNote({ offered, opened, method, isSought, folders }, { open, close }) {
  if (opened) {
    const what =
      method === AS_FOUND.name
        ? "is measured unchanged, beside the original."
        : "is repaired: its scales stay, and its codes are solved again.";
    return html`<p data-testid="opened" role="status"><strong>${openedTitle(opened)}</strong> ${what}</p>
      ${button("Quantize the original instead", "close-opened", close, "act-quiet")}`;
  }
  if (!offered.length)
    return isSought
      ? html`<p data-testid="nothing-to-open" role="status">No quantized checkpoint is here yet. Put its folder into one of SARQC_MODEL_DIRS${folders ? html` (<code>${folders}</code>)` : nothing}, beside that of the model it was made of, or save a finished run as packed, gptq or mlx; one of the Hub goes by its name, under Advanced.</p>`
      : nothing;
  /** @param {Event & {currentTarget: HTMLSelectElement}} event */
  const chosen = ({ currentTarget }) => open(offered[Number(currentTarget.value)]);
  const ofMany = new Set(offered.map(({ model }) => model)).size > 1;
  return html`<p id="offered-words">Have a quantized checkpoint? Measure or repair it.</p>
    <select class="field-select" data-testid="open-checkpoint" aria-labelledby="offered-words" .value=${""} @change=${chosen}>
      <option value="" selected>Open one …</option>${offered.map(
        ({ model, name }, index) =>
          html`<option value=${index}>${ofMany ? `${shortModel(model)}: ` : ""}${openedTitle(name)}</option>`,
      )}
    </select>`;
}
