/** Small pure parts of modules that otherwise live in the page: words, places, and which figure and which numbers are shown. */
import assert from "node:assert/strict";
import { before, test } from "node:test";
import { each } from "./given.js";

// These modules touch the page when they are loaded; the little they ask for is enough here.
globalThis.matchMedia ??= () => ({ matches: false, addEventListener() {} });
let parts;
before(async () => {
  const modules = await Promise.all([
    import("../../assets/js/explorer/sliders_part.js"),
    import("../../assets/js/explorer/words_part.js"),
    import("../../assets/js/charts/figure_menu.js"),
    import("../../assets/js/lab/state.js"),
    import("../../assets/js/explorer/radius.js"),
    import("../../assets/js/explorer/figure_tables.js"),
    import("../../assets/js/explorer/axis_slider.js"),
    import("../../assets/js/explorer/weights_part.js"),
  ]);
  parts = Object.assign({}, ...modules);
});

test("the band of a figure lies on the slider at its place, of each γ", () => {
  const ends = { x0: [0.6, 0], x1: [2.4, 0], other: [1, 1] };
  const bindings = Object.entries(ends).map(([end, values]) => ({
    path: `layout.shapes.1.${end}`,
    over: ["gamma"],
    values,
  }));
  const last = [3.6, 4.4].map((value) => [value, value]);
  bindings.push(
    ...["x0", "x1"].map((end, at) => ({ path: `layout.shapes.2.${end}`, over: ["gamma"], values: last[at] })),
  );
  const figure = { layout: { shapes: [{}, { name: "band" }, { name: "band" }] }, bindings };
  assert.deepEqual(parts.stretches(figure, 0, 4), [
    [0.15, 0.6],
    [0.9, 1],
  ]);
  assert.deepEqual(parts.stretches(figure, 1, 4), [[0.9, 1]]);
  assert.deepEqual(parts.stretches({ layout: {} }, 0, 4), []);
});

test("a track whose thumb stands on the axis, under the first and the last tick", () => {
  const { left, top, width } = parts.trackOn({ first: 80, last: 580, top: 300 }, { left: 10, top: 40 });
  assert.deepEqual([left + 11, left + width - 11, top + 11], [90, 590, 340]);
});

test("a sentence is the text of its pieces", () => {
  assert.equal(parts.plainText([{ text: "At " }, { text: "λ = 0.1", role: "lambda" }, { text: "." }]), "At λ = 0.1.");
});

test("of the points within R the one of least error is shown, as a search through sorted pairs finds it", () => {
  for (let round = 0; round < 300; round += 1) {
    const draw = (salt) => ((Math.imul(round * 31 + salt, 2654435761) >>> 8) % 7) / 7; // few values: ties are common
    const drift = Array.from({ length: 8 }, (_, i) => (draw(i) > 0.8 ? null : draw(i)));
    const error = Array.from({ length: 8 }, (_, i) => (draw(i + 50) > 0.8 ? null : draw(i + 90)));
    const radius = draw(200);
    const inside = drift
      .map((value, i) => [error[i], value, i])
      .filter(([e, d]) => e !== null && d !== null && d <= radius);
    inside.sort((a, b) => a[0] - b[0] || a[1] - b[1] || a[2] - b[2]);
    assert.equal(parts.boundedBest(drift, error, radius), inside.length ? inside[0][2] : null);
  }
});

test("R stays as it was chosen until something else than its point is shown", () => {
  const plane = { drift: [[0.9, 0.5]] };
  const at = { gamma: 0, lambda: 1 };
  const chosen = { radius: 0.6, plane, ...at };
  assert.equal(parts.boundAt(chosen, plane, at), chosen);
  assert.equal(parts.boundAt(chosen, plane, { gamma: 0, lambda: 0 }).radius, 0.9);
  const other = { drift: [[0.3, 0.2]] }; // of another study, at the same positions
  assert.deepEqual(parts.boundAt(chosen, other, at), { radius: 0.2, plane: other, ...at });
  assert.equal(parts.boundAt(null, plane, at).radius, 0.5);
});

const plain = { surfaces: {}, surfaces_flat: {} };
const more = { ...plain, "surfaces:mean": {}, "surfaces_flat:mean": {} };

test("a card shows its own drawing in the chosen pooling", () => {
  assert.equal(parts.weightFigure(more, "surfaces", "mean"), "surfaces:mean");
  assert.equal(parts.weightFigure(more, "surfaces_flat", "mean"), "surfaces_flat:mean");
});

test("an older study shows what it has, whatever is wished", () => {
  assert.equal(parts.weightFigure(plain, "surfaces", "signed"), "surfaces");
  assert.equal(parts.weightFigure({ surfaces: null, surfaces_flat: null }, "surfaces", "mean"), "surfaces");
});

test("the numbers behind a picture are those that it draws", () => {
  const array = (unit) => ({ matrix: (gamma, lambda) => [[gamma, unit * lambda]] });
  const drawing = (name) => ({
    bindings: [
      { path: "aria", over: [], values: "" },
      { path: "data.1.z", array: name },
    ],
  });
  const figures = { surfaces: drawing("surface"), "surfaces:signed": drawing("surface_signed") };
  const state = {
    arrays: { surface: array(1), surface_signed: array(-10) },
    at: { gamma: 1, lambda: 2 },
    view: { lam_texts: ["0", "0.1", "0.5"], figures },
    drawing: "surface",
  };
  const { columns, rows } = parts.cells({ ...state, pool: "max" });
  assert.deepEqual(each(columns, "key"), ["row", "column", "first", "shown"]);
  assert.deepEqual(rows, [
    { row: 0, column: 0, first: 1, shown: 1 },
    { row: 0, column: 1, first: 0, shown: 2 },
  ]);
  const signed = parts.cells({ ...state, pool: "signed" });
  assert.deepEqual([signed.rows[1].shown, signed.columns[3].title], [-20, "Ŵ − W, λ = 0.5"]);
  assert.equal(parts.cells({ ...state, view: { ...state.view, figures: {} }, pool: "max" }).rows.length, 2);
  const curve = { mode: "lines+markers", name: "A", x: ["0", "1"], y: [5, 5], text: ["9.1", "5.0"] }; // 9.1 is off the scale
  const drawn = parts.drawnTable([curve, { mode: "markers", x: ["0"], y: [5], text: ["no"] }]);
  assert.deepEqual(each(drawn.rows, "value"), ["9.1", "5.0"]);
});

test("values of a link beside the axis are told with what is shown instead", () => {
  const view = {
    line: { has_lam: true },
    lams: [0, 0.5],
    lam_texts: ["0", "0.5"],
    gammas: [null],
    second: { name: "gamma", sign: "γ" },
    gamma_texts: [""],
  };
  const said = parts.elsewhere({ lambda: 0.4, gamma: 0.1 }, { view, at: { lambda: 1, gamma: 0 } });
  assert.equal(said.length, 2);
  assert.match(said[0], /λ = 0\.4 .* λ = 0\.5 is shown/);
  assert.match(said[1], /γ = 0\.1 .* it has none/);
  assert.deepEqual(parts.elsewhere({ lambda: 0.5 }, { view, at: { lambda: 1, gamma: 0 } }), []);
});
