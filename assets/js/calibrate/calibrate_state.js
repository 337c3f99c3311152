/**
 * What the page of a calibration knows: the form's values, the plan they make, and the run that it shows. Pure: no DOM.
 * @module calibrate_state
 */

/** @import { Plan } from "../base/types.d.ts" */
/** @import { Trouble } from "../base/problem.js" */

/**
 * @typedef {object} CalibrateState
 * @property {string | null} model whose suggestions fill the form
 * @property {unknown[]} values of the form, in the order of its fields; none before it is filled
 * @property {unknown[]} filled what the model suggests for each field: who left it alone gets the next model's
 * @property {Plan | null} plan the last that was made
 * @property {Trouble | null} refusal why there is none, or why no run was begun
 * @property {boolean} isStale from the first keystroke until its plan is there
 * @property {string} checking the model that is being asked about meanwhile
 * @property {boolean} canStart whether a run can be begun
 * @property {boolean} isUnfolded whether the plan shows who can load the model
 * @property {string | null} run the id of the run that is shown, instead of the plan
 * @property {string | null} runTitle what that run does, once its row is there
 * @property {boolean} runTunes whether it finds λ
 */
/**
 * @typedef {{type: "filled", model: string | null, values: unknown[], filled: unknown[]}
 *   | {type: "changed", values: unknown[]} | {type: "planning", model: string} | {type: "planned", plan: Plan} | {type: "refused", refusal: Trouble}
 *   | {type: "starting"} | {type: "not started", refusal: Trouble} | {type: "unfolded", isUnfolded: boolean}
 *   | {type: "run shown", id: string | null} | {type: "run arrived", title: string, tunes: boolean}} CalibrateAction
 */

/** @type {CalibrateState} */
export const START = {
  model: null,
  values: [],
  filled: [],
  plan: null,
  refusal: null,
  isStale: false,
  checking: "",
  canStart: false,
  isUnfolded: true,
  run: null,
  runTitle: null,
  runTunes: false,
};

/**
 * @param {CalibrateState} state
 * @param {CalibrateAction} action
 * @returns {CalibrateState}
 */
export function reduce(state, action) {
  switch (action.type) {
    case "filled":
      return { ...state, model: action.model, values: action.values, filled: action.filled };
    case "changed":
      return { ...state, values: action.values };
    case "planning": // what is shown stays until there is something else to show
      return { ...state, isStale: true, checking: action.model, canStart: false };
    case "planned":
      return { ...state, plan: action.plan, refusal: null, isStale: false, canStart: true };
    case "refused":
      return { ...state, refusal: action.refusal, isStale: false, canStart: false };
    case "starting":
      return { ...state, canStart: false };
    case "not started": // the same can be tried again
      return { ...state, refusal: action.refusal, canStart: true };
    case "unfolded":
      return state.isUnfolded === action.isUnfolded ? state : { ...state, isUnfolded: action.isUnfolded };
    case "run shown":
      return { ...state, run: action.id, runTitle: null, runTunes: false };
    case "run arrived":
      return { ...state, runTitle: action.title, runTunes: action.tunes };
  }
}
