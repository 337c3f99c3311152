/**
 * What finding λ takes: what each budget buys, the one that is chosen, and what is to be known before it begins.
 * @module calibrate/budgets
 */

import { html, nothing } from "../base/html.js";

/** @import { Fix } from "../base/client.js" */
/** @import { Trouble } from "../base/problem.js" */
/** @import { Plan, TuningPlan } from "../base/types.d.ts" */
/** @typedef {{plan: Plan} | {refusal: Trouble}} Tuned the plan of the tuning, or why there is none */

/** Until λ is known, whatever it takes. */
export const WITHOUT_END = "";

/** @type {readonly number[]} minutes to choose among before there is a plan */
const USUAL = [3, 10, 30, 120];

/** @param {number} minutes */
const named = (minutes) =>
  minutes >= 120 && minutes % 60 === 0 ? `in ${minutes / 60} hours` : `in ${minutes} minute${minutes === 1 ? "" : "s"}`;

/**
 * Values and words of the menu, shortest first.
 * @param {TuningPlan | null} plan
 * @param {string} chosen
 * @returns {[string, string][]}
 */
export function choicesOf(plan, chosen) {
  const minutes = new Set(plan ? plan.budgets.map((one) => one.minutes) : USUAL);
  if (plan) minutes.add(plan.sensible_minutes);
  if (chosen !== WITHOUT_END) minutes.add(Number(chosen));
  const words = [...minutes].sort((one, other) => one - other).map((one) => [String(one), named(one)]);
  return /** @type {[string, string][]} */ ([...words, [WITHOUT_END, "until it is known"]]);
}

/**
 * The menu's options.
 * @param {TuningPlan | null} plan
 * @param {string} chosen
 */
export const budgetOptions = (plan, chosen) =>
  choicesOf(plan, chosen).map(
    ([value, words]) => html`<option value=${value} ?selected=${value === chosen}>${words}</option>`,
  );

/**
 * What the chosen budget buys; empty where that is not known.
 * @param {Tuned | null} tuned
 * @param {string} chosen
 */
export const boughtBy = (tuned, chosen) =>
  (tuned && "plan" in tuned && tuned.plan.tuning?.budgets.find(({ minutes }) => String(minutes) === chosen)?.words) ||
  "";

/**
 * What each budget buys, in one line, the chosen one marked; below it what is to be known before the press.
 * @param {Tuned | null} tuned
 * @param {string} chosen
 * @param {readonly string[]} said warnings that the plan of the run has already
 * @param {(fix: Fix) => void} mend changes the form so that λ can be found
 */
export function budgetNote(tuned, chosen, said, mend) {
  if (!tuned) return nothing;
  if ("refusal" in tuned)
    return html`<div class="warning" data-testid="tune-refusal"><p>Find my λ: ${tuned.refusal.what}. ${tuned.refusal.remedy}</p>${(
      tuned.refusal.fixes ?? []
    ).map(
      (fix) =>
        html`<button type="button" class="act-quiet" data-testid="tune-fix" @click=${() => mend(fix)}>${fix.words}</button>`,
    )}</div>`;
  const { tuning, warnings } = tuned.plan;
  const fresh = warnings.filter((words) => !said.includes(words));
  return html`${
    tuning
      ? html`<ul class="budgets" data-testid="budgets" aria-label="What each budget buys">${tuning.budgets.map(
          ({ minutes, enough, words }) => html`<li
            class=${[String(minutes) === chosen ? "is-chosen" : "", enough ? "" : "is-short"].join(" ").trim()}
            aria-current=${String(minutes) === chosen ? "true" : nothing}>${words}</li>`,
        )}</ul>`
      : nothing
  }${fresh.map((words) => html`<p class="warning" data-testid="tune-warning">${words}</p>`)}`;
}
