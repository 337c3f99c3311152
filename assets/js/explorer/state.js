/**
 * What an explorer shows, as plain data, and what becomes of it with each thing that happens. Pure: no page, no request.
 * @module explorer/state
 */

import { nearest } from "../base/address_bar.js";
import { LADDER_STEPS } from "../base/contract.js";
import { withoutBand } from "./band.js";

/** @import { Trouble } from "../base/problem.js" */
/** @import { BestPoint, Door, Drawing, Equation, KeptCodes, Piece, SecondAxis, Shown } from "../base/types.d.ts" */
/** @import { Opened, Point } from "../charts/bind.js" */
/** @import { Term } from "../charts/terms.js" */

/**
 * Of a quality at every point, γ first.
 * @typedef {{best: (BestPoint|null)[], sentences: Piece[][][], small_print: string[][][]}} Told
 */
/** @typedef {{key: string, title: string, kind: string}} Column */
/** @typedef {{columns: Column[], rows: Object<string, any>[]}} Table */
/** @typedef {{drift: (number|null)[][], error: (number|null)[][], names: string[], on: string}} Radius what R is chosen among, by γ and λ */
/** @typedef {import("../charts/bind.js").Figure & {radius?: Radius}} Figure of which the plane alone has a radius */
/** @typedef {{index: number, label: string, name: string, block: number, expert: number|null}} Layer */
/**
 * @typedef {object} View what GET /studies/{id}/view says of one line and layer, for every γ and λ (sarqc/figures/view.py)
 * @property {string} title of the page that shows it
 * @property {{id: string, title: string, prefix: string, model: {name: string}, recipe: Object<string, any>|null,
 *   texts: string, unseen: string|null, kept: KeptCodes|null}} study
 * @property {{name: string, method: string, title: string, has_lam: boolean, baseline: string, bits: number, grid: string,
 *   grid_text: string, group_size: number|null, fitting?: Record<string, string|number>,
 *   equation: Equation|null}} line
 * @property {number|null} layer null for all layers
 * @property {Layer[]} layers that can be chosen next
 * @property {[block: number, first: number][]|null} blocks of a mixture with the first layer of each
 * @property {string|null} quantity
 * @property {{name: string, title: string}[]} quantities
 * @property {{steps: {name: string, title: string}[], words: string}|null} ladder
 * @property {number|null} draw null for the mean over all
 * @property {number[]} draws
 * @property {{method: string, bits: number}} default
 * @property {{name: string, method: string, title: string, bits: number, solver: string, fitting: string}[]} choices
 * @property {number[]} lams
 * @property {(number|null)[]} gammas of γ, or of what `second` names in its place
 * @property {SecondAxis} second
 * @property {string[]} lam_texts
 * @property {string[]} lam_flags what is flagged at each λ, empty for most
 * @property {string[]} gamma_texts
 * @property {Point} start
 * @property {{perplexity: Told, accuracy?: Told, error?: undefined, drift?: undefined}} told by the quality that is shown
 * @property {Object<string, Figure|null>} figures
 * @property {Object<string, {file: string, version: string, offset: number, length: number, dtype: string, shape: number[],
 *   scale: number, zero?: number}>} arrays
 * @property {{name: string, title: string, by_saliency: boolean}[]} poolings
 * @property {number} surface_layer whose weights are drawn
 * @property {Table} table
 * @property {{name: string, text: string}[]} measured
 * @property {boolean} explore
 * @property {{recipe: Object<string, any>|null, lams: number[], gammas: (number|null)[],
 *   second: string, effort: string|null, left: string[]}} as_recipe the run
 *   that the line asks for, see sarqc/study/as_recipe.py
 */
/** @typedef {Object<string, Opened>} Arrays opened, by name */
/** @typedef {"blocks"|"experts"} Level */
/**
 * @typedef {object} Wanted what is asked for, as an address says it; all but the study may be left open
 * @property {string} study
 * @property {string} [method] a line's name
 * @property {number} [bits]
 * @property {number|"all"} [layer]
 * @property {number} [lambda] the nearest of the line is shown
 * @property {number} [gamma]
 * @property {number|"all"} [draw]
 * @property {string|null} [quantity]
 * @property {string} [steps] of the ladder, joined by commas
 * @property {Shown} [show]
 * @property {string} [open] parts that are open, joined by commas
 * @property {Drawing} [drawing]
 * @property {string} [pool]
 * @property {string} [preview] a run of one layer
 */
/**
 * Further curves over λ, computed for the shown point's line, layer and γ.
 * @typedef {{lams: number[], recon: (number|null)[], heldOut: (number|null)[], sar: (number|null)[], words: string}} Overlay
 */
