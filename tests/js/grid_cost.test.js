/** What a weight costs on the chosen grid in full, and who loads its codes: composed of the plan alone. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { gridCost } from "../../assets/js/calibrate/grid_switch.js";
import { describe } from "../../assets/js/calibrate/recipe_form.js";

const reader = (name, loads) => ({ reader: name, loads, version: "1", words: "" });
const format = (name, possible, ...readers) => ({ format: name, possible, readers, note: "", fixes: [], tried: "" });
const plain = format("plain", true, reader("everyone", "yes"));

test("bits in full, and who loads the codes as what", () => {
  const said = { grid: "affine", group_size: 128 };
  const mlx = format("mlx", true, reader("transformers", "no"), reader("mlx-lm", "yes"));
  const gptq = format("gptq", false);
  assert.equal(
    gridCost(said, { bits_per_weight: 2.25, formats: [plain, gptq, mlx] }),
    "affine, groups of 128: 2.25 bits per weight, loaded as mlx by mlx-lm",
  );
  const packed = format("packed", true, reader("one", "yes"), reader("two", "yes"), reader("three", "parts"));
  assert.equal(
    gridCost({ grid: "full_range", group_size: "per_channel" }, { bits_per_weight: 2.02, formats: [packed, mlx] }),
    "full range, one scale per channel: 2.02 bits per weight, loaded as packed by one, two; as mlx by mlx-lm",
  );
});

test("a grid without a reader says so, and an absent one says nothing", () => {
  const said = { grid: "asymmetric", group_size: 64 };
  const untried = format("gptq", true, reader("one", "not_run"));
  const cost = "asymmetric, groups of 64: 3.30 bits per weight";
  const of = (...formats) => gridCost(said, { bits_per_weight: 3.296875, formats });
  assert.equal(of(plain, untried), `${cost}, loaded by no reader that was tried`);
  assert.equal(of(plain, format("gptq", false)), `${cost}; no format holds its codes`);
  assert.equal(of(), cost); // without a model
  assert.equal(gridCost(said, { bits_per_weight: null, formats: [plain] }), ""); // several grids
  assert.equal(gridCost({ ...said, quantized_checkpoint: "x" }, { bits_per_weight: 4, formats: [] }), "");
  assert.match(gridCost({}, { bits_per_weight: 2.14, formats: [] }), /^asymmetric, groups of 128: /);
});

test("a run names its grid where it is not the form’s own", () => {
  const recipe = { model: "a/tiny", bits: 2, method: "gptq" };
  assert.equal(describe({ ...recipe, grid: "asymmetric" }), describe(recipe));
  assert.match(describe({ ...recipe, grid: "affine" }), /^tiny, 2 bits affine, /);
  assert.match(describe({ ...recipe, grid: "full_range" }), /, 2 bits full range, /);
});
