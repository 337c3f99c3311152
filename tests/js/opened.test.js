/** A checkpoint that others quantized, in the form and in words. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { AS_FOUND, METHODS, REPAIRING } from "../../assets/js/base/recipe_contract.js";
import { openedTitle, toOpen } from "../../assets/js/calibrate/opened_note.js";
import { describe, idleFields, methodTitle, recipeOf } from "../../assets/js/calibrate/recipe_form.js";
import { whyNotTuned } from "../../assets/js/calibrate/tune_form.js";
import { each } from "./given.js";

const names = ["model", "quantized_checkpoint", "bits", "group_size", "method", "lam", "samples"];

test("what a checkpoint has itself is not asked for", () => {
  const form = ["tiny-llama", "by-others", 3, "128", "as-found", "0.1", 8];
  const said = recipeOf(names, form);
  assert.deepEqual(said, { model: "tiny-llama", quantized_checkpoint: "by-others", method: "as-found", samples: 8 });
  const original = recipeOf(names, form.with(1, "").with(4, "rqc-gbs"));
  assert.deepEqual([original.bits, original.group_size, original.lambda], [3, 128, 0.1]);
});

test("a repair has a λ, and keeps sequences to judge what it found", () => {
  const idle = idleFields({ quantized_checkpoint: "by-others", method: "sarqc-gbs", lambda: 0.1 });
  assert.ok(!idle.includes("lam") && !idle.includes("validation_share"));
  assert.ok(idleFields({ method: "sarqc-gbs", lambda: 0.1 }).includes("validation_share"));
  for (const name of REPAIRING) assert.ok(METHODS[name], name);
});

test("all that can be opened is offered, or what is of one model; an export goes by its folder", () => {
  const exported = `${"0".repeat(26)}/tiny-llama-2bit-gptq-packed`;
  const models = [
    { name: "tiny-llama", opened: ["by-others", exported] },
    { name: "bare", opened: [] },
    { name: "my/model", opened: ["my-awq"] },
  ];
  assert.deepEqual(each(toOpen(models), "model"), ["tiny-llama", "tiny-llama", "my/model"]);
  assert.deepEqual(each(toOpen(models), "name"), ["by-others", exported, "my-awq"]);
  assert.deepEqual(toOpen(models, "bare"), []);
  assert.deepEqual(["by-others", "org/by-others"].map(openedTitle), ["by-others", "org/by-others"]);
  assert.equal(openedTitle(exported), "tiny-llama-2bit-gptq-packed, exported here");
});

test("a run says whose checkpoint it measured or repaired", () => {
  const recipe = { model: "tiny-llama", quantized_checkpoint: "a/by-others", bits: 3, method: AS_FOUND.name };
  assert.equal(describe(recipe), "by-others, 3 bits, As found");
  assert.equal(
    describe({ ...recipe, method: "rqc-gbs", lambda: 0.1 }),
    `by-others repaired, 3 bits, ${methodTitle("rqc-gbs")}, λ = 0.1`,
  );
});

test("tuning is for originals", () => {
  assert.match(whyNotTuned("sarqc-gbs", "by-others"), /original/);
  assert.equal(whyNotTuned("sarqc-gbs", ""), "");
});
