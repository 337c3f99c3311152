/**
 * Theorem 1: the measured gap between two texts and its bound over λ, and every quantity with its value at the shown
 * point and a sentence. A line without unseen text has none of it.
 * @module theorem_part
 */

import { html, render } from "../base/html.js";

/** @returns {import("./explorer.js").Part} */
export function theoremPart() {
  return {
    cards: ["theorem"],
    figure: ({ view }, card) => (view.figures[card] ? card : null),

    render(explorer, { view, at }, before) {
      if (view === before.view && at === before.at) return;
      explorer.part("theorem-card")?.classList.toggle("is-off", !view.theorem);
      const place = explorer.part("theorem");
      if (place && view.theorem) render(termRows(view.theorem, at), place);
    },
  };
}

/**
 * The quantities at a point.
 * @param {NonNullable<import("./state.js").View["theorem"]>} terms
 * @param {import("../charts/bind.js").Point} at
 */
function termRows(terms, at) {
  return terms.map(
    ({ symbol, values, sentence }) =>
      html`<div><dt>${symbol}</dt><dd class="value">${values[at.gamma][at.lambda]}</dd><dd>${sentence}</dd></div>`,
  );
}
