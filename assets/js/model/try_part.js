/**
 * The Lab's card with the model itself, see trial.js.
 * @module model/try_part
 */

import { published } from "../base/published.js";
import { codesAlone, givesCodes } from "./computing.js";
import { Trial } from "./trial.js";

/** @import { View } from "../explorer/state.js" */
/** @import { Point } from "../charts/bind.js" */

/**
 * @param {(view: View, at: Point) => Record<string, any>|null} recipeAt the recipe of a point; null where no run can be made
 *   of its line
 * @returns {import("../explorer/explorer.js").Part}
 */
export function tryPart(recipeAt) {
  /** @type {Trial|null} */
  let trial = null;

  return {
    cards: [],

    wire(explorer) {
      const place = explorer.part("try");
      if (place) trial = new Trial(place);
    },

    render(explorer, { view, at, locked }, before) {
      if (view === before.view && at === before.at) return;
      const { kept } = view.study;
      explorer.part("try-card")?.classList.toggle("is-off", kept === null);
      trial?.follow({
        view,
        at,
        isLocked: locked.includes("lambda"),
        move: (lambda) => explorer.move({ lambda }),
        show: () => {
          if (!kept) return;
          const { method, bits, gamma, lam } =
            kept.points.find((each) => each.bits === view.line.bits) ?? kept.points[0];
          const point = kept.points.length === 1 && lam !== null ? { lambda: lam } : {};
          explorer.pick({ method, bits, layer: "all", gamma: gamma ?? undefined, ...point });
        },
        recipeAt: (lambda) => {
          const recipe = published ? null : recipeAt(view, { ...at, lambda });
          return recipe && givesCodes(view.line, recipe) ? codesAlone(recipe, view.study.prefix) : null;
        },
      });
    },
  };
}
