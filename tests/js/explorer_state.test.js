/** What an explorer shows: the point, the drawing, what an address says of it, and which figure each card gets. */
import assert from "node:assert/strict";
import { test } from "node:test";

import { curvesPart } from "../../assets/js/explorer/curves_part.js";
import { mapPart } from "../../assets/js/explorer/map_part.js";
import { addressOf, carriedOn, fileName, initial, reduce } from "../../assets/js/explorer/state.js";
import { weightsPart } from "../../assets/js/explorer/weights_part.js";
import { asText } from "../../assets/js/explorer/words_part.js";
import { each } from "./given.js";

const view = {
  study: { id: "toy", title: "Toy", model: { name: "tiny" }, recipe: null },
  line: { name: "sarqc-gbs", method: "sarqc-gbs", title: "SARQC", has_lam: true, bits: 2, grid_text: "asymmetric" },
  layer: null,
  quantity: "held_out",
  quantities: [{ name: "held_out", title: "error" }],
  draw: null,
  lams: [0, 0.1, 1],
  gammas: [0.1, 0.5],
  start: { gamma: 0, lambda: 1 },
  figures: {
    hero: {},
    hero_accuracy: {},
    map: {},
    surfaces: {},
    surfaces_flat: {},
    gap: null,
  },
};
const entered = (before, shown, wanted = { study: "toy" }) =>
  reduce(before, { type: "opened", view: shown, arrays: {}, wanted });
const opened = (wanted = {}, before = initial()) => entered(before, view, { study: "toy", ...wanted });
const after = (state, ...actions) => actions.reduce(reduce, state);
const withFigures = (figures) => ({ ...view, figures: { ...view.figures, ...figures } });

test("a line opens at its own point, or at the nearest to what is wanted", () => {
  assert.deepEqual(opened().at, { gamma: 0, lambda: 1 });
  assert.deepEqual(opened({ lambda: 0.7, gamma: 0.5 }).at, { gamma: 1, lambda: 2 });
});

test("a point stays on the axes, and on those that a link locks", () => {
  const state = opened();
  assert.deepEqual(after(state, { type: "moved", lambda: 9, gamma: -1 }).at, { gamma: 0, lambda: 2 });
  assert.equal(after(state, { type: "moved", lambda: 1 }), state); // no step, no new state
  const locked = opened({}, initial({ locked: ["lambda"] }));
  assert.deepEqual(after(locked, { type: "moved", lambda: 2, gamma: 1 }).at, { gamma: 1, lambda: 1 });
  assert.equal(after(locked, { type: "played" }), locked);
  assert.equal(after(initial(), { type: "moved", lambda: 1 }).view, null);
});

test("the λ and γ that were chosen last outlive a line that has others, also by Back and Forward", () => {
  const rough = { ...view, line: { ...view.line, name: "rqc-gs" }, lams: [0, 1], gammas: [null] };
  const bare = { ...rough, line: { ...view.line, name: "rtn", has_lam: false }, lams: [0] };
  const chosen = opened({ lambda: 0.1, gamma: 0.5 });
  for (const other of [rough, bare]) {
    const there = entered(chosen, other, carriedOn(chosen));
    assert.deepEqual(there.at, { gamma: 0, lambda: 0 });
    const address = addressOf(there); // what the entry of the history says
    const back = entered(there, view, addressOf(chosen));
    assert.deepEqual(back.at, chosen.at);
    const forward = entered(back, other, address);
    assert.deepEqual(forward.sought, { lambda: 0.1, gamma: 0.5 });
    assert.deepEqual(entered(forward, view, carriedOn(forward)).at, chosen.at);
  }
  const both = [rough, bare].reduce((state, other) => entered(state, other, carriedOn(state)), chosen);
  assert.equal(addressOf(both).lambda, undefined); // an address says what is shown
  assert.deepEqual(opened(carriedOn(both), both).at, chosen.at);
  // An address without λ and γ means where the line opens.
  assert.deepEqual(entered(opened({ lambda: 1, gamma: 0.5 }), view, {}).sought, { lambda: 0.1, gamma: 0.1 });
  // A λ that is chosen on the way goes before.
  const moved = after(opened({}, entered(chosen, rough, carriedOn(chosen))), { type: "moved", lambda: 2 });
  assert.equal(carriedOn(moved).lambda, 1);
});

