/**
 * The state of a run as a word and as a small label.
 * @module chip
 */

import { h } from "../base/dom.js";

export const STATE_WORDS = {
  queued: "waiting",
  running: "running",
  cancelling: "cancelling",
  cancelled: "cancelled",
  interrupted: "interrupted",
  failed: "failed",
  finished: "finished",
};

/** A state as a small label in its colour. */
export const stateChip = (state) =>
  h("span", { class: `chip chip-${state}`, "data-testid": "state", dataset: { state } }, STATE_WORDS[state] ?? state);
