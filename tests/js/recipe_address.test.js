/** A recipe in an address and out of it, and the Lab's point as a recipe. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { parse } from "../../assets/js/base/address.js";
import { calibrateLink, calibrateView, recipeIn } from "../../assets/js/base/recipe_address.js";
import { RECIPE_FIELDS } from "../../assets/js/base/recipe_contract.js";
import { recipeOf, valuesOf } from "../../assets/js/calibrate/recipe_form.js";
import { recipeAt } from "../../assets/js/lab/use_card.js";

const NAMES = Object.keys(RECIPE_FIELDS);
const read = (search, names = NAMES) => parse(search, calibrateView(names));
const back = (recipe) => {
  const { state, problems } = read(calibrateLink(recipe).replace("/calibrate", ""));
  assert.deepEqual(problems, []);
  return recipeOf(NAMES, valuesOf(NAMES, recipeIn(state, NAMES)));
};

test("a recipe fills the form through the address", () => {
  const recipe = {
    model: "org/model & more",
    bits: 2,
    group_size: "per_channel",
    method: "sarqc-gbs",
    lambda: 0,
    gamma: "auto",
    calibration: "it's one",
    baseline: false,
    tasks: ["a", "b"],
    prompts: ["Once, upon", "= 1 + 1"],
    block_fraction: 0.5,
  };
  const filled = back(recipe);
  for (const [name, value] of Object.entries(recipe)) assert.deepEqual(filled[name], value, name);
  assert.deepEqual(back({ model: "m", lambda: [0, 0.1] }).lambda, [0, 0.1]);
  assert.equal(filled.seed, RECIPE_FIELDS.seed.default); // what is not said has its own default
});

test("what is not a value is told, and what the form does not have", () => {
  const { state, problems } = read("?bits=two&baseline=perhaps&samples=1.5&lambda=x", ["bits", "baseline", "lam"]);
  assert.deepEqual(recipeIn(state, ["bits", "baseline", "lam"]), { lambda: "x" }); // the plan refuses it in its words
  assert.deepEqual(problems, [
    "“bits=two” is ignored: bits must be a whole number.",
    "“baseline=perhaps” is ignored: baseline must be true or false.",
    "“samples” is ignored: unknown parameter.",
  ]);
  assert.equal(recipeIn(read("?run=abc").state, NAMES), null);
});

test("former names of fields are read, with a word on the new ones", () => {
  const { state, problems } = read("?opened=there&share=0.5");
  assert.deepEqual(recipeIn(state, NAMES), { quantized_checkpoint: "there", block_fraction: 0.5 });
  assert.deepEqual(problems, [
    "“opened” is now “quantized_checkpoint”; the former name is accepted until version 1.1.",
    "“share” is now “block_fraction”; the former name is accepted until version 1.1.",
  ]);
});

test("a method may be given by the name that says what it is", () => {
  for (const search of ["?method=gptq+saliency", "?method=gptq%2Bsaliency", "?method=sarqc-gbs"])
    assert.deepEqual(recipeIn(read(search).state, NAMES), { method: "sarqc-gbs" });
  assert.deepEqual(recipeIn(read("?method=gptq+more").state, NAMES), { method: "gptq more" }); // refused in its words
});

test("the shown point is the run's", () => {
  const recipe = { model: "toy", calibration: "a" };
  const view = (lams, gammas) => ({ as_recipe: { recipe, lams, gammas, second: "gamma", left: [] } });
  assert.deepEqual(recipeAt(view([0, 0.1], [0.5]), { lambda: 0, gamma: 0 }), { ...recipe, lambda: 0, gamma: 0.5 });
  assert.deepEqual(recipeAt(view([], []), { lambda: 0, gamma: 0 }), recipe); // no λ, or that of “auto”
  const over = { as_recipe: { ...view([0.1], [0, 0.2]).as_recipe, second: "first_order" } };
  assert.deepEqual(recipeAt(over, { lambda: 0, gamma: 1 }), { ...recipe, lambda: 0.1, first_order: 0.2 });
  assert.deepEqual(recipeAt(view([0.1], [null]), { lambda: 0, gamma: 0 }), { ...recipe, lambda: 0.1 });
  const none = { as_recipe: { ...view([], []).as_recipe, recipe: null, left: ["why"] } };
  assert.equal(recipeAt(none, { lambda: 0, gamma: 0 }), null);
});
