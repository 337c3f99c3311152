/** What the numbers of a finished run suggest to try next. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { guessing, isRuined, nextStep } from "../../assets/js/calibrate/next_step.js";
import { plain } from "./given.js";

const RECIPE = {
  model: "toy",
  bits: 2,
  method: "sarqc-gbs",
  grid: "symmetric",
  group_size: 128,
  range: "minmax",
  order: "natural",
  refine: 0,
};
const MEASURED = {
  perplexity: 137,
  perplexity_float: 61,
  vocabulary: 512,
};
const BETTER = { verdict: "better", change: -0.166 };
const words = (summary, recipe, evidence) => plain(nextStep(summary, recipe, evidence).words);

test("what costs far more than λ gives is named, with what to try instead", () => {
  const next = nextStep(MEASURED, RECIPE);
  assert.equal(
    words(MEASURED, RECIPE, BETTER),
    "2 bits symmetric costs 125 % more perplexity than the float model has, far more than the 16.6 % that λ gives: try the asymmetric grid.",
  );
  assert.deepEqual(next.recipe, { ...RECIPE, grid: "asymmetric" });
});

test("the grid comes first, then its fit, groups, and bits", () => {
  const fields = (recipe) => {
    const { recipe: next } = nextStep(MEASURED, recipe);
    return Object.fromEntries(Object.entries(next).filter(([name, value]) => recipe[name] !== value));
  };
  const plain = { ...RECIPE, grid: "asymmetric" };
  assert.deepEqual(fields(plain), { range: "search", order: "activation", refine: 1 });
  const fitted = { ...plain, range: "search", refine: 3, group_size: "per_channel" };
  assert.deepEqual(fields(fitted), { group_size: 128 });
  assert.deepEqual(fields({ ...fitted, group_size: 64 }), { bits: 3 });
  assert.equal(nextStep(MEASURED, { ...fitted, group_size: 64, bits: 4 }), null);
  assert.deepEqual(fields({ ...plain, method: "rtn" }), { range: "search", refine: 1 });
  assert.deepEqual(fields({ ...plain, method: "signround" }), { range: "search" });
});

test("nothing is proposed where little is lost, where λ gives as much, or where nothing was measured", () => {
  assert.equal(nextStep({ ...MEASURED, perplexity: 63 }, RECIPE), null);
  assert.equal(nextStep({ ...MEASURED, perplexity: 80 }, RECIPE, { verdict: "better", change: -0.2 }), null);
  assert.equal(nextStep({ ...MEASURED, perplexity: null }, RECIPE), null);
  assert.equal(nextStep(MEASURED, { ...RECIPE, quantized_checkpoint: "theirs" }), null);
  for (const verdict of ["unknown", "equal", "worse"])
    assert.match(words(MEASURED, RECIPE, { verdict, change: -0.75 }), /float model has: try/); // no gain is claimed
  assert.match(words(MEASURED, RECIPE, null), /float model has: try the asymmetric grid\.$/);
});

test("a model that guesses is told so, and nothing is proposed for it", () => {
  const untrained = { ...MEASURED, perplexity: 521, perplexity_float: 520, vocabulary: 512 };
  const { words, recipe } = nextStep(untrained, RECIPE);
  assert.match(words, /^This model predicts no better than guessing: perplexity 520\.0 of a vocabulary of 512\./);
  assert.deepEqual([words, recipe], [guessing(untrained), null]);
  assert.equal(guessing(MEASURED), "");
  assert.equal(guessing({ perplexity_float: 520 }), ""); // a run from before
});

test("a gain above a ruined perplexity is none to be glad of", () => {
  assert.equal(isRuined(MEASURED), true);
  assert.equal(isRuined({ ...MEASURED, perplexity: 90 }), false);
  assert.equal(isRuined({ perplexity: 90 }), false);
});
