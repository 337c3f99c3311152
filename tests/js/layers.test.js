/** Reports of layers as rows, and what “auto” chose in them. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { csv } from "../../assets/js/base/format.js";
import { judgements, LAYER_COLUMNS, layerRows, pairCounts, shortNames } from "../../assets/js/calibrate/layer_rows.js";
import { each } from "./given.js";

const errors = { relative_recon: 0.1, relative_held_out: null, relative_drift: 0.3, flags: [] };
const tried = (values) =>
  values.map((validation, index) => ({
    lam: [0.25, 0.5][index % 2],
    gamma: [0.1, 0.5][index >> 1],
    train: 0.1,
    validation,
    relative_drift: 0.3,
  }));
const layer = (name, chosen, more = {}) => ({ name, report: { ...errors, chosen, ...more } });
const auto = [
  layer("model.layers.0.q_proj", { lam: 0.5, gamma: 0.1 }, { candidates: tried([0.4, 0.2, 0.5, 0.3]) }),
  layer(
    "model.layers.0.down_proj",
    { lam: 0.25, gamma: 0.5 },
    { candidates: tried([4, 2, 1, 3]), flags: ["fewer_tokens_than_channels"] },
  ),
];
const shown = (rows, title) => rows.map(LAYER_COLUMNS.find((column) => column.title === title).show);

test("names lose what they share", () => {
  assert.deepEqual(shortNames(["model.layers.0.q_proj", "model.layers.1.q_proj"]), ["0.q_proj", "1.q_proj"]);
  assert.deepEqual(shortNames(["model.layers.0.q_proj"]), ["model.layers.0.q_proj"]);
  assert.deepEqual(shortNames(["a.b", "a.b.c"]), ["b", "b.c"]);
  assert.deepEqual(shortNames([]), []);
});

test("what a layer chose stands beside what it gained", () => {
  const [first, second] = judgements(auto);
  assert.deepEqual([first.short, first.lam, first.gamma, first.validation], ["q_proj", 0.5, 0.1, 0.2]);
  assert.ok(Math.abs(first.overMedian - (0.35 - 0.2) / 0.35) < 1e-12);
  assert.ok(Math.abs(first.overWorst - 0.6) < 1e-12);
  assert.equal(second.overMedian, 0.6);
  assert.deepEqual(judgements([layer("a", { lam: 0.3 })]), []);
});

test("pairs are counted, γ in rows and λ in columns", () => {
  assert.deepEqual(pairCounts(auto), {
    across: { key: "lam", sign: "λ", values: [0.25, 0.5] },
    down: { key: "gamma", sign: "γ", values: [0.1, 0.5] },
    counts: [
      [0, 1],
      [1, 0],
    ],
  });
  const candidates = tried([2, 1]).map((candidate) => ({ ...candidate, gamma: null }));
  const alone = { across: { key: "lam", sign: "λ", values: [0.25, 0.5] }, down: null, counts: [[0, 1]] };
  assert.deepEqual(pairCounts([layer("a", { lam: 0.5 }, { candidates })]), alone);
  const shifted = [0, 0.5, 1].map((strength) => ({ lam: 0.01, gamma: null, shift_strength: strength, validation: 1 }));
  const chosen = (/** @type {number} */ strength) =>
    layer("a", { lam: 0.01, shift_strength: strength }, { candidates: shifted });
  assert.deepEqual(pairCounts([chosen(0.5), chosen(1), chosen(0.5)]), {
    across: { key: "shift_strength", sign: "α", values: [0, 0.5, 1] },
    down: null,
    counts: [[0, 2, 1]],
  });
  assert.equal(layerRows([chosen(0.5)])[0].shift_strength, 0.5);
});

test("λ stands in the table of layers only where layers chose it", () => {
  assert.deepEqual(each(layerRows(auto), "lam", "gamma", "validation"), [
    [0.5, 0.1, 0.2],
    [0.25, 0.5, 1],
  ]);
  assert.equal(layerRows(auto)[1].flags, "fewer tokens than channels");
  const [row] = layerRows([layer("a", { lam: 0.3, gamma: 0.1 })]);
  assert.deepEqual([row.lam, row.gamma, row.alpha, row.best_epoch], [null, null, null, null]);
});

test("scales with their interval of λ", () => {
  const rows = layerRows([
    layer("a", { alpha: 0.35, lam_interval: [0.12345, 0.5] }),
    layer("b", { alpha: null, lam_interval: [0.2, null] }),
    layer("c", { alpha: 1 }),
  ]);
  assert.deepEqual(shown(rows, "α"), ["0.35", "none", "1"]);
  assert.deepEqual(shown(rows, "Same choice for λ"), ["0.123 to 0.5", "0.2 and more", "–"]);
  assert.match(csv(LAYER_COLUMNS, rows), /^layer,.*\r\na,0\.1,,0\.3,,,,,0\.35,0\.12345,0\.5,/);
});

test("early stopping with the step that was kept, learned clipping with its epoch and objective", () => {
  const stopped = [layer("a", { best_step: 40, steps_made: 140 }), layer("b", { best_step: 0, steps_made: 100 })];
  assert.deepEqual(shown(layerRows(stopped), "Step"), ["40 of 140", "0 of 100"]);
  const clipped = layerRows([layer("a", { epochs: 40, best_epoch: 17, objective: 0.87, initial_objective: 1.05 })]);
  assert.deepEqual([...shown(clipped, "Epoch"), ...shown(clipped, "Objective")], ["17 of 40", "1.05 → 0.870"]);
});

test("a report that says little is a row of dashes", () => {
  const rows = layerRows([{ name: "a", report: {} }]);
  assert.deepEqual([shown(rows, "Reconstruction error"), rows[0].flags], [["–"], null]);
});