test("a link that hides the band takes it out of all that shows it, and nothing else", () => {
  const shapes = [{ x0: 1 }, { name: "band", x0: 0 }];
  const annotations = [{ text: "title" }, { name: "band", text: "as good as the best" }];
  const paths = ["layout.shapes.0.x0", "layout.shapes.1.x0", "layout.annotations.1.visible", "aria"];
  const bindings = paths.map((path) => ({ path, over: [], values: 1 }));
  const told = { sentences: [], small_print: [] };
  const finding = { over: [], values: "Perplexity is lowest at λ = 0.1" };
  const drawn = { data: [], layout: { shapes, annotations }, bindings, finding };
  const whole = {
    ...withFigures({ hero: drawn, plane: { layout: {} } }),
    told: { perplexity: told, accuracy: told },
    table: { columns: [{ key: "lambda" }, { key: "sweet_spot" }], rows: [{ lambda: 0, sweet_spot: true }] },
  };
  assert.equal(entered(initial(), whole).view, whole);
  const { view: shown } = entered(initial({ hidden: ["band"] }), whole);
  const { hero, plane, gap } = shown.figures;
  assert.deepEqual(hero.layout.shapes, [shapes[0], { ...shapes[1], visible: false }]);
  assert.deepEqual(hero.layout.annotations, [annotations[0], { ...annotations[1], visible: false }]);
  assert.deepEqual(each(hero.bindings, "path"), ["layout.shapes.0.x0", "aria"]);
  assert.deepEqual([plane, gap], [whole.figures.plane, null]);
  assert.deepEqual([whole.figures.hero.finding, hero.finding], [finding, undefined]); // it says which λ is best
  assert.deepEqual(shown.table.columns, [{ key: "lambda" }]);
});

test("λ plays from its first value, and it is known where it stood", () => {
  const playing = after(opened({ lambda: 0.1 }), { type: "played" });
  assert.deepEqual([playing.playing, playing.at.lambda], [1, 0]);
  assert.equal(after(playing, { type: "stopped" }).playing, null);
  assert.equal(entered(playing, view, {}).playing, null);
});

test("only what is shown can be dimmed, and a view that fails leaves the old one", () => {
  const begun = after(initial(), { type: "requested" });
  assert.equal(begun.phase, "first");
  assert.equal(after(begun, { type: "failed", problem: { what: "no" } }).phase, "first");
  const full = after(opened(), { type: "pictured" }, { type: "drawn" });
  const next = after(full, { type: "requested" });
  assert.deepEqual([full.phase, next.phase, next.view], ["drawn", "next", view]);
  const failed = after(next, { type: "failed", problem: { what: "no" } });
  assert.deepEqual([failed.phase, failed.view, failed.problem.what], ["drawn", view, "no"]);
  assert.equal(after(failed, { type: "requested" }, { type: "drawn" }).problem, null);
});

test("the weights are a surface until another drawing is chosen, on every screen", () => {
  assert.deepEqual([opened().drawing, opened().wish], ["surface", undefined]);
  const flat = after(opened(), { type: "drawing", name: "flat" });
  assert.deepEqual([flat.drawing, flat.wish], ["flat", "flat"]);
  assert.equal(opened({ drawing: "flat" }).drawing, "flat");
});

test("the address asks for what is shown: chosen things, not what merely fits the screen", () => {
  assert.deepEqual(addressOf(opened({ pool: "mean" })), {
    study: "toy",
    method: "sarqc-gbs",
    bits: 2,
    layer: "all",
    lambda: 0.1,
    gamma: 0.1,
    quantity: "held_out",
    draw: "all",
    steps: undefined,
    show: "perplexity",
    open: undefined,
    drawing: undefined,
    pool: "mean",
  });
  const point = { ...view, layer: 3, draw: 2, line: { ...view.line, has_lam: false }, gammas: [null] };
  const state = after({ ...opened(), view: point }, { type: "drawing", name: "flat" });
  const { layer, draw, lambda, gamma, drawing } = addressOf(state);
  assert.deepEqual([layer, draw, lambda, gamma, drawing], [3, 2, undefined, undefined, "flat"]);
});

test("accuracy is shown where it was measured", () => {
  assert.equal(opened({ show: "accuracy" }).shown, "accuracy");
  const without = withFigures({ hero_accuracy: null });
  assert.equal(entered(initial(), without, { study: "toy", show: "accuracy" }).shown, "perplexity");
});

