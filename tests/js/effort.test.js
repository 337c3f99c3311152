import assert from "node:assert/strict";
import { test } from "node:test";
import { MEASURED_EFFORTS, METHODS } from "../../assets/js/base/recipe_contract.js";
import {
  effortOf,
  effortsOf,
  keptEffort,
  measuredFor,
  takenUp,
  withEffort,
} from "../../assets/js/calibrate/effort_choice.js";
import { suggestedFor } from "../../assets/js/calibrate/suggestions.js";

const PLAIN = { model: "m", bits: 2, method: "sarqc-gbs", samples: 8, held_out_samples: 0 };
const balanced = { range: "search", order: "activation", refine: 1, refit: 0, distill: 0, distill_codes: false };

test("the effort that a form holds", () => {
  const efforts = effortsOf(PLAIN);
  assert.deepEqual(Object.keys(efforts), ["quick", "balanced", "best"]);
  assert.equal(effortOf(PLAIN, efforts), null); // min–max is one's own choice
  for (const [name, fitting] of Object.entries(efforts)) {
    assert.equal(effortOf({ ...PLAIN, ...fitting }, efforts), name);
    assert.equal(effortOf({ ...PLAIN, ...fitting, refine: 9 }, efforts), null);
  }
  assert.equal(effortOf({ ...PLAIN, range: "search" }, efforts), "quick"); // fields at their defaults may be left out
});

test("a model that is not distilled has a best effort without distillation", () => {
  const plans = { best: { minutes: 1, fitting: { ...METHODS["sarqc-gbs"].efforts.best, distill: 0 } } };
  const efforts = effortsOf(PLAIN, plans);
  assert.equal(efforts.best.distill, 0);
  assert.equal(efforts.best.distill_codes, false);
  assert.equal(effortOf({ ...PLAIN, ...efforts.best }, efforts), "best");
});

test("a mixture has a best effort block by block, and other efforts take that back", () => {
  const plans = {
    best: { minutes: 1, fitting: { ...METHODS["sarqc-gbs"].efforts.best, distill_by: "block" } },
    balanced: { minutes: 1, fitting: balanced },
  };
  const efforts = effortsOf(PLAIN, plans);
  assert.equal(efforts.best.distill_by, "block");
  const taken = { ...PLAIN, ...takenUp(PLAIN, efforts.best) };
  assert.equal(taken.distill_by, "block");
  assert.equal(effortOf(taken, efforts), "best");
  assert.equal("distill_by" in withEffort(taken, "best"), false);
  assert.equal(takenUp(taken, efforts.balanced).distill_by, "model");
  assert.equal(effortOf({ ...taken, ...takenUp(taken, efforts.balanced) }, efforts), "balanced");
});

test("efforts are offered where they differ", () => {
  for (const method of ["omniquant", "signround", "no-such"]) assert.deepEqual(effortsOf({ ...PLAIN, method }), {});
  const repair = effortsOf({ ...PLAIN, method: "gptq", quantized_checkpoint: "q" });
  assert.deepEqual(repair, {
    quick: { order: "natural", refine: 0 },
    balanced: { order: "activation", refine: 1 },
    best: { order: "activation", refine: 3 },
  });
  assert.deepEqual(effortsOf({ ...PLAIN, method: "as-found", quantized_checkpoint: "q" }), {});
  assert.deepEqual(effortsOf({ ...PLAIN, method: "awq" }).best, { range: "joint", refine: 3, refit: 3 });
});

test("a recipe leaves its own fitting to an effort that is asked for", () => {
  const { held_out_samples: none, ...kept } = PLAIN;
  assert.equal(none, 0);
  const asked = withEffort({ ...PLAIN, ...balanced, lambda: 0.1 }, "best");
  assert.deepEqual(asked, { ...kept, lambda: 0.1, effort: "best" });
  assert.equal(withEffort({ ...PLAIN, held_out_samples: 2 }, "quick").held_out_samples, 2);
});

test("distillation comes with held-out sequences", () => {
  const best = METHODS["sarqc-gbs"].efforts.best;
  assert.equal(takenUp({ ...PLAIN, samples: 9 }, best).held_out_samples, 4);
  assert.equal(takenUp({ ...PLAIN, samples: 1 }, best).held_out_samples, 1);
  assert.deepEqual(takenUp({ ...PLAIN, held_out_samples: 2 }, best), best);
  assert.deepEqual(takenUp(PLAIN, balanced), balanced);
});

test("another method keeps the effort", () => {
  const held = { ...PLAIN, ...balanced };
  assert.deepEqual(keptEffort(held, "rtn"), { ...balanced, order: "natural" });
  assert.equal(keptEffort(held, "signround").order, "natural"); // which it would refuse
  assert.deepEqual(keptEffort({ ...held, refine: 2 }, "rtn"), {});
});

test("gains are those of the default method at a number of bits that was measured", () => {
  const lowest = Math.min(...MEASURED_EFFORTS.map(({ bits }) => bits));
  assert.ok(measuredFor({ ...PLAIN, bits: lowest }).every(({ bits }) => bits === lowest));
  const highest = Math.max(...MEASURED_EFFORTS.map(({ bits }) => bits));
  assert.ok(measuredFor({ ...PLAIN, bits: 4 }).every(({ bits }) => bits === highest));
  assert.deepEqual(measuredFor({ ...PLAIN, method: "rtn" }), []);
});

test("new runs are balanced, by their method", () => {
  assert.deepEqual(suggestedFor("m", []), { ...balanced, model: "m" });
  assert.equal(suggestedFor("m", [], "rtn").order, "natural");
  const models = [{ name: "m", suggested: { refine: 2, bits: 2 } }];
  assert.deepEqual(suggestedFor("m", models), { ...balanced, refine: 2, bits: 2, model: "m" });
});
