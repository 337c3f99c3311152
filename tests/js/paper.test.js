/** A sheet is as wide as the window, in the shape of paper. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { sheetFor } from "../../assets/js/charts/paper.js";

test("a wide window is printed across, a narrow one upright, both with their own width inside the margins", () => {
  for (const [width, isAcross] of /** @type {[number, boolean][]} */ ([
    [1280, true],
    [390, false],
  ])) {
    const [, across, down, margin] = (/size: (\d+)px (\d+)px; margin: (\d+)px/.exec(sheetFor(width)) ?? []).map(Number);
    assert.equal(across - 2 * margin, width);
    assert.ok(Math.abs((isAcross ? across / down : down / across) - Math.SQRT2) < 0.01);
  }
});
