/**
 * What a preview of one layer has said so far: its curve, point by point. Pure: the card draws it, the tests read it.
 * @module preview
 */

import { ENDS } from "../base/contract.js";
import { format, plain } from "../base/format.js";

/** What a point says, by the names of the curves. */
const VALUES = { recon: "relative_recon", heldOut: "relative_held_out", sar: "relative_sar" };

/** The λ of a recipe's curve, in order: those of its sweep and its own. */
export function lamsOf(recipe) {
  const own = typeof recipe.lambda === "number" ? [recipe.lambda] : [];
  return [...new Set([...(recipe.sweep ?? []), ...own])].sort((a, b) => a - b);
}

/**
 * The state before the first event.
 * @param {string} title of the layer
 * @param {number[]} lams of the curve, all of them
 */
export function initial(title, lams) {
  return {
    title,
    lams,
    points: new Array(lams.length).fill(null),
    stage: "waiting for a device",
    lost: false,
    ended: null,
  };
}

/**
 * The state after one more event. A point that is told again (a stream that begins anew) takes its own place again.
 * @param {object} state
 * @param {object} event JSON of sarqc/events.py
 */
export function reduce(state, event) {
  const next = { ...state, lost: false };
  if (event.type === "stage")
    next.stage = event.detail && event.name === "loading" ? `${event.name} ${event.detail}` : event.name;
  if (event.type === "started") Object.assign(next, { stage: "statistics of the calibration text", ended: null });
  if (event.type === "point_done") {
    const [lams, points] = [[...state.lams], [...state.points]];
    lams[event.index] = event.lam;
    points[event.index] = Object.fromEntries(Object.entries(VALUES).map(([name, key]) => [name, event[key] ?? null]));
    Object.assign(next, { lams: lams.slice(0, event.total), points: points.slice(0, event.total) });
  }
  if (ENDS.includes(event.type)) next.ended = event.type;
  return next;
}

/** How many points are there. */
export const solved = (state) => state.points.filter(Boolean).length;

/** The values of one curve at every λ, null where none came yet. */
export const valuesOf = (state, name) => state.points.map((point) => point?.[name] ?? null);

/** Where the preview stands, in a few words. */
export function words(state) {
  if (state.lost) return "the server does not answer just now; the preview goes on without this page";
  const done = solved(state);
  if (!done) return state.stage === "quantizing" ? "statistics of the calibration text" : state.stage;
  const said = `${done} of ${state.points.length} λ solved`;
  return state.ended === "finished" ? `${said}, opening` : said;
}

/** The curves in words, for those who do not see them. */
export function sentence(state) {
  const head = `${state.title}: ${solved(state)} of ${state.points.length} λ solved`;
  const told = [
    ["recon", "reconstruction error on calibration text"],
    ["heldOut", "reconstruction error on unseen text"],
    ["sar", "weight drift, L_sar,"],
  ].flatMap(([name, what]) => {
    const values = valuesOf(state, name);
    const known = values.map((value, index) => [state.lams[index], value]).filter(([, value]) => value !== null);
    if (!known.length) return [];
    const [first, last] = [known[0], known.at(-1)].map(
      ([lam, value]) => `${format(value, "error")} at λ = ${plain(lam)}`,
    );
    return [`${what} ${known.length > 1 ? `goes from ${first} to ${last}` : `is ${first}`}`];
  });
  return `${[head, ...told].join("; ")}.`;
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
