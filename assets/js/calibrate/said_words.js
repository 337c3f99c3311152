/**
 * Sentences that a run ends with, in the page's language. Its summary has them in English beside the numbers that they are
 * made of; a summary without such numbers is shown as it is. Pure.
 * @module calibrate/said_words
 */

import { count } from "../base/format.js";
import { written as inNumbers, tr, trCount } from "../base/messages.js";

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

/** @type {[RegExp, (parts: Record<string, string>) => string][]} */
const EDGES = [
  [
    /^λ = (?<lam>\S+) is the smallest of the candidates: a smaller one may be better still\.$/,
    (parts) => tr("λ = {lam} is the smallest of the candidates: a smaller one may be better still.", parts),
  ],
  [
    /^λ = (?<lam>\S+) is the largest of the candidates: a larger one may be better still\.$/,
    (parts) => tr("λ = {lam} is the largest of the candidates: a larger one may be better still.", parts),
  ],
  [
    /^Of (?<layers>\d+) layers, (?<small>\d+) took the smallest λ tried \((?<least>\S+)\): a smaller one may suit them better\.$/,
    (parts) =>
      tr("Of {layers} layers, {small} took the smallest λ tried ({least}): a smaller one may suit them better.", parts),
  ],
  [
    /^Of (?<layers>\d+) layers, (?<large>\d+) took the largest λ tried \((?<most>\S+)\): a larger one may suit them better\.$/,
    (parts) =>
      tr("Of {layers} layers, {large} took the largest λ tried ({most}): a larger one may suit them better.", parts),
  ],
  [
    /^Of (?<layers>\d+) layers, (?<small>\d+) took the smallest λ tried \((?<least>\S+)\) and (?<large>\d+) took the largest λ tried \((?<most>\S+)\): a smaller or larger one may suit them better\.$/,
    (parts) =>
      tr(
        "Of {layers} layers, {small} took the smallest λ tried ({least}) and {large} took the largest λ tried ({most}): a smaller or larger one may suit them better.",
        parts,
      ),
  ],
];

/**
 * What it means that an end of the candidates of λ was chosen.
 * @param {string} edge as the summary says it
 */
export function edgeWords(edge) {
  for (const [pattern, words] of EDGES) {
    const groups = pattern.exec(edge)?.groups;
    if (groups)
      return words(Object.fromEntries(Object.entries(groups).map(([name, value]) => [name, inNumbers(value)])));
  }
  return edge;
}
