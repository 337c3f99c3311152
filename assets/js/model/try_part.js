/**
 * The Lab's card with the model itself, see trial.js.
 * @module model/try_part
 */

import { Trial } from "./trial.js";

/** @returns {import("../explorer/explorer.js").Part} */
export function tryPart() {
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
          const [{ method, bits, gamma, lam }] = kept.points;
          const point = kept.points.length === 1 ? { lambda: lam } : {};
          explorer.pick({ method, bits, layer: "all", gamma: gamma ?? undefined, ...point });
        },
      });
    },
  };
}
