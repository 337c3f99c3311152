/** The ladder of one's own model on the pages: its recipe, where it stands, and what follows. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { CALIBRATE_VIEW, parse } from "../../assets/js/base/address.js";
import { boughtBy, choicesOf } from "../../assets/js/calibrate/budgets.js";
import { reduce, START } from "../../assets/js/calibrate/calibrate_state.js";
import {
  afterLadder,
  ladderFields,
  ladderRecipe,
  ladderShare,
  ladderStanding,
  ladderTime,
  whyNoLadder,
} from "../../assets/js/calibrate/ladder_form.js";
import { describe, restOf } from "../../assets/js/calibrate/recipe_form.js";
import { reduce as heard, initial } from "../../assets/js/calibrate/run_state.js";
import { ladderPart, ownLadder } from "../../assets/js/explorer/ladder_part.js";
import { each, TEXTS } from "./given.js";

const NAMES = ["model", "bits", "method", "lam", "gamma", "range", "refine", "samples", "calibration", "test", "tasks"];
const form = (lam, refine = 0) =>
  ladderRecipe(
    NAMES,
    ["toy", 2, "sarqc-gbs", lam, 0.3, "search", refine, 8, "toy-calibration", "toy-test", "piqa"],
    5,
    TEXTS,
  );

const ladder = { measured: 9, planned: 48, draws: 1, budget: 120, seconds: 30, end: "", next: "", recipe: null };

test("the recipe keeps what says something and is measured on held-out text", () => {
  assert.deepEqual(form("0.2", 2), {
    model: "toy",
    bits: 2,
    lambda: 0.2,
    refine: 2,
    samples: 8,
    calibration: "toy-calibration",
    test: "toy-held-out",
    kind: "ladder",
    minutes: 5,
  });
  for (const lam of ["auto", "", "0.1, 0.2"]) assert.equal("lambda" in form(lam), false, String(lam));
  assert.deepEqual(ladderFields(NAMES), [
    ...["model", "bits", "lam", "refine", "samples", "calibration", "test"],
    ...["minutes", "draws"],
  ]);
  assert.equal(whyNoLadder("", "wikitext2"), "");
  assert.match(whyNoLadder("by-others", "wikitext2"), /original/);
  assert.match(whyNoLadder("", ""), /test text/);
});

test("where it stands, by the clock or by models", () => {
  assert.equal(ladderStanding(ladder, { draws: 8 }), "Draw 2 of 8: 9 of at most 48 models measured");
  assert.equal(ladderStanding({ ...ladder, end: "budget" }, { draws: 8 }), "9 models measured");
  assert.equal(ladderShare(ladder, 60), 0.5);
  assert.equal(ladderShare(ladder, 600), 1);
  assert.equal(ladderShare({ ...ladder, budget: null }, 60), 9 / 48);
  assert.equal(ladderShare({ ...ladder, end: "draws" }, 60), 1);
  assert.match(ladderTime(ladder, 60), / of 2\smin/);
});

test("at its end the run of the best rung, or more of the same", () => {
  assert.equal(afterLadder(ladder, TEXTS), null);
  const recipe = { kind: "run", model: "toy", bits: 2, method: "rqc-gbs", lambda: 0.1, test: "toy-held-out" };
  const run = afterLadder({ ...ladder, next: "run", recipe }, TEXTS);
  assert.equal(run?.recipe.test, "toy-test");
  assert.match(run?.lead ?? "", /^Next: toy, 2 bits, .*judged on toy-test\.$/);
  const affine = afterLadder({ ...ladder, next: "run", recipe: { ...recipe, grid: "affine" } }, TEXTS);
  assert.equal(affine?.lead.endsWith("only MLX stores its affine grid."), true);
  const more = afterLadder({ ...ladder, next: "go_on", more_minutes: 1, recipe: { kind: "ladder" } }, TEXTS);
  assert.equal(more?.button, "Go on for 1 minute");
});

test("its events are folded, and each whole draw is a line of the log", () => {
  const events = [0, 0, 1, 1, 2].map((draws, index) => ({
    type: "ladder_standing",
    seq: index + 1,
    at: "2026-01-01T00:00:00Z",
    ladder: { ...ladder, draws },
  }));
  const state = events.reduce((before, event) => heard(before, event), initial());
  assert.equal(state.ladder.draws, 2);
  assert.deepEqual(each(state.log, "text"), ["Every step is measured in 1 draw", "Every step is measured in 2 draws"]);
});

test("the shortest sensible budget is preselected until another is chosen", () => {
  const budgets = [{ minutes: 10, enough: true, words: "10 min: 6 steps × 4 draws" }];
  const planned = {
    type: "planned",
    plan: {},
    tuned: null,
    ladder: { plan: { comparing: { budgets, sensible_minutes: 10 } } },
  };
  const first = reduce(START, planned);
  assert.equal(first.ladderMinutes, "10");
  assert.equal(boughtBy(first.ladder, "10"), "10 min: 6 steps × 4 draws");
  assert.equal(first.minutes, START.minutes, "that of finding λ is another one");
  const chosen = reduce(first, { type: "ladder budget chosen", minutes: "30" });
  assert.equal(reduce(chosen, planned).ladderMinutes, "30");
  assert.deepEqual(choicesOf(null, "", "for all draws").at(-1), ["", "for all draws"]);
});

test("it is called what it is, and leaves no rest to run", () => {
  const recipe = { kind: "ladder", model: "toy", bits: 2, method: "rqc-gbs" };
  assert.equal(describe(recipe), "toy, 2 bits, what each step is worth");
  assert.equal(restOf(recipe, 1), null);
});

test("the Lab's link asks for a ladder at what is shown", () => {
  const line = { bits: 3, grid: "symmetric", group_size: null };
  assert.deepEqual(ownLadder({ line }), { kind: "ladder", bits: 3, grid: "symmetric", group_size: "per_channel" });
  assert.equal(parse("?kind=ladder", CALIBRATE_VIEW).state.kind, "ladder");
  assert.equal(parse("?kind=other", CALIBRATE_VIEW).problems.length, 1);
});

test("the card of the ladder says its sentence, and is there where something is drawn", () => {
  const { cards, figure, note } = ladderPart();
  const state = { view: { ladder: { steps: [], words: "the steps" }, figures: { ladder: {} } } };
  assert.deepEqual(cards, ["ladder"]);
  assert.deepEqual([figure?.(state, "ladder"), note?.(state, "ladder", true)], ["ladder", "the steps"]);
  const none = { view: { ladder: null, figures: { ladder: null } } };
  assert.deepEqual([figure?.(none, "ladder"), note?.(none, "ladder", false)], [null, ""]);
});
