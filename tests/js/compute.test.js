import assert from "node:assert/strict";
import { test } from "node:test";

import { LAMS, recipeFor } from "../../assets/js/lab/compute.js";

const view = {
  study: { model: { name: "tiny-llama" }, recipe: null },
  line: { method: "sarqc-gbs", bits: 2, grid: "asymmetric", group_size: 128, has_lam: true },
  layer: 1,
  layers: [
    { index: 0, name: "model.layers.0.self_attn.q_proj" },
    { index: 1, name: "model.layers.0.mlp.down_proj" },
  ],
  lams: [0, 0.1, 1],
  gammas: [0.1, 0.5],
};
const suggested = { calibration: "its-own", samples: 8, length: 256, test: "its-test", tasks: ["its-task"], bits: 3 };
const method = { unit: "layer", tunes: ["lam", "gamma"] };
const at = { gamma: 1, lambda: 2 };

test("the shown line's layer, at many λ, with nothing measured of the model", () => {
  assert.deepEqual(recipeFor(view, at, suggested, method), {
    model: "tiny-llama",
    bits: 2,
    grid: "asymmetric",
    group_size: 128,
    method: "sarqc-gbs",
    lambda: 1,
    gamma: 0.5,
    calibration: "its-own",
    samples: 8,
    length: 256,
    held_out_samples: 8,
    inputs_from: "float",
    sweep: LAMS,
    only: "model.layers.0.mlp.down_proj",
  });
});

test("a run's own recipe goes before what the model suggests", () => {
  const recipe = {
    model: "elsewhere",
    calibration: "mine",
    samples: 3,
    length: 64,
    seed: 7,
    held_out_samples: 20,
    test: "t",
  };
  const made = recipeFor({ ...view, study: { ...view.study, recipe } }, at, suggested, method);
  assert.deepEqual([made.calibration, made.samples, made.seed, made.held_out_samples], ["mine", 3, 7, 20]);
  assert.equal(made.test, undefined);
  assert.equal(made.model, "tiny-llama");
});

test("whole rows, and a method without γ", () => {
  const line = { ...view.line, group_size: null, method: "rqc-gbs" };
  const made = recipeFor({ ...view, line, gammas: [null] }, { gamma: 0, lambda: 0 }, suggested, {
    unit: "layer",
    tunes: ["lam"],
  });
  assert.equal(made.group_size, "per_channel");
  assert.equal("gamma" in made, false);
  assert.equal(made.lambda, 0);
});

test("nothing is offered where nothing can be computed", () => {
  assert.equal(recipeFor({ ...view, layer: null }, at, suggested, method), null);
  assert.equal(recipeFor({ ...view, line: { ...view.line, has_lam: false } }, at, suggested, method), null);
  assert.equal(recipeFor(view, at, undefined, method), null);
  assert.equal(recipeFor(view, at, suggested, { unit: "block", tunes: ["lam"] }), null);
  assert.equal(recipeFor(view, at, suggested, undefined), null);
});

test("λ rise from 0", () => {
  assert.equal(LAMS[0], 0);
  assert.deepEqual(
    LAMS,
    [...new Set(LAMS)].sort((a, b) => a - b),
  );
});
