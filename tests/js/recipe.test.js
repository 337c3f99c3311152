/** Form ↔ recipe, and the texts that can be copied. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { asCommand, asPython, asRequest, asYaml, chosenOnly, describe, recipeOf, shortModel, valuesOf } from "../../assets/js/recipe.js";

const FIELDS = [
  ["model", "model", "text"],
  ["bits", "bits", "whole"],
  ["method", "method", "text"],
  ["lam", "lambda", "number"],
  ["gamma", "gamma", "number"],
  ["group_size", "group_size", "whole"],
  ["tasks", "tasks", "list"],
  ["static_groups", "static_groups", "truth"],
];
const TUNES = { "sarqc-gbs": ["lam", "gamma"], "rqc-gbs": ["lam"], rtn: [] };

test("empty fields are left out and lists are split", () => {
  const values = ["toy", 2, "sarqc-gbs", 0.1, null, "128", "a, b,", false];
  assert.deepEqual(recipeOf(FIELDS, values, TUNES), {
    model: "toy",
    bits: 2,
    method: "sarqc-gbs",
    lambda: 0.1,
    group_size: 128,
    tasks: ["a", "b"],
    static_groups: false,
  });
});

test("what the method does not tune is not asked for", () => {
  const recipe = recipeOf(FIELDS, ["toy", 2, "rtn", 0.1, 0.5, "per_channel", "", true], TUNES);
  assert.equal("lambda" in recipe, false);
  assert.equal("gamma" in recipe, false);
  assert.equal(recipe.group_size, "per_channel");
});

test("a number that is none is passed on, so that the refusal names it", () => {
  assert.equal(recipeOf(FIELDS, ["toy", 2, "rtn", null, null, "many", "", false], TUNES).group_size, "many");
});

test("a recipe fills the form and comes back", () => {
  const recipe = { model: "toy", bits: 2, method: "sarqc-gbs", lambda: 0.1, gamma: 0.5, group_size: 64, tasks: ["a"], static_groups: true };
  assert.deepEqual(recipeOf(FIELDS, valuesOf(FIELDS, recipe, {}), TUNES), recipe);
  assert.equal(valuesOf(FIELDS, { group_size: null }, {})[5], "per_channel");
});

test("fields at their defaults are not copied", () => {
  assert.deepEqual(chosenOnly({ bits: 3, seed: 0, window: null, tasks: [] }, { bits: 3, seed: 1, tasks: [] }), { seed: 0 });
});

test("texts to take elsewhere", () => {
  const recipe = { model: "org/toy", bits: 2, lambda: 0.1, tasks: ["a", "b"], static_groups: true, calibration: "it's here.txt" };
  assert.equal(asYaml(recipe), 'model: org/toy\nbits: 2\nlambda: 0.1\ntasks: [a, b]\nstatic_groups: true\ncalibration: "it\'s here.txt"\n');
  const command = asCommand(recipe);
  assert.match(command, /^python -m sarqc quantize \\\n {2}--model org\/toy/);
  assert.match(command, /--tasks a,b/);
  assert.match(command, /--static-groups/);
  assert.ok(command.includes(`--calibration 'it'\\''s here.txt'`));
  assert.match(asRequest({ bits: 2 }, "http://h"), /^curl -X POST http:\/\/h\/api\/runs/);
  assert.match(asPython(recipe), /"static_groups": True,/);
});

test("one line for a run", () => {
  assert.equal(describe({ model: "a/b/toy", bits: 2, method: "rqc-gbs", lambda: 0, gamma: null }), "toy, 2 bits, rqc-gbs, λ = 0");
  assert.equal(shortModel("/models/toy/"), "toy");
});
