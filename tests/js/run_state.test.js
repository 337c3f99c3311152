/** A run's events folded into what the page shows. */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as State from "../../assets/js/run_state.js";

const layers = [0, 1].flatMap((block) => ["q_proj", "down_proj"].map((module) => ({ name: `layers.${block}.${module}`, block, module })));
const started = { type: "started", seq: 1, model: "toy", device: "cpu", layers, share_quantized: 0.9, finished_layers: 0 };
const done = (seq, index, seconds = 2, cached = false) => ({
  type: "layer_done",
  seq,
  name: layers[index].name,
  index,
  total: 4,
  report: { relative_recon: 0.1 * (index + 1), relative_drift: 0.5 },
  seconds,
  from_cache: cached,
});
const after = (...events) => events.reduce(State.reduce, State.initial());

test("layers fill up, and the rest is estimated from the pace", () => {
  const state = after(started, done(2, 0, 2), done(3, 1, 4));
  assert.deepEqual(State.progress(state), { done: 2, total: 4 });
  assert.equal(State.pace(state), 3);
  assert.equal(State.remaining(state), 6);
  assert.equal(State.currentLayer(state), "layers.1.q_proj");
});

test("layers from disk say nothing about the pace", () => {
  const state = after(started, done(2, 0, 0.001, true));
  assert.equal(State.pace(state), null);
  assert.equal(State.remaining(state), null);
});

test("a stream that begins again changes nothing", () => {
  const once = after(started, done(2, 0));
  assert.deepEqual([started, done(2, 0)].reduce(State.reduce, once), once);
});

test("a further attempt begins anew", () => {
  const state = after(started, done(2, 0), { type: "interrupted", seq: 3, what: "lost" }, { ...started, seq: 4, finished_layers: 1 });
  assert.deepEqual(State.progress(state), { done: 0, total: 4 });
  assert.equal(state.ended, null);
  assert.match(state.log.at(-1).text, /1 of 4 layers are already on disk/);
});

test("each ending is known", () => {
  assert.equal(after(started, { type: "finished", seq: 2, summary: { perplexity: 1 }, seconds: 5 }).summary.perplexity, 1);
  assert.equal(after(started, { type: "failed", seq: 2, kind: "error", what: "no", where: "", remedy: "" }).failure.what, "no");
  assert.equal(after(started, { type: "cancelled", seq: 2 }).ended, "cancelled");
});

test("an unknown event is passed over", () => {
  assert.equal(after(started, { type: "sang", seq: 2 }).log.length, 1);
});

test("the matrix has a row per block and a column per module", () => {
  const { rows, columns, cells } = State.matrix(layers);
  assert.deepEqual([rows, columns, cells], [[0, 1], ["q_proj", "down_proj"], [[0, 1], [2, 3]]]);
});

test("colours follow the logarithm of the error", () => {
  assert.equal(State.heat(0.001), 0);
  assert.equal(State.heat(1), 1);
  assert.ok(Math.abs(State.heat(0.1) - 2 / 3) < 1e-12);
  assert.equal(State.heat(null), 0);
  assert.equal(State.shade(0), "rgb(0,34,78)");
  assert.equal(State.shade(1), "rgb(254,232,56)");
});

test("the matrix in words", () => {
  assert.equal(
    State.describeMatrix(after(started, done(2, 0), done(3, 1))),
    "2 of 4 layers solved; largest relative reconstruction error 0.200 in layers.0.down_proj.",
  );
});
