/**
 * The strip under the main figures: one prompt as the shown point goes on with it, the baseline and the float model, each
 * always with its likeliest token. A study keeps these texts; nothing is computed for them.
 * @module model/continued
 */

import { html, nothing } from "../base/html.js";
import { METHODS } from "../base/recipe_contract.js";

/** @import { Point } from "../charts/bind.js" */
/** @import { View } from "../explorer/state.js" */

/**
 * What a line's prompt goes on with; null where no texts of the line are kept.
 * @param {Pick<View, "line"|"lam_texts">} view
 * @param {Point} at
 * @returns {{prompt: string, texts: [name: string, text: string][]}|null}
 */
export function continuedAt({ line, lam_texts }, at) {
  const { continued, baseline } = line;
  if (!continued) return null;
  const goesOn = (/** @type {string} */ text) => `…${text} …`;
  const shown = continued.points[at.gamma][at.lambda];
  return {
    prompt: continued.prompt,
    texts: [
      [`λ = ${lam_texts[at.lambda]}`, shown ? goesOn(shown) : "Not computed at this γ"],
      [METHODS[baseline]?.title ?? baseline, goesOn(continued.baseline)],
      ["Float model", goesOn(continued.float_model)],
    ],
  };
}

/**
 * @param {NonNullable<ReturnType<typeof continuedAt>>} continued
 * @param {unknown} own the way to a sentence of one's own
 */
export const continuedStrip = ({ prompt, texts }, own) => html`<header>
    <p>“${prompt} …”</p>${own || nothing}
  </header>
  <dl>${texts.map(([name, text]) => html`<div><dt>${name}</dt><dd title=${text}>${text}</dd></div>`)}</dl>`;
