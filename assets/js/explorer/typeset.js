/**
 * The objective of a method as it is set: its terms, S, and the same in words. Pure: templates of an Equation.
 * @module explorer/typeset
 */

import { html, nothing } from "../base/html.js";

/** @import { Equation } from "../base/types.d.ts" */
/** @import { Term } from "../charts/terms.js" */

const W_HAT = html`<i>Ŵ</i>`;
const W = html`<i>W</i>`;
const X = html`<i>X</i>`;
const SQUARED = html`<sup>2</sup>`;
const MINUS = " − ";
const MEAN_X = html`<span class="mean">|<i>x</i>|</span>`;
const MEAN_W = html`<span class="mean">|<i>W</i>|</span>`;

/**
 * The error that a method keeps small: how it is set, what it is called, how it is said, and which term's colour it has.
 * @type {Record<Equation["aim"], {set: unknown, name: string, said: string, term: Term}>}
 */
export const ERRORS = {
  outputs: {
    set: html`‖(${W_HAT}${MINUS}${W})&thinsp;${X}‖${SQUARED}`,
    name: "reconstruction error",
    said: "the squared norm of Ŵ minus W, times X",
    term: "recon",
  },
  "float outputs": {
    set: html`‖${W_HAT}${X}${MINUS}${W}${X}<sub>float</sub>‖${SQUARED}`,
    name: "error to the float model",
    said: "the squared norm of Ŵ X minus W X of the float model",
    term: "recon",
  },
  "block outputs": {
    set: html`‖block(${W_HAT})${MINUS}block(${W})‖${SQUARED}`,
    name: "error of the block",
    said: "the squared norm of the block’s output with Ŵ minus that with W",
    term: "recon",
  },
  weights: {
    set: html`‖${W_HAT}${MINUS}${W}‖${SQUARED}`,
    name: "drift",
    said: "the squared norm of Ŵ minus W",
    term: "drift",
  },
};

/** The term that λ weighs. */
export const PENALTY = {
  set: html`‖(${W_HAT}${MINUS}${W})&thinsp;<i>S</i>‖${SQUARED}`,
  said: "the squared norm of Ŵ minus W, times S",
  term: /** @type {Term} */ ("drift"),
};

/**
 * S as it is set, what the penalty is called with it, and both in words. Of one layer; a common factor is left out.
 * @type {Record<NonNullable<Equation["weighing"]>, {set: unknown, name: string, said: string}>}
 */
export const WEIGHINGS = {
  one: { set: html`<i>S</i> = <i>I</i>`, name: "identity penalty", said: "S is the identity" },
  gamma: {
    set: html`<i>S</i> ∝ diag(${MEAN_X}<sup><i>γ</i></sup> / ${MEAN_W}<sup>1−<i>γ</i></sup>)`,
    name: "saliency penalty",
    said: "S is diagonal: the mean of |x| of each input channel to the power of γ, by the mean of |W| to the power of 1 minus γ",
  },
  ratio: {
    set: html`<i>S</i> ∝ diag(${MEAN_X} / ${MEAN_W})`,
    name: "saliency penalty",
    said: "S is diagonal: the mean of |x| of each input channel by the mean of |W|",
  },
  root: {
    set: html`<i>S</i> ∝ diag(${MEAN_X} / ${MEAN_W})<sup>½</sup>`,
    name: "saliency penalty",
    said: "S is diagonal: the root of the mean of |x| of each input channel by the mean of |W|",
  },
};

/**
 * The whole objective in words.
 * @param {Equation} equation
 */
export function spoken({ aim, weighing }) {
  const error = ERRORS[aim].said;
  if (!weighing) return `Ŵ is chosen to minimise ${error}.`;
  const [penalty, saliency] = [PENALTY.said, WEIGHINGS[weighing].said];
  return `Ŵ is chosen to minimise ${error}, plus λ times ${penalty}; ${saliency}.`;
}

/** @param {Equation} equation */
export const weighingOf = ({ weighing }) =>
  weighing ? html`<span class="weighing" aria-hidden="true">${WEIGHINGS[weighing].set}</span>` : nothing;
