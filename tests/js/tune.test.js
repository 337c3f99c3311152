/** Finding λ: from the form to its recipe and to the run that follows, and where a tuning run stands. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { reduce as page, START } from "../../assets/js/calibrate/calibrate_state.js";
import { describe } from "../../assets/js/calibrate/recipe_form.js";
import {
  followingRecipe,
  moreOf,
  nextOf,
  tuningFields,
  tuningRecipe,
  whyNotTuned,
} from "../../assets/js/calibrate/tune_form.js";
import { clock, segmentsOf } from "../../assets/js/calibrate/tuning_bar.js";
import { budgetWords, leftWords, modelsWords, now } from "../../assets/js/calibrate/tuning_progress.js";
import { each, plain, TEXTS } from "./given.js";

const NAMES = ["model", "bits", "method", "lam", "gamma", "samples", "test", "tasks", "sweep", "speed", "baseline"];
const VALUES = ["toy", 2, "sarqc-gbs", "0.1", "auto", 8, "toy-test", "a, b", "0, 0.1", true, true];
const CORPORA = [
  ...TEXTS,
  { name: "other-test", role: "test", source: "other" },
  { name: "mine.txt", role: "any", source: "mine.txt" },
];

test("the recipe that finds λ has no λ, nothing of a single model, and the held-out text", () => {
  assert.deepEqual(tuningRecipe(NAMES, VALUES, 3, CORPORA), {
    model: "toy",
    bits: 2,
    method: "sarqc-gbs",
    samples: 8,
    test: "toy-held-out",
    kind: "tune",
    minutes: 3,
  });
});

test("a text without a held-out one beside it is tuned on itself, and no budget is not a field", () => {
  for (const text of ["other-test", "mine.txt", "/anywhere.txt"]) {
    const recipe = tuningRecipe(NAMES, VALUES.with(6, text), null, CORPORA);
    assert.equal(recipe.test, text);
    assert.equal("minutes" in recipe, false);
  }
  assert.equal("test" in tuningRecipe(NAMES, VALUES.with(6, ""), 3, CORPORA), false);
});

test("the run to follow is judged on the text that was left untouched", () => {
  const left = { model: "toy", lambda: 0.2, test: "toy-held-out" };
  assert.deepEqual(followingRecipe(left, CORPORA), { ...left, test: "toy-test" });
  assert.deepEqual(followingRecipe({ ...left, test: "mine.txt" }, CORPORA), { ...left, test: "mine.txt" });
});

test("a method whose λ can't be found says why, and which ones can", () => {
  assert.equal(whyNotTuned("sarqc-gbs"), "");
  assert.match(whyNotTuned("gptq"), /^gptq has no λ; tuning is for rqc-gs, /);
  assert.match(whyNotTuned("sarqc-omniquant"), /^sarqc-omniquant needs more than the inputs of single layers;/);
});

test("what follows is the run with λ, GPTQ 1 % where nothing is measurably better, or more of the same", () => {
  const recipe = { model: "toy", bits: 2, method: "sarqc-gbs", lambda: 0.2, test: "toy-held-out" };
  const to = (next, more = {}) => nextOf({ next, recipe, more_minutes: null, ...more }, CORPORA);
  assert.equal(to(""), null);
  assert.equal(to("run", { recipe: null }), null);
  const run = to("run");
  assert.deepEqual([run.button, run.isMain, run.recipe.test], ["Quantize with λ = 0.2", true, "toy-test"]);
  assert.match(run.lead, /^Next: toy, 2 bits, .*judged on toy-test\.$/);
  const keep = to("keep", { recipe: { ...recipe, method: "gptq", lambda: null } });
  assert.deepEqual([keep.button, keep.isMain, keep.recipe.method], ["Quantize with GPTQ 1 %", false, "gptq"]);
  const longer = { ...recipe, kind: "tune", minutes: 5 };
  const more = to("go_on", { recipe: longer, more_minutes: 5 });
  assert.deepEqual([more.button, more.recipe], ["Go on for 5 minutes", longer]); // on the same text, as it began
  assert.equal(to("go_on", { recipe: longer, more_minutes: 1 }).button, "Go on for 1 minute");
});

test("more time is offered where the budget ended it, beside what it came to", () => {
  const recipe = { model: "toy", kind: "tune", minutes: 2 };
  const more = (known) => moreOf({ next: "run", end: "budget", more_minutes: 3, ...known }, recipe);
  assert.deepEqual(more({}), { recipe: { ...recipe, minutes: 3 }, button: "Go on for 3 minutes" });
  assert.equal(more({ next: "keep", more_minutes: 1 }).button, "Go on for 1 minute");
  for (const known of [{ next: "go_on" }, { next: "" }, { end: "known" }, { more_minutes: null }])
    assert.equal(more(known), null);
});

test("a tuning run is called by what it does, and its recipe has its own fields", () => {
  assert.equal(
    describe({ model: "toy", bits: 2, method: "sarqc-gbs", kind: "tune" }),
    "toy, 2 bits, GPTQ + saliency penalty, finding λ",
  );
  assert.deepEqual(tuningFields(NAMES), [
    ...["model", "bits", "method", "samples", "test"],
    ...["sweep", "minutes", "draws", "band"],
  ]);
});

const row = (lambda, place) => ({ method: "sarqc-gbs", lambda, standing: place });
const baseline = row(null, "baseline");
const screening = {
  rows: [...[0, 0.1, 0.2, 0.5].map((lam) => row(lam, "not_reached")), baseline],
  best: null,
  band: [],
  screened: [12, 42],
  draws: 0,
  measured: 0,
  planned: 32,
  seconds: 20,
  budget: 180,
  end: "",
};
const turn = (what, seconds) => ({ what, seconds, draws: 0, leading: null, left: [], out: [] });
const TURNS = [turn("screening", 3), turn("screened", 31)];
const first = {
  ...screening,
  turns: TURNS,
  rows: [row(0, "ruled_out"), ...[0.1, 0.2, 0.5].map((lam) => row(lam, "not_reached")), baseline],
  screened: [42, 42],
};
const second = { ...first, draws: 1, measured: 4, seconds: 80 };
const third = {
  ...second,
  rows: [row(0, "ruled_out"), row(0.1, "worse"), row(0.2, "best"), row(0.5, "as_good"), baseline],
  best: 2,
  band: [[0.2, 0.5]],
  draws: 2,
  measured: 8,
  planned: 26,
  seconds: 170,
};
const shares = (parts) => parts.map(({ kind, share }) => [kind, Math.round(1000 * share) / 1000]);
const sum = (parts) => parts.reduce((total, { share }) => total + share, 0);

test("the bar is the budget: its parts are the seconds of each stage and those that are left", () => {
  const parts = segmentsOf({ ...second, measured: 36, turns: TURNS }, 146);
  assert.deepEqual(shares(parts), [
    ["screening", 0.172],
    ["comparing", 0.639],
    ["left", 0.189],
  ]);
  assert.deepEqual(each(parts, "words"), ["screening 0:31", "comparing 1:55", "0:34 of 3:00 left"]);
  assert.deepEqual(shares(segmentsOf({ ...screening, turns: TURNS.slice(0, 1) }, 18)), [
    ["screening", 0.1],
    ["left", 0.9],
  ]);
});

test("the bar is never overrun: past the budget it is full and says what still works", () => {
  for (const tuning of [third, { ...third, turns: TURNS }, { ...screening, turns: TURNS.slice(0, 1) }])
    for (const seconds of [0, 1, 31, 179.9, 180, 400]) {
      const parts = segmentsOf(tuning, seconds);
      assert.ok(Math.abs(sum(parts) - 1) < 1e-9 && parts.every(({ share }) => share > 0 && share <= 1));
      assert.equal(each(parts, "kind").includes("left"), seconds < 180);
    }
  const late = segmentsOf({ ...third, turns: TURNS }, 400).at(-1);
  assert.equal(late.words, "comparing 2:29, budget spent: finishing the model at work");
  assert.doesNotMatch(segmentsOf({ ...third, turns: TURNS, end: "budget" }, 400).at(-1).words, /finishing/);
});

test("without a budget the bar says the share of the planned models, and never goes back", () => {
  const endless = [0, 12, 41].map((done) => ({ ...screening, screened: [done, 42] }));
  const stages = [...endless, first, second, third, { ...third, end: "known", planned: 8 }];
  const bars = stages.map((tuning) => segmentsOf({ ...tuning, budget: null }, 500));
  for (const parts of bars) assert.ok(Math.abs(sum(parts) - 1) < 1e-9);
  const done = bars.map((parts) => 1 - (parts.find(({ kind }) => kind === "left")?.share ?? 0));
  assert.ok(done.every((share, at) => at === 0 || share >= done[at - 1]));
  assert.ok(done[0] === 0 && done[2] < 1 / 3 && done[5] < 1 && done[6] === 1);
  assert.deepEqual(each(bars[1], "words"), ["screening, 12 of 42 layers", "then at most 32 models"]);
  assert.deepEqual(each(bars[5], "words"), ["screening 0:31", "comparing, 8 models", "at most 18 more"]);
});

test("the clock has minutes and two digits of seconds, and hours where there are any", () => {
  assert.deepEqual([0, 31.9, 115, 3725, -1].map(clock), ["0:00", "0:31", "1:55", "1:02:05", "0:00"]);
});

test("what is left goes by the run's own clock, also between two words of it", () => {
  const at = "2026-01-01T00:00:00Z";
  assert.equal(now(second, at, Date.parse(at) + 20_000), 100);
  assert.equal(now(second, "", Date.parse(at)), 80); // of a run whose words have no date
  assert.equal(plain(leftWords(second, 100)), "1 min 20 s left");
  assert.equal(plain(leftWords(third, 200)), "finishing the model at work");
  assert.equal(leftWords({ ...third, end: "budget" }), "");
  assert.equal(leftWords({ ...third, budget: null }), "");
  assert.equal(plain(budgetWords(second)), "1 min 20 s of 3 min, 1 min 40 s left");
  assert.equal(plain(budgetWords({ ...third, end: "known" })), "2 min 50 s of 3 min");
  assert.equal(plain(budgetWords({ ...first, budget: null })), "20 s, as much as it takes");
  assert.equal(plain(budgetWords({ ...first, budget: null, end: "known" })), "20 s");
  assert.equal(modelsWords(third), "8 of at most 26");
  assert.equal(modelsWords({ ...third, end: "known" }), "8");
});

test("the page knows whether the run that it shows compares models", () => {
  const arrived = { type: "run arrived", title: "toy", compares: true };
  const shown = page(page(START, { type: "run shown", id: "a" }), arrived);
  assert.equal(shown.runCompares, true);
  assert.equal(page(shown, { type: "run shown", id: "b" }).runCompares, false);
});
