/** Tokens of texts as the browser makes them, and the texts of these tokens, for a test. */
import { readFileSync } from "node:fs";
import { vocabularyOf } from "../../assets/js/model/vocabulary.js";

const [tokenizer, texts] = process.argv.slice(2).map((path) => JSON.parse(readFileSync(path, "utf8")));
const vocabulary = vocabularyOf(tokenizer);
const answers = texts.map((/** @type {string} */ text) => {
  const tokens = vocabulary.tokens(text);
  return [tokens, vocabulary.text(tokens)];
});
process.stdout.write(JSON.stringify(answers));
