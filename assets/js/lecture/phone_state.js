/**
 * A phone in a lecture: what is asked, what was guessed, and the answer. Pure: no page, no request.
 * @module lecture/phone_state
 */

import { plain } from "../base/format.js";

/** @import { PhoneState } from "../base/types.d.ts" */
/**
 * @typedef {object} State
 * @property {PhoneState|null} heard null before the lecture has said anything
 * @property {"joining"|"open"|"lost"|"full"|"gone"} link
 * @property {number|null} guess position of the ring; null before it was moved
 * @property {number|null} sent position that the lecture has
 * @property {boolean} isBusy while a guess is on its way
 * @property {string} trouble with the last guess, in words
 */
/**
 * @typedef {{type: "heard", heard: PhoneState} | {type: "link", link: State["link"]} | {type: "moved", guess: number}
 *   | {type: "asked"} | {type: "sent", guess: number} | {type: "trouble", trouble: string}} Action
 */

/** @type {State} */
export const START = { heard: null, link: "joining", guess: null, sent: null, isBusy: false, trouble: "" };

/**
 * @param {State} state
 * @param {Action} action
 * @returns {State}
 */
export function reduce(state, action) {
  switch (action.type) {
    case "heard": {
      const isSame = state.heard?.stop === action.heard.stop;
      const link = action.heard.phase === "ended" ? "gone" : "open";
      const kept = isSame ? {} : { guess: null, sent: null, trouble: "" };
      return { ...state, ...kept, heard: action.heard, link };
    }
    case "link":
      return { ...state, link: action.link };
    case "moved":
      return { ...state, guess: action.guess, trouble: "" };
    case "asked":
      return { ...state, isBusy: true, trouble: "" };
    case "sent":
      return { ...state, isBusy: false, sent: action.guess };
    case "trouble":
      return { ...state, isBusy: false, trouble: action.trouble };
  }
}

/**
 * Where the ring stands: at first in the middle, which says nothing.
 * @param {State} state
 * @param {PhoneState} heard
 */
export const ringOf = ({ guess }, heard) => guess ?? Math.floor((heard.lams.length - 1) / 2);

/** What stands in the place of a question. @type {Record<"joining"|"full"|"gone"|"waiting", string>} */
export const WORDS = {
  joining: "Joining the lecture",
  full: "As many phones have joined as a lecture may have. The screen shows everything.",
  gone: "The lecture is over. Its guesses are deleted.",
  waiting: "You have joined. Look at the screen: the next question appears here.",
};

/**
 * What a phone says below its axis.
 * @param {State} state
 * @param {PhoneState} heard
 */
export function status({ sent, guess }, heard) {
  const name = (/** @type {number} */ at) => `λ = ${plain(heard.lams[at])}`;
  if (heard.phase === "revealed") return answer(sent, heard, name);
  const isClosed = heard.phase === "closed";
  if (sent === null)
    return isClosed ? "Guesses are closed. Look at the screen." : "Drag the ring, then send your guess.";
  if (isClosed) return `Guesses are closed; yours is ${name(sent)}. Look at the screen.`;
  return guess === null || guess === sent
    ? `Your guess is ${name(sent)}. You may change it until guesses are closed.`
    : `Your guess is ${name(sent)}; the ring has another one, which is not sent.`;
}

/** @param {number|null} sent @param {PhoneState} heard @param {(at: number) => string} name */
function answer(sent, { best, band }, name) {
  const [first, last] = band ?? [best ?? 0, best ?? 0];
  const truth =
    first === last
      ? `The best is ${name(first)}.`
      : `The best λ lies between ${name(first).slice(4)} and ${name(last).slice(4)}.`;
  if (sent === null) return truth;
  if (first === last && sent === first) return `${truth} You said so.`;
  const where = sent < first ? "below" : sent > last ? "above" : "in";
  return `${truth} Your guess, ${name(sent)}, is ${where} it.`;
}
