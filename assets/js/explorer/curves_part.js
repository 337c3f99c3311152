/**
 * The curves over λ and what else is drawn of a line as it is: the main figure with its quality, what a click on each
 * figure leads to, and which of them are there only where there is something to show.
 * @module curves_part
 */

import { CellPointer, heatmapCells, rowCells } from "../charts/cells.js";
import { drawnOver } from "./overlay.js";

/** There only where the view has them. */
const OPTIONAL = [
  "curves",
  "plane",
  "deciles",
  "gamma_grid",
  "methods",
  "rounding",
  "gap",
  "inspector",
  "ruler",
  "theorem",
];

/** With curves of error and penalty, beside which others can be drawn. */
const OVERLAID = ["hero", "curves"];

/** Drawn by the quantity that is shown. */
const SWITCHED = ["hero", "gamma_grid", "methods"];

/**
 * @param {string[]} cards of the page, the main figure first
 * @returns {import("./explorer.js").Part}
 */
export function curvesPart(cards) {
  /** @type {Map<string, {figure: unknown, overlay: unknown, made: import("./state.js").Figure}>} the last with an overlay */
  const lasts = new Map();

  return {
    cards,

    over({ view, overlay }, card, figure) {
      if (!OVERLAID.includes(card) || !overlay) return figure;
      const last = lasts.get(card);
      if (last?.figure === figure && last.overlay === overlay) return last.made;
      const made = drawnOver(figure, overlay, view.lams);
      lasts.set(card, { figure, overlay, made });
      return made;
    },

    figure({ view, shown }, card) {
      if (OPTIONAL.includes(card) && !view.figures[card]) return null;
      const other = `${card}_${shown}`; // where the card follows the switch, and there is such a figure
      return SWITCHED.includes(card) && view.figures[other] ? other : card;
    },

    note: (_, card, has) => (has || card !== "hero" ? "" : "Nothing was measured for this line."),

    wire(explorer) {
      const { hero, plane, methods, gamma_grid: grid } = explorer.hosts;
      hero?.onScrub((position) => explorer.move({ lambda: position }));
      plane?.onClick(({ points: [point] }) => {
        if (typeof point?.pointNumber === "number") explorer.move({ lambda: point.pointNumber });
      });
      grid?.onClick(({ points: [point] }) => {
        if (!Array.isArray(point?.pointNumber)) return;
        const [gamma, lambda] = point.pointNumber;
        explorer.move({ gamma, lambda });
      });
      if (grid)
        new CellPointer(
          grid,
          heatmapCells(grid, "Arrow keys move over the map, Enter chooses:", () => {
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
        const name = /** @type {import("../base/types.d.ts").Shown} */ (button.dataset.quality);
        button.addEventListener("click", () => explorer.dispatch({ type: "shown", name }));
      }
    },

    render(explorer, { view, shown }, before) {
      if (view === before.view && shown === before.shown) return;
      explorer.hosts.hero?.canvas.classList.toggle("is-scrub", view.lams.length > 1);
      for (const button of explorer.switches("quality")) {
        const { quality: name } = button.dataset;
        button.hidden = name !== "perplexity" && !view.figures[`hero_${name}`];
        button.setAttribute("aria-pressed", String(name === shown));
      }
    },
  };
}
