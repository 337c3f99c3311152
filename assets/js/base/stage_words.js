/**
 * What a run says of its stages, in the page's language, see stored.js.
 * @module stage_words
 */

import { count } from "./format.js";
import { stored, wordsOf } from "./stored.js";

const STAGES = [
  stored("loading"),
  stored("downloading"),
  stored("unpacking"),
  stored("checking the device"),
  stored("trying the largest layer"),
  stored("checking the rotation"),
  stored("measuring the float model"),
  stored("measuring the checkpoint as it was found"),
  stored("quantizing"),
  stored("choosing λ"),
  stored("distilling scales"),
  stored("measuring the quantized model"),
  stored("measuring speed"),
  stored("comparing with the original weights"),
  stored("comparing with {method}"),
  stored("comparing layers"),
  stored("comparing models"),
  stored("asking tasks"),
  stored("measuring steps"),
  stored("saving"),
];

const DETAILS = [
  stored("study"),
  stored("checkpoint"),
  stored("statistics"),
  stored("reading it again"),
  stored("quantizing"),
  stored("perplexity"),
  stored("its layers"),
  stored("its predictions"),
  stored("its predictions on the calibration text"),
  stored("text side by side"),
  stored("logits beside the original's"),
  stored("three solvers, beside the CPU's; once for each card and driver"),
  stored("every λ and γ on unseen text, from the statistics of one draw"),
  stored("{method}, {bits} bits"),
  stored("draw {number} of at most {draws}"),
  stored("draw {number} of {draws}"),
  stored("block by block, at most {epochs} epochs"),
  stored("at most {epochs} epochs"),
  stored("{candidates} candidates, judged on {judging} of {samples} sequences"),
  stored("{tasks}: draw {number} of {draws}, {models} models"),
  stored("{block} and {layer}, on random numbers"),
];

const ADVANCED = [
  stored("{done} of {total} windows of the test text"),
  stored("{done} of {total} linears"),
  stored("{done} of {total} answers of {task}"),
  stored("{done} of {total} steps of epoch {epoch} of block {block}"),
  stored("{done} of {total} steps of epoch {epoch}"),
  stored("{done} of {total} {what}"),
];

/** The name of a stage in words. @param {string} name */
export const stageWords = (name) => wordsOf(name, STAGES);

/** What is done in a stage, or what was saved, in words. @param {string} detail */
export const detailWords = (detail) => wordsOf(detail, DETAILS);

/**
 * A stage with its detail, where it has one: “quantizing: GPTQ, 3 bits”.
 * @param {string} name
 * @param {string} detail
 */
export const stageAndDetail = (name, detail) =>
  detail ? `${stageWords(name)}: ${detailWords(detail)}` : stageWords(name);

/**
 * How far a stage is.
 * @param {{done: number, total: number, what: string}} advanced
 */
export const advancedWords = ({ done, total, what }) =>
  wordsOf(`${done} of ${total} ${what}`, ADVANCED, { done: count(done), total: count(total) });
