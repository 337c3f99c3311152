/**
 * A height field and its drawing by the painter's algorithm. Cells are drawn from the farthest column and row to the
 * nearest, each as two triangles: seen in parallel from above, no cell hides one that is drawn after it, so that nothing
 * has to be sorted.
 * @module surface/field
 */

/** @import { Matrix } from "../figure.d.ts" */
/** @import { Box, Projection } from "./projection.js" */

import { HEIGHTS, SHADES } from "./shades.js";

/** @typedef {{triangle: (ax: number, ay: number, bx: number, by: number, cx: number, cy: number, colour: number) => void}} FaceSink `colour` is a position in the table of colours */
/** @typedef {{from: number, to: number, shift: number}} Stretch the columns that are drawn, both ends included, and how far they are moved along x */
/** @typedef {{low: number, high: number, coldest: number, warmest: number}} Scale values on the floor and at the top, and at both ends of the colours */

// Light comes from the left of the picture, from above and a little from the viewer's side.
const LIGHT = { right: -0.62, up: 0.62, near: 0.48 };

/** Heights over a grid, and where their points were drawn last. */
export class Field {
  /**
   * @param {number} rows
   * @param {number} columns
   * @param {Float32Array} values by rows, in the unit of the study
   */
  constructor(rows, columns, values = new Float32Array(rows * columns)) {
    this.rows = rows;
    this.columns = columns;
    this.values = values;
    /** Pixels of each point. */
    this.lefts = new Float32Array(rows * columns);
    this.tops = new Float32Array(rows * columns);
    /** @type {Stretch} that was drawn last */
    this.drawn = { from: 0, to: columns - 1, shift: 0 };
    this.ascendingX = true; // order in which it was drawn last
    this.ascendingY = true;
  }

  /** @param {number} row @param {number} column */
  at(row, column) {
    return row * this.columns + column;
  }
}

/**
 * The values of a matrix in a row; what was not measured is on the floor.
 * @param {Matrix} matrix
 * @param {Float32Array} target
 */
export function copyValues(matrix, target) {
  let place = 0;
  for (const row of matrix) for (let column = 0; column < row.length; column += 1) target[place++] = row[column] ?? 0;
}

/**
 * Where points of a grid lie along an axis of a length, the middle at 0.
 * @param {number} at
 * @param {number} count
 * @param {number} length
 */
export const placeOf = (at, count, length) => (count < 2 ? 0 : (at / (count - 1) - 0.5) * length);

/**
 * Computes where the points of a stretch are seen.
 * @param {Field} field
 * @param {Stretch} stretch
 * @param {Projection} projection
 * @param {Box} box
 * @param {Scale} scale
 */
export function project(field, stretch, projection, box, scale) {
  const { rows, columns, values, lefts, tops } = field;
  const { xx, xy, x0, yx, yy, yz, y0 } = projection;
  const perValue = (yz * box.height) / (scale.high - scale.low);
  const perColumn = box.width / Math.max(1, columns - 1);
  const first = -box.width / 2 + stretch.shift;
  for (let row = 0; row < rows; row += 1) {
    const y = placeOf(row, rows, box.depth);
    const [left, top] = [x0 + xy * y, y0 + yy * y - perValue * scale.low];
    for (let column = stretch.from; column <= stretch.to; column += 1) {
      const x = first + column * perColumn;
      const at = row * columns + column;
      lefts[at] = left + xx * x;
      tops[at] = top + yx * x + perValue * values[at];
    }
  }
  field.drawn = stretch;
}

/**
 * Draws the cells of a projected field, far ones first.
 * @param {Field} field
 * @param {FaceSink} sink
 * @param {Projection} projection
 * @param {Box} box
 * @param {Scale} scale
 */
