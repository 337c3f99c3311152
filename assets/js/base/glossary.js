/**
 * The words of the pages, explained where they are used: a button with `data-about` opens a card with the words that it
 * names, by pointer, touch and keyboard alike.
 * @module base/glossary
 */

import { html, render } from "./html.js";
import { link } from "./link.js";
import { popover } from "./popover.js";

/** Word by name, and what it means. @type {Readonly<Record<string, readonly [word: string, meaning: string]>>} */
export const GLOSSARY = {
  "float-inputs": [
    "float-model inputs",
    "Each layer was solved on what the float, unquantized model gives it. In a run its inputs come from the quantized layers before it, and numbers differ slightly.",
  ],
  penalty: ["penalty, L_sar", "‖(Ŵ − W)S‖²: what λ weighs beside the reconstruction error. Relative to ‖WS‖²."],
  identity: [
    "identity penalty",
    "S = 1: all weights are held alike. GPTQ’s damping is this penalty. In the paper methods with it are called RQC.",
  ],
  saliency: [
    "saliency penalty",
    "S is larger for input channels with large activations, γ says by how much: their weights are held more. In the paper methods with it are called SARQC.",
  ],
  recon: [
    "reconstruction error, L_recon",
    "‖(Ŵ − W)X‖² over ‖WX‖²: how wrong a layer’s outputs are. Calibration text is what the layer was solved on, unseen text is not.",
  ],
  drift: ["drift", "‖Ŵ − W‖ over ‖W‖: how far the weights moved, whatever their inputs."],
  baseline: [
    "GPTQ 1 %",
    "The baseline: GPTQ with its usual damping, which is the identity penalty at λ = 0.01. λ = 0 is no damping at all, and can be worse.",
  ],
  draws: [
    "draws",
    "Random calibration sets. Each method is measured on the same ones, and differences are taken set by set; “95 %: … to …” is the interval of their mean.",
  ],
  band: [
    "best λ in here, 95 % sure",
    "The band holds the best of the λ tried with 95 % confidence: none in it is clearly worse than another λ (paired Student’s t on these calibration sets).",
  ],
  undamped: [
    "λ = 0",
    "No damping at all. The solver rounds one column after the other and passes each error on along directions that few tokens have; weights leave the grid and are cut off at its ends. So even calibration text can be reproduced worse than with a little λ.",
  ],
  edge: [
    "▲ ▼ ◀ ▶",
    "A point beyond the scale, drawn at its edge with its value, so that it does not flatten the others.",
  ],
  radius: [
    "limit of drift",
    "The upright line, to be dragged: of all points that drift no more than that, the one of least error is shown.",
  ],
  hull: [
    "open marks",
    "Points off the lower convex hull of drift² and error: no weight μ ≥ 0 of drift² makes their sum smallest there. Each filled mark is the minimum for some μ.",
  ],
  cells: [
    "cells",
    "Each stands for a patch of the weight matrix: the largest or mean |Ŵ − W| in it, or the signed mean. By saliency: inputs are sorted from the least to the most salient. Of all layers the one that drifts most is shown.",
  ],
  deciles: [
    "saliency deciles",
    "A layer’s input channels in ten groups from the least to the most salient, with the root mean square of Ŵ − W in each.",
  ],
};

/**
 * Wires all such buttons of the page, those that come later too.
 * @param {Document} page
 */
export function explainWords(page) {
  page.addEventListener("click", ({ target }) => {
    const button = target instanceof Element ? target.closest("button[data-about]") : null;
    if (!(button instanceof HTMLButtonElement) || button.popoverTargetElement) return;
    const names = (button.dataset.about ?? "").split(" ");
    const card = popover(button, {
      id: `words-${names.join("-")}`,
      label: "Terms explained",
      classes: "words-card",
    });
    // What a link hides needs no words.
    const said = names.flatMap((name) => (GLOSSARY[name] && !link.hide.includes(name) ? [GLOSSARY[name]] : []));
    render(html`<dl>${said.map(([word, meaning]) => html`<div><dt>${word}</dt><dd>${meaning}</dd></div>`)}</dl>`, card);
    card.addEventListener("toggle", (event) => event.newState === "open" && place(card, button));
    button.popoverTargetElement = card; // from now on the browser opens and closes it, this time too
  });
}

/**
 * Under the button or above it, where there is more room, inside the window.
 * @param {HTMLElement} card
 * @param {HTMLElement} button
 */
function place(card, button) {
  const box = button.getBoundingClientRect();
  const isAbove = box.top > innerHeight - box.bottom;
  const right = document.documentElement.clientWidth - card.offsetWidth - 8;
  card.style.left = `${Math.max(8, Math.min(box.left, right))}px`;
  card.style.top = isAbove ? "auto" : `${box.bottom + 4}px`;
  card.style.bottom = isAbove ? `${innerHeight - box.top + 4}px` : "auto";
  card.style.maxHeight = `${(isAbove ? box.top : innerHeight - box.bottom) - 16}px`;
}
