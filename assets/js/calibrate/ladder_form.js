/**
 * From the form of a run to the recipe of its model's ladder, what a budget buys there, and the run that follows. Pure.
 * @module ladder_form
 */

import { counted, duration } from "../base/format.js";
import { NOT_IN_A_LADDER, RECIPE_FIELDS } from "../base/recipe_contract.js";
import { recipeOf } from "./recipe_form.js";
import { followingRecipe, goOn, heldOutBeside, nextWords } from "./tune_form.js";

/** @import { LadderRun, Recipe } from "../base/types.d.ts" */
/** @import { Said } from "./recipe_form.js" */
/** @import { Corpus } from "./tune_form.js" */

/**
 * Why a model's steps can't be measured, or empty.
 * @param {unknown} opened a checkpoint that others quantized
 * @param {unknown} test the test text
 */
export function whyNoLadder(opened, test) {
  if (opened) return "The steps begin at the original model; a quantized checkpoint has its codes.";
  return test ? "" : "Steps are compared by perplexity: choose a test text.";
}

/**
 * The recipe of a ladder, from what the form says of a run. A λ that is one number is that of its step.
 * @param {string[]} names of the fields, in the order of the form
 * @param {any[]} values in the same order
 * @param {number | null} minutes of work; null: for all draws
 * @param {readonly Corpus[]} corpora that this host has
 * @returns {Said}
 */
export function ladderRecipe(names, values, minutes, corpora) {
  const asked = names.flatMap((name, index) => (NOT_IN_A_LADDER.includes(RECIPE_FIELDS[name].key) ? [] : [index]));
  /** @type {Said} */
  const { lambda, ...said } = recipeOf(
    asked.map((index) => names[index]),
    asked.map((index) => values[index]),
  );
  const test = heldOutBeside(said.test, corpora) ?? said.test;
  return {
    ...said,
    kind: "ladder",
    ...(typeof lambda === "number" ? { lambda } : {}),
    ...(test ? { test } : {}),
    ...(minutes === null ? {} : { minutes }),
  };
}

/**
 * The fields that say something in a ladder: those of the form that do, then its own.
 * @param {string[]} names of the form's fields
 */
export const ladderFields = (names) => [
  ...names.filter((name) => !NOT_IN_A_LADDER.includes(RECIPE_FIELDS[name].key)),
  "minutes",
  "draws",
];

/**
 * What a ladder leads to: the run of its best rung, or more of the same; null while it goes on.
 * @param {Pick<LadderRun, "next" | "recipe" | "more_minutes">} ladder
 * @param {readonly Corpus[]} corpora
 * @returns {{recipe: Said, lead: string, button: string} | null}
 */
export function afterLadder({ next, recipe, more_minutes: minutes }, corpora) {
  if (!recipe || !next) return null;
  if (next === "go_on") {
    const lead = "What is measured is kept: it goes on where it stopped.";
    return { recipe, lead, button: goOn(minutes ?? 0) };
  }
  const following = followingRecipe(recipe, corpora);
  const stored = following.grid === "affine" ? " Of the formats with codes, only MLX stores its affine grid." : "";
  return { recipe: following, lead: nextWords(following) + stored, button: "Quantize with the best combination" };
}

/**
 * “draw 2 of 8: 9 of at most 48 models measured”; at its end “48 models measured”.
 * @param {LadderRun} ladder
 * @param {Pick<Recipe, "draws">} recipe
 */
export function ladderStanding({ measured, planned, draws, end }, { draws: most }) {
  if (end) return `${counted(measured, "model")} measured`;
  return `Draw ${Math.min(draws + 1, most)} of ${most}: ${measured} of at most ${planned} models measured`;
}

/**
 * How far the work is, from 0 to 1: by the clock where there is a budget, else by models.
 * @param {LadderRun} ladder
 * @param {number} seconds of its clock
 */
export function ladderShare({ measured, planned, budget, end }, seconds) {
  if (end) return 1;
  if (budget !== null) return Math.min(1, seconds / budget);
  return planned ? measured / planned : 0;
}

/**
 * “1 min 20 s of 3 min”; without a budget only what was spent.
 * @param {LadderRun} ladder
 * @param {number} seconds of its clock
 */
export const ladderTime = ({ budget }, seconds) =>
  budget === null ? duration(seconds) : `${duration(seconds)} of ${duration(budget)}`;
