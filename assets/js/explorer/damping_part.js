/**
 * The damping of GPTQ as a place on the λ axis, with a link that opens the form with the λ of the shown step.
 * @module damping_part
 */

import { published } from "../base/published.js";
import { calibrateLink } from "../base/recipe_address.js";

/** @returns {import("./explorer.js").Part} */
export function dampingPart() {
  return {
    cards: ["ruler"],
    figure: ({ view }, card) => (view.figures[card] ? card : null),

    render(explorer, { view, at }, before) {
      if (view === before.view && at === before.at) return;
      const link = explorer.part("ruler-run");
      if (!(link instanceof HTMLAnchorElement) || !view.ruler) return;
      link.hidden = published !== null; // without a server nothing runs
      const lambda = view.ruler.lams[at.lambda];
      link.href = calibrateLink({ method: view.ruler.method, bits: view.line.bits, lambda });
      link.textContent = `Run with λ = ${String(lambda)}`;
    },
  };
}
