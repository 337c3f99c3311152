/** The Lab around its explorer: what opens, what a choice fetches, what the lists offer, and where a preview stands. */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as Explorer from "../../assets/js/explorer/state.js";
import { offered } from "../../assets/js/lab/preview_recipe.js";
import * as Lab from "../../assets/js/lab/state.js";
import { each } from "./given.js";

const line = {
  draws: [0],
  name: "sarqc-gbs",
  method: "sarqc-gbs",
  title: "SARQC",
  bits: 2,
  grid: "asymmetric",
  has_lam: true,
};
const view = {
  study: { id: "toy", title: "Toy", model: { name: "tiny" }, recipe: null, unseen: null },
  as_recipe: { recipe: { model: "tiny", calibration: "text", samples: 4 } },
  explore: true,
  line: { ...line, group_size: 128 },
  layer: 1,
  layers: [
    { index: 0, label: "block 0 · q", name: "q", block: 0, expert: null },
    { index: 1, label: "block 0 · v", name: "v", block: 0, expert: null },
  ],
  blocks: null,
  quantity: "held_out",
  quantities: [
    { name: "held_out", title: "error" },
    { name: "drift", title: "drift" },
  ],
  draw: null,
  draws: [0, 1],
  default: { method: "sarqc-gbs", bits: 2 },
  choices: [line, { ...line, name: "gptq", title: "GPTQ", method: "gptq" }, { ...line, bits: 3 }],
  lams: [0, 0.1],
  gammas: [0.5],
  second: { name: "gamma", sign: "γ" },
  start: { gamma: 0, lambda: 1 },
  figures: {},
};
const explored = [
  { type: "opened", view, arrays: {}, wanted: { study: "toy" } },
  { type: "pictured" },
  { type: "drawn" },
].reduce(Explorer.reduce, Explorer.initial());
const summary = { method: "sarqc-gbs", bits: 2, draws: [0], lambdas: 1, lam: 0.1 };
const study = (id, more = {}) => ({
  id,
  title: id.toUpperCase(),
  model: "toy",
  origin: "shipped",
  shipped: true,
  created: "2026-05-05T10:20:30+00:00",
  lines: [summary],
  layers: 2,
  ...more,
});
const begin = Lab.initial({ explored: Explorer.initial(), wanted: {} });
const after = (state, ...actions) => actions.reduce(Lab.reduce, state);
const open = after(
  begin,
  { type: "listed", studies: [study("toy"), study("b")], first: "b" },
  { type: "explored", explored },
);

test("without a wish the study that the server names opens, or the newest", () => {
  const studies = [study("new"), study("z"), study("a")];
  assert.equal(Lab.opening({ studies, first: "z" }, {}).load.study, "z");
  assert.equal(Lab.opening({ studies, first: null }, {}).load.study, "new");
  const wished = Lab.opening({ studies, first: "z" }, { study: "new", bits: 7 });
  assert.equal(wished.load.study, "new");
  assert.equal(wished.load.bits, undefined);
  assert.match(wished.remarks[0], /nothing at 7 bits/);
});

test("a study that is not there is said, and nothing is fetched", () => {
  const { load, problem } = Lab.opening({ studies: [study("a")], first: "a" }, { study: "moon" });
  assert.equal(load, null);
  assert.match(problem.what, /moon/);
  assert.equal(Lab.opening({ studies: [], first: null }, {}).problem, null);
});

test("the page opens with its first picture, an error, or the word that there is nothing", () => {
  assert.equal(Lab.isOpen(begin), false);
  assert.equal(Lab.isOpen(open), true);
  const none = after(begin, { type: "listed", studies: [], first: null });
  assert.deepEqual([Lab.isOpen(none), Lab.isEmpty(none)], [true, true]);
  const problem = { what: "The server does not answer." };
  const silent = after(none, { type: "explored", explored: { ...Explorer.initial(), problem } });
  assert.deepEqual([Lab.isOpen(silent), Lab.isEmpty(silent)], [true, false]);
});