/** @typedef {{lambda?: number, gamma?: number}} Sought values, not positions */
/**
 * @typedef {object} State
 * @property {View|null} view
 * @property {Arrays} arrays of the view
 * @property {Point} at the point shown
 * @property {Sought} sought the λ and γ that were chosen last, which a line with few of them may not have
 * @property {"first"|"drawn"|"next"} phase no view has been drawn to the end yet; the view is drawn; another is coming
 * @property {boolean} pictured whether the first view's main figure has been drawn
 * @property {Trouble|null} problem
 * @property {Shown} shown quantity of the main figure
 * @property {Door[]} open parts
 * @property {Drawing} drawing of the weights
 * @property {Drawing|undefined} wish the drawing that a person chose; undefined while it is the usual one
 * @property {string} pool what a cell of the drawing says
 * @property {Level} level of the map of a mixture
 * @property {number|null} playing the position of λ to which it returns when it has moved by itself; null while it does not
 * @property {Overlay|null} overlay what is drawn over the main figure
 * @property {Term|null} lit the term of the objective whose marks stand out
 * @property {string[]} locked what a link keeps as it is
 * @property {boolean} banded false where a link hides which λ may be the best
 */
/**
 * @typedef {{type: "requested"} | {type: "opened", view: View, arrays: Arrays, wanted: Wanted} | {type: "pictured"}
 *   | {type: "drawn"} | {type: "failed", problem: Trouble} | {type: "troubled", problem: Trouble}
 *   | {type: "redrawn", name: "quantity"|"steps", answer: View}
 *   | {type: "moved", gamma?: number, lambda?: number} | {type: "played"} | {type: "stopped"}
 *   | {type: "shown", name: Shown} | {type: "door", name: Door} | {type: "drawing", name: Drawing}
 *   | {type: "pool", name: string} | {type: "level", name: Level} | {type: "overlaid", overlay: Overlay|null}
 *   | {type: "lit", term: Term|null}} Action
 */

/**
 * The state before anything is there.
 * @param {{locked?: string[], hidden?: string[]}} [page] what the link locks and hides
 * @returns {State}
 */
export function initial({ locked = [], hidden = [] } = {}) {
  return {
    view: null,
    arrays: {},
    at: { gamma: 0, lambda: 0 },
    sought: {},
    phase: "first",
    pictured: false,
    problem: null,
    shown: "perplexity",
    open: [],
    drawing: "surface",
    wish: undefined,
    pool: "max",
    level: "blocks",
    playing: null,
    overlay: null,
    lit: null,
    locked,
    banded: !hidden.includes("band"),
  };
}

/**
 * The state after something happened; the same object where nothing changes.
 * @param {State} state
 * @param {Action} action
 * @returns {State}
 */
export function reduce(state, action) {
  switch (action.type) {
    case "requested":
      return state.view ? { ...state, phase: "next" } : state; // the first time there is nothing to dim
    case "opened":
      return opened(state, action);
    case "pictured":
      return state.pictured ? state : { ...state, pictured: true };
    case "drawn":
      return { ...state, phase: "drawn", problem: null };
    case "failed":
      return { ...state, phase: state.phase === "first" ? "first" : "drawn", problem: action.problem };
    case "troubled":
      return { ...state, problem: action.problem };
    case "redrawn": {
      if (!state.view) return state;
      const answer = state.banded ? action.answer : withoutBand(action.answer);
      return { ...state, problem: null, view: redrawn(state.view, { ...action, answer }) };
    }
    case "moved":
      return moved(state, action);
    case "played":
      return played(state);
    case "stopped":
      return state.playing === null ? state : { ...state, playing: null };
    case "shown":
      return state.locked.includes("show") ? state : { ...state, shown: action.name };
    case "door": {
      const { name } = action;
      const open = state.open.includes(name) ? state.open.filter((other) => other !== name) : [...state.open, name];
      return { ...state, open };
    }
    case "drawing":
      return { ...state, drawing: action.name, wish: action.name };
    case "pool":
      return { ...state, pool: action.name };
    case "level":
      return { ...state, level: action.name };
    case "overlaid":
      return overlaid(state, action.overlay);
    case "lit":
      return state.lit === action.term ? state : { ...state, lit: action.term };
  }
}

/** @type {(state: State, news: {view: View, arrays: Arrays, wanted: Wanted}) => State} */
function opened(state, { view: whole, arrays, wanted }) {
  const view = state.banded ? whole : withoutBand(whole);
  const at = {
    gamma: nearest(view.gammas, wanted.gamma) ?? view.start.gamma,
    lambda: nearest(view.lams, wanted.lambda) ?? view.start.lambda,
  };
  const shown = valuesAt(view, at);
  return {
    ...state,
    view,
    arrays,
    at,
    overlay: null, // of another line
    playing: null, // likewise
    sought: {
      lambda: soughtOf(view.line.has_lam ? view.lams : [null], state.sought.lambda, wanted.lambda ?? shown.lambda),
      gamma: soughtOf(view.gammas, state.sought.gamma, wanted.gamma ?? shown.gamma),
    },
    shown: wanted.show && view.figures[`hero_${wanted.show}`] ? wanted.show : "perplexity",
    open: state.view ? state.open : openIn(wanted, view),
    drawing: wanted.drawing ?? state.drawing,
    wish: wanted.drawing ?? state.wish,
    pool: wanted.pool ?? state.pool,
  };
}

/**
 * The parts that an address opens. One from before there were parts opens those of which it names another choice than
 * the usual one.
 * @param {Wanted} wanted
 * @param {View} view
 * @returns {Door[]}
 */
