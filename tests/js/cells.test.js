/** Cells of maps: where arrow keys lead, what a cell says, and which cell of the weights a point is in. */
import assert from "node:assert/strict";
import { test } from "node:test";

globalThis.matchMedia ??= () => ({ matches: false, addEventListener() {} });
const { firstCell, cellWords, nextCell } = await import("../../assets/js/charts/cells.js");
const { cellOf, holdsGroup, placeOf, saidOf, surfaceLines, withoutWords } = await import(
  "../../assets/js/explorer/weight_cells.js"
);

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
  const trace = { x: [0, 19, 38], y: [0, 6], meta: [12, 57, "input"] };
  assert.deepEqual(cellOf(trace, { x: 21.5, y: 5 }), [1, 1]);
  assert.deepEqual(cellOf(trace, { pointNumber: [1, 0] }), [1, 0]);
  assert.deepEqual(placeOf(trace, [1, 2]), ["inputs 38–56", "outputs 6–11"]);
  const ranked = { x: [0, 1], y: [0, 1], meta: [2, 2, "saliency rank"] };
  assert.deepEqual(placeOf(ranked, [0, 1], true), ["saliency rank 1", "output 0"]);
  const values = [
    { point: "λ = 0", value: 0.1404 },
    { point: "λ = 0.1", value: 0.032 },
  ];
  const said = saidOf(values, ["inputs 38 to 56", "output 2"]);
  assert.equal(said, "inputs 38 to 56, output 2: 0.140 at λ = 0, 0.0320 at λ = 0.1");
});

test("a cell of a surface names its channels, then its values", () => {
  const values = [
    { point: "λ = 0", value: 0.0312 },
    { point: "λ = 0.1", value: 0.019 },
  ];
  assert.deepEqual(surfaceLines(values, ["inputs 12–15", "outputs 40–44"], false), [
    "inputs 12–15, outputs 40–44",
    "λ = 0: 0.0312 · λ = 0.1: 0.0190",
  ]);
  const [, alone, leads] = surfaceLines([{ point: "", value: 0.5 }], ["input 1", "output 2"], true);
  assert.equal(alone, "0.500");
  assert.match(leads, /one by one/);
});

test("a cell has the weights of a group where its channels are among them, and none in another order", () => {
  const trace = { x: [0, 19, 38], y: [0, 6], meta: [12, 57, "input"] };
  const group = { row: 7, first: 32, count: 8 }; // output 7, inputs 32 to 39
  const cells = [0, 1].flatMap((row) => [0, 1, 2].map((column) => [row, column]));
  const holding = cells.filter((cell) => holdsGroup(trace, cell, group));
  assert.deepEqual(holding, [
    [1, 1],
    [1, 2],
  ]);
  assert.equal(holdsGroup({ ...trace, meta: [12, 57, "saliency rank"] }, [1, 1], group), false);
});

test("a figure is silent where both pictures speak, and stays as it was given", () => {
  const figure = { data: [{ type: "surface", hovertemplate: "%{z}" }], layout: { scene: { zaxis: {} } } };
  const made = withoutWords(figure);
  assert.deepEqual(made.data, [{ type: "surface", hoverinfo: "none" }]);
  assert.equal(made.layout, figure.layout);
  assert.equal(figure.data[0].hovertemplate, "%{z}");
  assert.equal(withoutWords(figure), made);
});
