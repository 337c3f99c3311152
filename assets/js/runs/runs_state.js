/**
 * What the page of runs knows and what may be done with each run. Pure: no DOM.
 * @module runs/runs_state
 */

import { AT_REST, STATE_WORDS } from "../base/contract.js";

import { mayChange } from "../base/whoami.js";

/** @import { Run, RunsAction, RunsState } from "./types.d.ts" */

const AT_MOST = 4; // more curves than this in one figure can't be told apart

/** @type {RunsState} */
export const START = {
  runs: new Map(),
  next: null,
  filter: "",
  picked: [],
  asking: null,
  comparison: null,
  trouble: null,
  who: null,
};

/**
 * @param {RunsState} state
 * @param {RunsAction} action
 * @returns {RunsState}
 */
export function reduce(state, action) {
  switch (action.type) {
    case "visited":
      return { ...state, who: action.who };
    case "listed":
      return { ...state, runs: withRuns(state, action.runs), next: action.next };
    case "changed":
      return { ...state, runs: withRuns(state, [action.run]) };
    case "removed": {
      const runs = new Map(state.runs);
      runs.delete(action.id);
      return { ...state, runs, picked: state.picked.filter((id) => id !== action.id) };
    }
    case "filtered":
      return { ...state, filter: action.text };
    case "picked": {
      const others = state.picked.filter((id) => id !== action.id);
      return { ...state, picked: action.isPicked ? [...others, action.id] : others };
    }
    case "deletion asked":
      return { ...state, asking: action.id };
    case "compared":
      return { ...state, comparison: action.comparison };
    case "trouble":
      return { ...state, trouble: action.trouble };
  }
}

/**
 * @param {RunsState} state
 * @param {Run[]} runs
 */
const withRuns = (state, runs) => new Map([...state.runs, ...runs.map((run) => /** @type {const} */ ([run.id, run]))]);

/**
 * What the filter looks at.
 * @param {Run} run
 */
export function words({ id, batch, state, recipe, owner }) {
  const { model, bits, method, grid, calibration } = recipe;
  return [id, batch, STATE_WORDS[state], model, `${bits} bits`, method, grid, calibration, owner]
    .join(" ")
    .toLowerCase();
}

/**
 * True when every word typed is in a run's words.
 * @param {Run} run
 * @param {string} typed
 */
export const matches = (run, typed) =>
  typed
    .toLowerCase()
    .split(/\s+/)
    .every((word) => words(run).includes(word));

/**
 * The runs that pass the filter, newest first.
 * @param {RunsState} state
 */
export const listed = ({ runs, filter }) =>
  [...runs.values()].sort((a, b) => (a.created < b.created ? 1 : -1)).filter((run) => matches(run, filter.trim()));

const counted = (/** @type {number} */ amount) => (amount === 1 ? "1 run" : `${amount} runs`);

/**
 * How many runs there are, and how many of them pass the filter.
 * @param {RunsState} state
 */
export function count(state) {
  const all = state.runs.size;
  if (!all) return "";
  return state.filter.trim() ? `${listed(state).length} of ${counted(all)}` : counted(all);
}

/**
 * The picked runs that can be compared: those with a study.
 * @param {RunsState} state
 * @returns {(Run & {study_id: string})[]}
 */
export const comparable = ({ runs, picked }) =>
  picked.flatMap((id) => {
    const run = runs.get(id);
    return run?.study_id ? [{ ...run, study_id: run.study_id }] : [];
  });

/**
 * @param {RunsState} state
 * @param {Run} run
 */
export const canBePicked = ({ picked }, { id, study_id }) =>
  study_id !== null && (picked.includes(id) || picked.length < AT_MOST);

/**
 * What may be done with a run where it stands, by name, in the order of its buttons.
 * @param {RunsState} state
 * @param {Run} run
 */
export function deeds({ asking, who }, { id, state, batch, study_id, owner }) {
  const isTheirs = mayChange(who, owner);
  const deletion = asking === id ? ["delete-yes", "delete-no"] : ["delete"];
  return [
    ...(batch ? ["batch"] : []),
    ...(study_id ? ["lab"] : []),
    ...(isTheirs && ["queued", "running"].includes(state) ? ["cancel"] : []),
    ...(isTheirs && AT_REST.includes(state) && state !== "finished" ? ["continue"] : []),
    ...(isTheirs && AT_REST.includes(state) ? deletion : []),
  ];
}
