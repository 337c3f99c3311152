/**
 * The time of a tuning run, in words. Pure.
 * @module tuning_progress
 */

import { duration } from "../base/format.js";

/** @import { Tuning } from "../base/types.d.ts" */
/** Whether the errors of layers are still being compared. @param {Tuning} tuning */
export const screens = ({ turns = [], end }) => !end && !turns.some(({ what }) => what === "screened");

/**
 * Seconds of the run's own clock in this moment: what it said last, and those since.
 * @param {Pick<Tuning, "seconds">} standing
 * @param {string} at when it was said
 * @param {number} moment in milliseconds
 */
export const now = ({ seconds }, at, moment) => seconds + Math.max(0, (moment - Date.parse(at)) / 1000 || 0);

/**
 * “1 min 40 s left”; empty without a budget, and at the end.
 * @param {Tuning} tuning
 * @param {number} [seconds] of its clock
 */
export function leftWords({ budget, end, seconds: said }, seconds = said) {
  if (budget === null || end) return "";
  return budget > seconds ? `${duration(budget - seconds)} left` : "finishing the model at work";
}

/**
 * “1 min 20 s of 3 min, 1 min 40 s left”; without a budget only what was spent.
 * @param {Tuning} tuning
 * @param {number} [seconds] of its clock
 */
export function budgetWords(tuning, seconds = tuning.seconds) {
  const { budget, end } = tuning;
  const time = duration(seconds);
  if (budget === null) return end ? time : `${time}, as much as it takes`;
  const spent = `${time} of ${duration(budget)}`;
  return [spent, leftWords(tuning, seconds)].filter(Boolean).join(", ");
}

/**
 * “11 of at most 54”.
 * @param {Tuning} tuning
 */
export const modelsWords = ({ measured, planned, end }) =>
  end || measured >= planned ? String(measured) : `${measured} of at most ${planned}`;