test("doors open and close; an address from before there were doors opens those of what it names", () => {
  assert.deepEqual(opened().open, []);
  const door = (/** @type {string} */ name) => ({ type: "door", name });
  const state = after(opened(), door("proof"), door("where"), door("proof"));
  assert.deepEqual(state.open, ["where"]);
  assert.equal(addressOf(state).open, "where");
  assert.deepEqual(opened({ open: "steps,text" }).open, ["steps", "text"]);
  assert.deepEqual(opened({ quantity: "drift", steps: "order,range,lambda,refine" }).open, ["where"]);
  assert.deepEqual(opened({ steps: "range,order,lambda,refine" }).open, ["steps"]);
  assert.deepEqual(opened({ open: "proof" }, state).open, ["where"]); // another line leaves them as they are
});

test("a link that locks what is shown keeps it", () => {
  const state = { ...opened(), locked: ["show"] };
  assert.equal(reduce(state, { type: "shown", name: "drift" }), state);
});

test("errors are shown once something is drawn over them", () => {
  const overlay = { lams: [], recon: [], heldOut: [], sar: [], words: "" };
  const state = reduce({ ...opened(), view: withFigures({ hero_error: {} }) }, { type: "overlaid", overlay });
  assert.equal(state.shown, "error");
  assert.equal(reduce({ ...state, shown: "drift" }, { type: "overlaid", overlay: { ...overlay } }).shown, "drift");
  assert.equal(reduce(opened(), { type: "overlaid", overlay }).shown, "perplexity");
});

test("another quantity changes the map alone, another order the ladder alone", () => {
  const [map, experts, drawn] = [{}, {}, { data: [] }];
  const ladder = { steps: [{ name: "range", title: "range" }], words: "" };
  const figures = { map, map_experts: experts, hero: {}, ladder: drawn };
  const answer = { quantity: "drift", ladder, figures };
  const redrawn = (name) => reduce(opened(), { type: "redrawn", name, answer }).view;
  const coloured = redrawn("quantity");
  assert.deepEqual(coloured, { ...withFigures({ map, map_experts: experts }), quantity: "drift" });
  assert.equal(coloured.figures.map, map);
  assert.equal(coloured.figures.hero, view.figures.hero);
  const climbed = redrawn("steps");
  assert.deepEqual(climbed, { ...withFigures({ ladder: drawn }), ladder });
  assert.equal(climbed.figures.map, view.figures.map);
  assert.equal(addressOf({ ...opened(), view: climbed }).steps, "range");
  assert.equal(view.quantity, "held_out");
});

test("which figure a card shows, and which cards are not there", () => {
  const state = opened();
  const curves = curvesPart(["hero", "deciles", "gap"]);
  const drawnBy = (part, more = {}) => part.cards.map((card) => part.figure({ ...state, ...more }, card));
  assert.deepEqual(drawnBy(curves), ["hero", null, null]);
  const right = { ...state, shown: "accuracy" };
  assert.equal(curves.figure(right, "hero"), "hero_accuracy");
  const mapped = withFigures({ gamma_grid: {}, gamma_grid_accuracy: {} });
  assert.equal(curves.figure({ ...right, view: mapped }, "gamma_grid"), "gamma_grid_accuracy");
  assert.equal(curves.figure({ ...state, view: mapped }, "gamma_grid"), "gamma_grid");
  const weights = weightsPart();
  assert.deepEqual(drawnBy(weights, { drawing: "surface" }), [null, "surfaces"]);
  assert.deepEqual(drawnBy(weights, { drawing: "flat" }), ["surfaces_flat", null]);
  assert.deepEqual(drawnBy(weights, { view: withFigures({ surfaces: null, surfaces_flat: null }) }), [null, null]);
  assert.equal(mapPart().figure(state, "map"), "map"); // a dense model has one level
  const mixture = { ...state, view: withFigures({ map_experts: {} }) };
  assert.equal(mapPart().figure(mixture, "map"), "map");
  assert.equal(mapPart().figure({ ...mixture, level: "experts" }, "map"), "map_experts");
});

test("a point as text says what it is and where it is seen", () => {
  const said = (text) => ({ sentences: [[[{ text: "At " }, { text, role: "lambda" }]]], small_print: [[["Once."]]] });
  const at = { gamma: 0, lambda: 0 };
  const state = { view: { ...view, told: { perplexity: said("λ"), accuracy: said("λ, right") } }, at };
  const line = "tiny, SARQC, 2 bits, asymmetric. http://here/";
  assert.equal(asText({ ...state, shown: "perplexity" }, "http://here/"), `At λ\nOnce.\n${line}`);
  assert.equal(asText({ ...state, shown: "accuracy" }, "http://here/"), `At λ, right\nOnce.\n${line}`);
  assert.equal(fileName(view, "tokens"), "toy-sarqc-gbs-2bit-tokens");
});
