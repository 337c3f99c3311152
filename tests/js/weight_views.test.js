/** Which figure of the weights a card shows, also where a study lacks what is wished; and the numbers behind it. */
import assert from "node:assert/strict";
import { test } from "node:test";

globalThis.matchMedia ??= () => ({ matches: false, addEventListener() {} });
const { cells } = await import("../../assets/js/explorer/figure_tables.js");
const { weightFigure } = await import("../../assets/js/explorer/weights_part.js");

const plain = { surfaces: {}, surfaces_flat: {}, surfaces_difference: {} };
const more = { ...plain, "surfaces:mean": {}, "surfaces_flat:mean": {}, "surfaces_difference:mean": {} };

test("a card shows its own drawing in the chosen pooling", () => {
  assert.equal(weightFigure(more, "surfaces", "surface", "mean"), "surfaces:mean");
  assert.equal(weightFigure(more, "surfaces_flat", "flat", "mean"), "surfaces_flat:mean");
  assert.equal(weightFigure(more, "surfaces_flat", "difference", "mean"), "surfaces_difference:mean");
  assert.equal(weightFigure(more, "surfaces", "difference", "mean"), "surfaces:mean");
});

test("an older study shows what it has, whatever is wished", () => {
  assert.equal(weightFigure(plain, "surfaces", "surface", "signed"), "surfaces");
  assert.equal(weightFigure(plain, "surfaces_flat", "difference", "mean"), "surfaces_difference");
  assert.equal(
    weightFigure({ ...plain, surfaces_difference: null }, "surfaces_flat", "difference", "max"),
    "surfaces_flat",
  );
  assert.equal(weightFigure({ surfaces: null, surfaces_flat: null }, "surfaces", "surface", "mean"), "surfaces");
});

test("the table of a drawing is of the array that it draws", () => {
  const array = (unit) => ({ matrix: (gamma, lambda) => [[unit * (gamma + lambda)]] });
  const arrays = { surface: array(1), surface_signed: array(-10) };
  const drawing = (name) => ({
    bindings: [
      { path: "aria", over: [], values: "" },
      { path: "data.1.z", array: name },
    ],
  });
  const figures = { surfaces: drawing("surface"), "surfaces:signed": drawing("surface_signed") };
  const view = { lam_texts: ["0", "0.1", "1"], figures };
  const state = { arrays, at: { gamma: 0, lambda: 2 }, view, drawing: "surface", pool: "max" };
  assert.deepEqual(cells(state).rows, [{ row: 0, column: 0, first: 0, shown: 2 }]);
  const signed = cells({ ...state, pool: "signed" });
  assert.equal(signed.rows[0].shown, -20);
  assert.equal(signed.columns[3].title, "Ŵ − W, λ = 1");
});