export function paint(field, sink, projection, box, scale) {
  const { rows, columns, values, lefts, tops, drawn } = field;
  const { towards } = projection;
  const [dx, dy] = [box.width / Math.max(1, columns - 1), box.depth / Math.max(1, rows - 1)];
  const rise = box.height / (scale.high - scale.low);
  const [slopeX, slopeY] = [rise / dx, rise / dy];
  const perColour = (HEIGHTS - 1) / (scale.warmest - scale.coldest);
  const light = lightOf(towards);
  field.ascendingX = towards.x >= 0;
  field.ascendingY = towards.y >= 0;
  const stepColumn = field.ascendingX ? 1 : -1;
  const stepRow = field.ascendingY ? 1 : -1;
  const firstColumn = field.ascendingX ? drawn.from : drawn.to - 1;
  const firstRow = field.ascendingY ? 0 : rows - 2;
  // A cell is cut along its diagonal from the first corner to the opposite one; the half on the side of x is the nearer one where:
  const isSideNearer = towards.x * dy > towards.y * dx;
  const cells = drawn.to - drawn.from;
  /** The table's place of a face by its mean value and its slopes. @type {(value: number, alongX: number, alongY: number) => number} */
  const colourOf = (value, alongX, alongY) => {
    const nx = -alongX * slopeX;
    const ny = -alongY * slopeY;
    const lit = (nx * light.x + ny * light.y + light.z) / Math.sqrt(nx * nx + ny * ny + 1);
    const height = (value - scale.coldest) * perColour;
    const step = height <= 0 ? 0 : height >= HEIGHTS - 1 ? HEIGHTS - 1 : (height + 0.5) | 0;
    return step * SHADES + (lit <= 0 ? 0 : (Math.min(1, lit) * (SHADES - 1) + 0.5) | 0);
  };
  for (let i = 0, column = firstColumn; i < cells; i += 1, column += stepColumn) {
    for (let j = 0, row = firstRow; j < rows - 1; j += 1, row += stepRow) {
      const a = row * columns + column; // and around the cell: b, c, d
      const b = a + 1;
      const d = a + columns;
      const c = d + 1;
      const va = values[a];
      const vb = values[b];
      const vc = values[c];
      const vd = values[d];
      const side = colourOf((va + vb + vc) / 3, vb - va, vc - vb);
      const back = colourOf((va + vc + vd) / 3, vc - vd, vd - va);
      if (isSideNearer) {
        sink.triangle(lefts[a], tops[a], lefts[c], tops[c], lefts[d], tops[d], back);
        sink.triangle(lefts[a], tops[a], lefts[b], tops[b], lefts[c], tops[c], side);
      } else {
        sink.triangle(lefts[a], tops[a], lefts[b], tops[b], lefts[c], tops[c], side);
        sink.triangle(lefts[a], tops[a], lefts[c], tops[c], lefts[d], tops[d], back);
      }
    }
  }
}

/**
 * The direction of the light in the box, which turns with the viewer.
 * @param {{x: number, y: number, z: number}} towards the viewer
 */
function lightOf({ x, y }) {
  const flat = Math.hypot(x, y) || 1;
  const [nearX, nearY] = [x / flat, y / flat];
  return {
    x: LIGHT.right * -nearY + LIGHT.near * nearX,
    y: LIGHT.right * nearX + LIGHT.near * nearY,
    z: LIGHT.up,
  };
}

/**
 * The point of a field that is seen nearest to a spot, of the cell in front there; null where no cell is.
 * @param {Field} field as it was drawn last
 * @param {number} left pixels
 * @param {number} top
 * @returns {[row: number, column: number]|null}
 */
export function pointAt(field, left, top) {
  const { rows, columns, lefts, tops, drawn } = field;
  const inside = (/** @type {number} */ a, /** @type {number} */ b, /** @type {number} */ c) =>
    isInside(left, top, lefts[a], tops[a], lefts[b], tops[b], lefts[c], tops[c]);
  const cells = drawn.to - drawn.from;
  for (let i = 0; i < cells; i += 1) {
    const column = field.ascendingX ? drawn.to - 1 - i : drawn.from + i; // the reverse of the order of drawing
    for (let j = 0; j < rows - 1; j += 1) {
      const row = field.ascendingY ? rows - 2 - j : j;
      const a = field.at(row, column);
      const corners = [a, a + 1, a + columns + 1, a + columns];
      if (!inside(a, corners[1], corners[2]) && !inside(a, corners[2], corners[3])) continue;
      const away = corners.map((at) => Math.hypot(lefts[at] - left, tops[at] - top));
      const nearest = corners[away.indexOf(Math.min(...away))];
      return [Math.floor(nearest / columns), nearest % columns];
    }
  }
  return null;
}

/** Whether a point is in a triangle, whichever way that runs. @type {(x: number, y: number, ax: number, ay: number, bx: number, by: number, cx: number, cy: number) => boolean} */
function isInside(x, y, ax, ay, bx, by, cx, cy) {
  const first = (bx - ax) * (y - ay) - (by - ay) * (x - ax);
  const second = (cx - bx) * (y - by) - (cy - by) * (x - bx);
  const third = (ax - cx) * (y - cy) - (ay - cy) * (x - cx);
  return (first >= 0 && second >= 0 && third >= 0) || (first <= 0 && second <= 0 && third <= 0);
}
