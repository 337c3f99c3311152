/**
 * The picture of a heatmap: a rectangle for each cell in the colour of its value.
 * @module heatmap_picture
 */

/** @import { Matrix } from "./plotly.d.ts" */

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
  const stops = colorscale.map(([share, colour]) => ({ share, colour: channels(colour) ?? [] }));
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [width, height];
  const brush = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d", { willReadFrequently: true }));
  z.forEach((row, down) => {
    const [top, bottom] = [tops[down], tops[down + 1]].sort((a, b) => a - b);
    for (let across = 0; across < row.length; across += 1) {
      const value = row[across];
      if (value === null || value === undefined) continue;
      const [left, right] = [lefts[across], lefts[across + 1]].sort((a, b) => a - b);
      brush.fillStyle = shade((value - zmin) / (zmax - zmin), stops);
      brush.fillRect(left + Math.floor(xgap / 2), top + Math.floor(ygap / 2), right - left - xgap, bottom - top - ygap);
    }
  });
  return canvas.toDataURL("image/png");
}

/**
 * Colour of a share of the scale; what lies outside has the colour of the nearer end.
 * @param {number} share
 * @param {{share: number, colour: number[]}[]} stops
 */
function shade(share, stops) {
  const next = stops.findIndex((stop) => stop.share >= share);
  const to = stops[next < 0 ? stops.length - 1 : next];
  const from = stops[next < 0 ? stops.length - 1 : Math.max(next - 1, 0)];
  const way = to.share === from.share ? 0 : (share - from.share) / (to.share - from.share);
  const mixed = from.colour.map((value, index) => Math.round(value + way * (to.colour[index] - value)));
  return `rgb(${mixed.join(",")})`;
}

/**
 * Red, green and blue of “rgb(…)” or “#rrggbb”; null for other ways to write a colour.
 * @param {string} text
 */
function channels(text) {
  const hex = /^#([\da-f]{6})$/i.exec(text);
  if (hex) return [0, 2, 4].map((at) => Number.parseInt(hex[1].slice(at, at + 2), 16));
  return /^rgb\((\d+), ?(\d+), ?(\d+)\)$/.exec(text)?.slice(1).map(Number) ?? null;
}
