/**
 * The Lab's card with the model itself, see trial.js, and the strip that leads to it, see continued.js.
 * @module model/try_part
 */

import { html, nothing, render } from "../base/html.js";
import { scrollBehavior } from "../base/motion.js";
import { published } from "../base/published.js";
import { codesAlone, givesCodes } from "./computing.js";
import { continuedAt, continuedStrip } from "./continued.js";
import { Trial } from "./trial.js";

/** @import { View } from "../explorer/state.js" */

const TRY = "#try"; // in the address of a page that opens with the model
/** @import { Point } from "../charts/bind.js" */

/**
 * @param {(view: View, at: Point) => Record<string, any>|null} recipeAt the recipe of a point; null where no run can be made
 *   of its line
 * @param {() => {title: string, address: string}|null} elsewhere a study whose model runs in its page
 * @returns {import("../explorer/explorer.js").Part}
 */
export function tryPart(recipeAt, elsewhere) {
  /** @type {Trial|null} */
  let trial = null;
  let isSought = location.hash === TRY; // which the address bar gives up with the first view

  /** Opens the model, and brings it into sight. @param {HTMLElement|null} card */
  function open(card) {
    trial?.open();
    card?.scrollIntoView({ behavior: scrollBehavior(), block: "start" });
  }

  return {
    cards: [],

    wire(explorer) {
      const place = explorer.part("try");
      if (place) trial = new Trial(place);
    },

    render(explorer, { view, at, locked }, before) {
      if (view === before.view && at === before.at) return;
      const { kept } = view.study;
      const [card, strip] = [explorer.part("try-card"), explorer.part("continued")];
      card?.classList.toggle("is-off", kept === null);
      const continued = continuedAt(view, at);
      strip?.classList.toggle("is-off", continued === null);
      explorer.root.classList.toggle("has-continued", continued !== null);
      const further = kept ? null : elsewhere();
      const own = kept
        ? html`<button type="button" class="quiet" data-testid="own-sentence" @click=${() => open(card)}>Try your own sentence</button>`
        : further &&
          html`<a class="quiet" data-testid="own-sentence" href=${further.address + TRY}>Try your own on ${further.title}</a>`;
      if (strip) render(continued ? continuedStrip(continued, own) : nothing, strip);
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
      if (isSought && kept) open(card);
      isSought = false;
    },
  };
}
