/**
 * Sentences that a run has left in English, in the page's language, see base/stored.js.
 * @module calibrate/stored_words
 */

import { stored, wordsOf } from "../base/stored.js";

// The narrower of two that fit comes first.
const STORED = [
  // The end of the candidates of λ.
  stored("λ = {lam} is the smallest of the candidates: a smaller one may be better still."),
  stored("λ = {lam} is the largest of the candidates: a larger one may be better still."),
  stored(
    "Of {layers} layers, {small} took the smallest λ tried ({least}) and {large} took the largest λ tried ({most}): a smaller or larger one may suit them better.",
  ),
  stored("Of {layers} layers, {small} took the smallest λ tried ({least}): a smaller one may suit them better."),
  stored("Of {layers} layers, {large} took the largest λ tried ({most}): a larger one may suit them better."),
  // The comparison with GPTQ.
  stored("Not compared with {title}: {reason}."),
  stored("The same perplexity as {title} at the same grid."),
  stored("{share} % lower perplexity than {title} at the same grid; one window says nothing about chance."),
  stored("{share} % higher perplexity than {title} at the same grid; one window says nothing about chance."),
  stored("{share} % lower perplexity than {title} at the same grid, from {low} to {high} %."),
  stored("{share} % higher perplexity than {title} at the same grid, from {low} to {high} %."),
  stored(
    "No significant difference from the perplexity of {title} at the same grid ({share} %, from {low} to {high} %).",
  ),
  stored("no test text"),
  stored("a single layer is quantized"),
  stored("its groups are not contiguous, and no grid here is like its own"),
  stored("it is that itself"),
  stored(
    "the cached predictions of the float model are gone, so the quantized ones could not be compared with them: run it again, with more SARQC_CACHE_GIB",
  ),
  stored("it failed, {error}"),
  // A repair.
  stored("What the repair is worth was not measured, since there is no test text."),
  stored("What the repair is worth was not measured: {reason}."),
  stored("KL went from {before} to {after} nats a token on a single window, which says nothing about chance."),
  stored("The repair lowers KL from the original by {change}, from {before} to {after} nats a token."),
  stored(
    "No gain: the repair raises KL from the original by {change}, from {before} to {after} nats a token. Keep the file as it is.",
  ),
  stored(
    "No gain: KL from the original went from {before} to {after} nats a token, not a significant change: {change}.",
  ),
  stored("{value} ({low} to {high})"),
  stored(
    "{other} of {layers} layers have other codes; the codes found are better for {kept}, on sequences kept for judging, and stay; {worse} have a larger error on held-out text than with the codes found.",
  ),
  stored(
    "{other} of {layers} layers have other codes; the codes found are better for {kept}, on sequences kept for judging, and stay.",
  ),
  stored(
    "{other} of {layers} layers have other codes; {worse} have a larger error on held-out text than with the codes found.",
  ),
  stored("{other} of {layers} layers have other codes."),
  // Distilled scales.
  stored("Scales and codes stay as they were: no epoch of {epochs} lowered held-out KL from {before}."),
  stored("Scales, codes and {norms} norms stay as they were: no epoch of {epochs} lowered held-out KL from {before}."),
  stored(
    "Scales and codes distilled: held-out KL {before} → {after} in {epoch} of {epochs} epochs, drift {drift_before} → {drift}, {share}% of codes changed. Errors of layers are those before.",
  ),
  stored(
    "Scales, codes and {norms} norms distilled: held-out KL {before} → {after} in {epoch} of {epochs} epochs, drift {drift_before} → {drift}, {share}% of codes changed. Errors of layers are those before.",
  ),
  stored("Scales and codes stay as they were: no epoch lowered the held-out error of any of {blocks} blocks."),
  stored(
    "Scales, codes and {norms} norms stay as they were: no epoch lowered the held-out error of any of {blocks} blocks.",
  ),
  stored(
    "Scales and codes distilled block by block: held-out error of the outputs lower in {better} of {blocks} blocks, by {share}% on the mean. Errors of layers are those before.",
  ),
  stored(
    "Scales, codes and {norms} norms distilled block by block: held-out error of the outputs lower in {better} of {blocks} blocks, by {share}% on the mean. Errors of layers are those before.",
  ),
  stored("Scales and {norms} norms stay as they were: no epoch of {epochs} lowered held-out KL from {before}."),
  stored("Scales stay as they were: no epoch of {epochs} lowered held-out KL from {before}."),
  stored(
    "Scales and {norms} norms distilled: held-out KL {before} → {after} in {epoch} of {epochs} epochs, drift {drift_before} → {drift}. Errors of layers are those before.",
  ),
  stored(
    "Scales distilled: held-out KL {before} → {after} in {epoch} of {epochs} epochs, drift {drift_before} → {drift}. Errors of layers are those before.",
  ),
  stored("Scales and {norms} norms stay as they were: no epoch lowered the held-out error of any of {blocks} blocks."),
  stored("Scales stay as they were: no epoch lowered the held-out error of any of {blocks} blocks."),
  stored(
    "Scales and {norms} norms distilled block by block: held-out error of the outputs lower in {better} of {blocks} blocks, by {share}% on the mean. Errors of layers are those before.",
  ),
  stored(
    "Scales distilled block by block: held-out error of the outputs lower in {better} of {blocks} blocks, by {share}% on the mean. Errors of layers are those before.",
  ),
  // Texts side by side.
  stored("KL(float ‖ quantized) in nats at temperature 1, both models reading the float model's own text"),
  stored(
    "temperature {temperature}, top-p {top_p}; one uniform number a step for both models, inverted through the cumulative probabilities in order of token id",
  ),
];

/** A stored sentence in the page's language. @param {string} sentence in English */
export const storedWords = (sentence) => wordsOf(sentence, STORED);
