/**
 * What the numbers of a finished run suggest to try next: one sentence with a recipe, or none. Pure.
 * @module calibrate/next_step
 */

import { count, format, percent } from "../base/format.js";
import { METHODS, PAPERS_GRID } from "../base/recipe_contract.js";
import { USUAL } from "./effort_choice.js";
import { idleFields } from "./recipe_form.js";

/** @import { EvidenceDocument, Recipe, Summary } from "../base/types.d.ts" */
/** @typedef {Partial<Summary>} Said of a run that may be older than a number */
/** @typedef {{words: string, recipe: Recipe | null}} NextStep the sentence, and the recipe that it proposes */

const GUESSING = 0.9; // of the vocabulary's size: a perplexity above that knows next to nothing
const RUINED = 2; // times the float model's perplexity
const DEAR = 0.05; // relative rise of perplexity over the float model from which a next step is proposed
const FAR_MORE = 2; // times what λ gives

/**
 * That the float model itself predicts nothing; empty where it does, or nobody knows.
 * @param {Said} summary
 */
export function guessing({ perplexity_float: float, vocabulary }) {
  if (!float || !vocabulary || float < GUESSING * vocabulary) return "";
  return (
    `This model predicts no better than guessing: perplexity ${format(float, "perplexity")} of a vocabulary ` +
    `of ${count(vocabulary)}. Train it first: what is compared here is noise.`
  );
}

/**
 * Whether quantizing cost so much that a gain beside another method is not good news.
 * @param {Said} summary
 */
export const isRuined = ({ perplexity, perplexity_float: float }) =>
  Boolean(perplexity && float && perplexity >= RUINED * float);

/**
 * @param {Said} summary
 * @param {Recipe} recipe
 * @param {EvidenceDocument | null} [evidence] beside GPTQ 1 %
 * @returns {NextStep | null}
 */
export function nextStep(summary, recipe, evidence = null) {
  const untrained = guessing(summary);
  if (untrained) return { words: untrained, recipe: null };
  const { perplexity, perplexity_float: float } = summary;
  if (recipe.quantized_checkpoint || !perplexity || !float) return null;
  const cost = perplexity / float - 1;
  const gain = evidence?.verdict === "better" ? -evidence.change : 0;
  const change = knob(recipe);
  if (!change || cost < DEAR || Math.log1p(cost) < -FAR_MORE * Math.log1p(-gain)) return null;
  const dear = `${change.now} costs ${percent(cost, cost < 0.1 ? 1 : 0)} more perplexity than the float model has`;
  const far = gain > 0 ? `, far more than the ${percent(gain, 1)} that λ gives` : "";
  return { words: `${dear}${far}: try ${change.next}.`, recipe: { ...recipe, ...change.fields } };
}

/**
 * What of a recipe most often gives more than λ, and is not taken yet: the grid, then how it is fitted, groups, bits.
 * @param {Recipe} recipe
 * @returns {{now: string, next: string, fields: Partial<Recipe>} | null}
 */
function knob(recipe) {
  const { bits } = recipe;
  if (recipe.grid === "symmetric" || recipe.grid === "full_range")
    return { now: `${bits} bits symmetric`, next: "the asymmetric grid", fields: { grid: "asymmetric" } };
  const idle = idleFields(recipe);
  const said = /** @type {Record<string, any>} */ (recipe);
  const fitting = METHODS[recipe.method]?.efforts[USUAL];
  if (fitting && !idle.includes("range") && recipe.range === "minmax")
    return {
      now: `${bits} bits with each group’s range from its least to its largest weight`,
      next: "the effort “balanced”",
      fields: Object.fromEntries(
        Object.keys(PAPERS_GRID).flatMap((name) =>
          !idle.includes(name) && said[name] === PAPERS_GRID[name] ? [[name, fitting[name]]] : [],
        ),
      ),
    };
  if (typeof recipe.group_size !== "number")
    return { now: `${bits} bits with one scale per channel`, next: "groups of 128", fields: { group_size: 128 } };
  return bits < 4 ? { now: `${bits} bits`, next: `${bits + 1} bits`, fields: { bits: bits + 1 } } : null;
}
