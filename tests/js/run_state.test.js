/** A run's events folded into what the page shows. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { keptWords } from "../../assets/js/calibrate/kept.js";
import * as State from "../../assets/js/calibrate/run_state.js";
import { each, layerDone, plain, started as startedWith } from "./given.js";

const layers = [0, 1].flatMap((block) =>
  ["q_proj", "down_proj"].map((module) => ({ name: `layers.${block}.${module}`, block, module })),
);
const started = startedWith(layers);
const done = (seq, index, seconds = 2, cached = false) =>
  layerDone(
    seq,
    index,
    { relative_recon: 0.1 * (index + 1), relative_drift: 0.5 },
    { name: layers[index].name, seconds, from_cache: cached },
  );
const after = (...events) => events.reduce(State.reduce, State.initial());

const lastLine = (...events) => after(started, ...events).log.at(-1).text;
const current = (state) => [0, 1, 2, 3].filter((index) => State.isCurrent(state, index));

test("layers fill up, and the rest is estimated from the pace", () => {
  const state = after(started, done(2, 0, 2), done(3, 1, 4));
  assert.deepEqual(State.progress(state), { done: 2, total: 4 });
  assert.equal(State.pace(state), 3);
  assert.equal(State.currentLayer(state), "layers.1.q_proj");
  assert.equal(State.pace(after(started, done(2, 0, 0.001, true))), null); // what comes from disk has none
});

test("how long a run is kept is one phrase", () => {
  const until = "2033-05-18T12:00:00Z";
  assert.equal(keptWords(undefined), "");
  assert.equal(keptWords({ until: null, shared: false, while_room: false }), "");
  assert.equal(keptWords({ until: null, shared: true, while_room: false }), "while its share link lasts");
  assert.match(keptWords({ until, shared: false, while_room: false }), /^until 2033-05-18 \d\d:\d\d$/);
  assert.match(keptWords({ until, shared: false, while_room: true }), /, or until room is needed; a name/);
});

test("a run that steps aside or waits for room on the disk says so and has not ended", () => {
  for (const more of [{}, { waits_for_room: true }]) {
    const state = after(started, done(2, 0), { type: "yielded", seq: 3, what: "It stepped aside.", ...more });
    assert.deepEqual([state.log.at(-1).text, state.ended, State.progress(state).done], ["It stepped aside.", null, 1]);
  }
});

test("a further attempt begins anew", () => {
  const again = { ...started, seq: 4, finished_layers: 1 };
  const state = after(started, done(2, 0), { type: "interrupted", seq: 3, what: "lost" }, again);
  assert.deepEqual(State.progress(state), { done: 0, total: 4 });
  assert.equal(state.ended, null);
  assert.match(state.log.at(-1).text, /1 of 4 layers are already on disk/);
});

const learned = { type: "epoch_done", epochs: 2, recon: 1, sar: 1 };
const epoch = (seq, block, number, objective) => ({ ...learned, seq, block, epoch: number, objective });
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

test("what is told once is one line of the log", () => {
  const epoch = { type: "scales_distilled", epoch: 2, epochs: 5, calibration_kl: 0.1, held_out_kl: 0.1234, drift: 0.4 };
  assert.equal(lastLine({ ...epoch, seq: 2 }), "Scales after epoch 2 of at most 5: held-out KL 0.123");
  const block = {
    type: "block_distilled",
    block: 3,
    blocks: 6,
    epochs: 4,
    kept: 2,
    held_out_before: 0.1234,
    held_out: 0.1,
  };
  assert.equal(lastLine({ ...block, seq: 2 }), "Scales of block 3: held-out error 0.123 → 0.100 in 2 of 4 epochs");
  const trial = { type: "dry_run", seq: 2, block: "b", layer: "b.down_proj", seconds: 2.5 };
  const known = { ...trial, peak_bytes: 13 * 2 ** 30, device_bytes: 80 * 2 ** 30 };
  assert.equal(plain(lastLine(known)), "The largest layer fits: 13.0 GiB of 80.0 GiB at the peak");
  assert.match(lastLine({ ...trial, peak_bytes: null, device_bytes: null }), /^The largest layer was tried in /);
});

test("a block that is learned tells where it stands, and one line when it is done", () => {
  const begun = after(started, stage(2, "quantizing"), epoch(3, 0, 0, 0.91), epoch(4, 0, 1, 0.875));
  assert.equal(State.learningWords(begun), "block 0 · epoch 1 of 2 · objective 0.875 (0.910 before the first step)");
  assert.deepEqual(current(begun), [0, 1]);
  assert.equal(begun.log.length, 2);
  assert.equal(State.workDone(begun, State.progress(begun)), 0.25);
  const done0 = [epoch(5, 0, 2, 0.87), done(6, 0), done(7, 1)].reduce(State.reduce, begun);
  assert.equal(done0.log.at(-1).text, "Block 0: objective 0.910 → 0.870 after 2 epochs");
  assert.equal(done0.log.length, 3);
  assert.equal(State.workDone(done0, State.progress(done0)), 0.5);
  const next = [epoch(8, 1, 0, 0.5)].reduce(State.reduce, done0);
  assert.equal(State.learningWords(next), "block 1 · epoch 0 of 2 · objective 0.500");
  assert.deepEqual(current(next), [2, 3]);
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
  const told = [candidate(3, 0, 0.1, 41.7), candidate(4, 1, 0.3, 41.2), candidate(5, 2, 1, null)];
  const events = [started, stage(2, State.CHOOSING), ...told];
  const state = after(...events);
  assert.equal(State.choosing(state), true);
  assert.deepEqual(each(state.candidates, "lam"), [0.1, 0.3, 1]);
  assert.equal(State.bestCandidate(state.candidates).lam, 0.3);
  assert.equal(State.bestCandidate([]), null);
  assert.equal(state.log.at(-2).text, "λ = 0.3: perplexity 41.2 on the sequences kept for judging");
  assert.deepEqual(current(state), []);
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
  const told = [epoch(3, 0, 0, 2), epoch(4, 0, 2, 1), candidate(5, 0, 0.1, 41.7)];
  const first = after(started, stage(2, State.CHOOSING), ...told);
  assert.equal(first.log.length, 3);
  assert.equal(first.learning, null);
  const second = [epoch(6, 0, 0, 3), epoch(7, 0, 1, 2)].reduce(State.reduce, first);
  assert.match(State.learningWords(second), /2\.00 \(3\.00 before the first step\)/);
});

test("a layer that is alone counts with its λ", () => {
  const common = { type: "point_done", name: "a", total: 4, relative_recon: 0.1 };
  const point = (seq, index) => ({ ...common, seq, index, lam: index });
  const state = after({ ...started, layers: layers.slice(0, 1) }, point(2, 0), point(3, 1));
  assert.equal(State.workDone(state, State.progress(state)), 0.5);
  assert.equal(State.workDone(after(started, { ...started, seq: 2 }), { done: 0, total: 4 }), 0);
});

test("reports come in the order of the model", () => {
  const reports = State.layerReports(after(started, done(2, 1), done(3, 0)));
  assert.deepEqual(each(reports, "name"), ["layers.0.q_proj", "layers.0.down_proj"]);
  assert.equal(reports[1].report.relative_recon, 0.2);
});

test("each ending is known", () => {
  const ended = (type, more) => after(started, { type, seq: 2, ...more });
  assert.equal(ended("finished", { summary: { perplexity: 1 }, seconds: 5 }).summary.perplexity, 1);
  assert.equal(ended("failed", { kind: "error", what: "no", where: "", remedy: "" }).failure.what, "no");
  assert.equal(ended("cancelled").ended, "cancelled");
  assert.equal(ended("sang").log.length, 1); // what is not known is passed over
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
  assert.match(plain(state.log[1].text), /^Beside the float model: KL .* 59\.3 ± 0\.5 %$/);
  assert.equal(state.log[2].text, baseline.words);
});

test("texts and speed are told in the log", () => {
  const text = (seq, divergence) => ({ type: "texts_compared", seq, index: seq - 2, total: 2, greedy: { divergence } });
  const speed = { type: "speed_measured", seq: 4, kernel: null, reason: "no kernel for 3 bits" };
  const state = after(started, text(2, null), text(3, 4), speed);
  assert.deepEqual(each(state.log, "text", "tone").slice(1), [
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
  const windows = { type: "advanced", seq: 3, at: "2026-07-01T12:00:10Z", done: 5, total: 10, what: "windows" };
  const measuring = after({ ...started, phases }, stage(2, "measuring the float model", "perplexity"), windows);
  assert.deepEqual(current(measuring), []);
  assert.equal(State.withinPhase(measuring), 0.5);
  assert.equal(State.clock(measuring, Date.parse("2026-07-01T12:00:00Z")).done, 15 / 40);
  const solving = [stage(4, "quantizing")].reduce(State.reduce, measuring);
  assert.deepEqual(current(solving), [0]);
  assert.equal(State.withinPhase(solving), 0);
});

test("a waiting run says how many are ahead, of whomever, and when it begins", () => {
  const words = (place) => plain(State.queueWords(place));
  assert.equal(words(null), "next in the queue");
  const next = { number: 1, at_work: 1, worked: 180, behind: null, seconds: 100 };
  assert.equal(words(next), "next in the queue: one run is at work, for 3 min so far; it begins in about 1 min 40 s");
  assert.equal(
    words({ ...next, number: 4, at_work: 2, seconds: null }),
    "number 4 in the queue: 2 runs are at work, the next to end for 3 min so far; 3 wait before it; how long that takes is not known",
  );
  assert.equal(words({ ...next, at_work: 0, worked: null, seconds: null }), "next in the queue");
});
