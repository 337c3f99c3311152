/**
 * How lines and markers look, by plotly's words.
 * @module flat/marks
 */

/** @import { Each, LineStyle, Marker } from "./figure.d.ts" */

import { s } from "../svg.js";
import { short } from "./text.js";

export const INK = "#444"; // of what has no colour of its own

/** What belongs to one point: its own, or what all have. @template T @param {Each<T>|undefined} value @param {number} at */
export const of = (value, at) => /** @type {T|undefined} */ (Array.isArray(value) ? value[at] : value);

/**
 * A stroke without a fill.
 * @param {LineStyle} [style]
 */
export function stroke({ color = INK, width = 2, dash = "solid" } = {}) {
  return {
    fill: "none",
    stroke: width ? color : "none",
    "stroke-width": width,
    "stroke-dasharray": dashes(dash, width),
  };
}

/** @type {Record<string, number[]>} in widths of the line */
const DASHES = {
  solid: [],
  dot: [1, 1],
  dash: [3, 3],
  longdash: [5, 5],
  dashdot: [3, 1, 1, 1],
  longdashdot: [5, 2, 1, 2],
};

/**
 * A dash by its name, or by lengths such as “2px 3px”.
 * @param {string} name
 * @param {number} width
 */
function dashes(name, width) {
  const unit = Math.max(width, 3);
  const parts = DASHES[name]?.map((part) => part * unit) ?? name.split(/[ ,]+/).map((part) => Number.parseFloat(part));
  return parts.length ? parts.join(" ") : null;
}

// Corners of a marker in halves of its size from its middle.
/** @type {Record<string, number[][]>} */
const OUTLINES = {
  square: [
    [-1, -1],
    [1, -1],
    [1, 1],
    [-1, 1],
  ],
  diamond: [
    [0, -1.3],
    [1.3, 0],
    [0, 1.3],
    [-1.3, 0],
  ],
  "triangle-up": [
    [-1.155, 0.577],
    [0, -1.155],
    [1.155, 0.577],
  ],
  "triangle-down": [
    [-1.155, -0.577],
    [0, 1.155],
    [1.155, -0.577],
  ],
  "triangle-left": [
    [0.577, -1.155],
    [-1.155, 0],
    [0.577, 1.155],
  ],
  "triangle-right": [
    [-0.577, -1.155],
    [1.155, 0],
    [-0.577, 1.155],
  ],
  cross: [
    [1.2, 0.4],
    [0.4, 0.4],
    [0.4, 1.2],
    [-0.4, 1.2],
    [-0.4, 0.4],
    [-1.2, 0.4],
    [-1.2, -0.4],
    [-0.4, -0.4],
    [-0.4, -1.2],
    [0.4, -1.2],
    [0.4, -0.4],
    [1.2, -0.4],
  ],
};
/** Pairs of ends. @type {Record<string, number[][]>} */
const STROKES = {
  "x-thin": [
    [1, 1],
    [-1, -1],
    [1, -1],
    [-1, 1],
  ],
  "line-ew": [
    [1.4, 0],
    [-1.4, 0],
  ],
};

/**
 * The marker of a point.
 * @param {Marker} marker
 * @param {number} at the point's number
 * @param {number} x
 * @param {number} y
 */
export function markerAt(marker, at, x, y) {
  const symbol = of(marker.symbol, at) ?? "circle";
  const [name, isOpen] = [symbol.replace(/-open$/, ""), symbol.endsWith("-open")];
  const color = of(marker.color, at) ?? INK;
  const edge = { color: of(marker.line?.color, at) ?? INK, width: of(marker.line?.width, at) ?? 0 };
  const width = isOpen ? edge.width || 1 : edge.width;
  const look = {
    class: "point",
    fill: isOpen || STROKES[name] ? "none" : color,
    stroke: isOpen ? color : width ? edge.color : "none",
    "stroke-width": width,
    "stroke-dasharray": dashes(marker.line?.dash ?? "solid", width),
    opacity: marker.opacity,
  };
  const r = (of(marker.size, at) ?? 6) / 2;
  if (name === "circle") return s("circle", { cx: short(x), cy: short(y), r, ...look });
  const place = (/** @type {number[]} */ [dx, dy]) => `${short(x + r * dx)} ${short(y + r * dy)}`;
  if (OUTLINES[name]) return s("path", { d: `M${OUTLINES[name].map(place).join("L")}Z`, ...look });
  if (!STROKES[name]) throw new Error(`no marker “${symbol}”`);
  return s("path", { d: STROKES[name].map((end, index) => `${index % 2 ? "L" : "M"}${place(end)}`).join(""), ...look });
}
