/**
 * What a preview of one layer has said so far: its curves, point by point; and how it stands to what the Lab shows, whose
 * curves it is drawn over. Pure: no page, no request.
 * @module preview
 */

import { ENDS, FITTING_WORDS } from "../base/contract.js";
import { count, format, plain, when } from "../base/format.js";
import { RECIPE_FIELDS } from "../base/recipe_contract.js";

/** @import { Recipe, RunEvent } from "../base/types.d.ts" */

/** @typedef {"recon"|"heldOut"|"sar"} Curve */
/** @typedef {Record<Curve, number|null>} Values of one point; null was not measured */
/**
 * @typedef {object} Preview
 * @property {string|null} run once it is made
 * @property {Partial<Recipe>} recipe as it was asked for, then the run's own
 * @property {number[]} lams of the curve, all of them
 * @property {(Values|null)[]} points at each λ, null where it is not solved yet
 * @property {string} stage where the run stands
 * @property {boolean} lost whether the server is silent
 * @property {boolean} stopping whether the person wants it to end
 * @property {string|null} ended the event that was the last
 * @property {string|null} endedAt when that was
 * @property {boolean} kept whether lists have it
 */

const STATISTICS = "statistics of the calibration text";

/** The λ of a recipe's curve, in order: those of its sweep and its own. @param {Partial<Recipe>} recipe */
export function lamsOf(recipe) {
  const own = typeof recipe.lambda === "number" ? [recipe.lambda] : [];
  return [...new Set([...(recipe.sweep ?? []), ...own])].sort((a, b) => a - b);
}

/**
 * The state before the first event.
 * @param {Partial<Recipe>} recipe
 * @param {{id: string, name: string}|null} [run]
 * @returns {Preview}
 */
export function initial(recipe, run = null) {
  const lams = lamsOf(recipe);
  return {
    run: run?.id ?? null,
    recipe,
    lams,
    points: new Array(lams.length).fill(null),
    stage: "waiting for a device",
    lost: false,
    stopping: false,
    ended: null,
    endedAt: null,
    kept: Boolean(run?.name),
  };
}

/**
 * The state after one more event. A point that is told again (a stream that begins anew) takes its own place again.
 * @param {Preview} before
 * @param {RunEvent & {at?: string}} event
 * @returns {Preview}
 */
export function reduce(before, event) {
  const state = { ...before, lost: false };
  if (ENDS.includes(event.type)) return { ...state, ended: event.type, endedAt: event.at ?? null };
  switch (event.type) {
    case "stage":
      return { ...state, stage: event.detail && event.name === "loading" ? `loading ${event.detail}` : event.name };
    case "started":
      return { ...state, stage: STATISTICS, ended: null };
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
  if (state.ended) return `computed ${when(state.endedAt)}`;
  const done = solved(state);
  if (!done) return state.stage === "quantizing" ? STATISTICS : state.stage;
  return `${done} of ${state.points.length} λ solved`;
}

/** Each curve in words. @type {[Curve, string][]} */
const SPOKEN = [
  ["recon", "reconstruction error on calibration text"],
  ["heldOut", "reconstruction error on unseen text"],
  ["sar", "the penalty, L_sar,"],
];

/**
 * The curves in words, for those who do not see them.
 * @param {Preview} state
 * @param {string} label of the layer
 */
export function sentence(state, label) {
  const head = `${label}: ${solved(state)} of ${state.points.length} λ solved`;
  const curves = SPOKEN.flatMap(([name, spoken]) => {
    const points = valuesOf(state, name).flatMap((value, index) =>
      value === null ? [] : [`${format(value, "significant")} at λ = ${plain(state.lams[index])}`],
    );
    if (points.length < 2) return points.map((only) => `${spoken} is ${only}`);
    return [`${spoken} goes from ${points[0]} to ${points.at(-1)}`];
  });
  return `${[head, ...curves].join("; ")}.`;
}

/**
 * What the layer of a preview is called where it is shown; elsewhere by its module's name.
 * @param {Pick<Preview, "recipe">} preview
 * @param {{layers: import("../explorer/state.js").Layer[]}|null} view
 */
export const labelOf = ({ recipe }, view) =>
  view?.layers.find(({ name }) => name === recipe.layer)?.label ?? recipe.layer ?? "";

/** What makes a question another one. @type {(keyof Recipe)[]} */
const QUESTION = ["model", "bits", "grid", "group_size", "method", "gamma", "layer"];
// A distillation is none of a single layer.
const FITTING = /** @type {(keyof Recipe)[]} */ (
  Object.keys(FITTING_WORDS).filter((name) => !name.startsWith("distill"))
);

/** A value of a recipe, its own or the default's. @param {Partial<Recipe>} recipe @param {keyof Recipe} name */
const said = (recipe, name) => recipe[name] ?? RECIPE_FIELDS[name]?.default ?? null;

/**
 * Whether a preview is of what is shown, so that it may be drawn over it.
 * @param {Preview} preview
 * @param {Partial<Recipe>|null} asked what a preview of the shown point would ask for, see recipeFor
 */
export const isOf = ({ recipe }, asked) =>
  asked !== null && [...QUESTION, ...FITTING].every((name) => said(recipe, name) === said(asked, name));

/** Where the calibration of two recipes may differ, in words. @type {[keyof Recipe, (value: any) => string][]} */
const CALIBRATION = [
  ["calibration", (text) => `calibration text ${text}`],
  ["samples", (samples) => `${count(samples)} sequences`],
  ["length", (tokens) => `sequences of ${count(tokens)} tokens`],
  ["sampling", (way) => `${way === "random" ? "random" : "sequential"} sampling`],
  ["seed", (seed) => `calibration draw ${seed}`],
];

/**
 * How a preview was calibrated otherwise than the curves that it is drawn over, a phrase each; none where all is the same.
 * @param {Preview} preview
 * @param {Partial<Recipe>} asked the study's calibration, see recipeFor
 * @param {Pick<import("../explorer/state.js").View, "study"|"draw"|"draws"|"explore">} view
 */
export function differences({ recipe }, asked, { study, draw, draws, explore }) {
  const several = draw === null && draws.length > 1;
  const phrases = CALIBRATION.flatMap(([name, say]) => {
    const [ours, theirs] = [said(recipe, name), said(asked, name)];
    return ours === theirs || (name === "seed" && several) ? [] : [`${say(ours)} (the curve: ${say(theirs)})`];
  });
  if (several) phrases.push(`draw ${said(recipe, "seed")} alone (the curve: mean of ${draws.length} draws)`);
  const text = said(recipe, "calibration");
  if (study.unseen && study.unseen !== text) phrases.push(`unseen text: more of ${text} (the curve: ${study.unseen})`);
  if (!explore) phrases.push("inputs from the float model (the curve: from the quantized blocks before)");
  return phrases;
}

/**
 * What of a preview is drawn over the curves.
 * @param {Preview} state
 * @returns {import("../explorer/state.js").Overlay}
 */
export const overlay = (state) => ({
  lams: state.lams,
  recon: valuesOf(state, "recon"),
  heldOut: valuesOf(state, "heldOut"),
  sar: valuesOf(state, "sar"),
  words: words(state),
});
