/**
 * The tour's address: how the values of a step are read, and what a link can hide or lock in it. Pure: no DOM.
 * @module learn/address
 */

import { unknownNames, whole } from "../base/address.js";
import { nearest } from "../base/address_bar.js";
import { EVERYWHERE } from "../base/contract.js";
import { plain } from "../base/format.js";

/** @typedef {import("./types.d.ts").AddressTable} AddressTable */

const NUMBER = /^-?\d+(\.\d+)?(e[+-]?\d+)?$/i;

/**
 * A number within a range, both ends included.
 * @param {string} title
 * @param {number} low
 * @param {number} high
 */
export const between = (title, low, high) => ({
  title,
  read: (/** @type {string} */ text) =>
    NUMBER.test(text) && Number(text) >= low && Number(text) <= high ? Number(text) : undefined,
  wants: `a number from ${plain(low)} to ${plain(high)}`,
});

/**
 * One of growing numbers; what lies between two of them is taken to the nearest by `settle`.
 * @param {string} title
 * @param {number[]} values
 */
export const oneFrom = (title, values) => ({ ...between(title, values[0], values[values.length - 1]), values });

/**
 * One of growing numbers that are there only with the study: until then any number from 0.
 * @param {string} title
 */
export const oneFromStudy = (title) => ({ ...between(title, 0, Infinity), wants: "a number from 0" });

/**
 * What every step has.
 * @param {number} steps
 */
export const common = (steps) => ({
  step: whole("step", 1, steps),
  shown: {
    title: "answer shown",
    read: (/** @type {string} */ text) => (text === "1" ? 1 : text === "0" ? 0 : undefined),
    wants: "0 or 1",
    standard: 0,
  },
});

/**
 * Where a step stands with its question. With the answer there is no ring for somebody who has not guessed.
 * @param {import("./types.d.ts").Asking} settings
 */
export const asking = ({ shown, guess }) => ({
  answered: shown === 1,
  hasGuess: shown !== 1 || guess !== undefined,
});

/**
 * Values of an address brought to those that a figure has.
 * @template {import("./types.d.ts").Settings} S
 * @param {S} state
 * @param {AddressTable} table
 * @returns {{state: S, problems: string[]}} numbers beyond the values are left out, numbers between two of them are taken
 * to the nearer; both are said
 */
export function settle(state, table) {
  /** @type {import("./types.d.ts").Settings} */
  const settled = { ...state };
  const problems = [];
  for (const [key, { title, values }] of Object.entries(table)) {
    const wanted = state[key];
    if (!values || typeof wanted !== "number" || values.includes(wanted)) continue;
    const [low, high] = [values[0], values[values.length - 1]];
    if (wanted < low || wanted > high) {
      const ends = { low: plain(low), high: plain(high) };
      problems.push(`“${key}=${wanted}” is ignored: ${key} must be a number from ${ends.low} to ${ends.high}.`);
      delete settled[key];
    } else {
      const taken = values[nearest(values, wanted) ?? 0];
      settled[key] = taken;
      problems.push(`${title} = ${plain(wanted)} is not in this figure: ${title} = ${plain(taken)} is shown.`);
    }
  }
  return { state: /** @type {S} */ (settled), problems };
}

/** @type {(name: string, count: number, title: (number: number) => string) => Record<string, string>} */
const numbered = (name, count, title) =>
  Object.fromEntries(Array.from({ length: count }, (_, i) => [`${name}-${i + 1}`, title(i + 1)]));

/**
 * What a link can lock or hide in the tour, in the order of the page.
 * @type {Object<string, string>}
 */
export const CONTROLS = {
  ...numbered("step", 10, (number) => `Step ${number}`),
  back: "Back",
  next: "Next",
  show: "The answer",
  guess: "The guess",
  weight: "The weight",
  bits: "Bits",
  weights: "Both weights",
  ...numbered("token", 3, (number) => `Token ${number}`),
  play: "Play",
  "next-column": "One column",
  row: "Row",
  column: "Columns rounded",
  lambda: "λ",
  angle: "Turn of the new tokens",
  gamma: "γ",
  draw: "Draw again",
  "draw-ten": "Ten draws",
  tokens: "Tokens",
  ...numbered("channel", 12, (number) => `Channel ${number}`),
  saliency: "Penalty",
  save: "Numbers and pictures of the figure",
  share: "Share",
  lecture: "Lecture",
  fill: "Full screen",
};

/**
 * A sentence for each name of a link that the tour does not have.
 * @param {{hide: string[], lock: string[], problems: string[]}} link
 */
export const unknownHere = (link) => [...link.problems, ...unknownNames(link, CONTROLS, EVERYWHERE)];
