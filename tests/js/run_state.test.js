/** A run's events folded into what the page shows. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { keptWords } from "../../assets/js/calibrate/kept.js";
import * as State from "../../assets/js/calibrate/run_state.js";

const layers = [0, 1].flatMap((block) =>
  ["q_proj", "down_proj"].map((module) => ({ name: `layers.${block}.${module}`, block, module })),
);
const started = {
  type: "started",
  seq: 1,
  model: "toy",
  device: "cpu",
  layers,
  share_quantized: 0.9,
  finished_layers: 0,
};
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
  assert.equal(State.currentLayer(state), "layers.1.q_proj");
});

test("layers from disk say nothing about the pace", () => {
  const state = after(started, done(2, 0, 0.001, true));
  assert.equal(State.pace(state), null);
});

test("a stream that begins again changes nothing", () => {
  const once = after(started, done(2, 0));
  assert.deepEqual([started, done(2, 0)].reduce(State.reduce, once), once);
});

test("how long a run is kept is one phrase", () => {
  const until = "2033-05-18T12:00:00Z";
  assert.equal(keptWords(undefined), "");
  assert.equal(keptWords({ until: null, shared: false, while_room: false }), "");
  assert.equal(keptWords({ until: null, shared: true, while_room: false }), "while its share link lasts");
  assert.match(keptWords({ until, shared: false, while_room: false }), /^until 2033-05-18 \d\d:\d\d$/);
  assert.match(keptWords({ until, shared: false, while_room: true }), /, or until room is needed; a name/);
});

test("a run that stepped aside says so and has not ended", () => {
  const state = after(started, done(2, 0), { type: "yielded", seq: 3, what: "It stepped aside." });
  assert.equal(state.log.at(-1).text, "It stepped aside.");
  assert.equal(state.ended, null);
  assert.equal(State.progress(state).done, 1);
});

test("a run that waits for room on the disk says so and has not ended", () => {
  const what = "The run waits for room on the disk, which is full.";
  const state = after(started, done(2, 0), { type: "yielded", seq: 3, what, waits_for_room: true });
  assert.equal(state.log.at(-1).text, what);
  assert.equal(state.ended, null);
});

test("a further attempt begins anew", () => {
  const state = after(
    started,
    done(2, 0),
    { type: "interrupted", seq: 3, what: "lost" },
    { ...started, seq: 4, finished_layers: 1 },
  );
  assert.deepEqual(State.progress(state), { done: 0, total: 4 });
  assert.equal(state.ended, null);
  assert.match(state.log.at(-1).text, /1 of 4 layers are already on disk/);
});

const epoch = (seq, block, number, objective, epochs = 2) => ({
  type: "epoch_done",
  seq,
  block,
  epoch: number,
  epochs,
  objective,
  recon: 1,
  sar: 1,
});
const candidate = (seq, index, lam, perplexity) => ({ type: "candidate_done", seq, index, total: 3, lam, perplexity });
const stage = (seq, name, detail = "") => ({ type: "stage", seq, name, detail });

test("the first block that is not done is known once one before it is", () => {
  assert.equal(State.unfinishedBlock(after(started)), null);
  const half = after(started, done(2, 0), done(3, 1));
  assert.equal(State.unfinishedBlock(half), half.layers[2].block);
  assert.notEqual(half.layers[2].block, half.layers[0].block);
  assert.equal(State.unfinishedBlock(after(started, done(2, 0))), null);
  assert.equal(State.unfinishedBlock(after(started, done(2, 0), done(3, 1), done(4, 2), done(5, 3))), null);
});

test("each epoch of a distillation reports its KL on unseen text", () => {
  const tuned = { type: "scales_distilled", epoch: 2, epochs: 5, calibration_kl: 0.1, held_out_kl: 0.1234, drift: 0.4 };
  assert.equal(
    after(started, { ...tuned, seq: 2 }).log.at(-1).text,
    "Scales after epoch 2 of at most 5: held-out KL 0.123",
  );
});

test("each block of a distillation reports its held-out error before and after", () => {
  const tuned = {
    type: "block_distilled",
    block: 3,
    blocks: 6,
    epochs: 4,
    kept: 2,
    held_out_before: 0.1234,
    held_out: 0.1,
  };
  assert.equal(
    after(started, { ...tuned, drift_before: 0.4, drift: 0.4, seq: 2 }).log.at(-1).text,
    "Scales of block 3: held-out error 0.123 → 0.100 in 2 of 4 epochs",
  );
});

test("the trial of the largest layer says what it took, where that is known", () => {
  const tried = (seq, peak, all) => ({
    type: "dry_run",
    seq,
    block: "model.layers.0",
    layer: "model.layers.0.mlp.down_proj",
    peak_bytes: peak,
    device_bytes: all,
    seconds: 2.5,
  });
  const known = after(started, tried(2, 13 * 2 ** 30, 80 * 2 ** 30));
  assert.equal(known.log.at(-1).text, "The largest layer fits: 13.0\u00a0GiB of 80.0\u00a0GiB at the peak");
  assert.match(after(started, tried(2, null, null)).log.at(-1).text, /^The largest layer was tried in /);
});

test("a block that is learned tells where it stands, and one line when it is done", () => {
  const begun = after(started, stage(2, "quantizing"), epoch(3, 0, 0, 0.91), epoch(4, 0, 1, 0.875));
  assert.equal(State.learningWords(begun), "block 0 · epoch 1 of 2 · objective 0.875 (0.910 before the first step)");
  assert.deepEqual(
    [0, 1, 2, 3].map((index) => State.isCurrent(begun, index)),
    [true, true, false, false],
  );
  assert.equal(begun.log.length, 2);
  assert.equal(State.workDone(begun, State.progress(begun)), 0.25);
  const done0 = [epoch(5, 0, 2, 0.87), done(6, 0), done(7, 1)].reduce(State.reduce, begun);
  assert.equal(done0.log.at(-1).text, "Block 0: objective 0.910 → 0.870 after 2 epochs");
  assert.equal(done0.log.length, 3);
  assert.equal(State.workDone(done0, State.progress(done0)), 0.5);
  const next = [epoch(8, 1, 0, 0.5)].reduce(State.reduce, done0);
  assert.equal(State.learningWords(next), "block 1 · epoch 0 of 2 · objective 0.500");
  assert.deepEqual(
    [0, 1, 2, 3].map((index) => State.isCurrent(next, index)),
    [false, false, true, true],
  );
  assert.equal(State.learningWords(after(started, stage(2, "measuring"))), "");
});

test("early stopping tells each check, and one line for the state that a block keeps", () => {
  const check = (step, error) => ({ step, steps: 200, error: 2 * error, held_out_error: error, drift: 0.4 });
  const checked = (seq, block, step, error) => ({ type: "rounding_checked", seq, block, ...check(step, error) });
  const rounded = (seq, block, kept, checks) => ({ type: "block_rounded", seq, block, kept, checks });
  const begun = after(started, stage(2, "quantizing"), checked(3, 0, 0, 0.5), checked(4, 0, 100, 0.25));
  assert.equal(
    State.learningWords(begun),
    "block 0 · step 100 of 200 · held-out error 0.250 (0.500 before the first step)",
  );
  assert.equal(State.workDone(begun, State.progress(begun)), 0.25);
  assert.equal(begun.rounded, null);
  const checks = [check(0, 0.5), check(100, 0.25), check(110, 0.3)];
  const done0 = [rounded(5, 0, 100, checks), done(6, 0), done(7, 1)].reduce(State.reduce, begun);
  assert.equal(done0.log.at(-1).text, "Block 0: held-out error 0.500 → 0.250, kept after 100 of at most 200 steps");
  assert.deepEqual(done0.rounded, { blocks: 1 });
  const both = [rounded(8, 1, 0, checks)].reduce(State.reduce, done0);
  assert.equal(both.log.at(-1).text, "Block 1: held-out error 0.500 → 0.500, kept after 0 of at most 200 steps");
  assert.notEqual(both.rounded, done0.rounded);
  const next = [checked(9, 1, 10, 0.1)].reduce(State.reduce, both); // its start was told to another page
  assert.equal(State.learningWords(next), "block 1 · step 10 of 200 · held-out error 0.100");
});

test("an objective that is not a number breaks nothing", () => {
  const state = after(started, epoch(2, 0, 0, null), epoch(3, 0, 2, null));
  assert.equal(State.learningWords(state), "block 0 · epoch 2 of 2 · objective –");
});

test("candidates of λ are kept, told once each, and the best is known", () => {
  const events = [
    started,
    stage(2, State.CHOOSING),
    candidate(3, 0, 0.1, 41.7),
    candidate(4, 1, 0.3, 41.2),
    candidate(5, 2, 1, null),
  ];
  const state = after(...events);
  assert.equal(State.choosing(state), true);
  assert.deepEqual(
    state.candidates.map((one) => one.lam),
    [0.1, 0.3, 1],
  );
  assert.equal(State.bestCandidate(state.candidates).lam, 0.3);
  assert.equal(State.bestCandidate([]), null);
  assert.equal(state.log.at(-2).text, "λ = 0.3: perplexity 41.2 on the sequences kept for judging");
  assert.deepEqual(
    [0, 1, 2, 3].map((index) => State.isCurrent(state, index)),
    [false, false, false, false],
  );
  assert.equal(State.workDone(state, State.progress(state)), 0.75);
  assert.deepEqual(events.reduce(State.reduce, state), state);
  const solving = [stage(6, "quantizing"), done(7, 0)].reduce(State.reduce, state);
  assert.equal(State.choosing(solving), false);
  assert.equal(solving.candidates.length, 3);
  assert.equal(State.isCurrent(solving, 1), true);
  assert.equal(State.workDone(solving, State.progress(solving)), (3 + 1 / 4) / 4);
  assert.deepEqual(State.reduce(solving, { ...started, seq: 8 }).candidates, []);
});

test("blocks learned for a candidate stay out of the log and begin anew for the next one", () => {
  const first = after(
    started,
    stage(2, State.CHOOSING),
    epoch(3, 0, 0, 2),
    epoch(4, 0, 2, 1),
    candidate(5, 0, 0.1, 41.7),
  );
  assert.equal(first.log.length, 3);
  assert.equal(first.learning, null);
  const second = [epoch(6, 0, 0, 3), epoch(7, 0, 1, 2)].reduce(State.reduce, first);
  assert.match(State.learningWords(second), /2\.00 \(3\.00 before the first step\)/);
});

test("a layer that is alone counts with its λ", () => {
  const point = (seq, index) => ({
    type: "point_done",
    seq,
    name: "a",
    index,
    total: 4,
    lam: index,
    relative_recon: 0.1,
  });
  const state = after({ ...started, layers: layers.slice(0, 1) }, point(2, 0), point(3, 1));
  assert.equal(State.workDone(state, State.progress(state)), 0.5);
  assert.equal(State.workDone(after(started, { ...started, seq: 2 }), { done: 0, total: 4 }), 0);
});

test("reports come in the order of the model", () => {
  const reports = State.layerReports(after(started, done(2, 1), done(3, 0)));
  assert.deepEqual(
    reports.map((one) => one.name),
    ["layers.0.q_proj", "layers.0.down_proj"],
  );
  assert.equal(reports[1].report.relative_recon, 0.2);
});

test("each ending is known", () => {
  assert.equal(
    after(started, { type: "finished", seq: 2, summary: { perplexity: 1 }, seconds: 5 }).summary.perplexity,
    1,
  );
  assert.equal(
    after(started, { type: "failed", seq: 2, kind: "error", what: "no", where: "", remedy: "" }).failure.what,
    "no",
  );
  assert.equal(after(started, { type: "cancelled", seq: 2 }).ended, "cancelled");
});

test("an unknown event is passed over", () => {
  assert.equal(after(started, { type: "sang", seq: 2 }).log.length, 1);
});

test("the matrix has a row per block and a column per module", () => {
  const { rows, columns, cells } = State.matrix(layers);
  assert.deepEqual(
    [rows, columns, cells],
    [
      [0, 1],
      ["q_proj", "down_proj"],
      [
        [[0], [1]],
        [[2], [3]],
      ],
    ],
  );
});

test("colours follow the logarithm of the error", () => {
  assert.equal(State.heat(0.001), 0);
  assert.equal(State.heat(1), 1);
  assert.ok(Math.abs(State.heat(0.1) - 2 / 3) < 1e-12);
  assert.equal(State.heat(null), 0);
  assert.equal(State.shade(0), "rgb(0,32,76)");
  assert.equal(State.shade(1), "rgb(255,233,69)");
});

test("the matrix in words", () => {
  assert.equal(
    State.describeMatrix(after(started, done(2, 0), done(3, 1))),
    "2 of 4 layers solved; largest relative reconstruction error 0.200 in layers.0.down_proj.",
  );
});

test("how far the model is from the float one, and from GPTQ, is told in the log", () => {
  const far = { log_ratio: 0.2391, log_ratio_standard_error: 0.0085, kl: 0.32397, kl_standard_error: 0.0048 };
  const divergences = { ...far, kl_99: 1.757, same_top: 0.5932, same_top_standard_error: 0.0046 };
  const baseline = { words: "2.8 ± 0.9 % lower perplexity than GPTQ 1 % at the same grid." };
  const state = after(started, { type: "diverged", seq: 2, divergences }, { type: "compared", seq: 3, baseline });
  assert.deepEqual(
    state.log.slice(1).map((line) => line.text.replaceAll("\u00a0", " ")),
    [
      "Beside the float model: ln(quantized / float) 0.239 ± 0.009; KL from float, nats a token 0.324 ± 0.005; KL, 99 % of tokens below 1.76; Same top token 59.3 ± 0.5 %",
      baseline.words,
    ],
  );
});

test("texts and speed are told in the log", () => {
  const text = (seq, divergence) => ({ type: "texts_compared", seq, index: seq - 2, total: 2, greedy: { divergence } });
  const state = after(started, text(2, null), text(3, 4), {
    type: "speed_measured",
    seq: 4,
    kernel: null,
    reason: "no kernel for 3 bits",
  });
  const said = state.log.map((line) => [line.text, line.tone]).slice(1);
  assert.deepEqual(said, [
    ["Text 1 of 2: the same greedy text", ""],
    ["Text 2 of 2: greedy texts apart from token 5", ""],
    ["Speed: no kernel for 3 bits", "warn"],
  ]);
});

test("no layer is worked on while the float model is measured, and windows say how far that is", () => {
  const phases = [
    { stage: "measuring the float model", detail: "perplexity", seconds: 30 },
    { stage: "quantizing", detail: "", seconds: 10 },
  ];
  const stage = (seq, name, detail = "") => ({ seq, type: "stage", at: "2026-07-01T12:00:00Z", name, detail });
  const measuring = after({ ...started, phases }, stage(2, "measuring the float model", "perplexity"), {
    seq: 3,
    type: "advanced",
    at: "2026-07-01T12:00:10Z",
    done: 5,
    total: 10,
    what: "windows of the test text",
  });
  assert.deepEqual(
    [0, 1, 2, 3].filter((index) => State.isCurrent(measuring, index)),
    [],
  );
  assert.equal(State.withinPhase(measuring), 0.5);
  assert.equal(State.clock(measuring, Date.parse("2026-07-01T12:00:00Z")).done, 15 / 40);
  const solving = [stage(4, "quantizing")].reduce(State.reduce, measuring);
  assert.deepEqual(
    [0, 1, 2, 3].filter((index) => State.isCurrent(solving, index)),
    [0],
  );
  assert.equal(State.withinPhase(solving), 0);
});

test("a waiting run says how many are ahead, of whomever, and when it begins", () => {
  const words = (place) => State.queueWords(place).replaceAll("\u00a0", " ");
  assert.equal(words(null), "next in the queue");
  const next = { number: 1, at_work: 1, worked: 180, behind: null, seconds: 100 };
  assert.equal(words(next), "next in the queue: one run is at work, for 3 min so far; it begins in about 1 min 40 s");
  assert.equal(
    words({ ...next, number: 4, at_work: 2, seconds: null }),
    "number 4 in the queue: 2 runs are at work, the next to end for 3 min so far; 3 wait before it; how long that takes is not known",
  );
  assert.equal(words({ ...next, at_work: 0, worked: null, seconds: null }), "next in the queue");
});
