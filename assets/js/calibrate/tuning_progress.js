/**
 * Where a tuning run stands, in words and as a share of the work. Pure.
 * @module tuning_progress
 */

import { duration, plain } from "../base/format.js";

/** @import { Recipe, Tuning } from "../base/types.d.ts" */

/**
 * How many λ there are of a standing.
 * @param {Tuning} tuning
 * @param {string} standing
 */
const count = ({ rows }, standing) => rows.filter((row) => row.standing === standing).length;

/**
 * “draw 2 of at most 8, 7 λ in question”.
 * @param {Tuning} tuning
 * @param {Pick<Recipe, "draws">} recipe
 */
export function standing(tuning, { draws }) {
  const left = `${count(tuning, "left")} λ in question`;
  if (!tuning.end && tuning.tasks?.draws) return `Tasks on draw ${tuning.tasks.draws}, ${left}`;
  return tuning.end || tuning.draws >= draws
    ? `${drawsWords(tuning.draws)}, ${left}`
    : `Draw ${tuning.draws + 1} of at most ${draws}, ${left}`;
}

/** @param {number} draws */
export const drawsWords = (draws) => `${draws} ${draws === 1 ? "draw" : "draws"}`;

/**
 * How far the work is, from 0 to 1: it ends with the budget or with the last model, whichever comes first.
 * @param {Tuning} tuning
 */
export function share({ measured, planned, seconds, budget, end }) {
  if (end) return 1;
  return Math.min(1, Math.max(planned ? measured / planned : 0, budget ? seconds / budget : 0));
}

/**
 * “1 min 20 s of 3 min, 1 min 40 s left”; without a budget only what was spent.
 * @param {Tuning} tuning
 */
export function budgetWords({ seconds, budget, end }) {
  if (budget === null) return end ? duration(seconds) : `${duration(seconds)}, as much as it takes`;
  const left = budget - seconds;
  const more = end ? "" : left > 0 ? `, ${duration(left)} left` : ", the draw that goes on is the last one";
  return `${duration(seconds)} of ${duration(budget)}${more}`;
}

/**
 * “11 of at most 54”.
 * @param {Tuning} tuning
 */
export const modelsWords = ({ measured, planned, end }) =>
  end || measured >= planned ? String(measured) : `${measured} of at most ${planned}`;

/**
 * What a step of tuning says in the log: the errors of layers, each whole draw, and the end; empty for what lies between.
 * @param {Tuning} tuning
 * @param {Tuning | null} before
 */
export function logWords(tuning, before) {
  if (!before) {
    const [left, dull] = [count(tuning, "left"), count(tuning, "dull")];
    return `Errors of layers compared: ${left} λ in question, ${dull} given up`;
  }
  if (tuning.end || tuning.draws === before.draws) return "";
  const best = tuning.best === null ? null : tuning.rows[tuning.best].lambda;
  const words = best === null ? "" : `: λ = ${plain(best)} is best`;
  return `${drawsWords(tuning.draws)}${words}, ${count(tuning, "left")} λ in question`;
}
