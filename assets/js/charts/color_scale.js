/**
 * Colours of values: stops of a scale, and what lies between them.
 * @module color_scale
 */

import { CIVIDIS } from "../base/contract.js";

/** @typedef {[share: number, colour: string][]} Stops from 0 to 1 */

/** @type {Stops} */
const CIVIDIS_STOPS = CIVIDIS.map((channels, at) => [at / (CIVIDIS.length - 1), `rgb(${channels.join(",")})`]);

/**
 * The stops of a scale by its name, or as they are.
 * @param {string|Stops} [scale]
 * @returns {Stops}
 */
export function stopsOf(scale = "Cividis") {
  if (typeof scale === "string" && scale !== "Cividis") throw new Error(`no colours “${scale}”`);
  return typeof scale === "string" ? CIVIDIS_STOPS : scale;
}

/**
 * Red, green and blue of “rgb(…)” or “#rrggbb”; null for other ways to write a colour.
 * @param {string} text
 */
export function channels(text) {
  const hex = /^#([\da-f]{6})$/i.exec(text);
  if (hex) return [0, 2, 4].map((at) => Number.parseInt(hex[1].slice(at, at + 2), 16));
  return /^rgb\((\d+), ?(\d+), ?(\d+)\)$/.exec(text)?.slice(1).map(Number) ?? null;
}

/**
 * A function from a share of the scale to red, green and blue; what lies outside has the colour of the nearer end.
 * @param {Stops} scale
 * @returns {(share: number) => number[]}
 */
export function shadesOf(scale) {
  const stops = scale.map(([share, colour]) => ({ share, colour: channels(colour) ?? [] }));
  return (share) => {
    const next = stops.findIndex((stop) => stop.share >= share);
    const to = stops[next < 0 ? stops.length - 1 : next];
    const from = stops[next < 0 ? stops.length - 1 : Math.max(next - 1, 0)];
    const way = to.share === from.share ? 0 : (share - from.share) / (to.share - from.share);
    return from.colour.map((value, index) => Math.round(value + way * (to.colour[index] - value)));
  };
}
