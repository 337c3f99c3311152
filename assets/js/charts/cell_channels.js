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
 * @param {boolean} [isSpoken] whether it is read out
 */
export function channelRange(word, starts, at, count, isSpoken = false) {
  const [from, last] = [Number(starts[at]), Number(starts[at + 1] ?? count) - 1];
  return last > from ? `${word}s ${from}${isSpoken ? " to " : "–"}${last}` : `${word} ${from}`;
}
