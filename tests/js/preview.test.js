import assert from "node:assert/strict";
import { test } from "node:test";

import {
  differences,
  initial,
  isOf,
  labelOf,
  lamsOf,
  reduce,
  sentence,
  solved,
  valuesOf,
  words,
} from "../../assets/js/lab/preview.js";

const LAMS = [0, 0.1, 1];
const ONLY = "model.layers.3.mlp.down_proj";
const POINT = { type: "point_done", name: ONLY, total: 3, relative_sar: 0.5, relative_drift: 0.25 };
const point = (index, recon) => ({
  ...POINT,
  index,
  lam: LAMS[index],
  relative_recon: recon,
  relative_held_out: 2 * recon,
});
const LABEL = "block 3 · down_proj";
const after = (...events) => events.reduce(reduce, initial({ sweep: LAMS, layer: ONLY }));

test("the λ of a recipe: those of its sweep and its own, once each and in order", () => {
  assert.deepEqual(lamsOf({ sweep: [1, 0, 0.1], lambda: 0.05 }), [0, 0.05, 0.1, 1]);
  assert.deepEqual(lamsOf({ sweep: [0, 1], lambda: 1 }), [0, 1]);
  assert.deepEqual(lamsOf({ lambda: "auto" }), []);
});

test("points come one after the other", () => {
  const state = after({ type: "stage", name: "quantizing" }, point(0, 0.4), point(1, 0.2));
  assert.equal(solved(state), 2);
  assert.deepEqual(valuesOf(state, "recon"), [0.4, 0.2, null]);
  assert.deepEqual(valuesOf(state, "heldOut"), [0.8, 0.4, null]);
  assert.deepEqual(valuesOf(state, "sar"), [0.5, 0.5, null]);
  assert.equal(words(state), "2 of 3 λ solved");
});

test("a point that is told again is the same point, and no state is changed", () => {
  const first = after(point(0, 0.4), point(1, 0.2));
  assert.deepEqual([point(0, 0.4), point(1, 0.2)].reduce(reduce, first), first);
  assert.equal(solved(reduce(first, point(2, 0.3))), 3);
  assert.equal(solved(first), 2);
});

test("the curve that the run has goes before the one that was expected", () => {
  const state = reduce(initial({ sweep: [0, 1] }), { ...point(2, 0.4), lam: 3 });
  assert.deepEqual(valuesOf(state, "recon").length, 3);
  assert.equal(state.lams[2], 3);
});

test("without unseen text there is one curve less", () => {
  const state = after({ ...point(0, 0.4), relative_held_out: null });
  assert.deepEqual(valuesOf(state, "heldOut"), [null, null, null]);
  assert.doesNotMatch(sentence(state, LABEL), /unseen/);
});

test("words for every state", () => {
  assert.equal(words(after()), "waiting for a device");
  assert.equal(words(after({ type: "stage", name: "loading", detail: "tiny-llama" })), "loading tiny-llama");
  const begun = after({ type: "started" }, { type: "stage", name: "quantizing" });
  assert.equal(words(begun), "statistics of the calibration text");
  const all = after(point(0, 0.4), point(1, 0.2), point(2, 0.3), { type: "finished", at: "2026-01-02T03:04:05" });
  assert.equal(all.ended, "finished");
  assert.equal(words(all), "computed 2026-01-02 03:04");
  assert.match(words({ ...after(point(0, 0.4)), lost: true }), /does not answer/);
});

test("the curves as a sentence", () => {
  assert.equal(sentence(after(), LABEL), "block 3 · down_proj: 0 of 3 λ solved.");
  assert.match(sentence(after(point(0, 0.4)), LABEL), /calibration text is 0\.400 at λ = 0;/);
  const two = sentence(after(point(0, 0.4), point(1, 0.2)), LABEL);
  assert.match(two, /on unseen text goes from 0\.800 at λ = 0 to 0\.400 at λ = 0\.1/);
});

const asked = { model: "tiny", bits: 2, method: "sarqc-gbs", gamma: 0.1, calibration: "a", samples: 8, layer: ONLY };
const of = (recipe) => initial({ ...asked, grid: "asymmetric", range: "minmax", sampling: "sequential", ...recipe });

test("a preview is of what is shown when layer, line and γ are its own, however they are written", () => {
  assert.ok(isOf(of({ lambda: 2, sweep: LAMS, samples: 4 }), asked));
  for (const other of [{ gamma: 0.5 }, { layer: "v" }, { bits: 3 }, { range: "search" }, { method: "rqc-gbs" }])
    assert.ok(!isOf(of(other), asked), JSON.stringify(other));
  assert.ok(!isOf(of({}), null));
});

test("what its calibration differs in is said, and nothing else", () => {
  const view = { study: { unseen: null }, draw: 0, draws: [0], explore: true };
  assert.deepEqual(differences(of({}), asked, view), []);
  assert.deepEqual(differences(of({ calibration: "b", samples: 4, seed: 3 }), asked, view), [
    "calibration text b (the curve: calibration text a)",
    "4 sequences (the curve: 8 sequences)",
    "calibration draw 3 (the curve: calibration draw 0)",
  ]);
  const survey = { study: { unseen: "c" }, draw: null, draws: [0, 1, 2], explore: false };
  assert.deepEqual(differences(of({}), asked, survey), [
    "draw 0 alone (the curve: mean of 3 draws)",
    "unseen text: more of a (the curve: c)",
    "inputs from the float model (the curve: from the quantized blocks before)",
  ]);
});

test("a layer is called as the page calls it, where the page knows it", () => {
  assert.equal(labelOf(of({}), { layers: [{ name: ONLY, label: LABEL }] }), LABEL);
  assert.equal(labelOf(of({}), { layers: [] }), ONLY);
});
