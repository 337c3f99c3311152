/**
 * What models predict: probabilities of the next token, how far apart two models are, the likeliest words, and the text
 * that a model goes on with.
 * @module model/predictions
 */

/** @import { Llama, Past } from "./llama.js" */

export const MOST_TOKENS = 64; // of a text that is read

/** @typedef {{token: number, probability: number}} Likely */

/**
 * Logarithms of the probabilities of each row of logits.
 * @param {Float32Array} logits (rows × words)
 * @param {number} words
 * @returns {Float32Array}
 */
export function logProbabilities(logits, words) {
  const result = new Float32Array(logits.length);
  for (let row = 0; row < logits.length; row += words) {
    let most = -Infinity;
    for (let i = row; i < row + words; i += 1) most = Math.max(most, logits[i]);
    let sum = 0;
    for (let i = row; i < row + words; i += 1) sum += Math.exp(logits[i] - most);
    const shift = most + Math.log(sum);
    for (let i = row; i < row + words; i += 1) result[i] = logits[i] - shift;
  }
  return result;
}

/**
 * KL(p ‖ q) in nats of each row.
 * @param {Float32Array} p logarithms (rows × words)
 * @param {Float32Array} q
 * @param {number} words
 * @returns {number[]}
 */
export function divergences(p, q, words) {
  const result = [];
  for (let row = 0; row < p.length; row += words) {
    let sum = 0;
    for (let i = row; i < row + words; i += 1) sum += Math.exp(p[i]) * (p[i] - q[i]);
    result.push(Math.max(sum, 0)); // it is; rounding may say otherwise
  }
  return result;
}

/** Mean of numbers. @param {number[]} values */
export const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

/**
 * The likeliest tokens of the last row, likeliest first; of equals the one with the smaller id.
 * @param {Float32Array} logs (rows × words)
 * @param {number} words
 * @param {number} count
 * @returns {Likely[]}
 */
export function likeliest(logs, words, count) {
  const last = logs.subarray(logs.length - words);
  const order = Array.from(last.keys()).sort((a, b) => last[b] - last[a] || a - b);
  return order.slice(0, count).map((token) => ({ token, probability: Math.exp(last[token]) }));
}

/** The likeliest token of the last row. @param {Float32Array} logits @param {number} words */
export function greatest(logits, words) {
  let best = logits.length - words;
  for (let i = best + 1; i < logits.length; i += 1) if (logits[i] > logits[best]) best = i;
  return best % words;
}

/**
 * Goes on with a text, each time with the likeliest token, one token a step.
 * @param {Llama} model
 * @param {Past} past of the text
 * @param {number} first token
 * @param {number} count of tokens
 * @param {number} end token after which a text ends
 */
export function* writing(model, past, first, count, end) {
  const { words } = model.sizes;
  let token = first;
  for (let i = 0; i < count; i += 1) {
    yield token;
    if (token === end || i === count - 1) return;
    token = greatest(model.read([token], past), words);
  }
}

/**
 * The first place at which two texts differ; null for equal ones.
 * @param {number[]} one
 * @param {number[]} other
 */
export function parting(one, other) {
  const place = one.findIndex((token, i) => token !== other[i]);
  if (place >= 0) return place;
  return one.length < other.length ? one.length : null;
}
