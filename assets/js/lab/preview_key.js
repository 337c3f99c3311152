/**
 * A preview's entry in the key of the main figure: which layer, how far or when, how it was calibrated otherwise than the
 * curves below it, and the buttons that take it away and keep it.
 * @module preview_key
 */

import { html, nothing } from "../base/html.js";
import { at } from "../base/site.js";
import { labelOf, sentence, solved, words } from "./preview.js";

/** @import { Preview } from "./preview.js" */

/**
 * @param {Preview} preview
 * @param {import("../explorer/state.js").View|null} view
 * @param {string[]} facts to be said beside it, such as what its calibration differs in
 * @param {{remove: () => void, keep: () => void}} acts
 */
export function previewKey(preview, view, facts, { remove, keep }) {
  const label = labelOf(preview, view);
  const { run, ended, stopping, kept } = preview;
  return html`<div class="preview" data-testid="preview" data-points=${solved(preview)}>
    <p class="preview-text"><span class="preview-mark" aria-hidden="true">○</span>
      <b>${label}</b>, <span role="status" data-testid="preview-words">${words(preview)}</span>
      <span class="visually-hidden">${ended ? sentence(preview, label) : nothing}</span>
    </p>
    <span class="preview-acts">
      ${
        ended && run
          ? kept
            ? html`<a class="quiet" href=${at(`/calibrate?run=${encodeURIComponent(run)}`)}>Kept in Runs</a>`
            : html`<button type="button" class="quiet" data-testid="preview-keep" @click=${keep}
                title="List it in Runs, and its study here">Keep</button>`
          : nothing
      }
      <button type="button" class="quiet" data-testid="preview-remove" ?disabled=${stopping}
        @click=${remove}>${ended ? "Remove" : "Cancel"}</button>
    </span>
    ${facts.length ? html`<p class="preview-facts" data-testid="preview-facts">${facts.join("; ")}</p>` : nothing}
  </div>`;
}
