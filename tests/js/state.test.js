/** The place on an axis that is nearest to a wanted value. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { nearest } from "../../assets/js/base/address_bar.js";

test("the nearest value is found, or none where nothing is wanted", () => {
  assert.equal(nearest([0, 0.01, 0.1], 0.08), 2);
  assert.equal(nearest([null], undefined), null);
  assert.equal(nearest([], 1), null);
});
