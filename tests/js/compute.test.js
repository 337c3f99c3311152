import assert from "node:assert/strict";
import { test } from "node:test";

import { LAMS, recipeFor } from "../../assets/js/lab/preview_recipe.js";

const own = {
  model: "tiny-llama",
  calibration: "its-own",
  samples: 8,
  length: 256,
  sampling: "random",
  held_out_samples: 32,
  test: "its-test",
  tasks: ["its-task"],
  bits: 3,
};
const view = {
  study: { model: { name: "tiny-llama" }, recipe: null },
  as_recipe: { recipe: own },
  line: { method: "sarqc-gbs", bits: 2, grid: "asymmetric", group_size: 128, has_lam: true },
  layer: 1,
  layers: [
    { index: 0, name: "model.layers.0.self_attn.q_proj" },
    { index: 1, name: "model.layers.0.mlp.down_proj" },
  ],
  lams: [0, 0.1, 1],
  gammas: [0.1, 0.5],
  second: { name: "gamma", sign: "γ" },
};
const method = { unit: "layer", tunes: ["lam", "gamma"] };
const at = { gamma: 1, lambda: 2 };

test("the shown line's layer, on the study's calibration, with nothing measured of the model", () => {
  const { test: _, tasks: __, ...calibrated } = own;
  assert.deepEqual(recipeFor(view, at, method), {
    ...calibrated,
    ...{ method: "sarqc-gbs", bits: 2, grid: "asymmetric", group_size: 128, lambda: 1, gamma: 0.5 },
    inputs_from: "float",
    sweep: LAMS.filter((lam) => lam <= 1),
    layer: "model.layers.0.mlp.down_proj",
  });
});

test("the λ rise from 0, and are those of the line and more between its ends", () => {
  assert.ok(LAMS[0] === 0 && LAMS.every((lam, at) => at === 0 || lam > LAMS[at - 1]));
  const { sweep } = recipeFor({ ...view, lams: [0.03, 0.04, 0.12] }, { gamma: 0, lambda: 1 }, method);
  assert.deepEqual(sweep, [0.03, 0.04, 0.05, 0.1, 0.12]);
});

test("unseen text is judged on some sequences, also where the study asked for none", () => {
  const made = recipeFor({ ...view, as_recipe: { recipe: { ...own, held_out_samples: 0, seed: 7 } } }, at, method);
  assert.deepEqual([made.held_out_samples, made.seed, made.test], [8, 7, undefined]);
});

test("whole rows, and a method without γ", () => {
  const line = { ...view.line, group_size: null, method: "rqc-gbs" };
  const made = recipeFor({ ...view, line, gammas: [null] }, { gamma: 0, lambda: 0 }, { unit: "layer", tunes: ["lam"] });
  assert.equal(made.group_size, "per_channel");
  assert.equal("gamma" in made, false);
  assert.equal(made.lambda, 0);
});

test("β of a line over it goes along, and a line over α has no preview", () => {
  const over = { ...view, second: { name: "first_order", sign: "β" } };
  const made = recipeFor(over, at, { unit: "layer", tunes: ["lam"] });
  assert.deepEqual([made.first_order, made.gamma], [0.5, undefined]);
  assert.equal(recipeFor({ ...over, second: { name: "shift_strength", sign: "α" } }, at, method), null);
});

test("nothing is offered where nothing can be computed", () => {
  assert.equal(recipeFor({ ...view, layer: null }, at, method), null);
  assert.equal(recipeFor({ ...view, line: { ...view.line, has_lam: false } }, at, method), null);
  assert.equal(recipeFor({ ...view, as_recipe: { recipe: null } }, at, method), null);
  assert.equal(recipeFor(view, at, { unit: "block", tunes: ["lam"] }), null);
  assert.equal(recipeFor(view, at, undefined), null);
});
