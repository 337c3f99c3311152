/**
 * The parts below the main figures: a button for each, with its finding at the shown point, opens and closes it.
 * @module doors_part
 */

import { say } from "../base/dom.js";
import { asSentence } from "../base/problem.js";

/** @import { Door } from "../base/types.d.ts" */

/** @returns {import("./explorer.js").Part} */
export function doorsPart() {
  return {
    cards: [],

    wire(explorer) {
      for (const button of buttons(explorer))
        button.addEventListener("click", () => explorer.dispatch({ type: "door", name: nameOf(button) }));
    },

    render(explorer, state, before) {
      const { view, at, open, banded } = state;
      const isNew = view !== before.view || at !== before.at;
      if (!isNew && open === before.open) return;
      for (const button of buttons(explorer)) {
        const name = nameOf(button);
        const isOpen = open.includes(name);
        button.setAttribute("aria-expanded", String(isOpen));
        document.querySelector(`#door-${name}`)?.classList.toggle("is-off", !isOpen);
        if (!isNew) continue;
        const finding = view.findings[name][at.gamma][at.lambda];
        say(button.querySelector("[data-finding]"), banded ? asSentence(finding) : ""); // it may say which λ is best
        button.hidden = !finding; // nothing was measured for it
      }
    },
  };
}

/** @param {import("./explorer.js").Explorer} explorer @returns {HTMLElement[]} */
const buttons = ({ root }) => [...root.querySelectorAll("button[data-door]")].filter((it) => it instanceof HTMLElement);

/** @param {HTMLElement} button */
const nameOf = (button) => /** @type {Door} */ (button.dataset.door);
