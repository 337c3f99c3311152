/** The page of a calibration: what its form, its plan and its run make of each other; and a plan in words. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { choicesOf } from "../../assets/js/calibrate/budgets.js";
import { reduce, START } from "../../assets/js/calibrate/calibrate_state.js";
import { planFacts } from "../../assets/js/calibrate/plan_facts.js";
import { each, plain } from "./given.js";

const after = (...actions) => actions.reduce(reduce, START);
const refusal = { what: "Too many sequences", where: "samples", remedy: "Fewer." };
const plan = {
  model: "tiny",
  family: "LLaMA",
  parameters: 1_000_000,
  share_quantized: 0.75,
  layers: 14,
  experts: 0,
  per_channel_layers: [],
  bits_per_weight: 3.25,
  bytes_before: 4 * 2 ** 20,
  bytes_after: 2 ** 20,
  memory_bytes: 50 * 2 ** 20,
  host_bytes: null,
  disk_bytes: 3 * 2 ** 20,
  streamed: false,
  calibration_tokens: 2048,
  test_tokens: null,
  minutes: 0.4,
  minutes_on: "two CPU cores",
  load: 0,
  formats: [],
  warnings: [],
};

test("a run can be begun with a plan that is whole, and only then", () => {
  assert.equal(START.canStart, false);
  const made = after({ type: "planning", model: "tiny" }, { type: "planned", plan, tuned: null });
  assert.deepEqual([made.canStart, made.isStale, made.refusal], [true, false, null]);
  const again = reduce(made, { type: "planning", model: "another" });
  assert.deepEqual([again.canStart, again.isStale, again.plan], [false, true, plan]); // the last one stays meanwhile
  assert.equal(again.checking, "another");
  const refused = reduce(again, { type: "refused", refusal });
  assert.deepEqual([refused.canStart, refused.isStale, refused.refusal], [false, false, refusal]);
  assert.equal(reduce(refused, { type: "planned", plan, tuned: null }).refusal, null);
});

const tuned = (sensible) => ({ plan: { comparing: { budgets: [], sensible_minutes: sensible }, warnings: [] } });

test("the shortest sensible budget is preselected, and one that was chosen stays with its model", () => {
  const filled = (model) => ({ type: "filled", model, values: [], filled: [], altered: [] });
  const planned = (minutes) => ({ type: "planned", plan, tuned: minutes === null ? null : tuned(minutes) });
  const first = after(filled("tiny"), planned(10));
  assert.equal(first.minutes, "10");
  assert.equal(reduce(first, planned(30)).minutes, "30");
  assert.equal(reduce(first, planned(null)).minutes, "10");
  const chosen = reduce(first, { type: "budget chosen", minutes: "" });
  assert.equal(reduce(chosen, planned(30)).minutes, "");
  assert.equal(reduce(reduce(chosen, filled("tiny")), planned(30)).minutes, "");
  assert.equal(reduce(reduce(chosen, filled("another")), planned(30)).minutes, "30");
  assert.equal(reduce(first, { type: "planned", plan, tuned: { refusal } }).minutes, "10");
});

test("while a text is asked for there is neither a plan nor a way to start", () => {
  const asked = after({ type: "planned", plan, tuned: tuned(10) }, { type: "text asked" });
  assert.deepEqual([asked.plan, asked.tuned, asked.refusal, asked.canStart], [null, null, null, false]);
});

test("the refusal of a model stands where its text would be asked for", () => {
  const refused = after({ type: "text asked" }, { type: "refused", refusal });
  assert.deepEqual([refused.isTextAsked, refused.refusal, refused.isStale], [false, refusal, false]);
  assert.equal(after({ type: "refused", refusal }, { type: "text asked" }).isTextAsked, true);
  assert.equal(after({ type: "text asked" }, { type: "planned", plan, tuned: null }).isTextAsked, false);
});

test("what another model has changed can be changed back", () => {
  const change = { name: "bits", title: "Bits", index: 1, before: 2, now: 3 };
  const filled = after({ type: "filled", model: "b", values: ["b", 3, "x"], filled: [], altered: [change] });
  const back = reduce(filled, { type: "changed back" });
  assert.deepEqual([back.values, back.altered], [["b", 2, "x"], []]);
});

test("a run that the server would not begin can be tried again", () => {
  const tried = after({ type: "planned", plan, tuned: null }, { type: "starting" });
  assert.equal(tried.canStart, false);
  const again = reduce(tried, { type: "not started", refusal });
  assert.deepEqual([again.canStart, again.refusal], [true, refusal]);
});

test("the title is that of the run that is shown", () => {
  const shown = after({ type: "run shown", id: "a" }, { type: "run arrived", title: "tiny, 3 bits" });
  assert.deepEqual([shown.run, shown.runTitle], ["a", "tiny, 3 bits"]);
  assert.equal(reduce(shown, { type: "run shown", id: "b" }).runTitle, null);
  assert.equal(reduce(shown, { type: "run shown", id: null }).run, null);
});

test("an opened fold that says that it is open changes nothing", () => {
  assert.equal(reduce(START, { type: "unfolded", isUnfolded: START.isUnfolded }), START);
  assert.notEqual(reduce(START, { type: "unfolded", isUnfolded: !START.isUnfolded }), START);
});

const facts = (made) => planFacts(made).map(([name, text]) => [name, plain(text)]);

test("a plan says what is known, and leaves out what is not", () => {
  assert.deepEqual(facts(plan), [
    ["Model", "tiny (LLaMA)"],
    ["Quantized", "75.0 % of 1,000,000 parameters, 14 layers"],
    ["Bits per weight", "3.25, scales and zero points or biases included"],
    ["Size", "4.0 MiB → 1.0 MiB once packed"],
    ["Memory", "about 50.0 MiB"],
    ["Disk", "about 3.0 MiB in the state folder"],
    ["Calibration", "2,048 tokens"],
    ["Time", "about 24 s on two CPU cores"],
  ]);
  const unseen = Object.fromEntries(Object.entries(plan).map(([name]) => [name, null]));
  const { formats, warnings, experts, streamed } = plan;
  const bare = { ...unseen, model: "org/model", calibration_tokens: 2048, experts, formats, warnings, streamed };
  assert.deepEqual(each(facts(bare), 0), ["Model", "Calibration"]);
  const large = { ...plan, host_bytes: 8 * 2 ** 20, streamed: true, minutes: 90, experts: 8 };
  const said = Object.fromEntries(facts(large));
  assert.equal(said.Memory, "about 50.0 MiB on the device, 8.0 MiB beside it, one block at a time");
  assert.match(said.Quantized, /, up to 8 experts in a block$/);
  assert.match(said.Time, /^about .+ on two CPU cores$/);
  const ofRows = Object.fromEntries(facts({ ...plan, calibration_text: "812,345 in 3,204 rows" }));
  assert.equal(ofRows.Calibration, "2,048 tokens of 812,345 in 3,204 rows");
  const batch = Object.fromEntries(facts({ ...plan, runs: 3, minutes: 90, share_quantized: null }));
  assert.equal(batch.Runs, "3");
  assert.match(batch.Time, /^about .+ for all 3 on two CPU cores$/);
  const busy = Object.fromEntries(facts({ ...plan, minutes: 1, load: 1.5 }));
  assert.equal(busy.Time, "about 1 min on two CPU cores; up to 2 min 30 s now, as the host is busy");
  assert.equal("Quantized" in batch, false); // it is not the same for all
});

test("the menu of budgets has those of the plan, the sensible one and the chosen one, shortest first", () => {
  const budget = (minutes) => ({ minutes, models: 1, draws: 1, enough: false, words: "" });
  const minutes = (...of) => each(choicesOf(...of), 0);
  assert.deepEqual(minutes(null, "3"), ["3", "10", "30", "120", ""]);
  assert.deepEqual(minutes({ budgets: [3, 10].map(budget), sensible_minutes: 14 }, "5"), ["3", "5", "10", "14", ""]);
  const choices = choicesOf({ budgets: [1, 240].map(budget), sensible_minutes: 240 }, "");
  assert.deepEqual(each(choices, 1), ["in 1 minute", "in 4 hours", "until it is known"]);
});
