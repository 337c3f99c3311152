/**
 * The changes of the weights: as surfaces or flat, and pooled as the person chooses. Older studies have one pooling; the
 * choice is then not there.
 * @module weights_part
 */

import { html, render } from "../base/html.js";
import { layerAt } from "./state.js";
import { pointAtWeights, withoutWords } from "./weight_cells.js";

/** @import { Explorer, WithView } from "./explorer.js" */

/** @type {[label: string, bySaliency: boolean][]} */
const ORDERS = [
  ["inputs as stored", false],
  ["inputs by saliency", true],
];

/**
 * The name of the figure that a card shows.
 * @param {Object<string, object|null>} figures of a view
 * @param {string} card "surfaces" or "surfaces_flat"
 * @param {string} pool name of a pooling
 * @returns {string} a key of `figures`; where the wish is not there the nearest that is
 */
export const weightFigure = (figures, card, pool) => (figures[`${card}:${pool}`] ? `${card}:${pool}` : card);

/** The name of the figure of the weights that is shown. @param {WithView} state */
export const shownWeights = ({ view, drawing, pool }) =>
  weightFigure(view.figures, drawing === "surface" ? "surfaces" : "surfaces_flat", pool);

/** @returns {import("./explorer.js").Part} */
export function weightsPart() {
  return {
    cards: ["surfaces_flat", "surfaces"],

    figure: (state, card) => {
      const name = shownWeights(state);
      return (card === "surfaces") === (state.drawing === "surface") && state.view.figures[name] ? name : null;
    },

    over: (_, __, figure) => withoutWords(figure),

    wire(explorer) {
      for (const card of ["surfaces", "surfaces_flat"]) pointAtWeights(explorer, explorer.hosts[card]);
      for (const button of explorer.switches("drawing")) {
        const { drawing } = button.dataset;
        if (drawing === "surface" || drawing === "flat")
          button.addEventListener("click", () => explorer.dispatch({ type: "drawing", name: drawing }));
      }
      for (const select of pools(explorer))
        select.addEventListener("change", () => explorer.dispatch({ type: "pool", name: select.value }));
    },

    render(explorer, state, before) {
      const { view, drawing, pool } = state;
      const same = drawing === before.drawing && pool === before.pool;
      if (same && view === before.view) return;
      explorer.root.classList.toggle("has-no-weights", !view.figures[shownWeights(state)]);
      for (const button of explorer.switches("drawing"))
        button.setAttribute("aria-pressed", String(button.dataset.drawing === drawing));
      poolings(explorer, state);
      titles(explorer, state);
    },
  };
}

/** @param {Explorer} explorer @returns {HTMLSelectElement[]} */
const pools = (explorer) => explorer.switches("pool").filter((element) => element instanceof HTMLSelectElement);

/** @param {Explorer} explorer @param {WithView} state */
function poolings(explorer, { view, pool, locked }) {
  const { poolings: offered } = view;
  /** @param {boolean} sorted */
  const options = (sorted) =>
    offered
      .filter(({ by_saliency }) => by_saliency === sorted)
      .map(({ name, title }) => html`<option value=${name}>${title}</option>`);
  for (const select of pools(explorer)) {
    render(
      ORDERS.map(([label, sorted]) => html`<optgroup label=${label}>${options(sorted)}</optgroup>`),
      select,
    );
    select.value = offered.some(({ name }) => name === pool) ? pool : "max";
    select.disabled = locked.includes("pool");
    if (select.parentElement) select.parentElement.hidden = offered.length < 2;
  }
}

/** @param {Explorer} explorer @param {WithView} state */
function titles(explorer, { view, pool }) {
  const name = layerAt(view, view.surface_layer)?.label ?? "";
  const why = view.layer === null ? `, largest drift` : "";
  const signed = weightFigure(view.figures, "surfaces", pool).endsWith(":signed");
  const maths = signed ? "Weight change Ŵ − W" : "Weight drift |Ŵ − W|";
  for (const host of [explorer.hosts.surfaces, explorer.hosts.surfaces_flat]) {
    host.heading.title = `${name}${why}`;
    host.entitle(html`<span class="maths">${maths}, </span>${name}<span class="card-note">${why}</span>`);
  }
}
