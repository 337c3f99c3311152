/**
 * The channels that a pooled cell stands for, in words.
 * @module cell_channels
 */

/** @import { Datum } from "./figure.d.ts" */

/**
 * The channels of a cell along an axis, e.g. “inputs 12–15” or “output 3”.
 * @param {string} word for one of them
 * @param {Datum[]} starts the first channel of each cell
 * @param {number} at position of the cell
 * @param {number} count channels in all
 * @param {string} [to] between the first and the last
 */
export function channelRange(word, starts, at, count, to = "–") {
  const [from, last] = [Number(starts[at]), Number(starts[at + 1] ?? count) - 1];
  return last > from ? `${word}s ${from}${to}${last}` : `${word} ${from}`;
}
