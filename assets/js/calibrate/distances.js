/**
 * How far a quantized model's predictions are from the float one's, in words: numbers with their standard errors. Pure.
 * @module calibrate/distances
 */

import { format, number, percent } from "../base/format.js";

/** @import { Divergences, Summary } from "../base/types.d.ts" */
/** @typedef {{name: string, value: string, help: string}} Distance a number, and what it says */

/**
 * Decimals that show an error with one digit, two where it begins with 1; four where there is none.
 * @param {number | null | undefined} error
 */
export function decimalsOf(error) {
  if (!error) return 4;
  const exponent = Math.floor(Math.log10(error));
  const lead = error / 10 ** exponent;
  return Math.min(6, Math.max(0, -exponent + (lead < 2 ? 1 : 0)));
}

/**
 * “0.239 ± 0.008”, or the number alone where its error is not known.
 * @param {number} value
 * @param {number | null | undefined} error
 */
export function withError(value, error) {
  const decimals = decimalsOf(error);
  return error ? unbroken(`${number(value, decimals)} ± ${number(error, decimals)}`) : number(value, decimals);
}

/**
 * Text in which no line ends beside a ± or before a %.
 * @param {string} text
 */
export const unbroken = (text) => text.replace(/ ([±%])/g, "\u00a0$1").replaceAll("± ", "±\u00a0");

/**
 * What was measured beside the float model, one number after the other; none where nothing was.
 * @param {Partial<Divergences>} said
 * @returns {Distance[]}
 */
export function distances(said) {
  if (typeof said.kl !== "number") return [];
  const same = Number(said.same_top);
  const error = said.same_top_standard_error;
  return [
    {
      name: "KL from float, nats a token",
      value: withError(Number(said.kl), said.kl_standard_error),
      help: "KL(float ‖ quantized): how far the whole prediction is, whichever token came. 0 is the same.",
    },
    {
      name: "KL, 99 % of tokens below",
      value: format(said.kl_99, "significant"),
      help: "The worst hundredth of the tokens is beyond this.",
    },
    {
      name: "Same top token",
      value: error ? unbroken(`${withError(100 * same, 100 * error)} %`) : percent(same, 1),
      help: "The share of tokens at which both models hold the same one most probable.",
    },
  ];
}

/**
 * The same in one line, for the log.
 * @param {Partial<Divergences>} said
 */
export const distanceWords = (said) =>
  distances(said)
    .map(({ name, value }) => `${name} ${value}`)
    .join("; ");

/**
 * A run beside its baseline, row by row; the baseline's cells are null where it was not measured.
 * @param {Partial<Summary>} summary
 * @returns {{name: string, run: string, baseline: string | null}[]} none where nothing was measured beside the float model
 */
export function besideBaseline(summary) {
  const own = distances(summary);
  if (!own.length) return [];
  const { baseline } = summary;
  const other = distances(baseline ?? {});
  const both = typeof baseline?.perplexity === "number";
  return [
    {
      name: "Perplexity",
      run: format(summary.perplexity, "perplexity"),
      baseline: both ? format(baseline.perplexity, "perplexity") : null,
    },
    ...own.map(({ name, value }, place) => ({ name, run: value, baseline: other[place]?.value ?? null })),
  ];
}
