// Figures and numbers on their way: what lies between two drawings, and what does not move.

import assert from "node:assert/strict";
import { test } from "node:test";
import { between, canGlide } from "../../assets/js/charts/flat/glide.js";
import { counted } from "../../assets/js/explorer/counting.js";

const NAMES = ["0", "0.1", "1"];
const placeOf = (value) => (typeof value === "string" ? NAMES.indexOf(value) : value);
const figure = (y, at, edge) => ({
  data: [
    { name: "curve", x: NAMES, y, error_y: { array: y.map((value) => value / 10) } },
    { name: "ring", x: [NAMES[at]], y: [y[at]] },
  ],
  layout: {
    yaxis: { range: [0, Math.max(...y)] },
    shapes: [{ x0: edge, x1: edge + 1, line: { width: 2 } }],
    annotations: [{ x: at, y: y[at], text: `${y[at]}` }],
  },
});

test("points, bars, bands, notes and ranges lie between two drawings by the share of the way", () => {
  const [from, to] = [figure([10, 20, 30], 0, 0), figure([20, 10, 60], 2, 1)];
  const { data, layout } = between(from, to, 0.25, placeOf);
  assert.deepEqual(data[0].y, [12.5, 17.5, 37.5]);
  assert.deepEqual(data[0].error_y.array, [1.25, 1.75, 3.75]);
  assert.deepEqual(data[0].x, NAMES, "places of a curve have names");
  assert.deepEqual([data[1].x, data[1].y], [[0.5], [22.5]]);
  assert.deepEqual([layout.shapes[0].x0, layout.shapes[0].x1], [0.25, 1.25]);
  assert.deepEqual([layout.annotations[0].x, layout.annotations[0].y], [0.5, 22.5]);
  assert.equal(layout.annotations[0].text, "60", "words are the new ones");
  assert.deepEqual(layout.yaxis.range, [0, 37.5]);
  assert.equal(between(from, to, 1, placeOf), to);
  assert.deepEqual(from, figure([10, 20, 30], 0, 0), "nothing is changed in place");
});

test("a value that was not measured is at its new place at once", () => {
  const { data } = between(figure([10, null, 30], 0, 0), figure([20, 10, null], 0, 0), 0.5, placeOf);
  assert.deepEqual(data[0].y, [15, 10, null]);
});

test("what is not there or not shown in both does not move", () => {
  const [from, to] = [figure([1, 2, 3], 0, 0), figure([3, 2, 1], 0, 1)];
  from.layout.annotations[0].visible = false;
  assert.equal(between(from, to, 0.5, placeOf).layout.annotations[0].y, 3);
  assert.equal(canGlide(from, to), true);
  assert.equal(canGlide(from, { ...to, data: to.data.slice(1) }), false);
  assert.equal(canGlide(from, { ...to, layout: { ...to.layout, shapes: [] } }), false);
  const map = { data: [{ type: "heatmap", z: [[1]] }], layout: {} };
  assert.equal(canGlide(map, map), false);
});

test("numbers count with the decimals that they come to; others stay", () => {
  assert.equal(counted("perplexity 80.0, 95 %", "perplexity 77.1, 95 %", 0.5), "perplexity 78.5, 95 %");
  assert.equal(counted("λ = 0.01", "λ = 0.3", 0), "λ = 0.0");
  assert.equal(counted("13 % less", "20 % less", 0.999), "20 % less");
});