test("what a choice fetches", () => {
  const address = Explorer.addressOf(explored);
  assert.deepEqual(Lab.fetchedFor(explored, "quantity", "drift"), { recolour: "drift" });
  assert.deepEqual(Lab.fetchedFor(explored, "layer", "0"), { load: { ...address, layer: 0 } });
  assert.deepEqual(Lab.fetchedFor(explored, "block", "all"), { load: { ...address, layer: "all" } });
  // Another study keeps the place on the axis, not the layer.
  const other = Lab.fetchedFor(explored, "study", "b").load;
  assert.deepEqual([other.study, other.lambda, other.layer, other.method], ["b", 0.1, undefined, undefined]);
  // A width keeps the method that it has.
  assert.equal(Lab.fetchedFor(explored, "bits", "3").load.method, "sarqc-gbs");
  const gptq = { ...explored, view: { ...view, line: { ...view.line, name: "gptq" } } };
  assert.equal(Lab.fetchedFor(gptq, "bits", "3").load.method, undefined);
  assert.deepEqual(Lab.fetchedFor(Explorer.initial(), "study", "b"), { load: { study: "b" } });
});

test("the lists of a line", () => {
  const lists = Object.fromEntries(Lab.picks(open).map((list) => [list.name, list]));
  assert.equal(Object.keys(lists).join(), "model,study,bits,method,block,layer,draw,quantity");
  assert.deepEqual(lists.model.groups[0].options, [["toy", "toy"]]);
  assert.deepEqual(lists.study.groups[0].options, [
    ["toy", "TOY"],
    ["b", "B"],
  ]);
  assert.deepEqual(lists.bits.groups[0].options, [
    [2, "2-bit"],
    [3, "3-bit"],
  ]);
  assert.deepEqual(lists.method.groups[0].options, [
    ["sarqc-gbs", "SARQC"],
    ["gptq", "GPTQ"],
  ]);
  const twin = { ...view.choices[1], name: "gptq-b", method: "gptq-b" };
  const doubled = { ...explored, view: { ...view, choices: [...view.choices, twin] } };
  const methods = Lab.picks({ ...open, explored: doubled }).find(({ name }) => name === "method").groups[0].options;
  assert.deepEqual(each(methods, 1), ["SARQC", "GPTQ · gptq", "GPTQ · gptq-b"]); // of one title each has its name too
  assert.deepEqual(lists.block.groups, []); // nothing to choose: it is not there
  assert.deepEqual([lists.layer.value, lists.draw.value, lists.quantity.value], ["1", "all", "held_out"]);
  assert.ok(Lab.picks({ ...open, explored: { ...explored, locked: ["bits", "layer"] } })[2].disabled);
  assert.deepEqual(each(Lab.picks(begin), "name"), ["model", "study"]);
});

test("a model opens its fullest study, and its studies are named by what is in them, one's own runs by λ", () => {
  const many = { ...summary, draws: [0, 1, 2], lambdas: 10 };
  const own = { origin: "run", shipped: false };
  const studies = [
    study("foreign", { origin: "uploaded", shipped: false, title: "", lines: [{ ...summary, lam: null }] }),
    study("late", { ...own, lines: [{ ...summary, lam: 0.3 }] }),
    study("early", { ...own, lines: [{ ...summary, lam: 0.05 }] }),
    study("few", { title: "Toy: ten methods" }),
    study("other", { model: "m", title: "m, a curve" }),
    study("full", { model: "m", title: "m: λ and γ", lines: [many] }),
  ];
  const listed = after(open, { type: "listed", studies, first: "few" });
  const at = (id) => ({ ...explored, view: { ...view, study: { ...view.study, id } } });
  const [models, ofToy] = Lab.picks(after(listed, { type: "explored", explored: at("few") }));
  assert.deepEqual(models.groups[0].options, [
    ["few", "toy"],
    ["full", "m"],
  ]);
  assert.deepEqual(each(ofToy.groups, "title"), [null, "Your runs"]);
  assert.deepEqual(ofToy.groups[0].options, [["few", "ten methods"]]);
  assert.deepEqual(each(ofToy.groups[1].options, 1), [
    "foreign · opened from a file",
    "λ = 0.05, 2 bits, gptq+saliency · 05-05 10:20",
    "λ = 0.3, 2 bits, gptq+saliency · 05-05 10:20",
  ]);
  const [, ofM] = Lab.picks(after(listed, { type: "explored", explored: at("full") }));
  assert.deepEqual(each(ofM.groups[0].options, 1), ["a curve", "λ and γ"]);
  assert.equal(Lab.fetchedFor(at("few"), "model", "full").load.study, "full");
  const alone = after(listed, { type: "listed", studies: [study("toy")], first: "toy" });
  const [, none] = Lab.picks(after(alone, { type: "explored", explored: at("toy") }));
  assert.deepEqual(none.groups, []); // of a single study there is nothing to choose
});

