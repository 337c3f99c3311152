/**
 * Texts as tokens and back, as the model's own `tokenizer.json` says.
 * @module model/vocabulary
 */

/**
 * @license Tokenizers.js, Copyright Hugging Face, under the Apache License, Version 2.0 (SPDX: Apache-2.0)
 */
import { Tokenizer } from "../../vendor/tokenizers/tokenizers.js";

/** @typedef {{tokens: (text: string) => number[], text: (tokens: number[]) => string}} Vocabulary */

/**
 * @param {object} document content of `tokenizer.json`
 * @returns {Vocabulary}
 */
export function vocabularyOf(document) {
  let tokenizer;
  try {
    tokenizer = new Tokenizer(document, { clean_up_tokenization_spaces: false });
  } catch (error) {
    throw new TypeError(`tokenizer.json: ${error instanceof Error ? error.message : error}`); // of a file that is damaged
  }
  return {
    tokens: (text) => tokenizer.encode(text).ids,
    text: (tokens) => (tokens.length ? tokenizer.decode(tokens, { clean_up_tokenization_spaces: false }) : ""),
  };
}
