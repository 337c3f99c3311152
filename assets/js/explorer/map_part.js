/**
 * The map of all layers. For a mixture it has a second level with the experts of the chosen layer's block.
 * @module map_part
 */

import { h } from "../base/dom.js";

/** @type {import("./state.js").Level[]} */
const LEVELS = ["blocks", "experts"];

/** @returns {import("./explorer.js").Part} */
export function mapPart() {
  /** @type {HTMLElement|null} */
  let choice = null;

  return {
    cards: ["map"],
    figure: ({ view, level }) => (level === "experts" && view.figures.map_experts ? "map_experts" : "map"),
    note: (_, __, has) => (has ? "" : "No layer was measured."),

    wire(explorer) {
      const { map } = explorer.hosts;
      map.onClick((event) => explorer.pickLayer(event));
      choice = levelSwitch(explorer);
      map.tools?.append(choice);
    },

    render(_, { view, level }, before) {
      if (!choice || (view === before.view && level === before.level)) return;
      choice.hidden = !view.figures.map_experts;
      for (const button of choice.querySelectorAll("button"))
        button.setAttribute("aria-pressed", String(button.dataset.level === level));
    },
  };
}

/** @param {import("./explorer.js").Explorer} explorer */
const levelSwitch = (explorer) =>
  h(
    "div",
    { class: "switch", role: "group", "aria-label": "Level of the map", "data-testid": "level", hidden: true },
    LEVELS.map((level) =>
      h(
        "button",
        { type: "button", dataset: { level }, on: { click: () => explorer.dispatch({ type: "level", name: level }) } },
        level,
      ),
    ),
  );