test("what need not stand in the address", () => {
  assert.deepEqual(Lab.standard(view, "b"), {
    study: "b",
    method: "sarqc-gbs",
    bits: 2,
    lambda: 0.1,
    gamma: 0.5,
    quantity: "held_out",
  });
  const third = { ...view, line: { ...view.line, bits: 3 } };
  assert.equal("bits" in Lab.standard(third, "b"), false);
});

const models = [{ name: "tiny" }];

test("a layer can be computed where the model is here", () => {
  assert.equal(offered(open), null);
  const state = after(open, { type: "offered", models });
  const recipe = offered(state);
  assert.deepEqual([recipe.layer, recipe.lambda, recipe.calibration], ["v", 0.1, "text"]);
  const whole = { ...state, explored: { ...explored, view: { ...view, layer: null } } };
  assert.equal(offered(whole), null);
  assert.equal(offered(after(open, { type: "offered", models: [] })), null);
  const own = { ...view, study: { ...view.study, recipe: { model: "/here" } } };
  assert.ok(
    offered(after(open, { type: "offered", models: [] }, { type: "explored", explored: { ...explored, view: own } })),
  );
});

const asked = offered(after(open, { type: "offered", models }));
const point = { type: "point_done", index: 0, total: 3, lam: 0, relative_recon: 0.2, relative_sar: 0.1 };

test("a preview from its begin to its end", () => {
  const begun = after(open, { type: "begun", recipe: asked });
  assert.deepEqual([begun.preview.points.length, begun.preview.run], [asked.sweep.length, null]);
  // The wish to stop may come before there is a run: it is kept, and so is it through what is still on its way.
  const run = { id: "r", name: "", recipe: { ...asked, sweep: [0, 0.05, 0.1] } };
  const made = after(begun, { type: "stopping" }, { type: "made", run }, { type: "heard", lost: true });
  const { preview } = made;
  assert.deepEqual([preview.run, preview.stopping, preview.lost, preview.lams.length], ["r", true, true, 3]);
  const heard = after(made, { type: "event", event: point });
  assert.deepEqual([heard.preview.points[0].recon, heard.preview.lost], [0.2, false]);
  const done = after(heard, { type: "event", event: { type: "finished", at: "2026-01-02T03:04:05" } });
  assert.deepEqual([done.preview.ended, done.preview.kept], ["finished", false]); // and it stays where it is
  assert.equal(after(done, { type: "kept" }).preview.kept, true);
  const over = after(done, { type: "over", problem: null });
  assert.deepEqual([over.preview, over.trouble], [null, null]);
  assert.equal(after(over, { type: "event", event: point }), over); // late
});

test("the address names the preview that is there, or that is being looked for", () => {
  const wanted = { ...open, wanted: { preview: "r" } };
  assert.equal(Lab.previewOf(open), undefined);
  assert.equal(Lab.previewOf(wanted), "r");
  const again = after(wanted, { type: "made", run: { id: "r", name: "kept", recipe: asked } });
  assert.deepEqual([Lab.previewOf(again), again.preview.kept], ["r", true]);
  assert.equal(Lab.previewOf(after(again, { type: "over", problem: null })), undefined);
});

test("a preview is drawn over its own layer, line and γ, and said elsewhere", () => {
  const overlayOf = Lab.overlays();
  const run = { id: "r", name: "", recipe: asked };
  const made = after(open, { type: "made", run });
  assert.equal(overlayOf(made), null); // no point yet
  const state = after(made, { type: "event", event: point });
  const overlay = overlayOf(state);
  assert.equal(overlay.recon[0], 0.2);
  const moved = after(state, { type: "explored", explored: { ...explored, at: { gamma: 0, lambda: 0 } } });
  assert.equal(overlayOf(moved), overlay); // the same object: nothing is drawn anew
  assert.deepEqual(Lab.previewFacts(state), ["draw 0 alone (the curve: mean of 2 draws)"]);

  const at = (more) => after(state, { type: "explored", explored: { ...explored, view: { ...view, ...more } } });
  for (const more of [{ layer: 0 }, { layer: null }, { gammas: [0.1] }, { line: { ...view.line, bits: 3 } }]) {
    assert.equal(overlayOf(at(more)), null, JSON.stringify(more));
    assert.deepEqual(Lab.previewFacts(at(more)), ["drawn where its layer, method and γ are shown"]);
  }
});
