/**
 * What the card with the model says, as plain data, and what becomes of it with each thing that happens. Pure: no page, no
 * worker.
 * @module model/try_state
 */

/** @import { View } from "../explorer/state.js" */
/** @import { KeptCodes, KeptPoint } from "../base/types.d.ts" */
/** @import { Point } from "../charts/bind.js" */
/** @import { ComputedPoint, Progress } from "./computing.js" */
/** @import { Broken, Reading, Written } from "./session.js" */
/** @import { Answer } from "./worker.js" */

/** @typedef {Pick<View, "gammas"|"lams"> & {study: {kept: KeptCodes|null}, line: {name: string, bits: number, has_lam: boolean}}} Kept a view, as far as it says which points are kept */
/** @typedef {KeptPoint | ComputedPoint} CodedPoint a point whose codes can be fetched */
/** @typedef {{shown: CodedPoint, zero: CodedPoint|null}} Compared the shown point and that at λ = 0 of the same line; null where it is not kept, and where it is the only one */
/** @typedef {{number: number, text: string, lam: string}} Wish what the worker was asked last; lam is empty for a method without λ */
/**
 * @typedef {object} TryState
 * @property {"closed"|"opening"|"open"} phase
 * @property {number} fetched bytes
 * @property {number} size bytes that opening fetches
 * @property {boolean} isFast whether the model is computed by WebAssembly
 * @property {string} text that is shown in the field
 * @property {Wish|null} wish
 * @property {{reading: Reading|null, lam: string, text: string}|null} read the last answer, and the λ and text that it is of
 * @property {{written: Written, lam: string, text: string}|null} written the last continuations, and the λ and text that they are of
 * @property {{done: number, of: number}|null} search that goes on
 * @property {{broken: Broken, lam: string}|null} broken what the last search came to, while its sentence stands in the field
 * @property {Progress|null} computing codes of points that are being computed, with the layers solved so far
 * @property {string} trouble in words
 */
/**
 * @typedef {{type: "opened", size: number} | {type: "closed"} | {type: "asked", number: number, text: string, lam: string}
 *   | {type: "computing", progress: Progress} | {type: "computed"} | {type: "halted", what: string}
 *   | {type: "searched", number: number, lam: string} | {type: "answered", answer: Answer} | {type: "failed", what: string}
 * } TryAction
 */

export const EXAMPLE = "The castle was built in the middle of the town, and the people of the city";

/** @type {TryState} */
export const INITIAL = {
  phase: "closed",
  fetched: 0,
  size: 0,
  isFast: true,
  text: EXAMPLE,
  wish: null,
  read: null,
  written: null,
  search: null,
  broken: null,
  computing: null,
  trouble: "",
};

/** λ of a position; null for a method without λ. @param {Pick<Kept, "line"|"lams">} view @param {number} lambda */
export const lamAt = ({ line, lams }, lambda) => (line.has_lam ? lams[lambda] : null);

/**
 * The points of what a view shows whose codes there are; null where those of the shown point are missing.
 * @param {Kept} view
 * @param {Point} at
 * @param {CodedPoint[]} [computed] further points of the study
 * @returns {Compared|null}
 */
export function comparedAt({ study, line, gammas, lams }, at, computed = []) {
  const ofLine = [...(study.kept?.points ?? []), ...computed].filter(
    ({ method, bits, gamma }) => method === line.name && bits === line.bits && gamma === gammas[at.gamma],
  );
  const [shown, zero] = [lamAt({ line, lams }, at.lambda), 0].map((wanted) => ofLine.find(({ lam }) => lam === wanted));
  return shown ? { shown, zero: ofLine.length > 1 ? (zero ?? null) : null } : null;
}

/**
 * Files that are fetched before the first answer, and their bytes together.
 * @param {KeptCodes} kept
 * @param {Compared} compared
 */
export function firstFiles(kept, { shown, zero }) {
  const files = [...kept.files, ...new Set([...(zero ? [zero.file] : []), shown.file])];
  return { files, size: files.reduce((sum, file) => sum + file.bytes, 0) };
}

/**
 * @param {TryState} state
 * @param {TryAction} action
 * @returns {TryState}
 */
export function reduce(state, action) {
  switch (action.type) {
    case "opened":
      return { ...INITIAL, text: state.text, phase: "opening", size: action.size };
    case "closed":
      return { ...INITIAL, text: state.text };
    case "asked": {
      const { number, text, lam } = action;
      const isNew = text !== state.broken?.broken.text;
      return { ...state, text, wish: { number, text, lam }, search: null, broken: isNew ? null : state.broken };
    }
    case "searched":
      return {
        ...state,
        wish: { number: action.number, text: state.text, lam: action.lam },
        search: { done: 0, of: 0 },
        broken: null,
      };
    case "failed":
      return { ...INITIAL, text: state.text, trouble: action.what };
    case "computing":
      return { ...state, computing: action.progress, trouble: "" };
    case "computed":
      return { ...state, computing: null };
    case "halted":
      return { ...state, computing: null, trouble: action.what };
    case "answered":
      return answered(state, action.answer);
  }
}

/** @param {TryState} state @param {Answer} answer @returns {TryState} */
function answered(state, answer) {
  switch (answer.kind) {
    case "fetched":
      return { ...state, fetched: answer.bytes };
    case "opened":
      return { ...state, phase: "open", isFast: answer.isFast };
    case "failed":
      if (answer.number === null) return { ...INITIAL, text: state.text, trouble: answer.what };
      return { ...state, search: null, trouble: answer.what };
  }
  const { wish } = state;
  if (answer.number !== wish?.number) return state; // of something that is no longer asked
  const { lam, text } = wish;
  switch (answer.kind) {
    case "read":
      return {
        ...state,
        read: { reading: answer.reading, lam, text },
        written: answer.reading ? state.written : null,
        trouble: "",
      };
    case "written":
      return { ...state, written: { written: answer.written, lam, text } };
    case "tried":
      return { ...state, search: { done: answer.done, of: answer.of } };
    case "broken":
      return { ...state, search: null, text: answer.broken.text, broken: { broken: answer.broken, lam } };
  }
}
