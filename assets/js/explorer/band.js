/**
 * The λ that may be the best, for a class that is to find them: taken out of all that shows them. Findings above
 * figures may say which λ are best, so that figures have only their names.
 * @module explorer/band
 */

/** @import { Figure } from "../charts/bind.js" */
/** @import { Table, View } from "./state.js" */

export const BAND = "band"; // the name of its shapes and words in a figure, see sarqc/figures/panels.py
const COLUMN = "sweet_spot";

/**
 * A view that does not say which λ may be the best.
 * @param {View} view
 * @returns {View}
 */
export function withoutBand(view) {
  const figures = Object.entries(view.figures).map(([name, figure]) => [name, figure && bandless(figure)]);
  return {
    ...view,
    figures: Object.fromEntries(figures),
    table: withoutColumn(view.table),
  };
}

/**
 * A table without the column that says it.
 * @template {Table} T
 * @param {T} table
 * @returns {T}
 */
export const withoutColumn = (table) => ({ ...table, columns: table.columns.filter(({ key }) => key !== COLUMN) });

/**
 * The same figure where the band is not drawn. Its shapes and words stay in their places, since bindings of others are
 * by position.
 * @param {Figure} figure
 * @returns {Figure}
 */
function bandless({ finding: _, ...figure }) {
  /** @type {string[]} */
  const gone = [];
  const layout = { ...figure.layout };
  for (const kind of ["shapes", "annotations"]) {
    const marks = /** @type {{name?: string}[]} */ (layout[kind] ?? []);
    layout[kind] = marks.map((one, at) => {
      if (one.name !== BAND) return one;
      gone.push(`layout.${kind}.${at}.`);
      return { ...one, visible: false };
    });
  }
  if (!gone.length) return figure;
  const bindings = figure.bindings?.filter(({ path }) => !gone.some((place) => path.startsWith(place)));
  return { ...figure, layout, bindings };
}
