/**
 * The ladder: what each step is worth, in an order that can be chosen: a press puts a step before the others.
 * @module ladder_part
 */

import { html, made, render } from "../base/html.js";
import { published } from "../base/published.js";
import { calibrateLink } from "../base/recipe_address.js";
import { at } from "../base/site.js";

/** @import { View } from "./state.js" */

/**
 * The ladder at the shown bits and grid, of whatever model is chosen then.
 * @param {Pick<View, "line">} view
 */
export const ownLadder = ({ line }) => ({
  kind: "ladder",
  bits: line.bits,
  grid: line.grid,
  group_size: line.group_size ?? "per_channel",
});

/** @returns {import("./explorer.js").Part} */
export function ladderPart() {
  /** @type {HTMLElement|null} */
  let choice = null;
  /** @type {HTMLAnchorElement | null} */
  let own = null;

  return {
    cards: ["ladder"],
    figure: ({ view }, card) => (view.figures[card] ? card : null),
    note: ({ view }) => view.ladder?.words ?? "",

    wire({ hosts: { ladder } }) {
      choice = made(
        html`<div class="switch" role="group" aria-label="Order of the steps" data-control="steps" data-testid="steps"></div>`,
      );
      own = /** @type {HTMLAnchorElement} */ (
        made(html`<a class="quiet" href=${at("/calibrate")} data-testid="own-ladder">on my own model</a>`)
      );
      ladder.tools.append(made(html`<span class="tool-word">first:</span>`), choice);
      if (!published) ladder.tools.append(own);
    },

    render(explorer, { view }, before) {
      if (!choice || !view.ladder || view === before.view) return;
      if (own) own.href = calibrateLink(ownLadder(view));
      const names = view.ladder.steps.map(({ name }) => name);
      render(
        view.ladder.steps.map(
          ({ name, title }, index) =>
            html`<button type="button" title="Take this step first" aria-pressed=${String(index === 0)}
              @click=${() => explorer.redraw("steps", [name, ...names.filter((one) => one !== name)].join())}
              >${title}</button>`,
        ),
        choice,
      );
    },
  };
}
