/**
 * The parts below the main figures: a button for each, with the finding of its first figure at the shown point, opens it
 * and brings it into view, or closes it.
 * @module doors_part
 */

import { say } from "../base/dom.js";
import { scrollBehavior } from "../base/motion.js";
import { lookUp } from "../charts/bind.js";

/** @import { Door } from "../base/types.d.ts" */

/** The figures of each part, the one that speaks for it first. */
const FIGURES = {
  where: ["map"],
  trade_off: ["plane", "curves", "ruler", "deciles", "gamma_grid"],
  steps: ["ladder", "methods", "selection", "rounding"],
  text: ["gap", "tokens", "tokens_error"],
  proof: [],
};

/** Words of what is there for every line. @type {Partial<Record<Door, string>>} */
const ALWAYS = { proof: "How it was measured, and every number" };

/** @returns {import("./explorer.js").Part} */
export function doorsPart() {
  return {
    cards: [],

    wire(explorer) {
      for (const button of buttons(explorer)) button.addEventListener("click", () => press(explorer, nameOf(button)));
    },

    render(explorer, state, before) {
      const { view, at, open } = state;
      const isNew = view !== before.view || at !== before.at;
      if (!isNew && open === before.open) return;
      for (const button of buttons(explorer)) {
        const name = nameOf(button);
        const isOpen = open.includes(name);
        button.setAttribute("aria-expanded", String(isOpen));
        contentOf(name)?.classList.toggle("is-off", !isOpen);
        if (!isNew) continue;
        const figures = FIGURES[name].flatMap((figure) => view.figures[figure] ?? []);
        const finding = figures.find((figure) => figure.finding)?.finding;
        say(button.querySelector("[data-finding]"), finding ? String(lookUp(finding, at)) : (ALWAYS[name] ?? ""));
        button.hidden = !figures.length && !ALWAYS[name]; // nothing was measured for it
      }
    },
  };
}

/** @param {import("./explorer.js").Explorer} explorer @param {Door} name */
function press(explorer, name) {
  const { root } = explorer;
  root.style.minHeight = `${innerHeight - root.getBoundingClientRect().top}px`; // a shorter page would move the button
  explorer.dispatch({ type: "door", name });
  if (explorer.state.open.includes(name))
    contentOf(name)?.scrollIntoView({ behavior: scrollBehavior(), block: "nearest" });
}

/** @param {Door} name */
const contentOf = (name) => document.querySelector(`#door-${name}`);

/** @param {import("./explorer.js").Explorer} explorer @returns {HTMLElement[]} */
const buttons = ({ root }) => [...root.querySelectorAll("button[data-door]")].filter((it) => it instanceof HTMLElement);

/** @param {HTMLElement} button */
const nameOf = (button) => /** @type {Door} */ (button.dataset.door);
