/**
 * The answers to a homework, judged by the study's own facts: the rows of its table, the band of the best λ, and the best
 * beside the baseline. Pure: no page, no request.
 * @module homework/answers
 */

import { interval, number, percent } from "../base/format.js";
import { METHODS } from "../base/recipe_contract.js";

/** @import { QuestionName } from "../base/homework_link.js" */
/** @import { View } from "../explorer/state.js" */

/**
 * @typedef {object} Facts of one line at one γ
 * @property {string} study its id
 * @property {string} model
 * @property {string} line
 * @property {number} bits
 * @property {string} gamma as the page writes it; empty where the line has none
 * @property {string} baseline
 * @property {string[]} names of the values of λ
 * @property {number} best position of the lowest perplexity
 * @property {boolean[]} band which λ are as good as the best, by their 95 % intervals
 * @property {{mean: number, low: number, high: number, clear: boolean, among: number}|null} gain of the best to the
 * baseline; null where one draw can't say
 * @property {number|null} fall of drift from λ = 0 to the best λ, as a share; null where it was not measured
 */
/** @typedef {Partial<Record<QuestionName, string>>} Answers as they were entered */
/** @typedef {{isRight: boolean, words: string}} Verdict */

const POINTS = 2; // of percent that an answer about drift may differ
const NUMBER = /^[+-]?\d{1,6}([.,]\d{1,6})?\s*%?$/;

/**
 * @param {Pick<View, "study"|"line"|"lams"|"lam_texts"|"gamma_texts"|"table"|"told">} view
 * @param {number} gamma position
 * @returns {Facts|null} null for a line without a perplexity over several λ
 */
export function factsOf(view, gamma) {
  const rows = view.table.rows.filter(({ at }) => at[0] === gamma).sort((a, b) => a.at[1] - b.at[1]);
  const perplexities = rows.map(({ perplexity }) => perplexity);
  if (rows.length < 2 || perplexities.some((value) => !Number.isFinite(value))) return null;
  const best = perplexities.indexOf(Math.min(...perplexities));
  const band = rows.map(({ sweet_spot }, i) => sweet_spot === true || i === best);
  const told = view.told.perplexity.best[gamma] ?? null;
  const [before, after] = [rows[0].drift, rows[best].drift];
  const hasDrift = view.lams[0] === 0 && Number.isFinite(before) && Number.isFinite(after) && before > 0;
  const { id, model } = view.study;
  return {
    study: id,
    model: model.name,
    line: view.line.title,
    bits: view.line.bits,
    gamma: view.gamma_texts[gamma] ?? "",
    baseline: METHODS[view.line.baseline]?.title ?? view.line.baseline,
    names: view.lam_texts,
    best,
    band,
    gain:
      told === null || told.mean === null || told.low === null || told.high === null
        ? null
        : { mean: told.mean, low: told.low, high: told.high, clear: told.clear, among: told.chosen_of },
    fall: hasDrift ? 1 - after / before : null,
  };
}

/**
 * The questions that a line can answer.
 * @param {QuestionName[]} names
 * @param {Facts} facts
 */
export const askable = (names, { fall }) => names.filter((name) => name !== "drift" || fall !== null);

/**
 * A question in words.
 * @param {QuestionName} name
 * @param {Facts} facts
 */
export function questionText(name, { bits, baseline, model }) {
  switch (name) {
    case "best":
      return `Which λ gives the lowest perplexity for ${model} at ${bits} bits?`;
    case "better":
      return `Is it significantly better than ${baseline}, with 95 % confidence?`;
    case "drift":
      return "By how many percent is drift lower there than at λ = 0?";
  }
}

/** What may be chosen for “better”. @type {Readonly<Record<string, string>>} */
export const VERDICTS = { yes: "Yes", no: "No", unknown: "The study can’t say" };

/**
 * The percent that somebody has written; null for what is not a number.
 * @param {string} text
 */
export function percentOf(text) {
  const trimmed = text.trim();
  return NUMBER.test(trimmed) ? Number(trimmed.replace("%", "").replace(",", ".")) : null;
}

/**
 * Whether an answer can be judged at all.
 * @param {QuestionName} name
 * @param {string|undefined} answer
 * @param {Facts} facts
 */
export function isAnswer(name, answer, { names }) {
  if (!answer) return false;
  if (name === "best") return names.includes(answer);
  return name === "better" ? Object.hasOwn(VERDICTS, answer) : percentOf(answer) !== null;
}

/**
 * @param {QuestionName} name
 * @param {string} answer that can be judged
 * @param {Facts} facts
 * @returns {Verdict}
 */
export function verdictOf(name, answer, facts) {
  switch (name) {
    case "best":
      return best(answer, facts);
    case "better":
      return better(answer, facts);
    case "drift":
      return drift(Number(percentOf(answer)), Number(facts.fall));
  }
}

/** @param {string} answer @param {Facts} facts */
function best(answer, { names, best, band }) {
  const at = names.indexOf(answer);
  if (at === best) return { isRight: true, words: `λ = ${answer} has the lowest perplexity.` };
  if (band[at])
    return {
      isRight: true,
      words: `λ = ${answer} is as good as the lowest, at λ = ${names[best]}, with 95 % confidence: this counts.`,
    };
  const words =
    at < best
      ? "A larger λ has a lower perplexity. Compare the curve there."
      : "A smaller λ has a lower perplexity. Compare the curve there.";
  return { isRight: false, words };
}

/** @param {string} answer @param {Facts} facts */
function better(answer, { gain, baseline }) {
  if (gain === null)
    return {
      isRight: answer === "unknown",
      words: "One draw of calibration text gives no interval, so the study can’t tell.",
    };
  const { mean, low, high, clear, among } = gain;
  const values = { baseline, mean: number(mean, 2), interval: interval(low, high, 2), among };
  const truth = clear && mean < 0 ? "yes" : "no";
  const words = clear
    ? `The difference to ${values.baseline} is ${values.mean} (${values.interval}, the best of ` +
      `${values.among}): its interval leaves out 0.`
    : `The difference to ${values.baseline} is ${values.mean} (${values.interval}, the best of ` +
      `${values.among}): its interval holds 0, so it is not significant.`;
  return { isRight: answer === truth, words };
}

/** @param {number} answer in percent @param {number} fall */
function drift(answer, fall) {
  const isRight = Math.abs(answer - 100 * fall) <= POINTS;
  const words = isRight
    ? `Drift is ${percent(fall)} lower there.`
    : "Read drift at λ = 0 and at the best λ: the fall is their difference as a share of the first.";
  return { isRight, words };
}
