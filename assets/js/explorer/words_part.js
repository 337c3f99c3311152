/**
 * The sentence about the shown point, what is printed small below it, and both as text to copy.
 * @module words_part
 */

import { copyFrom } from "../base/clipboard.js";
import { explainWords } from "../base/glossary.js";
import { html, nothing, render } from "../base/html.js";
import { toldOf } from "./state.js";

/** Of what the sentence speaks and the main figure has a curve. */
const POINTED = ["quality", "recon", "held_out", "drift"];

/** The pieces of a sentence as text. @param {import("./state.js").Piece[]} pieces */
export const plainText = (pieces) => pieces.map((piece) => piece.text).join("");

/** @returns {import("./explorer.js").Part} */
export function wordsPart() {
  return {
    cards: [],

    wire(explorer) {
      const button = explorer.part("copy");
      button?.addEventListener("click", () => {
        const { state } = explorer;
        if (state.view) copyFrom(button, asText({ ...state, view: state.view }, location.href));
      });
      explainWords(document);
      const sentence = explorer.part("sentence");
      const [main] = explorer.parts[0].cards;
      /** What is spoken of stands out in the main figure. @param {Event} event */
      const point = ({ target }) => {
        const about = target instanceof HTMLElement ? (target.dataset.of ?? "") : "";
        explorer.hosts[main].root.dataset.pointed = POINTED.includes(about) ? about : "";
      };
      for (const name of ["pointerover", "pointerleave"]) sentence?.addEventListener(name, point);
    },

    render(explorer, state, before) {
      const { view, at, quality } = state;
      if (view === before.view && at === before.at && quality === before.quality) return;
      const { sentences, small_print } = toldOf(state);
      const pieces = sentences[at.gamma][at.lambda];
      const sentence = explorer.part("sentence");
      if (sentence && sentence.textContent !== plainText(pieces)) {
        render(
          pieces.map(({ text, role, verdict }) =>
            role ? html`<strong class=${verdict ? "verdict" : `role-${role}`} data-of=${role}>${text}</strong>` : text,
          ),
          sentence,
        );
      }
      const small = explorer.part("small-print");
      if (!small) return;
      const tag = html`<button type="button" class="tag" data-testid="explore" data-about="float-inputs">float inputs <i class="info" aria-hidden="true">i</i></button>`;
      render([view.explore ? tag : nothing, small_print[at.gamma][at.lambda].join(" ")], small);
    },
  };
}

/**
 * What is said of a point, with what it was measured on and where it is to be seen.
 * @param {import("./explorer.js").WithView} state
 * @param {string} address
 */
export function asText(state, address) {
  const { at, view } = state;
  const { study, line } = view;
  const { sentences, small_print } = toldOf(state);
  return [
    plainText(sentences[at.gamma][at.lambda]),
    ...small_print[at.gamma][at.lambda],
    `${study.model.name}, ${line.title}, ${line.bits} bits, ${line.grid_text}. ${address}`,
  ].join("\n");
}
