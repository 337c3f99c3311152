/**
 * Efforts: three presets of the fields that fit a grid, with what each takes and gains.
 * @module calibrate/effort_choice
 */

import { duration, percent, signed } from "../base/format.js";
import { html, nothing } from "../base/html.js";
import { asSentence } from "../base/problem.js";
import { MEASURED_EFFORTS, METHODS, RECIPE_FIELDS } from "../base/recipe_contract.js";
import { fittingWords, idleFields, methodOf, methodTitle } from "./recipe_form.js";

/** @import { Plan } from "../base/types.d.ts" */
/** @import { Said } from "./recipe_form.js" */

/** @typedef {Record<string, string | number | boolean>} Fitting fields that efforts set, with values */
/** @typedef {Pick<Plan, "minutes" | "fitting">} EffortPlan */

export const USUAL = "balanced"; // of a new run
export const EFFORT_FIELDS = Object.keys(METHODS[String(RECIPE_FIELDS.method.default)].efforts[USUAL]);

/**
 * The fields of each effort for the method of a recipe, without efforts that are like a quicker one; none where there is
 * no choice.
 * @param {Said} said by the form
 * @param {Record<string, EffortPlan>} [plans] of the efforts, which know whether the model's scales can be distilled
 * @returns {Record<string, Fitting>}
 */
export function effortsOf(said, plans = {}) {
  const method = methodOf(said.method);
  if (!method) return {};
  const idle = idleFields(said);
  /** @type {Record<string, Fitting>} */
  const found = {};
  for (const [name, fitting] of Object.entries(method.efforts)) {
    const known = { ...fitting, ...distillation(plans[name]?.fitting ?? {}) };
    const meant = Object.fromEntries(Object.entries(known).filter(([field]) => !idle.includes(field)));
    if (!Object.values(found).some((other) => isSame(other, meant))) found[name] = meant;
  }
  return Object.keys(found).length > 1 ? found : {};
}

/**
 * How a model is distilled, where that is not as usual: not at all, or block by block.
 * @param {Fitting} planned
 * @returns {Fitting}
 */
function distillation({ distill, distill_by: by }) {
  if (distill === 0) return { distill, distill_codes: false };
  return by === undefined ? {} : { distill_by: by };
}

/** @param {Fitting} one @param {Fitting} other */
const isSame = (one, other) => Object.entries(one).every(([field, value]) => other[field] === value);

/**
 * The effort whose fields a form holds; null where it has its own.
 * @param {Said} said
 * @param {Record<string, Fitting>} efforts of the form
 */
export function effortOf(said, efforts) {
  const held = /** @type {Record<string, unknown>} */ (said);
  const isHeld = (/** @type {Fitting} */ fitting) =>
    Object.entries(fitting).every(([field, value]) => (held[field] ?? RECIPE_FIELDS[field].default) === value);
  return Object.keys(efforts).find((name) => isHeld(efforts[name])) ?? null;
}

/**
 * What a recipe asks for with an effort: its own fields are left to it.
 * @param {Said} recipe
 * @param {string} effort
 * @returns {Said}
 */
export function withEffort(recipe, effort) {
  const own = Object.entries(recipe).filter(
    ([key, value]) => !EFFORT_FIELDS.includes(key) && key !== "distill_by" && !(key === "held_out_samples" && !value),
  );
  return { ...Object.fromEntries(own), effort };
}

/**
 * What the form takes up for an effort. Distillation is judged on held-out sequences: without any, half as many as
 * samples.
 * @param {Said} said
 * @param {Fitting} fitting
 * @returns {Fitting}
 */
export function takenUp(said, fitting) {
  const { default: usual } = RECIPE_FIELDS.distill_by;
  const by = fitting.distill_by ?? String(usual);
  const taken = (said.distill_by ?? usual) === by ? fitting : { ...fitting, distill_by: by };
  const lacks = fitting.distill && !said.held_out_samples && Number.isInteger(said.samples);
  return lacks ? { ...taken, held_out_samples: Math.max(1, Math.floor(said.samples / 2)) } : taken;
}

/**
 * The fields of a method for the effort that a form holds, so that another method keeps it.
 * @param {Said} said
 * @param {string} method
 * @returns {Fitting}
 */
export function keptEffort(said, method) {
  const held = effortOf(said, effortsOf(said));
  return held ? (methodOf(method)?.efforts[held] ?? {}) : {};
}

/**
 * What was measured of efforts at the number of bits that is nearest to a recipe's from below, by the default method
 * alone.
 * @param {Said} said
 */
export function measuredFor(said) {
  if (said.method !== RECIPE_FIELDS.method.default) return [];
  const bits = Math.max(...MEASURED_EFFORTS.map((row) => row.bits).filter((known) => known <= said.bits));
  return MEASURED_EFFORTS.filter((row) => row.bits === bits);
}

/**
 * @param {Said} said by the form
 * @param {Record<string, EffortPlan>} plans
 * @param {(values: Record<string, string | number | boolean>) => void} choose
 */
export function effortChoice(said, plans, choose) {
  const efforts = effortsOf(said, plans);
  if (!Object.keys(efforts).length) return nothing;
  const held = effortOf(said, efforts);
  const measured = measuredFor(said);
  const source = measured.length
    ? `Perplexity beside plain GPTQ, measured at ${measured[0].bits} bits by ${methodTitle(said.method)}.`
    : "";
  return html`<fieldset class="efforts" data-testid="efforts">
    <legend>How much effort${held ? nothing : html`<span data-testid="own-fitting"> – custom, see Advanced</span>`}</legend>
    <div class="effort-choices">${Object.entries(efforts).map(([name, fitting]) => {
      const minutes = plans[name]?.minutes ?? null;
      const gains = measured.filter((row) => row.effort === name);
      return html`<label
        ><input type="radio" name="effort" value=${name} .checked=${name === held} @change=${() => choose(takenUp(said, fitting))} />
        <span class="effort-title">${asSentence(name)}</span
        > <span class="effort-time">${minutes === null ? "" : `about ${duration(60 * minutes)}`}</span
        > <small>${fittingWords({ ...said, ...fitting }).join(", ")}</small
        > <small class="effort-gain">${gains.map((row) => `${signed(percent(row.change, 1))} on ${row.model}`).join(", ")}</small></label>`;
    })}</div>
    <p>${source}</p></fieldset>`;
}
