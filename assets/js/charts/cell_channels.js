/**
 * The channels that a pooled cell stands for, in words.
 * @module cell_channels
 */

/** @import { Datum } from "./figure.d.ts" */

import { tr } from "../base/messages.js";

/** @typedef {{from: number, last: number}} Range of channels */

/**
 * What one channel is called, several beside a drawing, and several that are read out; by the word that figures have.
 * @type {Record<string, {single: (at: number) => string, several: (range: Range) => string, spoken: (range: Range) => string}>}
 */
const CHANNELS = {
  input: {
    single: (at) => tr("input {at}", { at }),
    several: (range) => tr("inputs {from}–{last}", range),
    spoken: (range) => tr("inputs {from} to {last}", range),
  },
  output: {
    single: (at) => tr("output {at}", { at }),
    several: (range) => tr("outputs {from}–{last}", range),
    spoken: (range) => tr("outputs {from} to {last}", range),
  },
  "saliency rank": {
    single: (at) => tr("saliency rank {at}", { at }),
    several: (range) => tr("saliency ranks {from}–{last}", range),
    spoken: (range) => tr("saliency ranks {from} to {last}", range),
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
