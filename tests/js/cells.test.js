/** Cells of maps: where arrow keys lead, what a cell says, and which cell of the weights a point is in. */
import assert from "node:assert/strict";
import { test } from "node:test";

globalThis.matchMedia ??= () => ({ matches: false, addEventListener() {} });
const { firstCell, cellWords, nextCell } = await import("../../assets/js/charts/cells.js");
const { cellOf, placeOf, saidOf, withoutWords } = await import("../../assets/js/explorer/weight_cells.js");

const map = {
  z: [
    [1, null, 3],
    [null, null, 6],
  ],
  size: () => [2, 3],
  has: ([row, column]) => map.z[row][column] !== null,
};

test("arrows go to the next cell that says anything, and stay where none follows", () => {
  assert.deepEqual(nextCell([0, 0], "ArrowRight", map), [0, 2]); // over an empty one
  assert.deepEqual(nextCell([0, 2], "ArrowUp", map), [1, 2]);
  assert.deepEqual(nextCell([1, 2], "ArrowUp", map), [1, 2]);
  assert.deepEqual(nextCell([1, 2], "ArrowLeft", map), [1, 2]); // nothing but empty ones
  assert.deepEqual(nextCell([1, 2], "ArrowDown", map), [0, 2]);
});

test("keys begin at the first cell from the upper left that says anything", () => {
  assert.deepEqual(firstCell(map), [1, 2]);
  assert.equal(firstCell({ size: () => [0, 0], has: () => true }), null);
});

test("a cell says what the mouse is told", () => {
  const trace = {
    x: ["0", "0.1"],
    y: ["0.1", "0.5"],
    text: [
      ["82.1", "77.7"],
      ["82.1", "77.4"],
    ],
    hovertemplate: "λ = %{x}, γ = %{y}: %{text}<extra></extra>",
  };
  assert.equal(cellWords(trace, [1, 1]), "λ = 0.1, γ = 0.5: 77.4");
  const leads = { ...trace, customdata: [[], [[], [7, "block 1 · q"]]], hovertemplate: "%{customdata[1]}: %{text}" };
  assert.equal(cellWords(leads, [1, 1]), "block 1 · q: 77.4");
});

test("a point of either picture of the weights is in one cell, named by its channels and its value in each", () => {
  const trace = { x: [0, 19, 38], y: [0, 6], meta: [12, 57] };
  assert.deepEqual(cellOf(trace, { x: 21.5, y: 5 }), [1, 1]);
  assert.deepEqual(placeOf(trace, [1, 2]), ["inputs 38–56", "outputs 6–11"]);
  assert.deepEqual(placeOf({ x: [0, 1], y: [0, 1], meta: [2, 2] }, [0, 1], " to "), ["input 1", "output 0"]);
  const values = [
    { point: "λ = 0", value: 0.1404 },
    { point: "λ = 0.1", value: 0.032 },
  ];
  assert.equal(
    saidOf(values, ["inputs 38 to 56", "output 2"]),
    "inputs 38 to 56, output 2: 0.140 at λ = 0, 0.0320 at λ = 0.1",
  );
});

test("plotly is silent where both pictures speak, and the figure stays as it was given", () => {
  const figure = { data: [{ type: "surface", hovertemplate: "%{z}" }], layout: { scene: { camera: 1 }, scene2: {} } };
  const made = withoutWords(figure);
  assert.deepEqual(made.data, [{ type: "surface", hoverinfo: "none" }]);
  assert.deepEqual(made.layout, { scene: { camera: 1, hovermode: false }, scene2: { hovermode: false } });
  assert.equal(figure.data[0].hovertemplate, "%{z}");
  assert.equal(withoutWords(figure), made);
});
