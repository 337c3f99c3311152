/**
 * Where a tuning run stands, in words. Pure.
 * @module tuning_progress
 */

import { counted, duration, plain } from "../base/format.js";

/** @import { Recipe, Tuning } from "../base/types.d.ts" */
/** @typedef {Tuning["rows"][number]["standing"]} Standing */

/** @type {readonly Standing[]} of a λ that was measured in two draws and compared */
const COMPARED = ["best", "as_good", "worse"];

/**
 * How many λ there are of some standings.
 * @param {Tuning} tuning
 * @param {...string} standings
 */
const count = ({ rows }, ...standings) => rows.filter((row) => standings.includes(row.standing)).length;

/** Whether the errors of layers are still being compared. @param {Tuning} tuning */
export const screens = ({ screened, measured, end }) =>
  !end && !measured && Boolean(screened) && screened[0] < screened[1];

/**
 * “Comparing the errors of layers: layer 12 of 42”; “draw 2 of at most 8: 9 models measured, 4 λ compared, 2 not reached, 6 ruled out”.
 * @param {Tuning} tuning
 * @param {Pick<Recipe, "draws">} recipe
 */
export function standing(tuning, { draws }) {
  const { screened, end } = tuning;
  if (screens(tuning)) return `Comparing the errors of layers: layer ${Math.max(1, screened[0])} of ${screened[1]}`;
  const words = countWords(tuning);
  return end || tuning.draws >= draws
    ? `${counted(tuning.draws, "draw")}: ${words}`
    : `Draw ${tuning.draws + 1} of at most ${draws}: ${words}`;
}

/** @param {Tuning} tuning */
function countWords(tuning) {
  const [compared, open, out] = [count(tuning, ...COMPARED), count(tuning, "not_reached"), count(tuning, "ruled_out")];
  const parts = [`${counted(tuning.measured, "model")} measured`, `${compared} λ compared`];
  if (open) parts.push(tuning.end ? `${open} not reached` : `${open} not reached yet`);
  if (out) parts.push(`${out} ruled out`);
  return parts.join(", ");
}

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

/**
 * What a step of tuning says in the log: the errors of layers once all are known, and each whole draw; empty for what
 * lies between.
 * @param {Tuning} tuning
 * @param {Tuning | null} before
 */
export function logWords(tuning, before) {
  if (screens(tuning)) return "";
  if (!before || screens(before)) {
    const out = count(tuning, "ruled_out");
    const rest = tuning.rows.length - count(tuning, "baseline") - out;
    return `Errors of layers compared: ${rest} λ left, ${out} ruled out`;
  }
  if (tuning.end || tuning.draws === before.draws) return "";
  const best = tuning.best === null ? null : tuning.rows[tuning.best].lambda;
  const good = count(tuning, "as_good");
  const draws = counted(tuning.draws, "draw");
  return best === null ? `${draws}: no λ compared twice yet` : `${draws}: λ = ${plain(best)} is best, ${good} as good`;
}
