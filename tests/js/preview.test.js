import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import {
  honestRange,
  initial,
  lamsOf,
  reduce,
  sentence,
  solved,
  valuesOf,
  words,
} from "../../assets/js/lab/preview.js";

const LAMS = [0, 0.1, 1];
const point = (index, recon) => ({
  type: "point_done",
  name: "model.layers.3.mlp.down_proj",
  index,
  total: 3,
  lam: LAMS[index],
  relative_recon: recon,
  relative_held_out: 2 * recon,
  relative_sar: 0.5,
  relative_drift: 0.25,
});
const after = (...events) => events.reduce(reduce, initial("block 3 · down_proj", LAMS));

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
  const again = [point(0, 0.4), point(1, 0.2)].reduce(reduce, first);
  assert.deepEqual(again, first);
  assert.equal(solved(reduce(first, point(2, 0.3))), 3);
  assert.equal(solved(first), 2);
});

test("the curve that the run has goes before the one that was expected", () => {
  const state = reduce(initial("a", [0, 1]), { ...point(2, 0.4), lam: 3 });
  assert.deepEqual(valuesOf(state, "recon").length, 3);
  assert.equal(state.lams[2], 3);
});

test("without unseen text there is one curve less", () => {
  const state = after({ ...point(0, 0.4), relative_held_out: null });
  assert.deepEqual(valuesOf(state, "heldOut"), [null, null, null]);
  assert.doesNotMatch(sentence(state), /unseen/);
});

test("words for every state", () => {
  assert.equal(words(after()), "waiting for a device");
  assert.equal(words(after({ type: "stage", name: "loading", detail: "tiny-llama" })), "loading tiny-llama");
  assert.equal(
    words(after({ type: "started" }, { type: "stage", name: "quantizing" })),
    "statistics of the calibration text",
  );
  const all = after(point(0, 0.4), point(1, 0.2), point(2, 0.3), { type: "finished" });
  assert.equal(all.ended, "finished");
  assert.equal(words(all), "3 of 3 λ solved, opening");
  assert.match(words({ ...all, lost: true }), /does not answer/);
});

test("the curves as a sentence", () => {
  assert.equal(sentence(after()), "block 3 · down_proj: 0 of 3 λ solved.");
  assert.match(sentence(after(point(0, 0.4))), /calibration text is 0\.400 at λ = 0;/);
  assert.match(
    sentence(after(point(0, 0.4), point(1, 0.2))),
    /on unseen text goes from 0\.800 at λ = 0 to 0\.400 at λ = 0\.1/,
  );
});

test("λ = 0 does not flatten the rest", () => {
  const [low, high] = honestRange(LAMS, [[50, 0.2, 0.1]]);
  assert.ok(low < 0.1 && high > 0.2 && high < 1);
  const [, near] = honestRange(LAMS, [[0.25, 0.2, 0.1]]);
  assert.ok(near > 0.25);
  assert.ok(honestRange(LAMS, [[50, null, null]])[1] > 50);
  assert.deepEqual(honestRange(LAMS, [[null, null, null]]), [0, 1]);
});

test("the range of an axis is the one of the study that replaces the preview", () => {
  const golden = JSON.parse(readFileSync(new URL("../golden/rules.json", import.meta.url), "utf8"));
  for (const { lams, curves, range } of golden.honest_range) {
    const made = honestRange(lams, curves);
    const size = Math.max(...range.map(Math.abs));
    for (const side of [0, 1]) assert.ok(Math.abs(made[side] - range[side]) <= 1e-12 * size, JSON.stringify(curves));
  }
});
