/** Sentences of a run's summary are those that Python stores beside their numbers. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { expertsWords, writtenWords } from "../../assets/js/calibrate/said_words.js";
import { storedWords } from "../../assets/js/calibrate/stored_words.js";

test("how many experts saw few tokens", () => {
  const words = (none, few) =>
    expertsWords({
      experts: 1200,
      no_tokens: none,
      fewer_tokens_than_channels: few,
      channels: 768,
      tokens: 4096,
      words: "",
    });
  assert.equal(
    words(0, 0),
    "Each of 1,200 experts saw at least as many of 4,096 calibration tokens as the 768 channels it reads.",
  );
  assert.equal(words(2, 0), "Of 1,200 experts, 2 saw none of 4,096 calibration tokens.");
  assert.equal(
    words(0, 1),
    "Of 1,200 experts, 1 saw fewer of 4,096 calibration tokens than the 768 channels it reads.",
  );
  assert.equal(
    words(1, 3),
    "Of 1,200 experts, 1 saw none of 4,096 calibration tokens and 3 saw fewer than the 768 channels they read.",
  );
});

test("what files were when they were read again", () => {
  const same = "Every tensor of these files reads as that of the measured model";
  const other = "2 tensors read otherwise than those of the measured model, a among them";
  const cases = [
    [[], 0, null, `${same}. Tokens were not compared: the blocks of this model are read one by one.`],
    [[], 64, null, `${same}, and continues the calibration text by the same 64 greedy tokens.`],
    [[], 64, 4, `${same}. Of 64 greedy tokens after the calibration text, number 5 is the first other.`],
    [["a", "b"], 0, null, `${other}. Tokens were not compared: the blocks of this model are read one by one.`],
    [["a", "b"], 64, null, `${other}, and continues the calibration text by the same 64 greedy tokens.`],
    [["a", "b"], 64, 0, `${other}. Of 64 greedy tokens after the calibration text, number 1 is the first other.`],
  ];
  for (const [others, tokens, partsAt, words] of cases)
    assert.equal(writtenWords({ other_tensors: others, tokens, parts_at: partsAt, words: "" }), words);
});

test("what an end of the candidates means stays as it is in English", () => {
  for (const edge of [
    "λ = 0.01 is the smallest of the candidates: a smaller one may be better still.",
    "λ = 0.5 is the largest of the candidates: a larger one may be better still.",
    "Of 42 layers, 3 took the smallest λ tried (0.01): a smaller one may suit them better.",
    "Of 42 layers, 7 took the largest λ tried (0.5): a larger one may suit them better.",
    "Of 42 layers, 3 took the smallest λ tried (0.01) and 7 took the largest λ tried (0.5): a smaller or larger one may suit them better.",
  ])
    assert.equal(storedWords(edge), edge);
});
