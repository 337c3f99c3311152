/**
 * The ladder: what each step is worth, in an order that can be chosen: a press puts a step before the others.
 * @module ladder_part
 */

import { html, made, render } from "../base/html.js";

/** @returns {import("./explorer.js").Part} */
export function ladderPart() {
  /** @type {HTMLElement|null} */
  let choice = null;

  return {
    cards: ["ladder"],
    figure: ({ view }, card) => (view.figures[card] ? card : null),
    note: ({ view }) => view.ladder?.words ?? "",

    wire({ hosts: { ladder } }) {
      choice = made(
        html`<div class="switch" role="group" aria-label="Order of the steps" data-control="steps" data-testid="steps"></div>`,
      );
      ladder.tools.append(made(html`<span class="tool-word">first:</span>`), choice);
    },

    render(explorer, { view }, before) {
      if (!choice || !view.ladder || view === before.view) return;
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