function openIn({ open, quantity, steps }, { quantities }) {
  if (open) return /** @type {Door[]} */ (open.split(","));
  /** @type {Door[]} */
  const named = [];
  if (quantity && quantity !== quantities[0]?.name) named.push("where");
  if (steps && steps !== LADDER_STEPS.join()) named.push("steps");
  return named;
}

/**
 * What counts as chosen last on an axis: what was before, as long as the line shows for it what is wanted now. So Back and
 * Forward over a line that has other values lose nothing.
 * @param {(number|null)[]} values of the line; [null] where it has no such axis
 * @param {number|undefined} before
 * @param {number|undefined} wanted
 */
function soughtOf(values, before, wanted) {
  if (before === undefined) return wanted;
  if (wanted === undefined) return values.every((value) => value === null) ? before : undefined;
  return nearest(values, before) === nearest(values, wanted) ? before : wanted;
}

/** λ and γ at a point; undefined where the line has none. @type {(view: View, at: Point) => Sought} */
const valuesAt = ({ line, lams, gammas }, at) => ({
  lambda: line.has_lam ? lams[at.lambda] : undefined,
  gamma: gammas[at.gamma] ?? undefined,
});

/** The map of layers by another quantity, or the ladder in another order; everything else of the view is the same object
 * as before.
 * @type {(view: View, news: {name: "quantity"|"steps", answer: View}) => View} */
function redrawn(view, { name, answer }) {
  const { quantity, ladder, figures } = answer;
  if (name === "steps") return { ...view, ladder, figures: { ...view.figures, ladder: figures.ladder } };
  const { map, map_experts } = figures;
  return { ...view, quantity, figures: { ...view.figures, map, map_experts } };
}

/** @type {(state: State, to: {gamma?: number, lambda?: number}) => State} */
function moved(state, { gamma = state.at.gamma, lambda = state.at.lambda }) {
  const { view, at, locked } = state;
  if (!view) return state;
  const next = {
    gamma: locked.includes("gamma") ? at.gamma : Math.min(Math.max(gamma, 0), view.gammas.length - 1),
    lambda: locked.includes("lambda") ? at.lambda : Math.min(Math.max(lambda, 0), view.lams.length - 1),
  };
  if (next.gamma === at.gamma && next.lambda === at.lambda) return state;
  const values = valuesAt(view, next);
  const sought = {
    lambda: next.lambda === at.lambda ? state.sought.lambda : values.lambda,
    gamma: next.gamma === at.gamma ? state.sought.gamma : values.gamma,
  };
  return { ...state, at: next, sought };
}

/**
 * What is drawn over errors is seen once the main figure shows those.
 * @type {(state: State, overlay: Overlay|null) => State}
 */
function overlaid(state, overlay) {
  if (state.overlay === overlay) return state;
  const isNew = overlay && !state.overlay && !state.locked.includes("show");
  const shown = isNew && state.view?.figures.hero_error ? "error" : state.shown;
  return { ...state, overlay, shown };
}

/** λ begins to move by itself, from its first value. @type {(state: State) => State} */
function played(state) {
  const { view, at, locked } = state;
  if (!view || view.lams.length < 2 || locked.includes("lambda")) return state;
  return { ...moved(state, { lambda: 0 }), playing: at.lambda };
}

/**
 * What an address says of a state: what to ask for, in order to see the same again.
 * @param {State & {view: View}} state
 * @returns {Wanted}
 */
export function addressOf({ view, at, shown, open, wish, pool }) {
  const { lambda, gamma } = valuesAt(view, at);
  return {
    study: view.study.id,
    method: view.line.name,
    bits: view.line.bits,
    layer: view.layer === null ? "all" : view.layer,
    lambda,
    gamma,
    quantity: view.quantity,
    steps: view.ladder?.steps.map(({ name }) => name).join(),
    draw: view.draw ?? "all",
    show: shown,
    open: open.length ? open.join() : undefined,
    drawing: wish,
    pool,
  };
}

/**
 * What to ask for when another line or layer is chosen: the λ and γ that were chosen last, not those nearest to them that
 * the line in between happened to have.
 * @param {State & {view: View}} state
 * @returns {Wanted}
 */
export const carriedOn = (state) => ({ ...addressOf(state), ...state.sought });

/** What is said of the quality that is shown. @param {State & {view: View}} state @returns {Told} */
export const toldOf = ({ view, shown }) => view.told[shown] ?? view.told.perplexity;

/** The layer at a position in the model, if it is among those that the view has.
 * @param {{layers: Layer[]}} view
 * @param {number} index
 */
export const layerAt = (view, index) => view.layers.find((layer) => layer.index === index);

/** What pictures and tables of a view are of. @param {View} view @returns {import("../charts/figure_menu.js").About} */
export const aboutOf = ({ study, line }) => ({
  model: study.model.name,
  bits: line.bits,
  method: line.title,
  grid: line.grid_text,
  text: study.texts,
});

/** The name of a file about the shown line. @param {View} view @param {string} what */
export const fileName = ({ study, line }, what) => `${study.id}-${line.name}-${line.bits}bit-${what}`;
