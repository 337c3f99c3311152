/**
 * The curves over λ and what else is drawn of a line as it is: the main figure with its quality, what a click on each
 * figure leads to, and which of them are there only where there is something to show.
 * @module curves_part
 */

import { CellPointer, heatmapCells, rowCells } from "../charts/cells.js";
import { drawnOver } from "./overlay.js";

/** There only where the view has them. */
const OPTIONAL = ["gamma_grid", "methods", "selection", "gap", "inspector"];

/** Drawn by the quality that is shown. */
const SWITCHED = ["hero", "gamma_grid", "methods"];

/** @type {Object<string, string>} */
const MISSING = {
  hero: "Nothing was measured for this line.",
  deciles: "Drift by saliency is kept of a study’s first draw, if at all.",
  plane: "Needs reconstruction error and drift.",
};

/**
 * @param {string[]} cards of the page, the main figure first
 * @returns {import("./explorer.js").Part}
 */
export function curvesPart(cards) {
  /** @type {{figure: unknown, overlay: unknown, made: import("./state.js").Figure}|null} the last figure with an overlay */
  let last = null;

  return {
    cards,

    over({ view, overlay }, card, figure) {
      if (card !== cards[0] || !overlay) return figure;
      if (last?.figure !== figure || last.overlay !== overlay)
        last = { figure, overlay, made: drawnOver(figure, overlay, view.lams) };
      return last.made;
    },

    figure({ view, quality }, card) {
      if (OPTIONAL.includes(card) && !view.figures[card]) return null;
      const other = `${card}_${quality}`; // where the card follows the switch, and there is such a figure
      return SWITCHED.includes(card) && view.figures[other] ? other : card;
    },

    note: (_, card, has) => (has ? "" : (MISSING[card] ?? "")),

    wire(explorer) {
      const { hero, plane, methods, gamma_grid: grid } = explorer.hosts;
      hero?.onScrub((position) => explorer.move({ lambda: position }));
      plane?.onClick(({ points: [point] }) => {
        if (typeof point?.customdata === "string") explorer.pickLine(point.customdata);
        else if (typeof point?.pointNumber === "number") explorer.move({ lambda: point.pointNumber });
      });
      grid?.onClick(({ points: [point] }) => {
        if (!Array.isArray(point?.pointNumber)) return;
        const [gamma, lambda] = point.pointNumber;
        explorer.move({ gamma, lambda });
      });
      if (grid)
        new CellPointer(
          grid,
          heatmapCells(grid, "Arrow keys move over λ and γ, Enter chooses:", () => {
            const { gamma, lambda } = explorer.state.at;
            return [gamma, lambda];
          }),
        );
      if (methods)
        new CellPointer(
          methods,
          rowCells(methods, "Arrow keys move from method to method, Enter shows one:", ({ customdata }) =>
            /** @type {(string|null)[]} */ (customdata).indexOf(explorer.state.view?.line.name ?? null),
          ),
        );
      for (const host of [hero, methods])
        host?.onClick(({ points: [point] }) => {
          if (typeof point?.customdata === "string") explorer.pickLine(point.customdata);
        });
      for (const button of explorer.switches("quality")) {
        button.addEventListener("click", () =>
          explorer.dispatch({
            type: "quality",
            name: button.dataset.quality === "accuracy" ? "accuracy" : "perplexity",
          }),
        );
      }
    },

    render(explorer, { view, quality }, before) {
      if (view === before.view && quality === before.quality) return;
      explorer.hosts.hero?.canvas.classList.toggle("is-scrub", view.lams.length > 1);
      for (const button of explorer.switches("quality")) {
        if (button.parentElement) button.parentElement.hidden = !view.figures.hero_accuracy;
        button.setAttribute("aria-pressed", String(button.dataset.quality === quality));
      }
    },
  };
}
