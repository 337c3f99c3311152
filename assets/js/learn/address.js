/**
 * The tour's address: how the values of a step are read, and what a link can hide or lock in it. Pure: no DOM.
 * @module learn/address
 */

import { unknownNames, whole } from "../base/address.js";
import { nearest } from "../base/address_bar.js";
import { EVERYWHERE } from "../base/contract.js";
import { plain } from "../base/format.js";

const NUMBER = /^-?\d+(\.\d+)?(e[+-]?\d+)?$/i;

/** A number within a range, both ends included. */
export const between = (title, low, high) => ({
  title,
  read: (text) => (NUMBER.test(text) && Number(text) >= low && Number(text) <= high ? Number(text) : undefined),
  wants: `a number from ${plain(low)} to ${plain(high)}`,
});

/** One of growing numbers; what lies between two of them is taken to the nearest by `settle`. */
export const oneFrom = (title, values) => ({ ...between(title, values[0], values.at(-1)), values });

/** One of growing numbers that are known only once the study is there: until then any number from 0. */
export const oneFromStudy = (title) => ({ ...between(title, 0, Infinity), wants: "a number from 0" });

/** What every step has. */
export const common = (steps) => ({
  step: whole("step", 1, steps),
  shown: {
    title: "answer shown",
    read: (text) => (text === "1" ? 1 : text === "0" ? 0 : undefined),
    wants: "0 or 1",
    standard: 0,
  },
});

/**
 * Values of an address brought to those that a figure has.
 * @param {Object<string, any>} state
 * @param {Object<string, {title: string, values?: number[]}>} table
 * @returns {{state: Object<string, any>, problems: string[]}} numbers beyond the values are left out, numbers between two
 * of them are taken to the nearer one; both are said
 */
export function settle(state, table) {
  const settled = { ...state };
  const problems = [];
  for (const [key, { title, values }] of Object.entries(table)) {
    const wanted = state[key];
    if (!values || wanted === undefined || values.includes(wanted)) continue;
    if (wanted < values[0] || wanted > values.at(-1)) {
      problems.push(
        `“${key}=${wanted}” is ignored: ${key} must be a number from ${plain(values[0])} to ${plain(values.at(-1))}.`,
      );
      delete settled[key];
    } else {
      settled[key] = values[nearest(values, wanted)];
      problems.push(`${title} = ${plain(wanted)} is not in this figure: ${title} = ${plain(settled[key])} is shown.`);
    }
  }
  return { state: settled, problems };
}

const STEPS = [
  "weight",
  "guess",
  "bits",
  "weights",
  "token-1",
  "token-2",
  "token-3",
  "lambda",
  "gamma",
  "draw",
  "draw-ten",
  "tokens",
  "saliency",
];
const CHANNELS = Array.from({ length: 12 }, (_, i) => `channel-${i + 1}`);
const WAY = ["show", "back", "next", ...Array.from({ length: 7 }, (_, i) => `step-${i + 1}`)];

/** Names that a link of the tour can lock or hide. */
export const CONTROLS = Object.fromEntries([...WAY, ...STEPS, ...CHANNELS, "save"].map((one) => [one, one]));

/** A sentence for each name of a link that the tour does not have. */
export const unknownHere = (link) => [...link.problems, ...unknownNames(link, CONTROLS, EVERYWHERE)];
