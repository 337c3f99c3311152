/**
 * The same cell of the weights at the smallest and at the shown λ: pointed at, it is marked with its value in each and with
 * the channels that it stands for. A click keeps the mark until one elsewhere; on a cell whose weights the study has, it
 * shows them one by one.
 * @module weight_cells
 */

/** @import { Figure } from "../charts/bind.js" */
/** @import { Cell, Grid, Mark } from "../charts/cells.js" */
/** @import { Datum, PlotPoint, Trace } from "../charts/figure.d.ts" */
/** @import { PlotHost } from "../charts/plot_host.js" */
/** @import { Explorer } from "./explorer.js" */

import { format } from "../base/format.js";
import { link } from "../base/link.js";
import { scrollBehavior } from "../base/motion.js";
import { channelRange } from "../charts/cell_channels.js";
import { CellPointer } from "../charts/cells.js";

const SPOT = 10; // pixels

/** @type {WeakMap<Figure, Figure>} */
const quiet = new WeakMap();

/**
 * A drawing of the weights without words of its own at the pointer, which are those of one picture.
 * @param {Figure} figure
 * @returns {Figure} the same for the same figure
 */
export function withoutWords(figure) {
  const before = quiet.get(figure);
  if (before) return before;
  const data = figure.data.map(({ hovertemplate: _, ...trace }) => ({ ...trace, hoverinfo: "none" }));
  const made = { ...figure, data };
  quiet.set(figure, made);
  return made;
}

/**
 * Lets a card's cells be pointed at and chosen.
 * @param {Explorer} explorer
 * @param {PlotHost} host
 */
export function pointAtWeights(explorer, host) {
  /** @type {Cell|null} whose mark stays */
  let kept = null;
  /** @param {Cell|null} cell */
  const keep = (cell) => {
    kept = cell;
    pointer.point(cell);
  };
  /** @param {Cell} cell */
  const choose = (cell) => {
    const isSame = kept !== null && kept[0] === cell[0] && kept[1] === cell[1];
    const isStored = !isSame && hasWeights(explorer, host, cell);
    keep(isSame || isStored ? null : cell);
    if (isStored) showWeights(explorer);
  };
  const pointer = new CellPointer(host, { ...weightCells(explorer, host), choose });
  host.onPoint(([point]) => {
    if (!pointer.isHeld || point) pointer.point(point ? cellOf(host.canvas.data[point.curveNumber], point) : kept);
  });
  host.onClick(({ points: [point] }) => {
    if (point) choose(cellOf(host.canvas.data[point.curveNumber], point));
    else keep(null);
  });
  document.addEventListener("pointerdown", ({ target }) => {
    if (kept && !(target instanceof Node && host.root.contains(target))) keep(null);
  });
  document.addEventListener("keydown", ({ key }) => {
    if (kept && key === "Escape") keep(null);
  });
  host.canvas.addEventListener("pointerleave", () => pointer.isHeld || pointer.point(kept));
}

/**
 * Whether the weights of a cell are among those that the study holds one by one.
 * @param {Explorer} explorer
 * @param {PlotHost} host
 * @param {Cell} cell
 */
function hasWeights({ state: { view }, hosts }, host, cell) {
  const group = view?.figures.inspector?.data.find(({ meta }) => isGroup(meta))?.meta;
  const [trace] = host.canvas.data;
  const isHidden = link.hide.includes("inspector") || link.hide.includes("doors");
  return Boolean(hosts.inspector && !isHidden && isGroup(group) && holdsGroup(trace, cell, group));
}

/** @typedef {{row: number, first: number, count: number}} Group of weights: its output, its first input, how many */
/**
 * @param {unknown} meta
 * @returns {meta is Group}
 */
const isGroup = (meta) => typeof meta === "object" && meta !== null && "row" in meta;

/**
 * Whether a cell stands for some weights of a group. Inputs in another order than the study's are not known one by one.
 * @param {Trace} trace
 * @param {Cell} cell
 * @param {Group} group
 */
