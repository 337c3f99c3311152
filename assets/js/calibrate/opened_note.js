/**
 * What others made of the chosen model: the checkpoints of this host, to open one, or the one that is open.
 * @module opened_note
 */

import { html, nothing } from "../base/html.js";
import { AS_FOUND } from "../base/recipe_contract.js";

/**
 * @param {{offered: readonly string[], opened: string, method: string}} form what the host has of the model, the name of what
 *   is open or empty, and the chosen method
 * @param {{open: (name: string) => void, close: () => void}} acts
 */
export function openedNote({ offered, opened, method }, { open, close }) {
  if (opened) {
    const what =
      method === AS_FOUND.name
        ? "is measured as it was found, beside the original."
        : "is repaired: its scales stay, and its codes are solved again.";
    return html`<p data-testid="opened" role="status"><strong>${opened}</strong> ${what}</p>
      <button type="button" class="act-quiet" data-testid="close-opened" @click=${close}>Quantize the original instead</button>`;
  }
  if (!offered.length) return nothing;
  /** @param {Event & {currentTarget: HTMLSelectElement}} event */
  const chosen = ({ currentTarget }) => open(currentTarget.value);
  return html`<p id="offered-words">Quantized by others, on this host: see what it lost, and whether its codes can be better.</p>
    <select class="field-select" data-testid="open-checkpoint" aria-labelledby="offered-words" .value=${""} @change=${chosen}>
      <option value="" selected>Open one …</option>${offered.map((name) => html`<option value=${name}>${name}</option>`)}
    </select>`;
}
