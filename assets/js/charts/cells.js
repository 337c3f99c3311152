/**
 * One cell of a figure that is pointed at: by the mouse where a figure shows the same cell in two pictures, and by arrow
 * keys, for which each such figure takes the focus. The cell is marked and what it says stands beside it; moved by keys, it
 * is read out too.
 * @module cells
 */

/** @import { Trace } from "./figure.d.ts" */
/** @import { Box } from "./flat/figure.d.ts" */
/** @import { PlotHost } from "./plot_host.js" */

import { html, made } from "../base/html.js";
import { hoverWords } from "./flat/format.js";

/** @typedef {[row: number, column: number]} Cell rows are counted upwards, as figures draw them */
/** @typedef {{box: Box, lines: string[], isSpot?: boolean}} Mark where a cell is drawn, and what is written beside it */
/**
 * @typedef {object} Grid of cells; nothing is asked of it before its figure is drawn
 * @property {string} help what keys do, for screen readers
 * @property {() => [rows: number, columns: number]} size 0 where there are none
 * @property {(cell: Cell) => boolean} has whether a cell within the size says anything
 * @property {() => Cell|null} start the chosen cell, where the keys begin
 * @property {(cell: Cell) => Mark[]} marks
 * @property {(cell: Cell) => string} words what is read out
 * @property {(cell: Cell) => void} [choose]
 */

/** @type {Record<string, Cell>} */
const WAYS = { ArrowUp: [1, 0], ArrowDown: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] };

/**
 * The next cell in a direction that says anything; the same where none follows.
 * @param {Cell} from
 * @param {string} key
 * @param {Pick<Grid, "size"|"has">} grid
 * @returns {Cell}
 */
export function nextCell([row, column], key, grid) {
  const [up, right] = WAYS[key];
  const [rows, columns] = grid.size();
  for (let [r, c] = [row + up, column + right]; r >= 0 && r < rows && c >= 0 && c < columns; r += up, c += right)
    if (grid.has([r, c])) return [r, c];
  return [row, column];
}

/**
 * Where keys begin without a chosen cell: the first that says anything, from the upper left.
 * @param {Pick<Grid, "size"|"has">} grid
 * @returns {Cell|null}
 */
export function firstCell(grid) {
  const [rows, columns] = grid.size();
  for (let r = rows - 1; r >= 0; r -= 1) for (let c = 0; c < columns; c += 1) if (grid.has([r, c])) return [r, c];
  return null;
}

