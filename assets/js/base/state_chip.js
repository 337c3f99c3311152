/**
 * The state of a run as a word and as a small label in its colour.
 * @module state_chip
 */

import { STATE_WORDS } from "./contract.js";
import { html } from "./html.js";

/** @import { State } from "./types.d.ts" */

/** @param {State} state */
export const stateChip = (state) =>
  html`<span class=${`chip chip-${state}`} data-testid="state" data-state=${state}>${STATE_WORDS[state] ?? state}</span>`;
