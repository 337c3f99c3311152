/** How far a run is by time: plans are corrected by what phases took. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { share, timed } from "../../assets/js/calibrate/run_clock.js";

const PHASES = [
  { stage: "loading", detail: "", seconds: 1 },
  { stage: "measuring the float model", detail: "perplexity", seconds: 10 },
  { stage: "measuring the float model", detail: "a task", seconds: 20 },
  { stage: "quantizing", detail: "", seconds: 30 },
];
const at = (seconds) => new Date(1e12 + 1000 * seconds).toISOString();
const now = (seconds) => 1e12 + 1000 * seconds;
const walk = (...steps) =>
  steps.reduce((before, [stage, detail, when]) => timed(PHASES, before, stage, detail, at(when)), null);

test("the bar goes by time, and the plan's own pace counts until something is known", () => {
  const phase = walk(["loading", "tiny", 0]);
  const begun = share(PHASES, phase, null, now(0.5));
  assert.ok(begun.done < 1 / 61 && begun.left > 60);
  const half = share(PHASES, walk(["loading", "", 0], ["measuring the float model", "perplexity", 1]), 0.5, now(6));
  assert.deepEqual(half, { done: 6 / 61, left: 55 });
});

test("a host that is twice as slow has twice as much left", () => {
  const phase = walk(
    ["loading", "", 0],
    ["measuring the float model", "perplexity", 2],
    ["measuring the float model", "a task", 22],
  );
  const { done, left } = share(PHASES, phase, null, now(22));
  assert.equal(done, 11 / 61);
  assert.ok(left > 75 && left < 100); // not all at once
  // What says nothing of itself goes on by the clock, and waits before its end.
  assert.ok(share(PHASES, phase, null, now(42)).done > (11 + 10) / 61);
  assert.ok(share(PHASES, phase, null, now(1000)).done < 31 / 61);
});

test("what is left changes little from one second to the next, also on a slow host", () => {
  const slow = 2.5;
  const ends = [1, 11, 31, 61].map((planned) => slow * planned);
  let phase = null;
  const left = [];
  for (let second = 0; second < ends.at(-1); second++) {
    const index = ends.findIndex((end) => second < end);
    const { stage, detail, seconds } = PHASES[index];
    phase = timed(PHASES, phase, stage, detail, at(ends[index] - slow * seconds));
    const within = stage === "quantizing" ? (second - (ends[index] - slow * seconds)) / (slow * seconds) : null;
    left.push(share(PHASES, phase, within, now(second)).left);
  }
  const jumps = left.slice(1).map((value, index) => Math.abs(value - left[index]));
  assert.ok(Math.max(...jumps) < 10, String(Math.max(...jumps)));
  assert.ok(left.at(-1) < 3);
});

test("what was on disk says nothing about the pace", () => {
  const phase = walk(["loading", "", 0], ["measuring the float model", "perplexity", 1], ["quantizing", "x", 1.1]);
  assert.equal(phase.index, 3);
  assert.equal(phase.taken, 1);
  assert.equal(share(PHASES, phase, 0, now(1.1)).left, 30);
});

test("a stage that was not planned belongs to the one before", () => {
  const phase = walk(["loading", "", 0], ["quantizing", "x", 1]);
  assert.equal(timed(PHASES, phase, "saving", "study", at(9)), phase);
  assert.equal(timed(PHASES, phase, "measuring the float model", "its predictions", at(9)), phase);
  assert.equal(share([], null, null, now(0)), null);
});
