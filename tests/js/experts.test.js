/** Mixtures: cells that experts share, their tokens in tables, and the two lists that lead to a layer. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { JSDOM } from "jsdom";
import { each, layerDone, started } from "./given.js";

const { document } = new JSDOM("<main></main>").window;
globalThis.document = document;
const { LAYER_COLUMNS, layerRows, worstRows } = await import("../../assets/js/calibrate/layer_rows.js");
const State = await import("../../assets/js/calibrate/run_state.js");
const { layerAt } = await import("../../assets/js/explorer/state.js");
const { layerChoice } = await import("../../assets/js/lab/state.js");
const { render } = await import("../../assets/js/base/html.js");
const { runMatrix } = await import("../../assets/js/calibrate/run_matrix.js");

/** A mixture as a run or a view lists it: attention, then experts with two linears each. */
function mixture(blocks, experts) {
  const layers = [];
  const add = (block, expert, module, label) =>
    layers.push({ name: `l.${layers.length}`, block, expert, module, index: layers.length, label });
  for (let block = 0; block < blocks; block += 1) {
    add(block, null, "q_proj", `block ${block} · q_proj`);
    for (let expert = 0; expert < experts; expert += 1) {
      for (const name of ["up_proj", "down_proj"])
        add(block, expert, `experts.${name}`, `block ${block} · expert ${expert} · ${name}`);
    }
  }
  return layers;
}

const layers = mixture(2, 3);
const done = (index, recon, tokens) => layerDone(index + 2, index, { relative_recon: recon, n_tokens: tokens });
const after = (...events) => events.reduce(State.reduce, State.initial());

test("experts of a block share a cell, and stand alone in the matrix of their block", () => {
  const { rows, columns, cells } = State.matrix(layers);
  const modules = ["experts.up_proj", "experts.down_proj"];
  assert.deepEqual(
    [rows, columns],
    [
      [0, 1],
      ["q_proj", ...modules],
    ],
  );
  assert.deepEqual(cells[1], [[7], [8, 10, 12], [9, 11, 13]]);
  assert.deepEqual(State.expertMatrix(layers, 1), { experts: [0, 1, 2], modules, cells: cells[1].slice(1) });
});

test("a shared cell has the mean and the largest error of those that tokens reached", () => {
  const state = after(started(layers), done(1, 0.2, 50), done(3, null, 0), done(5, 0.4, 10));
  const facts = State.cellFacts(state, [1, 3, 5]);
  assert.ok(Math.abs(facts.mean - 0.3) < 1e-12);
  assert.deepEqual([facts.done, facts.starved, facts.worst, facts.at], [3, 1, 0.4, 5]);
  assert.deepEqual(State.cellFacts(state, [2]), { done: 0, starved: 0, mean: null, worst: null, at: null });
  assert.match(State.describeMatrix(state), /^3 of 14 layers solved; largest .* 0\.400 in l\.5\.$/);
  const nothing = after(started(layers), done(3, null, 0));
  assert.equal(State.describeMatrix(nothing), "1 of 14 layers solved.");
});

/** The matrix of a mixture half of whose layers are solved, and a way to draw it with the experts of a chosen block. */
function drawnMatrix(blocks, experts) {
  const all = mixture(blocks, experts);
  const events = all
    .slice(0, all.length / 2 + 1)
    .map((_, index) => done(index, index === 1 ? null : 0.1, index === 1 ? 0 : 5));
  const said = after(started(all), ...events);
  const place = document.querySelector("main");
  const draw = (chosen) => render(runMatrix({ said, isRunning: true, chosen, choose: draw }), place);
  draw(null);
  return place;
}

test("cells that experts share say in words how far they are, and lead to the experts of their block", () => {
  const place = drawnMatrix(2, 3);
  const [button, , later] = place.querySelectorAll("button");
  assert.equal(
    button.title,
    "block 0 experts.up_proj: 3 of 3 experts solved, mean error 0.100, largest 0.100 in expert 1, 1 without tokens",
  );
  assert.match(later.title, /3 experts: not yet$/);
  const inner = place.querySelector("[data-testid=matrix-experts]");
  assert.match(inner.textContent, /^Experts of block 1/);
  button.click();
  assert.match(inner.textContent, /^Experts of block 0/);
  assert.equal(inner.querySelectorAll(".is-starved").length, 1);
  const large = drawnMatrix(48, 128);
  assert.ok(large.querySelector("[data-testid=matrix]").childElementCount < 200);
});

