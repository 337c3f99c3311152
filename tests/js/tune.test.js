/** Finding λ: from the form to its recipe and to the run that follows, and where a tuning run stands. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { reduce as page, START } from "../../assets/js/calibrate/calibrate_state.js";
import { describe } from "../../assets/js/calibrate/recipe_form.js";
import * as State from "../../assets/js/calibrate/run_state.js";
import { followingRecipe, tuningFields, tuningRecipe, whyNotTuned } from "../../assets/js/calibrate/tune_form.js";
import { budgetWords, modelsWords, share, standing } from "../../assets/js/calibrate/tuning_progress.js";

const NAMES = ["model", "bits", "method", "lam", "gamma", "samples", "test", "tasks", "sweep", "speed", "baseline"];
const VALUES = ["toy", 2, "sarqc-gbs", "0.1", "auto", 8, "toy-test", "a, b", "0, 0.1", true, true];
const CORPORA = [
  { name: "toy-calibration", role: "calibration", source: "toy" },
  { name: "toy-held-out", role: "held_out", source: "toy" },
  { name: "toy-test", role: "test", source: "toy" },
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
    tasks: ["a", "b"],
    kind: "tune",
    minutes: 3,
  });
});

test("a text without a held-out one beside it is tuned on itself, and no budget is no field", () => {
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

test("while tasks are asked, the draw that they are on is said", () => {
  assert.equal(
    standing({ ...first, tasks: { names: ["a"], draws: 2 } }, { draws: 8 }),
    "Tasks on draw 2, 3 λ in question",
  );
});

test("a tuning run is called by what it does, and its recipe has its own fields", () => {
  assert.equal(
    describe({ model: "toy", bits: 2, method: "sarqc-gbs", kind: "tune" }),
    "toy, 2 bits, GPTQ + saliency penalty, finding λ",
  );
  assert.deepEqual(tuningFields(NAMES), [
    ...["model", "bits", "method", "samples", "test", "tasks"],
    ...["sweep", "minutes", "draws", "band"],
  ]);
});

const row = (lambda, place) => ({ method: "sarqc-gbs", lambda, standing: place });
const first = {
  rows: [row(0, "dull"), row(0.1, "left"), row(0.2, "left"), row(0.5, "left"), row(null, "baseline")],
  best: null,
  band: null,
  draws: 0,
  measured: 0,
  planned: 32,
  seconds: 20,
  budget: 180,
  end: "",
};
const second = { ...first, best: 2, draws: 1, measured: 4, seconds: 80 };
const third = {
  ...second,
  rows: first.rows.with(1, row(0.1, "retired")),
  band: [0.2, 0.5],
  draws: 2,
  measured: 8,
  planned: 26,
  seconds: 170,
};
const told = (...stages) =>
  stages
    .map((tuning, index) => ({ type: "tuning_standing", seq: index + 1, at: "2026-01-01T00:00:00Z", tuning }))
    .reduce(State.reduce, State.initial());

test("a tuning run stands where its last word says, and its log has the draws alone", () => {
  const state = told(first, { ...first, measured: 1 }, { ...second, draws: 0 }, second, third, {
    ...third,
    end: "budget",
  });
  assert.deepEqual(state.tuning, { ...third, end: "budget" });
  assert.deepEqual(
    state.log.map(({ text }) => text),
    [
      "Errors of layers compared: 3 λ in question, 1 given up",
      "1 draw: λ = 0.2 is best, 3 λ in question",
      "2 draws: λ = 0.2 is best, 2 λ in question",
    ],
  );
});

test("how far tuning is, in words and as a share", () => {
  const blanks = (text) => text.replaceAll("\u00a0", " ");
  assert.equal(standing(first, { draws: 8 }), "Draw 1 of at most 8, 3 λ in question");
  assert.equal(standing(third, { draws: 8 }), "Draw 3 of at most 8, 2 λ in question");
  assert.equal(standing({ ...third, end: "draws" }, { draws: 2 }), "2 draws, 2 λ in question");
  assert.equal(share(first), 20 / 180);
  assert.equal(share({ ...third, budget: null }), 8 / 26);
  assert.equal(share({ ...third, seconds: 400 }), 1);
  assert.equal(share({ ...first, end: "budget" }), 1);
  assert.equal(blanks(budgetWords(second)), "1 min 20 s of 3 min, 1 min 40 s left");
  assert.equal(
    blanks(budgetWords({ ...third, seconds: 200 })),
    "3 min 20 s of 3 min, the draw that goes on is the last one",
  );
  assert.equal(blanks(budgetWords({ ...third, end: "known" })), "2 min 50 s of 3 min");
  assert.equal(blanks(budgetWords({ ...first, budget: null })), "20 s, as much as it takes");
  assert.equal(blanks(budgetWords({ ...first, budget: null, end: "known" })), "20 s");
  assert.equal(modelsWords(third), "8 of at most 26");
  assert.equal(modelsWords({ ...third, end: "known" }), "8");
});

test("the page knows whether the run that it shows tunes", () => {
  const shown = page(page(START, { type: "run shown", id: "a" }), { type: "run arrived", title: "toy", tunes: true });
  assert.equal(shown.runTunes, true);
  assert.equal(page(shown, { type: "run shown", id: "b" }).runTunes, false);
});
