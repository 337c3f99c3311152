/**
 * From the form of a run to the recipe that finds its λ, and back to the run that follows. Pure.
 * @module tune_form
 */

import { counted, plain } from "../base/format.js";
import { METHODS, NOT_IN_TUNING, RECIPE_FIELDS } from "../base/recipe_contract.js";
import { withTitles } from "../base/text_names.js";
import { describe, recipeOf } from "./recipe_form.js";

/** @import { CorpusEntry, Tuning } from "../base/types.d.ts" */
/** @import { Said } from "./recipe_form.js" */
/** @typedef {Pick<CorpusEntry, "name" | "role" | "source">} Corpus */

/**
 * Why no λ of a method can be found, or empty.
 * @param {unknown} name of the method
 * @param {unknown} [opened] a checkpoint that others quantized
 */
export function whyNotTuned(name, opened) {
  if (opened) return "Tuning quantizes the original again and again; a quantized checkpoint has its codes.";
  const method = METHODS[String(name)];
  if (!method || method.can_tune) return "";
  const others = Object.values(METHODS).filter(({ can_tune }) => can_tune);
  const why = method.tunes.includes("lam") ? "needs more than the inputs of single layers" : "has no λ";
  return `${method.name} ${why}; tuning is for ${others.map((one) => one.name).join(", ")}.`;
}

/**
 * The recipe of a tuning run, from what the form says of a run. Where the form's test text has a held-out one from the
 * same source beside it, tuning is measured on that, so that the test text stays untouched.
 * @param {string[]} names of the fields, in the order of the form
 * @param {any[]} values in the same order
 * @param {number | null} minutes of work; null: until λ is known
 * @param {readonly Corpus[]} corpora that this host has
 */
export function tuningRecipe(names, values, minutes, corpora) {
  const asked = names.flatMap((name, index) => (NOT_IN_TUNING.includes(publicName(name)) ? [] : [index]));
  /** @type {Said} */
  const said = recipeOf(
    asked.map((index) => names[index]),
    asked.map((index) => values[index]),
  );
  const test = heldOutBeside(said.test, corpora) ?? said.test;
  return { ...said, kind: "tune", ...(test ? { test } : {}), ...(minutes === null ? {} : { minutes }) };
}

/**
 * The held-out text from the source of a test text, or null.
 * @param {string | null | undefined} test
 * @param {readonly Corpus[]} corpora
 */
export const heldOutBeside = (test, corpora) => beside(test, "test", "held_out", corpora);

/**
 * The recipe of the run to follow: measured on the test text, where λ was found on the held-out one beside it.
 * @param {Said} recipe as tuning leaves it
 * @param {readonly Corpus[]} corpora
 * @returns {Said}
 */
export function followingRecipe(recipe, corpora) {
  const test = beside(recipe.test, "held_out", "test", corpora);
  return test ? { ...recipe, test } : recipe;
}

/**
 * What a tuning run leads to: the run with its λ, GPTQ 1 % where none is measurably better, or more of the same tuning;
 * null while it goes on.
 * @param {Pick<Tuning, "next" | "recipe" | "more_minutes">} tuning
 * @param {readonly Corpus[]} corpora
 * @returns {{recipe: Said, lead: string, button: string, isMain: boolean} | null}
 */
export function nextOf({ next, recipe, more_minutes: minutes }, corpora) {
  if (!recipe || !next) return null;
  if (next === "go_on") {
    const lead = "What is measured is kept: it goes on where it stopped.";
    return { recipe, lead, button: goOn(minutes ?? 0), isMain: true };
  }
  const following = followingRecipe(recipe, corpora);
  const isGain = next === "run";
  const button = isGain ? `Quantize with λ = ${plain(following.lambda ?? "auto")}` : "Quantize with GPTQ 1 %";
  return { recipe: following, lead: nextWords(following), button, isMain: isGain };
}

/**
 * What the run to follow is, in a sentence.
 * @param {Said} recipe
 */
export const nextWords = (recipe) =>
  `Next: ${describe(recipe)}, the whole model with inputs from its quantized layers, judged on ${withTitles(recipe.test ?? "")}.`;

/**
 * The same tuning with more time, where its budget was spent although there is a λ to take or GPTQ 1 % to keep; without
 * a budget where it ended at a λ to take; null where more time would not change anything, or is what is proposed first.
 * @param {Pick<Tuning, "next" | "end" | "more_minutes">} tuning
 * @param {Said} recipe of the tuning run
 * @returns {{recipe: Said, button: string} | null}
 */
export function moreOf({ next, end, more_minutes: minutes }, recipe) {
  if (end === "verdict" && next === "run") {
    const { minutes: _, ...endless } = recipe;
    return { recipe: endless, button: "Compare every λ" };
  }
  if (end !== "budget" || minutes === null || next === "go_on" || !next) return null;
  return { recipe: { ...recipe, minutes }, button: goOn(minutes) };
}

/**
 * Words of the button for more time.
 * @param {number} minutes
 */
export const goOn = (minutes) => `Go on for ${counted(minutes, "minute", plain(minutes))}`;

/**
 * The fields that say something in tuning: those of the form that do, then its own.
 * @param {string[]} names of the form's fields
 */
export const tuningFields = (names) => [
  ...names.filter((name) => !NOT_IN_TUNING.includes(publicName(name))),
  "sweep",
  "minutes",
  "draws",
  "band",
];

/**
 * The name of the text of another role from the source of a text of one role, or null.
 * @param {string | null | undefined} name
 * @param {string} role that the named text must have
 * @param {string} wanted
 * @param {readonly Corpus[]} corpora
 */
function beside(name, role, wanted, corpora) {
  const from = corpora.find((corpus) => corpus.name === name && corpus.role === role);
  const found = from && corpora.find((corpus) => corpus.source === from.source && corpus.role === wanted);
  return found?.name ?? null;
}

const publicName = (/** @type {string} */ field) => RECIPE_FIELDS[field].key;
