/** URL → state → URL. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { LAB_STATE, nearest, parse, serialise } from "../../assets/js/state.js";

test("a state survives its own address", () => {
  const state = { study: "tiny-llama", method: "sarqc-gbs", bits: 2, layer: "27", lambda: 0.1, gamma: 0.5, show: "accuracy" };
  assert.deepEqual(parse(serialise(state, LAB_STATE), LAB_STATE), state);
});

test("zero is a value, nothing is not", () => {
  assert.equal(serialise({ lambda: 0, method: "", gamma: undefined }, LAB_STATE), "?lambda=0");
  assert.equal(serialise({}, LAB_STATE), "");
});

test("nonsense in the address is left out", () => {
  assert.deepEqual(parse("?bits=two&lambda=&other=1", LAB_STATE), {});
});

test("the nearest value is found, or none where nothing is wanted", () => {
  assert.equal(nearest([0, 0.01, 0.1], 0.08), 2);
  assert.equal(nearest([null], undefined), null);
  assert.equal(nearest([], 1), null);
});
