/**
 * What a preview of one layer has said so far: its curves, point by point; and how it stands to what the Lab shows, whose
 * curves it is drawn over. Pure: no page, no request.
 * @module preview
 */

import { ENDS } from "../base/contract.js";
import { count, format, plain, when } from "../base/format.js";
import { tr, trCount } from "../base/messages.js";
import { RECIPE_FIELDS } from "../base/recipe_contract.js";
import { stageWords } from "../base/stage_words.js";

/** @typedef {import("../base/types.d.ts").RunEvent} RunEvent */
/** @typedef {import("../base/types.d.ts").Recipe} Recipe */
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

const STATISTICS = tr("statistics of the calibration text");

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
    stage: tr("waiting for a device"),
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
      return {
        ...state,
        stage:
          event.detail && event.name === "loading"
            ? tr("loading {model}", { model: event.detail })
            : event.name === "quantizing"
              ? event.name
              : stageWords(event.name),
      };
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
  if (state.stopping) return tr("stopping");
  if (state.lost) return tr("the server does not answer just now; the preview goes on without this page");
  if (state.ended) return tr("computed {time}", { time: when(state.endedAt) });
  const done = solved(state);
  if (!done) return state.stage === "quantizing" ? STATISTICS : state.stage;
  return tr("{done} of {all} λ solved", { done, all: state.points.length });
}

/** @typedef {{value: string, lam: string}} Spoken value at a λ */
/**
 * Each curve in words: its only value, or its first and last.
 * @type {[Curve, (only: Spoken) => string, (ends: {first: string, from: string, last: string, to: string}) => string][]}
 */
const SPOKEN = [
  [
    "recon",
    (only) => tr("reconstruction error on calibration text is {value} at λ = {lam}", only),
    (ends) =>
      tr("reconstruction error on calibration text goes from {first} at λ = {from} to {last} at λ = {to}", ends),
  ],
  [
    "heldOut",
    (only) => tr("reconstruction error on unseen text is {value} at λ = {lam}", only),
    (ends) => tr("reconstruction error on unseen text goes from {first} at λ = {from} to {last} at λ = {to}", ends),
  ],
  [
    "sar",
    (only) => tr("the penalty, L_sar, is {value} at λ = {lam}", only),
    (ends) => tr("the penalty, L_sar, goes from {first} at λ = {from} to {last} at λ = {to}", ends),
  ],
];

/**
 * The curves in words, for those who do not see them.
 * @param {Preview} state
 * @param {string} label of the layer
 */
export function sentence(state, label) {
  const head = tr("{layer}: {done} of {all} λ solved", { layer: label, done: solved(state), all: state.points.length });
  const curves = SPOKEN.flatMap(([name, ofOne, ofSeveral]) => {
    const values = valuesOf(state, name).flatMap((value, index) =>
      value === null ? [] : [{ value: format(value, "significant"), lam: plain(state.lams[index]) }],
    );
    const [first, last] = [values[0], values[values.length - 1]];
    if (values.length < 2) return values.map(ofOne);
    return [ofSeveral({ first: first.value, from: first.lam, last: last.value, to: last.lam })];
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
const FITTING = /** @type {(keyof Recipe)[]} */ ([
  "range",
  "order",
  "refine",
  "refit",
  "expert_damping",
  "warm_start",
  "stopping",
  "rotate",
  "first_order",
]);

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
  ["calibration", (text) => tr("calibration text {text}", { text })],
  ["samples", (samples) => tr("{count} sequences", { count: count(samples) })],
  ["length", (tokens) => tr("sequences of {count} tokens", { count: count(tokens) })],
  ["sampling", (way) => (way === "random" ? tr("random sampling") : tr("sequential sampling"))],
  ["seed", (seed) => tr("calibration draw {seed}", { seed })],
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
    return ours === theirs || (name === "seed" && several)
      ? []
      : [tr("{ours} (the curve: {theirs})", { ours: say(ours), theirs: say(theirs) })];
  });
  if (several)
    phrases.push(
      trCount(
        "draw {draw} alone (the curve: mean of {count} draw)",
        "draw {draw} alone (the curve: mean of {count} draws)",
        draws.length,
        { draw: String(said(recipe, "seed")) },
      ),
    );
  const text = said(recipe, "calibration");
  if (study.unseen && study.unseen !== text)
    phrases.push(tr("unseen text: more of {ours} (the curve: {theirs})", { ours: String(text), theirs: study.unseen }));
  if (!explore) phrases.push(tr("inputs from the float model (the curve: from the quantized blocks before)"));
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
