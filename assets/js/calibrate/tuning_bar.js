/**
 * The work of a tuning run as one bar: with a budget its seconds, which the bar never exceeds; without one the share of
 * the planned models.
 * @module tuning_bar
 */

import { counted } from "../base/format.js";
import { html } from "../base/html.js";
import { screens } from "./tuning_progress.js";

/** @import { Tuning } from "../base/types.d.ts" */
/** @typedef {{kind: "screening" | "comparing" | "asking" | "left", share: number, words: string}} Segment share: of the bar */

const SCREENING = 1 / 3; // of the bar, where no budget says how long anything takes

/**
 * “2:05”, “1:02:05”.
 * @param {number} seconds
 */
export function clock(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  const two = (/** @type {number} */ part) => String(part).padStart(2, "0");
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60];
  return hours ? `${hours}:${two(minutes)}:${two(whole % 60)}` : `${minutes}:${two(whole % 60)}`;
}

/**
 * The parts of the bar from left to right, whose shares sum to 1.
 * @param {Tuning} tuning
 * @param {number} seconds of the run's own clock
 * @returns {Segment[]}
 */
export function segmentsOf(tuning, seconds) {
  const parts = tuning.budget === null ? byModels(tuning) : byClock(tuning, seconds, tuning.budget);
  return parts.filter(({ share }) => share > 0);
}

/** @param {Tuning} tuning @param {number} seconds @param {number} budget @returns {Segment[]} */
function byClock(tuning, seconds, budget) {
  const { turns = [], end } = tuning;
  const spent = Math.min(seconds, budget);
  const since = (/** @type {string} */ what) =>
    Math.min(turns.find((turn) => turn.what === what)?.seconds ?? spent, spent);
  const screened = turns.length ? since("screened") : 0;
  const isLate = !end && seconds >= budget;
  const time = clock(spent - screened);
  /** @type {Segment[]} */
  const parts = [
    { kind: "screening", share: screened / budget, words: `screening ${clock(screened)}` },
    {
      kind: "comparing",
      share: (spent - screened) / budget,
      words: `comparing ${time}`,
    },
    { kind: "left", share: (budget - spent) / budget, words: `${clock(budget - spent)} of ${clock(budget)} left` },
  ];
  const last = parts.findLast(({ kind, share }) => kind !== "left" && share > 0);
  if (isLate && last) last.words = `${last.words}, budget spent: finishing the model at work`;
  return parts;
}

/** @param {Tuning} tuning @returns {Segment[]} */
function byModels(tuning) {
  const { screened, measured, planned, turns = [], end } = tuning;
  if (screens(tuning)) {
    const share = (SCREENING * screened[0]) / screened[1];
    return [
      { kind: "screening", share, words: `screening, ${screened[0]} of ${screened[1]} layers` },
      { kind: "left", share: 1 - share, words: `then at most ${counted(planned, "model")}` },
    ];
  }
  const at = turns.find(({ what }) => what === "screened")?.seconds;
  const rest = 1 - SCREENING;
  const done = end ? rest : planned ? (rest * measured) / planned : 0;
  return [
    { kind: "screening", share: SCREENING, words: at === undefined ? "screening" : `screening ${clock(at)}` },
    { kind: "comparing", share: done, words: `comparing, ${counted(measured, "model")}` },
    { kind: "left", share: rest - done, words: `at most ${planned - measured} more` },
  ];
}

/**
 * @param {Tuning} tuning
 * @param {number} seconds of the run's own clock
 */
export function tuningBar(tuning, seconds) {
  const segments = segmentsOf(tuning, seconds);
  const left = segments.find(({ kind }) => kind === "left")?.share ?? 0;
  const words = segments.map((one) => one.words).join(", ");
  return html`<div class="clock-bar" role="progressbar" aria-label="Work of tuning" aria-valuemin="0" aria-valuemax="100"
      aria-valuenow=${Math.round(100 * (1 - left))} aria-valuetext=${words} data-testid="clock-bar">${segments.map(
        ({ kind, share, words: text }) =>
          html`<span class=${`clock-part clock-${kind}`} style=${`width: ${(100 * share).toFixed(2)}%`} title=${text}
            ><span>${text}</span></span>`,
      )}</div>`;
}