/** The cells of one figure. */
export class CellPointer {
  /**
   * @param {PlotHost} host
   * @param {Grid} grid
   */
  constructor(host, grid) {
    this.host = host;
    this.grid = grid;
    /** @type {Cell|null} that is marked */
    this.cell = null;
    this.isHeld = false; // by the keyboard
    const own = `cells-${host.name}`;
    this.place = made(html`<div class="cells" tabindex="0" role="application" id=${own} aria-label=${grid.help}
      aria-labelledby=${`${own} title-${host.name}`} data-testid=${own}></div>`);
    this.said = made(html`<p class="visually-hidden" role="status"></p>`);
    host.root.append(this.place, this.said);
    host.settled = () => this.again();
    this.place.addEventListener("focus", () => {
      this.isHeld = true;
      this.go(grid.start() ?? firstCell(grid));
    });
    this.place.addEventListener("blur", () => {
      this.isHeld = false;
      this.point(null);
    });
    this.place.addEventListener("keydown", (event) => this.key(event));
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const { cell, grid } = this;
    if (!cell || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    if (WAYS[event.key]) this.go(nextCell(cell, event.key, grid));
    else if (grid.choose && (event.key === "Enter" || event.key === " ")) grid.choose(cell);
    else return;
    event.preventDefault();
    event.stopPropagation(); // arrows move λ elsewhere
  }

  /** Marks a cell and reads it out. @param {Cell|null} cell */
  go(cell) {
    this.point(cell);
    this.said.textContent = cell ? this.grid.words(cell) : "";
  }

  /** Marks a cell, or none. @param {Cell|null} cell */
  point(cell) {
    this.cell = cell;
    const marks = cell ? this.grid.marks(cell) : [];
    this.place.replaceChildren(...marks.map(mark));
    if (!marks.length) return;
    const [card, canvas] = [this.place, this.host.canvas].map((element) => element.getBoundingClientRect());
    const inner = { left: canvas.left - card.left, top: canvas.top - card.top };
    [...this.place.children].forEach((element, index) => {
      put(/** @type {HTMLElement} */ (element), marks[index].box, inner, card);
    });
  }

  /** After another point or another figure was drawn. */
  again() {
    const { cell, grid } = this;
    if (!cell) return;
    const [rows, columns] = grid.size();
    const stays = cell[0] < rows && cell[1] < columns && grid.has(cell);
    if (stays) this.point(cell);
    else if (this.isHeld) this.go(grid.start() ?? firstCell(grid));
    else this.point(null);
  }
}

/** @param {Mark} mark */
function mark({ lines, isSpot }) {
  return made(html`<div class=${isSpot ? "cell-mark is-spot" : "cell-mark"} aria-hidden="true">
    <div class="cell-words">${lines.map((line) => html`<div>${line}</div>`)}</div>
  </div>`);
}

/**
 * Puts a mark at its cell, and its words above it, or below it where there is no room, inside the card.
 * @param {HTMLElement} element
 * @param {Box} box
 * @param {{left: number, top: number}} inner where the figure lies in its card
 * @param {{width: number}} card
 */
function put(element, { left, top, width, height }, inner, card) {
  const at = { left: left + inner.left, top: top + inner.top };
  Object.assign(element.style, {
    left: `${at.left}px`,
    top: `${at.top}px`,
    width: `${width}px`,
    height: `${height}px`,
  });
  const words = /** @type {HTMLElement} */ (element.firstElementChild);
  const { offsetWidth, offsetHeight } = words;
  const wanted = at.left + width / 2 - offsetWidth / 2;
  const within = Math.max(4, Math.min(wanted, card.width - offsetWidth - 4));
  words.style.left = `${within - at.left}px`;
  words.style.top = `${at.top < offsetHeight + 6 ? height + 6 : -offsetHeight - 6}px`;
}

// --- Grids of the figures that are maps ------------------------------------------------------------------------------

/**
 * The cells of a figure that is one heatmap: its hover's words, and a click's effect.
 * @param {PlotHost} host
 * @param {string} help
 * @param {(trace: Trace) => Cell|null} start
 * @returns {Grid}
 */
export function heatmapCells(host, help, start) {
  const trace = () => host.canvas.data?.[0];
  const words = (/** @type {Cell} */ cell) => cellWords(trace(), cell);
  /** @type {Grid["size"]} */
  const size = () => {
    const z = host.figure ? trace()?.z : undefined;
    return z ? [z.length, z[0]?.length ?? 0] : [0, 0];
  };
  return {
    help,
    size,
    has: ([row, column]) => Number.isFinite(trace().z?.[row]?.[column] ?? Number.NaN),
    start: () => (size()[0] ? start(trace()) : null),
    marks: (cell) => boxed(host.cellBox(0, cell), words(cell)),
    words,
    choose: (cell) => press(host, cell, at(trace().customdata, cell)),
  };
}

/**
 * Does what a click on a point of the first trace does.
 * @param {PlotHost} host
 * @param {number | Cell} pointNumber
 * @param {any} customdata
 */
const press = (host, pointNumber, customdata) =>
  host.clicked({ points: [{ x: null, y: null, curveNumber: 0, pointNumber, customdata }] });

/**
 * The rows of a figure whose first trace has a point in each.
 * @param {PlotHost} host
 * @param {string} help
 * @param {(trace: Trace) => number} start
 * @returns {Grid}
 */
export function rowCells(host, help, start) {
  const trace = () => host.canvas.data?.[0];
  // What each panel says of the row, its name once.
  const said = (/** @type {Cell} */ [row]) => {
    const [first = "", ...more] = host.canvas.data.map(({ text }) => String(text?.[row] ?? ""));
    const name = first.slice(0, first.indexOf(": ") + 2);
    return [first, ...more.map((one) => (name && one.startsWith(name) ? one.slice(name.length) : one))];
  };
  const words = (/** @type {Cell} */ cell) => said(cell).join("; ");
  /** @type {Grid["size"]} */
  const size = () => [(host.figure && trace()?.y?.length) || 0, 1];
  return {
    help,
    size,
    has: () => true,
    start: () => {
      const row = size()[0] ? start(trace()) : -1;
      return row < 0 ? null : [row, 0];
    },
    marks: (cell) => boxed(host.rowBox(0, cell[0]), ...said(cell)),
    words,
    choose: ([row]) => press(host, row, at(trace().customdata, [row])),
  };
}

/** @param {Box|null} box @param {string[]} lines @returns {Mark[]} */
const boxed = (box, ...lines) => (box ? [{ box, lines }] : []);

/** What lies at a place of nested lists. @param {unknown} lists @param {number[]} place */
const at = (lists, place) => place.reduce((found, index) => /** @type {any} */ (found)?.[index], lists);

/**
 * What a hover says of a cell of a heatmap, in one line.
 * @param {Trace} trace
 * @param {Cell} cell
 */
export function cellWords(trace, [row, column]) {
  const values = { x: trace.x?.[column], y: trace.y?.[row], text: at(trace.text, [row, column]) };
  const customdata = at(trace.customdata, [row, column]);
  return hoverWords(String(trace.hovertemplate), { ...values, customdata }).text.replace(/<br>/g, ", ");
}
