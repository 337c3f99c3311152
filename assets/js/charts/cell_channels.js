/**
 * The channels that a pooled cell stands for, in words.
 * @module cell_channels
 */

/** @import { Datum } from "./figure.d.ts" */

/** @typedef {{from: number, last: number}} Range of channels */

/**
 * What one channel is called, several beside a drawing, and several that are read out; by the word that figures have.
 * @type {Record<string, {single: (at: number) => string, several: (range: Range) => string, spoken: (range: Range) => string}>}
 */
const CHANNELS = {
  input: {
    single: (at) => `input ${at}`,
    several: (range) => `inputs ${range.from}–${range.last}`,
    spoken: (range) => `inputs ${range.from} to ${range.last}`,
  },
  output: {
    single: (at) => `output ${at}`,
    several: (range) => `outputs ${range.from}–${range.last}`,
    spoken: (range) => `outputs ${range.from} to ${range.last}`,
  },
  "saliency rank": {
    single: (at) => `saliency rank ${at}`,
    several: (range) => `saliency ranks ${range.from}–${range.last}`,
    spoken: (range) => `saliency ranks ${range.from} to ${range.last}`,
  },
};

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
  const { single, several, spoken } = CHANNELS[word];
  return last > from ? (isSpoken ? spoken : several)({ from, last }) : single(from);
}
