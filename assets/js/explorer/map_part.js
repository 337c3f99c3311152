/**
 * The map of all layers. For a mixture it has a second level, of every expert.
 * @module map_part
 */

import { html, made, render } from "../base/html.js";
import { CellPointer } from "../charts/cells.js";
import { layerCells } from "./layer_cells.js";

/** @type {import("./state.js").Level[]} */
const LEVELS = ["blocks", "experts"];

/** @returns {import("./explorer.js").Part} */
export function mapPart() {
  /** @type {HTMLElement|null} */
  let choice = null;

  return {
    cards: ["map"],
    figure: ({ view, level }) => {
      const name = level === "experts" && view.figures.map_experts ? "map_experts" : "map";
      return view.figures[name] && name;
    },

    wire(explorer) {
      const { map } = explorer.hosts;
      map.onClick((event) => explorer.pickLayer(event));
      new CellPointer(map, layerCells(explorer, map));
      choice = made(
        html`<div class="switch" role="group" aria-label="Level of the map" data-testid="level" hidden></div>`,
      );
      map.tools.append(choice);
    },

    render(explorer, { view, level }, before) {
      if (!choice || (view === before.view && level === before.level)) return;
      choice.hidden = !view.figures.map_experts;
      render(
        LEVELS.map(
          (name) =>
            html`<button type="button" data-level=${name} aria-pressed=${String(name === level)}
              @click=${() => explorer.dispatch({ type: "level", name })}>${name}</button>`,
        ),
        choice,
      );
    },
  };
}
