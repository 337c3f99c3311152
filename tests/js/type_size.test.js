/** A figure that grows as a whole with the type of its place. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { grown } from "../../assets/js/charts/type_size.js";

const figure = {
  title: "A figure",
  data: [
    { type: "bar", width: 0.5, x: [1, 2], marker: { size: [6, 8], line: { width: 2 } } },
    { type: "heatmap", xgap: 2, z: [[12]], colorbar: { thickness: 8, len: 1, tickfont: { size: 11 } } },
  ],
  layout: {
    font: { size: 12 },
    margin: { l: 48, r: 16, t: 24, b: 36, pad: 0 },
    xaxis: { range: [0, 12], title: { text: "λ", standoff: 2, font: { size: 12 } } },
    annotations: [{ x: 12, xshift: -8, text: "12", font: { size: 12, color: "var(--ink)" } }],
    shapes: [{ x0: 3, line: { width: 1 } }],
  },
  narrow: {
    "layout.margin.l": 34,
    "layout.annotations.0.xshift": 2,
    "layout.annotations.0.x": 3,
    "layout.xaxis.tickfont": { size: 11 },
  },
  bindings: [{ path: "data.0.x", over: ["lambda"], values: [[1], [2]] }],
};

test("what is measured in pixels grows, what is measured on an axis stays", () => {
  const { data, layout, narrow, bindings } = grown(figure, 2);
  assert.deepEqual(data[0], { type: "bar", width: 0.5, x: [1, 2], marker: { size: [12, 16], line: { width: 4 } } });
  assert.deepEqual(data[1].z, [[12]]);
  assert.deepEqual([data[1].xgap, data[1].colorbar], [4, { thickness: 16, len: 1, tickfont: { size: 22 } }]);
  assert.deepEqual(layout.margin, { l: 96, r: 32, t: 48, b: 72, pad: 0 });
  assert.deepEqual(layout.xaxis, { range: [0, 12], title: { text: "λ", standoff: 4, font: { size: 24 } } });
  assert.deepEqual(layout.annotations[0], { x: 12, xshift: -16, text: "12", font: { size: 24, color: "var(--ink)" } });
  assert.deepEqual(layout.shapes, [{ x0: 3, line: { width: 2 } }]);
  assert.deepEqual(Object.values(narrow), [68, 4, 3, { size: 22 }]);
  assert.equal(bindings, figure.bindings);
  assert.equal(figure.layout.font.size, 12);
  assert.equal(grown(figure, 1), figure);
});
