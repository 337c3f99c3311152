/**
 * Sentences that a run ends with, in the page's language. Its summary has them in English beside the numbers that they are
 * made of; a summary without such numbers is shown as it is. Pure.
 * @module calibrate/said_words
 */

import { count } from "../base/format.js";
import { tr, trCount } from "../base/messages.js";

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
    return tr(
      "Each of {experts} experts saw at least as many of {tokens} calibration tokens as the {channels} channels it reads.",
      numbers,
    );
  if (!few) return tr("Of {experts} experts, {none} saw none of {tokens} calibration tokens.", numbers);
  return none
    ? trCount(
        "Of {experts} experts, {none} saw none of {tokens} calibration tokens and {few} saw fewer than the {channels} channels it reads.",
        "Of {experts} experts, {none} saw none of {tokens} calibration tokens and {few} saw fewer than the {channels} channels they read.",
        few,
        numbers,
      )
    : trCount(
        "Of {experts} experts, {few} saw fewer of {tokens} calibration tokens than the {channels} channels it reads.",
        "Of {experts} experts, {few} saw fewer of {tokens} calibration tokens than the {channels} channels they read.",
        few,
        numbers,
      );
}

/**
 * What the files of a model were when they were read again.
 * @param {Written} written
 */
export function writtenWords({ other_tensors: others, tokens, parts_at: partsAt }) {
  if (!others.length) {
    if (!tokens)
      return tr(
        "Every tensor of these files reads as that of the measured model. Tokens were not compared: the blocks of this model are read one by one.",
      );
    return partsAt === null
      ? tr(
          "Every tensor of these files reads as that of the measured model, and continues the calibration text by the same {tokens} greedy tokens.",
          { tokens },
        )
      : tr(
          "Every tensor of these files reads as that of the measured model. Of {tokens} greedy tokens after the calibration text, number {number} is the first other.",
          { tokens, number: partsAt + 1 },
        );
  }
  const said = { others: others.length, first: others[0], tokens };
  if (!tokens)
    return tr(
      "{others} tensors read otherwise than those of the measured model, {first} among them. Tokens were not compared: the blocks of this model are read one by one.",
      said,
    );
  return partsAt === null
    ? tr(
        "{others} tensors read otherwise than those of the measured model, {first} among them, and continues the calibration text by the same {tokens} greedy tokens.",
        said,
      )
    : tr(
        "{others} tensors read otherwise than those of the measured model, {first} among them. Of {tokens} greedy tokens after the calibration text, number {number} is the first other.",
        { ...said, number: partsAt + 1 },
      );
}
