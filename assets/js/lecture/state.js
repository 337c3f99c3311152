/**
 * What the lecturer's page knows of the phones in the hall. Pure: no page, no request.
 * @module lecture/state
 */

/** @import { Trouble } from "../base/problem.js" */
import { counted } from "../base/format.js";

/** @import { HallState, LectureBegun, LectureWish } from "../base/types.d.ts" */

/**
 * A guess at one of growing values of λ, and the positions of its answer.
 * @typedef {{lams: number[], names: string[], best: number, band: [first: number, last: number]}} Question
 */
/**
 * @typedef {object} State
 * @property {LectureBegun|null} lecture
 * @property {HallState|null} hall as the server said it last
 * @property {string[]} closed stops whose guesses the lecturer has shown
 * @property {boolean} isCodeShown
 * @property {boolean} isBusy while the server is asked to begin or to end
 * @property {boolean} isOver whether it ended on the server
 * @property {Trouble|null} trouble
 */
/**
 * @typedef {{type: "asked"} | {type: "begun", lecture: LectureBegun} | {type: "heard", hall: HallState}
 *   | {type: "trouble", trouble: Trouble|null} | {type: "over", isOver: boolean} | {type: "code"}
 *   | {type: "closed", stop: string}} Action
 */

/** @type {State} */
export const START = {
  lecture: null,
  hall: null,
  closed: [],
  isCodeShown: false,
  isBusy: false,
  isOver: false,
  trouble: null,
};

/**
 * @param {State} state
 * @param {Action} action
 * @returns {State}
 */
export function reduce(state, action) {
  switch (action.type) {
    case "asked":
      return { ...state, isBusy: true, trouble: null };
    case "begun":
      return { ...START, lecture: action.lecture, isCodeShown: state.isCodeShown };
    case "heard":
      return { ...state, hall: action.hall, trouble: null };
    case "trouble":
      return { ...state, isBusy: false, trouble: action.trouble };
    case "over":
      return { ...START, isOver: action.isOver, isCodeShown: state.isCodeShown && action.isOver };
    case "code":
      return { ...state, isCodeShown: !state.isCodeShown, isOver: false };
    case "closed":
      return { ...state, closed: [...state.closed, action.stop] };
  }
}

/**
 * What the server should know of a stop.
 * @param {string} stop
 * @param {Question|null} question
 * @param {{isAnswered: boolean, isClosed: boolean}} standing
 * @returns {LectureWish}
 */
export function wishOf(stop, question, { isAnswered, isClosed }) {
  if (!question) return { stop: null, lams: [], phase: "open", best: null, band: null };
  const phase = isAnswered ? "revealed" : isClosed ? "closed" : "open";
  const { lams, best, band } = question;
  return { stop, lams, phase, best: isAnswered ? best : null, band: isAnswered ? band : null };
}

/**
 * The guesses to draw at a stop: none while guessing is open, so that guesses stay independent.
 * @param {State} state
 * @param {string} stop
 * @returns {number[]|null}
 */
export function countsAt({ hall }, stop) {
  return hall && hall.stop === stop && hall.phase !== "open" ? hall.counts : null;
}

/**
 * Whether the next key shows the guesses and not yet the answer.
 * @param {State} state
 * @param {string} stop
 */
export const canClose = ({ hall, closed }, stop) =>
  hall !== null && hall.stop === stop && hall.phase === "open" && hall.guesses > 0 && !closed.includes(stop);

/** How many phones there are, and how many have guessed. @param {HallState|null} hall */
export function attendance(hall) {
  if (!hall) return "";
  const phones = counted(hall.phones, "phone");
  return hall.stop === null ? phones : `${phones}, ${counted(hall.guesses, "guess")}`;
}
