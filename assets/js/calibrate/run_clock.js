/**
 * How far a run is by time: the seconds that its plan counts for each phase, corrected by those that phases took. Pure.
 * @module run_clock
 */

/** @import { Phase } from "../base/types.d.ts" */
/**
 * The phase that is worked on.
 * @typedef {object} Timed
 * @property {number} index among the phases
 * @property {number} at since when, in milliseconds
 * @property {number} counted seconds that the plan counts of those before that were worked on
 * @property {number} taken seconds that these took
 */

const FROM_DISK = 0.1; // of what the plan counts: what took less was done before
const PLANNED = 0.1; // of a plan: as much work at its pace is taken for measured, so that the first layers decide little
const MOST = 0.95; // of a phase that does not say how far it is

/**
 * The phase that begins with a stage; what is not among the phases belongs to the one before.
 * @param {readonly Phase[]} phases
 * @param {Timed | null} before
 * @param {string} stage
 * @param {string} detail
 * @param {string} at
 * @returns {Timed | null}
 */
export function timed(phases, before, stage, detail, at) {
  const from = before ? before.index : 0;
  const found = phases.findIndex(
    (phase, index) => index >= from && phase.stage === stage && (phase.detail === "" || phase.detail === detail),
  );
  const now = new Date(at).getTime();
  if (found < 0) return before;
  if (!before) return { index: found, at: now, counted: 0, taken: 0 };
  if (found === before.index) return before;
  const taken = Math.max(0, (now - before.at) / 1000);
  const { seconds } = phases[before.index];
  const isWork = taken > FROM_DISK * seconds;
  return {
    index: found,
    at: now,
    counted: before.counted + (isWork ? seconds : 0),
    taken: before.taken + (isWork ? taken : 0),
  };
}

/**
 * How much of a run is done, from 0 to 1, and the seconds that are left; null where nothing is counted.
 * @param {readonly Phase[]} phases
 * @param {Timed | null} phase that is worked on
 * @param {number | null} within how far it says that it is, from 0 to 1
 * @param {number} now in milliseconds
 * @returns {{done: number, left: number} | null}
 */
export function share(phases, phase, within, now) {
  const all = sum(phases);
  if (!phase || !(all > 0)) return null;
  const { seconds } = phases[phase.index];
  const taken = Math.max(0, (now - phase.at) / 1000);
  const planned = PLANNED * all;
  const before = (phase.taken + planned) / (phase.counted + planned);
  // A phase that does not say how far it is, and takes longer than it should, counts as all but done.
  const part = within ?? Math.min(MOST, seconds > 0 ? taken / (before * seconds) : MOST);
  const own = within !== null || part === MOST ? { counted: part * seconds, taken } : { counted: 0, taken: 0 };
  const pace = (phase.taken + own.taken + planned) / (phase.counted + own.counted + planned);
  const done = sum(phases.slice(0, phase.index)) + part * seconds;
  return { done: done / all, left: pace * (all - done) };
}

/** @param {readonly Phase[]} phases */
const sum = (phases) => phases.reduce((total, { seconds }) => total + seconds, 0);