export function holdsGroup({ x = [], y = [], meta }, [row, column], { row: output, first, count }) {
  const [outputs, inputs, word] = /** @type {[number, number, string]} */ (meta);
  const [top, bottom] = [Number(y[row]), Number(y[row + 1] ?? outputs)];
  const [left, right] = [Number(x[column]), Number(x[column + 1] ?? inputs)];
  return word === "input" && top <= output && output < bottom && left < first + count && first < right;
}

/** Opens the part with the weights one by one, and goes there. @param {Explorer} explorer */
function showWeights(explorer) {
  if (!explorer.state.open.includes("where")) explorer.dispatch({ type: "door", name: "where" });
  explorer.hosts.inspector.root.scrollIntoView({ behavior: scrollBehavior(), block: "center" });
}

/**
 * The cell that a point of a figure is in.
 * @param {Trace} trace
 * @param {Pick<PlotPoint, "x"|"y"|"pointNumber">} point
 * @returns {Cell}
 */
export const cellOf = ({ x = [], y = [] }, point) =>
  Array.isArray(point.pointNumber)
    ? [point.pointNumber[0], point.pointNumber[1]]
    : [nearest(y, Number(point.y)), nearest(x, Number(point.x))];

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
    }));
  };
  const isStored = (/** @type {Cell} */ cell) => hasWeights(explorer, host, cell);
  return {
    help: host.name.endsWith("_flat")
      ? "Arrow keys move from cell to cell, Enter keeps the mark:"
      : "Arrow keys move from cell to cell, with Shift they turn the surface, and Home turns it back; Enter keeps the mark:",
    size: () => [traces()[0]?.y?.length ?? 0, traces()[0]?.x?.length ?? 0],
    has: () => true,
    start: () => null,
    words: (cell) => saidOf(values(cell), placeOf(traces()[0], cell, true)),
    marks: (cell) => {
      const all = values(cell);
      const [first, shown = first] = all;
      const place = placeOf(traces()[0], cell);
      if (host.surface && !host.isFlat)
        return spot(host.surface.spotOf(cell), surfaceLines(all, place, isStored(cell)));
      return traces().flatMap((_, side) => box(host, side, cell, [short(side ? shown : first), ...place]));
    },
  };
}

/** @param {PlotHost} host @param {number} side @param {Cell} cell @param {string[]} lines @returns {Mark[]} */
function box(host, side, cell, lines) {
  const edges = host.cellBox(side, cell);
  return edges ? [{ box: edges, lines }] : [];
}

/** @param {{left: number, top: number}} place @param {string[]} lines @returns {Mark[]} */
function spot({ left, top }, lines) {
  const edges = { left: left - SPOT / 2, top: top - SPOT / 2, width: SPOT, height: SPOT };
  return [{ box: edges, lines, isSpot: true }];
}

/**
 * What stands beside a cell of a surface.
 * @param {{point: string, value: number}[]} values
 * @param {string[]} place
 * @param {boolean} isStored whether a click shows its weights
 */
export const surfaceLines = (values, place, isStored) => [
  place.join(", "),
  values.map((one) => `${one.point && `${one.point}: `}${short(one)}`).join(" · "),
  ...(isStored ? ["a click shows these weights one by one"] : []),
];

/** @param {{value: number}} one */
const short = ({ value }) => format(value, "significant");

/**
 * What is read out of a cell.
 * @param {{point: string, value: number}[]} values
 * @param {string[]} place
 */
export const saidOf = (values, place) =>
  `${place.join(", ")}: ${values.map((one) => `${short(one)}${one.point && ` at ${one.point}`}`).join(", ")}`;

/**
 * The channels that a cell stands for.
 * @param {Trace} trace its `meta` says how many outputs and inputs there are, and what an input's number is
 * @param {Cell} cell
 * @param {boolean} [isSpoken] whether they are read out
 * @returns {[inputs: string, outputs: string]}
 */
export function placeOf({ x = [], y = [], meta }, [row, column], isSpoken = false) {
  const [outputs, inputs, word] = /** @type {[number, number, string]} */ (meta);
  return [channelRange(word, x, column, inputs, isSpoken), channelRange("output", y, row, outputs, isSpoken)];
}
