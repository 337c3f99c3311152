/**
 * Sentences that a run ends with, in the page's language. Its summary has them in English beside the numbers that they are
 * made of; a summary without such numbers is shown as it is. Pure.
 * @module calibrate/said_words
 */

import { count } from "../base/format.js";

/** @import { ExpertCounts, Written } from "../base/types.d.ts" */

/**
 * How many experts saw no or few of the calibration tokens.
 * @param {ExpertCounts} counts
 */
export function expertsWords({ experts, no_tokens: none, fewer_tokens_than_channels: few, channels, tokens, words }) {
  if (typeof none !== "number" || typeof few !== "number") return words;
  const numbers = {
    experts: count(experts),
    none: count(none),
    few: count(few),
    channels: count(channels),
    tokens: count(tokens),
  };
  if (!none && !few)
    return (
      `Each of ${numbers.experts} experts saw at least as many of ${numbers.tokens} calibration tokens as the ` +
      `${numbers.channels} channels it reads.`
    );
  if (!few) return `Of ${numbers.experts} experts, ${numbers.none} saw none of ${numbers.tokens} calibration tokens.`;
  return none
    ? `Of ${numbers.experts} experts, ${numbers.none} saw none of ${numbers.tokens} calibration tokens and ` +
        `${numbers.few} saw fewer than the ${numbers.channels} channels ${few === 1 ? "it reads." : "they read."}`
    : `Of ${numbers.experts} experts, ${numbers.few} saw fewer of ${numbers.tokens} calibration tokens than ` +
        `the ${numbers.channels} channels ${few === 1 ? "it reads." : "they read."}`;
}

/**
 * What the files of a model were when they were read again.
 * @param {Written} written
 */
export function writtenWords({ other_tensors: others, tokens, parts_at: partsAt }) {
  if (!others.length) {
    if (!tokens)
      return "Every tensor of these files reads as that of the measured model. Tokens were not compared: the blocks of this model are read one by one.";
    return partsAt === null
      ? "Every tensor of these files reads as that of the measured model, and continues the calibration text by " +
          `the same ${tokens} greedy tokens.`
      : `Every tensor of these files reads as that of the measured model. Of ${tokens} greedy tokens after the ` +
          `calibration text, number ${partsAt + 1} is the first other.`;
  }
  const said = { others: others.length, first: others[0], tokens };
  if (!tokens)
    return (
      `${said.others} tensors read otherwise than those of the measured model, ${said.first} among them. ` +
      "Tokens were not compared: the blocks of this model are read one by one."
    );
  return partsAt === null
    ? `${said.others} tensors read otherwise than those of the measured model, ${said.first} among them, and ` +
        `continues the calibration text by the same ${said.tokens} greedy tokens.`
    : `${said.others} tensors read otherwise than those of the measured model, ${said.first} among them. Of ` +
        `${said.tokens} greedy tokens after the calibration text, number ${partsAt + 1} is the first other.`;
}
