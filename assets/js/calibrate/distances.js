/**
 * How far a quantized model's predictions are from the float one's, in words: numbers with their standard errors. Pure.
 * @module calibrate/distances
 */

import { format, number, percent } from "../base/format.js";

/** @import { Divergences } from "../base/types.d.ts" */
/** @typedef {{name: string, value: string, help: string}} Distance a number, and what it says */

/**
 * Decimals that show an error with one digit, two where it begins with 1; four where there is none.
 * @param {number | null | undefined} error
 */
function decimalsOf(error) {
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
  return error ? `${number(value, decimals)} ± ${number(error, decimals)}` : number(value, decimals);
}

/**
 * The rows under a perplexity; none where nothing was measured beside the float model.
 * @param {Partial<Divergences>} said
 * @returns {Distance[]}
 */
export function distances(said) {
  if (typeof said.log_ratio !== "number") return [];
  const same = Number(said.same_top);
  const error = said.same_top_standard_error;
  return [
    {
      name: "ln(quantized / float)",
      value: withError(said.log_ratio, said.log_ratio_standard_error),
      help: "The difference of the two ln perplexities on the same tokens. Its error is over windows of the text, paired: far smaller than that of either perplexity.",
    },
    {
      name: "KL from float",
      value: `${withError(Number(said.kl), said.kl_standard_error)} nats, 99 % of tokens below ${format(said.kl_99, "significant")}`,
      help: "KL(float ‖ quantized), the mean over the tokens of the text: how far the whole prediction is, whichever token came. 0 is the same.",
    },
    {
      name: "Same top token",
      value: error ? `${withError(100 * same, 100 * error)} %` : percent(same, 1),
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
