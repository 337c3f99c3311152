/**
 * What finding λ takes, and what the ladder takes: what each budget buys, the one that is chosen, and what is to be known before it begins.
 * @module calibrate/budgets
 */

import { counted, plain } from "../base/format.js";
import { html, nothing } from "../base/html.js";

/** @import { Fix } from "../base/client.js" */
/** @import { Trouble } from "../base/problem.js" */
/** @import { Plan } from "../base/types.d.ts" */
/** @typedef {{plan: Plan} | {refusal: Trouble}} Tuned the plan of a run with a budget, or why there is none */
/** @typedef {{budgets: {minutes: number, enough: boolean, words: string}[], sensible_minutes: number}} Bought */

/** Until λ is known, whatever it takes. */
export const WITHOUT_END = "";

/** @type {readonly number[]} minutes to choose among before there is a plan */
const USUAL = [3, 10, 30, 120];

/** @param {number} minutes */
const named = (minutes) =>
  minutes >= 120 && minutes % 60 === 0
    ? `in ${plain(minutes / 60)} hours`
    : `in ${counted(minutes, "minute", plain(minutes))}`;

/**
 * Values and words of the menu, shortest first.
 * @param {Bought | null} plan
 * @param {string} chosen
 * @returns {[string, string][]}
 */
export function choicesOf(plan, chosen, withoutEnd = "until it is known") {
  const minutes = new Set(plan ? plan.budgets.map((one) => one.minutes) : USUAL);
  if (plan) minutes.add(plan.sensible_minutes);
  if (chosen !== WITHOUT_END) minutes.add(Number(chosen));
  const words = [...minutes].sort((one, other) => one - other).map((one) => [String(one), named(one)]);
  return /** @type {[string, string][]} */ ([...words, [WITHOUT_END, withoutEnd]]);
}

/**
 * The menu's options.
 * @param {Bought | null} plan
 * @param {string} chosen
 */
export const budgetOptions = (plan, chosen, withoutEnd = "until it is known") =>
  choicesOf(plan, chosen, withoutEnd).map(
    ([value, words]) => html`<option value=${value} ?selected=${value === chosen}>${words}</option>`,
  );

/**
 * What the chosen budget buys; empty where that is not known.
 * @param {Tuned | null} tuned
 * @param {string} chosen
 */
export const boughtBy = (tuned, chosen) =>
  boughtIn(tuned)?.budgets.find(({ minutes }) => String(minutes) === chosen)?.words ?? "";

/**
 * What the budgets of a plan buy, in tuning or for a ladder; null without a plan.
 * @param {Tuned | null} tuned
 * @returns {Bought | null}
 */
export const boughtIn = (tuned) => (tuned && "plan" in tuned ? tuned.plan.comparing : null);

/**
 * What each budget buys, in one line, the chosen one marked; below it what is to be known before the press.
 * @param {Tuned | null} tuned
 * @param {string} chosen
 * @param {readonly string[]} said warnings that the plan of the run has already
 * @param {(fix: Fix) => void} mend changes the form so that λ can be found
 * @param {string} [name] of the button
 * @param {string} [testid] what test ids begin with
 */
export function budgetNote(tuned, chosen, said, mend, name = "Find my λ", testid = "tune") {
  if (!tuned) return nothing;
  if ("refusal" in tuned)
    return html`<div class="warning" data-testid=${`${testid}-refusal`}><p>${name}: ${tuned.refusal.what}. ${tuned.refusal.remedy}</p>${(
      tuned.refusal.fixes ?? []
    ).map(
      (fix) =>
        html`<button type="button" class="act-quiet" data-testid=${`${testid}-fix`} @click=${() => mend(fix)}>${fix.words}</button>`,
    )}</div>`;
  const bought = boughtIn(tuned);
  const fresh = tuned.plan.warnings.filter((words) => !said.includes(words));
  return html`${
    bought
      ? html`<ul class="budgets" data-testid=${testid === "tune" ? "budgets" : `${testid}-budgets`} aria-label="What each budget buys">${bought.budgets.map(
          ({ minutes, enough, words }) => html`<li
            class=${[String(minutes) === chosen ? "is-chosen" : "", enough ? "" : "is-short"].join(" ").trim()}
            aria-current=${String(minutes) === chosen ? "true" : nothing}>${words}</li>`,
        )}</ul>`
      : nothing
  }${fresh.map((words) => html`<p class="warning" data-testid=${`${testid}-warning`}>${words}</p>`)}`;
}
