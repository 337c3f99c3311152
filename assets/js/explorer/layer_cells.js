/**
 * The cells of a map of layers by keyboard: they begin at the chosen layer, and Enter chooses the cell's.
 * @module layer_cells
 */

import { heatmapCells } from "../charts/cells.js";

/**
 * @param {import("./explorer.js").Explorer} explorer
 * @param {import("./explorer.js").Host} host of a heatmap whose customdata begin with the layer that a click leads to
 */
export const layerCells = (explorer, host) =>
  heatmapCells(host, "Arrow keys move from cell to cell, Enter shows the layer:", ({ customdata }) => {
    const layer = explorer.state.view?.layer;
    if (typeof layer !== "number") return null;
    const rows = /** @type {[number][][]} */ (customdata);
    const row = rows.findIndex((cells) => cells.some(([leads]) => leads === layer));
    return row < 0 ? null : [row, rows[row].findIndex(([leads]) => leads === layer)];
  });
