/**
 * The picture of a heatmap: a rectangle for each cell in the colour of its value.
 * @module heatmap_picture
 */

/** @import { Matrix } from "./figure.d.ts" */

import { shadesOf } from "./color_scale.js";

/**
 * How a picture is made: its size and the edges of its columns and rows in pixels, gaps between cells in pixels, the
 * values at both ends of the scale, and the scale itself.
 * @typedef {{size: [number, number], lefts: number[], tops: number[], xgap: number, ygap: number, zmin: number,
 *   zmax: number, colorscale: [number, string][]}} Look
 */

/**
 * Pictures of values that were shown before: λ goes to and fro over the same few.
 * @type {WeakMap<Matrix, {how: string, picture: string}>}
 */
const made = new WeakMap();

/**
 * The address of a picture of these values. A value that is null leaves its cell empty.
 * @param {Matrix} z rows of values, kept by the list itself
 * @param {Look} look
 */
export function heatmapPicture(z, look) {
  const how = JSON.stringify(look);
  const before = made.get(z);
  if (before?.how === how) return before.picture;
  const picture = paint(z, look);
  made.set(z, { how, picture });
  return picture;
}

/**
 * @param {Matrix} z
 * @param {Look} look
 */
function paint(z, { size: [width, height], lefts, tops, xgap, ygap, zmin, zmax, colorscale }) {
  const shade = shadesOf(colorscale);
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [width, height];
  const brush = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d", { willReadFrequently: true }));
  z.forEach((row, down) => {
    const [top, bottom] = [tops[down], tops[down + 1]].sort((a, b) => a - b);
    for (let across = 0; across < row.length; across += 1) {
      const value = row[across];
      if (value === null || value === undefined) continue;
      const [left, right] = [lefts[across], lefts[across + 1]].sort((a, b) => a - b);
      brush.fillStyle = `rgb(${shade((value - zmin) / (zmax - zmin)).join(",")})`;
      brush.fillRect(left + Math.floor(xgap / 2), top + Math.floor(ygap / 2), right - left - xgap, bottom - top - ygap);
    }
  });
  return canvas.toDataURL("image/png");
}
