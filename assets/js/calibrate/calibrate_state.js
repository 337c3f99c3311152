/**
 * What the page of a calibration knows: the form's values, the plan they make, and the run that it shows. Pure: no DOM.
 * @module calibrate_state
 */

import { boughtIn } from "./budgets.js";

/** @import { Trouble } from "../base/problem.js" */
/** @import { Plan } from "../base/types.d.ts" */
/** @import { Tuned } from "./budgets.js" */
/** @import { EffortPlan } from "./effort_choice.js" */
/** @import { Altered } from "./suggestions.js" */

/**
 * @typedef {object} CalibrateState
 * @property {string | null} model whose suggestions fill the form
 * @property {unknown[]} values of the form, in the order of its fields; none before it is filled
 * @property {unknown[]} filled what the model suggests for each field: who left it alone gets the next model's
 * @property {readonly Altered[]} altered changes of untouched fields by the choice of model
 * @property {Plan | null} plan the last that was made
 * @property {Tuned | null} tuned the plan of finding λ, or why there is none; null where λ can't be found
 * @property {string} minutes the budget for finding λ; empty: until it is known
 * @property {boolean} isBudgetChosen whether a person has chosen it
 * @property {Tuned | null} ladder the plan of the ladder, or why there is none; null where it can't be measured
 * @property {string} ladderMinutes the budget for the ladder; empty: all draws
 * @property {boolean} isLadderBudgetChosen whether a person has chosen that
 * @property {Trouble | null} refusal why there is none, or why no run was begun
 * @property {boolean} isTextAsked whether the model is there and a text for it is asked for
 * @property {boolean} isStale from the first keystroke until its plan is there
 * @property {string} checking the model that is being asked about meanwhile
 * @property {boolean} canStart whether a run can be begun
 * @property {Record<string, EffortPlan>} efforts plans of the efforts, as far as they are known
 * @property {boolean} isUnfolded whether the plan shows who can load the model
 * @property {boolean} isAdvanced whether the form shows all its settings
 * @property {string | null} run the id of the run that is shown, instead of the plan
 * @property {string | null} runTitle what that run does, once its row is there
 * @property {boolean} runCompares whether it finds λ, or measures a ladder
 */
/**
 * @typedef {{type: "filled", model: string | null, values: unknown[], filled: unknown[], altered: readonly Altered[]}
 *   | {type: "changed", values: unknown[]} | {type: "changed back"} | {type: "planning", model: string}
 *   | {type: "planned", plan: Plan, tuned: Tuned | null, ladder: Tuned | null}
 *   | {type: "efforts planned", efforts: Record<string, EffortPlan>} | {type: "advanced", isAdvanced: boolean} | {type: "refused", refusal: Trouble} | {type: "text asked"}
 *   | {type: "budget chosen", minutes: string} | {type: "ladder budget chosen", minutes: string}
 *   | {type: "starting"} | {type: "not started", refusal: Trouble} | {type: "unfolded", isUnfolded: boolean}
 *   | {type: "run shown", id: string | null} | {type: "run arrived", title: string, compares: boolean}} CalibrateAction
 */

/** @type {CalibrateState} */
export const START = {
  model: null,
  values: [],
  filled: [],
  altered: [],
  plan: null,
  tuned: null,
  minutes: "3",
  isBudgetChosen: false,
  ladder: null,
  ladderMinutes: "3",
  isLadderBudgetChosen: false,
  refusal: null,
  isTextAsked: false,
  isStale: false,
  checking: "",
  canStart: false,
  efforts: {},
  isUnfolded: false,
  isAdvanced: false,
  run: null,
  runTitle: null,
  runCompares: false,
};

const ANSWERED = { refusal: null, isTextAsked: false, isStale: false, canStart: false };

/**
 * @param {CalibrateState} state
 * @param {CalibrateAction} action
 * @returns {CalibrateState}
 */
export function reduce(state, action) {
  switch (action.type) {
    case "filled":
      return {
        ...state,
        model: action.model,
        values: action.values,
        filled: action.filled,
        altered: action.altered,
        efforts: action.model === state.model ? state.efforts : {}, // times are those of a model
        isBudgetChosen: state.isBudgetChosen && action.model === state.model,
        isLadderBudgetChosen: state.isLadderBudgetChosen && action.model === state.model,
      };
    case "changed":
      return { ...state, values: action.values };
    case "changed back":
      return {
        ...state,
        values: state.values.map((value, index) => state.altered.find((one) => one.index === index)?.before ?? value),
        altered: [],
      };
    case "planning": // what is shown stays until there is something else to show
      return { ...state, isStale: true, checking: action.model, canStart: false };
    case "planned":
      return withBudgets({ ...state, ...ANSWERED, plan: action.plan, canStart: true }, action.tuned, action.ladder);
    case "efforts planned":
      return { ...state, efforts: action.efforts };
    case "advanced":
      return { ...state, isAdvanced: action.isAdvanced };
    case "text asked": // instead of a plan
      return { ...state, ...ANSWERED, plan: null, tuned: null, ladder: null, efforts: {}, isTextAsked: true };
    case "budget chosen":
      return { ...state, minutes: action.minutes, isBudgetChosen: true };
    case "ladder budget chosen":
      return { ...state, ladderMinutes: action.minutes, isLadderBudgetChosen: true };
    case "refused":
      return { ...state, ...ANSWERED, refusal: action.refusal };
    case "starting":
      return { ...state, canStart: false };
    case "not started": // the same can be tried again
      return { ...state, refusal: action.refusal, canStart: true };
    case "unfolded":
      return state.isUnfolded === action.isUnfolded ? state : { ...state, isUnfolded: action.isUnfolded };
    case "run shown":
      return { ...state, run: action.id, runTitle: null, runCompares: false };
    case "run arrived":
      return { ...state, runTitle: action.title, runCompares: action.compares };
  }
}

/**
 * With the plans of the search for λ and of the ladder. The shortest sensible budget of each is its default.
 * @param {CalibrateState} state
 * @param {Tuned | null} tuned
 * @param {Tuned | null} ladder
 * @returns {CalibrateState}
 */
function withBudgets(state, tuned, ladder) {
  const sensible = (/** @type {Tuned | null} */ one, /** @type {boolean} */ isChosen, /** @type {string} */ before) => {
    const bought = boughtIn(one);
    return bought === null || isChosen ? before : String(bought.sensible_minutes);
  };
  return {
    ...state,
    tuned,
    ladder,
    minutes: sensible(tuned, state.isBudgetChosen, state.minutes),
    ladderMinutes: sensible(ladder, state.isLadderBudgetChosen, state.ladderMinutes),
  };
}