/** Reads of layers, reports and results, in all that a page does with a run of so many blocks. */
function readsOf(blocks) {
  let reads = 0;
  const counted = (object) =>
    new Proxy(object, {
      get(target, key) {
        reads += 1;
        return Reflect.get(target, key);
      },
    });
  class Results extends Map {
    get(key) {
      reads += 1;
      return super.get(key);
    }
    *values() {
      for (const [, value] of this) yield value;
    }
    *[Symbol.iterator]() {
      for (const entry of super.entries()) {
        reads += 1;
        yield entry;
      }
    }
  }
  const results = new Results();
  const many = counted(mixture(blocks, 64).map(counted));
  let state = { ...after(started(many)), results };
  for (let index = 0; index < many.length; index += 1) {
    const event = done(index, 0.1, 5);
    state = State.reduce(state, { ...event, report: counted(event.report) });
  }
  assert.equal(state.results, results); // copies would be quadratic work that no count sees
  assert.equal(results.size, many.length);
  const { cells } = State.matrix(many);
  for (const row of cells) for (const members of row) State.cellFacts(state, members);
  State.describeMatrix(state);
  const rows = layerRows(counted(State.layerReports(state).map(counted)));
  worstRows(rows, 10);
  return reads;
}

test("twice as many layers are twice as much work to fold and to describe", () => {
  const [half, whole] = [readsOf(24), readsOf(48)]; // 3096 and 6192 layers
  assert.ok(whole < 2.01 * half, `${half} reads, then ${whole}`);
});

test("tokens stand in the table only where they differ, and what is not known is a dash", () => {
  const rowsOf = (...reports) =>
    layerRows(
      reports.map(([relative_recon, relative_held_out, n_tokens], at) => ({
        name: "abc"[at],
        report: { relative_recon, relative_held_out, relative_drift: 0.1, n_tokens, flags: [] },
      })),
    );
  const reports = [
    [0.1, 0.2, 100],
    [null, 0.5, 0],
    [0.3, null, 7],
  ];
  const rows = rowsOf(...reports);
  assert.deepEqual(each(rows, "relative_recon", "relative_held_out", "n_tokens"), reports);
  assert.equal(LAYER_COLUMNS.find((one) => one.key === "n_tokens").show(rows[1]), "0");
  assert.deepEqual(each(worstRows(rows, 2), "name"), ["b", "a"]);
  // A dense layer may be solved without any error, and all of them see the same tokens.
  const dense = rowsOf([0, 0, 100], [0.1, 0.1, 100]);
  assert.deepEqual(
    [each(dense, "relative_recon"), each(dense, "n_tokens")],
    [
      [0, 0.1],
      [null, null],
    ],
  );
});

test("a dense model has one list of layers", () => {
  const dense = [0, 1].map((index) => ({ index, label: `block ${index} · q_proj`, block: index, expert: null }));
  const choice = layerChoice({ layers: dense, layer: 1, blocks: null });
  assert.equal(choice.blocks, null);
  assert.deepEqual(choice.groups, [
    {
      title: null,
      options: [
        ["all", "all layers"],
        [0, "block 0 · q_proj"],
        [1, "block 1 · q_proj"],
      ],
    },
  ]);
  assert.equal(choice.layer, "1");
});

test("a mixture has a list of blocks, and one of the layers of the chosen block by expert", () => {
  const blocks = [
    [0, 0],
    [1, 7],
  ];
  const none = layerChoice({ layers: layers.slice(0, 7), layer: null, blocks });
  assert.deepEqual(none.blocks, [
    ["all", "all layers"],
    [0, "block 0"],
    [7, "block 1"],
  ]);
  assert.deepEqual([none.block, none.layer, none.groups], ["all", "all", []]);
  const view = { layers: layers.slice(7), layer: 11, blocks };
  const one = layerChoice(view);
  assert.equal(layerAt(view, 11).label, "block 1 · expert 1 · down_proj");
  assert.equal(layerAt(view, 3), undefined);
  assert.deepEqual([one.block, one.layer], ["7", "11"]);
  assert.deepEqual(each(one.groups, "title"), ["block 1", "expert 0", "expert 1", "expert 2"]);
  assert.deepEqual(one.groups[2].options, [
    [10, "expert 1 · up_proj"],
    [11, "expert 1 · down_proj"],
  ]);
});
