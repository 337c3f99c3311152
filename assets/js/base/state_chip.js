/**
 * The state of a run as a word and as a small label in its colour.
 * @module state_chip
 */

import { html } from "./html.js";

/** @import { State } from "./types.d.ts" */

/** @type {Record<State, string>} */
export const STATE_WORDS = {
  queued: "waiting",
  running: "running",
  cancelling: "cancelling",
  cancelled: "cancelled",
  interrupted: "interrupted",
  failed: "failed",
  finished: "finished",
};

/** @param {State} state */
export const stateChip = (state) =>
  html`<span class=${`chip chip-${state}`} data-testid="state" data-state=${state}>${STATE_WORDS[state] ?? state}</span>`;
