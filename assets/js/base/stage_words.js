/**
 * What a run says of its stages, in the page's language: Python says it in English, in words of its own and with numbers
 * in them. What is not known here is shown as it was said.
 * @module stage_words
 */

import { count } from "./format.js";
import { tr } from "./messages.js";

/** @typedef {Record<string, string>} Parts of a text by the names of a pattern's groups */

/** @type {Record<string, string>} */
const STAGES = {
  loading: tr("loading"),
  downloading: tr("downloading"),
  unpacking: tr("unpacking"),
  "checking the device": tr("checking the device"),
  "trying the largest layer": tr("trying the largest layer"),
  "checking the rotation": tr("checking the rotation"),
  "measuring the float model": tr("measuring the float model"),
  "measuring the checkpoint as it was found": tr("measuring the checkpoint as it was found"),
  quantizing: tr("quantizing"),
  "choosing λ": tr("choosing λ"),
  "distilling scales": tr("distilling scales"),
  "measuring the quantized model": tr("measuring the quantized model"),
  "measuring speed": tr("measuring speed"),
  "comparing with the original weights": tr("comparing with the original weights"),
  "comparing layers": tr("comparing layers"),
  "comparing models": tr("comparing models"),
  "asking tasks": tr("asking tasks"),
  "measuring steps": tr("measuring steps"),
  saving: tr("saving"),
};

/** @type {Record<string, string>} */
const DETAILS = {
  study: tr("study"),
  checkpoint: tr("checkpoint"),
  statistics: tr("statistics"),
  "reading it again": tr("reading it again"),
  quantizing: tr("quantizing"),
  perplexity: tr("perplexity"),
  "its layers": tr("its layers"),
  "its predictions": tr("its predictions"),
  "its predictions on the calibration text": tr("its predictions on the calibration text"),
  "text side by side": tr("text side by side"),
  "logits beside the original's": tr("logits beside the original's"),
  "three solvers, beside the CPU's; once for each card and driver": tr(
    "three solvers, beside the CPU's; once for each card and driver",
  ),
  "every λ and γ on unseen text, from the statistics of one draw": tr(
    "every λ and γ on unseen text, from the statistics of one draw",
  ),
};

/** @type {[RegExp, (parts: Parts) => string][]} details with numbers or names in them */
const COUNTED = [
  [
    /^(?<method>.+), (?<bits>\d+) bits$/,
    ({ method, bits }) => tr("{method}, {bits} bits", { method: tr(method), bits }),
  ],
  [/^draw (?<number>\d+) of (?<draws>\d+)$/, (parts) => tr("draw {number} of {draws}", parts)],
  [/^draw (?<number>\d+) of at most (?<draws>\d+)$/, (parts) => tr("draw {number} of at most {draws}", parts)],
  [/^at most (?<epochs>\d+) epochs$/, (parts) => tr("at most {epochs} epochs", parts)],
  [/^block by block, at most (?<epochs>\d+) epochs$/, (parts) => tr("block by block, at most {epochs} epochs", parts)],
  [
    /^(?<candidates>\d+) candidates, judged on (?<judging>\d+) of (?<samples>\d+) sequences$/,
    (parts) => tr("{candidates} candidates, judged on {judging} of {samples} sequences", parts),
  ],
  [
    /^(?<tasks>.+): draw (?<number>\d+) of (?<draws>\d+), (?<models>\d+) models$/,
    (parts) => tr("{tasks}: draw {number} of {draws}, {models} models", parts),
  ],
  [
    /^(?<block>\S+) and (?<layer>\S+), on random numbers$/,
    (parts) => tr("{block} and {layer}, on random numbers", parts),
  ],
];

/** The name of a stage in words. @param {string} name */
export const stageWords = (name) =>
  STAGES[name] ??
  among([[/^comparing with (?<method>.+)$/, (parts) => tr("comparing with {method}", parts)]], name) ??
  name;

/** What is done in a stage, or what was saved, in words. @param {string} detail */
export const detailWords = (detail) => DETAILS[detail] ?? among(COUNTED, detail) ?? detail;

/**
 * A stage with its detail, where it has one: “quantizing: GPTQ, 3 bits”.
 * @param {string} name
 * @param {string} detail
 */
export const stageAndDetail = (name, detail) =>
  detail ? tr("{stage}: {detail}", { stage: stageWords(name), detail: detailWords(detail) }) : stageWords(name);

/**
 * How far a stage is.
 * @param {{done: number, total: number, what: string}} advanced
 */
export function advancedWords({ done, total, what }) {
  const numbers = { done: count(done), total: count(total) };
  if (what === "windows of the test text") return tr("{done} of {total} windows of the test text", numbers);
  if (what === "linears") return tr("{done} of {total} linears", numbers);
  /** @type {[RegExp, (parts: Parts) => string][]} */
  const counted = [
    [/^answers of (?<task>.+)$/, (parts) => tr("{done} of {total} answers of {task}", { ...numbers, ...parts })],
    [
      /^steps of epoch (?<epoch>\d+)$/,
      (parts) => tr("{done} of {total} steps of epoch {epoch}", { ...numbers, ...parts }),
    ],
    [
      /^steps of epoch (?<epoch>\d+) of block (?<block>\d+)$/,
      (parts) => tr("{done} of {total} steps of epoch {epoch} of block {block}", { ...numbers, ...parts }),
    ],
  ];
  return among(counted, what) ?? tr("{done} of {total} {what}", { ...numbers, what });
}

/**
 * The words of the first pattern that a text has, or null.
 * @param {[RegExp, (parts: Parts) => string][]} patterns
 * @param {string} text
 */
function among(patterns, text) {
  for (const [pattern, words] of patterns) {
    const groups = pattern.exec(text)?.groups;
    if (groups) return words(groups);
  }
  return null;
}
