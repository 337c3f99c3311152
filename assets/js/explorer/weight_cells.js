/**
 * The same cell of the weights at the smallest and at the shown λ: pointed at in one picture it is marked in both, with its
 * value in each and with the channels that it stands for.
 * @module weight_cells
 */

/** @import { Figure } from "../charts/bind.js" */
/** @import { Cell, Grid, Mark } from "../charts/cells.js" */
/** @import { PlotHost } from "../charts/plot_host.js" */
/** @import { Datum, PlotPoint, Trace } from "../charts/plotly.d.ts" */
/** @import { Explorer } from "./explorer.js" */

import { format } from "../base/format.js";
import { CellPointer } from "../charts/cells.js";
import { spotIn } from "../charts/plotly_internals.js";

const SPOT = 10; // pixels

/** @type {WeakMap<Figure, Figure>} */
const quiet = new WeakMap();

/**
 * A drawing of the weights without plotly's own words at the pointer, of which it has one picture's.
 * @param {Figure} figure
 * @returns {Figure} the same for the same figure
 */
export function withoutWords(figure) {
  const before = quiet.get(figure);
  if (before) return before;
  const data = figure.data.map(({ hovertemplate: _, ...trace }) => ({ ...trace, hoverinfo: "none" }));
  const scenes = Object.entries(figure.layout)
    .filter(([name]) => name.startsWith("scene"))
    .map(([name, scene]) => [name, { .../** @type {object} */ (scene), hovermode: false }]);
  const made = { ...figure, data, layout: { ...figure.layout, ...Object.fromEntries(scenes) } };
  quiet.set(figure, made);
  return made;
}

/**
 * Lets a card's cells be pointed at.
 * @param {Explorer} explorer
 * @param {PlotHost} host
 */
export function pointAtWeights(explorer, host) {
  const pointer = new CellPointer(host, weightCells(explorer, host));
  host.onPoint(([point]) => {
    if (!pointer.isHeld || point) pointer.point(point ? cellOf(host.canvas.data[point.curveNumber], point) : null);
  });
  host.canvas.addEventListener("pointerleave", () => pointer.isHeld || pointer.point(null));
  host.canvas.addEventListener("pointerdown", () => pointer.point(null)); // a scene turns under its marks
}

/**
 * The cell that a point of plotly's is in.
 * @param {Trace} trace
 * @param {Pick<PlotPoint, "x"|"y">} point
 * @returns {Cell}
 */
export const cellOf = ({ x = [], y = [] }, point) => [nearest(y, Number(point.y)), nearest(x, Number(point.x))];

/** @param {Datum[]} values @param {number} wanted */
function nearest(values, wanted) {
  const away = values.map((value) => Math.abs(Number(value) - wanted));
  return away.indexOf(Math.min(...away));
}

/** @param {Explorer} explorer @param {PlotHost} host @returns {Grid} */
function weightCells(explorer, host) {
  const traces = () => (host.figure && host.canvas.data) || [];
  /** What a cell is at the smallest λ and at the shown one. @param {Cell} cell */
  const values = ([row, column]) => {
    const { view, at } = explorer.state;
    const bound = host.figure?.bindings?.find((binding) => binding.array !== undefined);
    const array = bound?.array === undefined ? undefined : host.arrays[bound.array];
    const lams = new Set([0, at.lambda]);
    return [...lams].map((lambda) => ({
      point: view && view.lams.length > 1 ? `λ = ${view.lam_texts[lambda]}` : "",
      value: array?.matrix(at.gamma, lambda)[row][column] ?? Number.NaN,
      difference: bound !== undefined && "minus" in bound,
    }));
  };
  return {
    help: host.name.endsWith("_flat")
      ? "Arrow keys move from cell to cell:"
      : "Arrow keys move from cell to cell, with Shift they turn the surfaces, and Home turns them back:",
    size: () => [traces()[0]?.y?.length ?? 0, traces()[0]?.x?.length ?? 0],
    has: () => true,
    start: () => null,
    words: (cell) => saidOf(values(cell), placeOf(traces()[0], cell, " to ")),
    marks: (cell) => {
      const [first, shown = first] = values(cell);
      const place = placeOf(traces()[0], cell);
      if (first.difference)
        return box(host, 0, cell, [`${sign(shown.value - first.value)}: ${short(first)} → ${short(shown)}`, ...place]);
      return traces().flatMap((trace, side) => {
        const { value } = side ? shown : first;
        const lines = [short({ value }), ...place];
        if (trace.type !== "surface") return box(host, side, cell, lines);
        const spot = spotIn(host.canvas, side, [Number(trace.x?.[cell[1]]), Number(trace.y?.[cell[0]]), value]);
        if (!spot) return [];
        const edges = { left: spot.left - SPOT / 2, top: spot.top - SPOT / 2, width: SPOT, height: SPOT };
        return [{ box: edges, lines, isSpot: true }];
      });
    },
  };
}

/** @param {PlotHost} host @param {number} side @param {Cell} cell @param {string[]} lines @returns {Mark[]} */
function box(host, side, cell, lines) {
  const edges = host.cellBox(side, cell);
  return edges ? [{ box: edges, lines }] : [];
}

/** @param {{value: number}} one */
const short = ({ value }) => format(value, "significant");

/** @param {number} change */
const sign = (change) => `${change > 0 ? "+" : ""}${format(change, "significant")}`;

/**
 * What is read out of a cell.
 * @param {{point: string, value: number}[]} values
 * @param {string[]} place
 */
export const saidOf = (values, place) =>
  `${place.join(", ")}: ${values.map((one) => `${short(one)}${one.point && ` at ${one.point}`}`).join(", ")}`;

/**
 * The channels that a cell stands for.
 * @param {Trace} trace its `meta` says how many outputs and inputs there are
 * @param {Cell} cell
 * @param {string} [to] between the first and the last
 * @returns {[inputs: string, outputs: string]}
 */
export function placeOf({ x = [], y = [], meta }, [row, column], to = "–") {
  const [outputs, inputs] = /** @type {[number, number]} */ (meta);
  /** @type {(what: string, starts: Datum[], at: number, count: number) => string} */
  const reach = (what, starts, at, count) => {
    const [from, last] = [Number(starts[at]), Number(starts[at + 1] ?? count) - 1];
    return last > from ? `${what}s ${from}${to}${last}` : `${what} ${from}`;
  };
  return [reach("input", x, column, inputs), reach("output", y, row, outputs)];
}
