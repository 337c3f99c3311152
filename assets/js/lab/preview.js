/**
 * What a preview of one layer has said so far: its curve, point by point. Pure: the card draws it, the tests read it.
 * @module preview
 */

import { ENDS } from "../base/contract.js";
import { format, plain } from "../base/format.js";

/** @typedef {import("../base/types.d.ts").RunEvent} RunEvent */
/** @typedef {import("../base/types.d.ts").Recipe} Recipe */
/** @typedef {"recon"|"heldOut"|"sar"} Curve */
/** @typedef {Record<Curve, number|null>} Values of one point; null was not measured */
/**
 * @typedef {object} Preview
 * @property {string} title of the layer
 * @property {number[]} lams of the curve, all of them
 * @property {(Values|null)[]} points at each λ, null where it is not solved yet
 * @property {string} stage where the run stands
 * @property {boolean} lost whether the server is silent
 * @property {boolean} stopping whether the person wants it to end
 * @property {string|null} ended the event that was the last
 */

/** The λ of a recipe's curve, in order: those of its sweep and its own. @param {Partial<Recipe>} recipe */
export function lamsOf(recipe) {
  const own = typeof recipe.lambda === "number" ? [recipe.lambda] : [];
  return [...new Set([...(recipe.sweep ?? []), ...own])].sort((a, b) => a - b);
}

/**
 * The state before the first event.
 * @param {string} title of the layer
 * @param {number[]} lams of the curve, all of them
 * @returns {Preview}
 */
export function initial(title, lams) {
  return {
    title,
    lams,
    points: new Array(lams.length).fill(null),
    stage: "waiting for a device",
    lost: false,
    stopping: false,
    ended: null,
  };
}

/**
 * The state after one more event. A point that is told again (a stream that begins anew) takes its own place again.
 * @param {Preview} before
 * @param {RunEvent} event
 * @returns {Preview}
 */
export function reduce(before, event) {
  const state = { ...before, lost: false };
  if (ENDS.includes(event.type)) return { ...state, ended: event.type };
  switch (event.type) {
    case "stage":
      return {
        ...state,
        stage: event.detail && event.name === "loading" ? `${event.name} ${event.detail}` : event.name,
      };
    case "started":
      return { ...state, stage: "statistics of the calibration text", ended: null };
    case "point_done": {
      const [lams, points] = [[...state.lams], [...state.points]];
      lams[event.index] = event.lam;
      points[event.index] = {
        recon: event.relative_recon ?? null,
        heldOut: event.relative_held_out ?? null,
        sar: event.relative_sar ?? null,
      };
      return { ...state, lams: lams.slice(0, event.total), points: points.slice(0, event.total) };
    }
    default:
      return state;
  }
}

/** How many points are there. @param {Preview} state */
export const solved = (state) => state.points.filter(Boolean).length;

/** The values of one curve at every λ, null where none came yet. @param {Preview} state @param {Curve} name */
export const valuesOf = (state, name) => state.points.map((point) => point?.[name] ?? null);

/** Where the preview stands, in a few words. @param {Preview} state */
export function words(state) {
  if (state.stopping) return "stopping";
  if (state.lost) return "the server does not answer just now; the preview goes on without this page";
  const done = solved(state);
  if (!done) return state.stage === "quantizing" ? "statistics of the calibration text" : state.stage;
  const progress = `${done} of ${state.points.length} λ solved`;
  return state.ended === "finished" ? `${progress}, opening` : progress;
}

/** @type {[Curve, string][]} */
const SPOKEN = [
  ["recon", "reconstruction error on calibration text"],
  ["heldOut", "reconstruction error on unseen text"],
  ["sar", "weight drift, L_sar,"],
];

/** The curves in words, for those who do not see them. @param {Preview} state */
export function sentence(state) {
  const head = `${state.title}: ${solved(state)} of ${state.points.length} λ solved`;
  const curves = SPOKEN.flatMap(([name, what]) => {
    const ends = valuesOf(state, name).flatMap((value, index) =>
      value === null ? [] : [`${format(value, "error")} at λ = ${plain(state.lams[index])}`],
    );
    if (!ends.length) return [];
    return [`${what} ${ends.length > 1 ? `goes from ${ends[0]} to ${ends.at(-1)}` : `is ${ends[0]}`}`];
  });
  return `${[head, ...curves].join("; ")}.`;
}

/**
 * The range of an axis, by the rule of honest_range in sarqc/figures/drawing.py: all values at λ above 0 but those that
 * run away, and those at 0 that do not flatten the rest. What is outside is to be marked at the edge with its value.
 * @param {number[]} lams
 * @param {(number|null)[][]} curves values at each λ
 * @returns {[number, number]}
 */
export function honestRange(lams, curves) {
  /** @type {[number[], number[]]} */
  const [inner, outer] = [[], []];
  for (const values of curves)
    values.forEach((value, index) => {
      if (value !== null && Number.isFinite(value)) (lams[index] > 0 ? inner : outer).push(value);
    });
  const base = (inner.length ? inner : outer).toSorted((a, b) => a - b);
  if (!base.length) return [0, 1];
  const [middleLow, middleHigh] = [percentile(base, 0.1), percentile(base, 0.85)];
  const reach = 6 * Math.max(middleHigh - middleLow, 0.01 * Math.abs(middleHigh), 1e-9);
  let low = Math.max(base[0], middleLow - reach);
  let high = Math.min(base[base.length - 1], middleHigh + reach);
  const least = (/** @type {number} */ top) => Math.max(0.02 * Math.max(Math.abs(top), 1e-9), 1e-9);
  const span = Math.max(high - low, least(high));
  for (const value of outer) {
    if (value >= low - 0.8 * span && value <= high + 0.8 * span)
      [low, high] = [Math.min(low, value), Math.max(high, value)];
  }
  const air = 0.12 * Math.max(high - low, least(high));
  return [low - air, high + air];
}

/**
 * What a share of sorted values lies below, between two of them in proportion.
 * @param {number[]} sorted
 * @param {number} share from 0 to 1
 */
function percentile(sorted, share) {
  const place = share * (sorted.length - 1);
  const low = Math.floor(place);
  const next = sorted[Math.min(low + 1, sorted.length - 1)];
  return sorted[low] + (next - sorted[low]) * (place - low);
}
