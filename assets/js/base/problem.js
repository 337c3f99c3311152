/**
 * An error in its three parts, as a block that every page shows alike.
 * @module problem
 */

import { html, nothing } from "./html.js";

/** @import { Fix } from "./client.js" */

/**
 * What went wrong, where, and what helps; of a recipe also the field that is wrong and what would mend it.
 * @typedef {{what: string, where?: string | null, remedy?: string | null, field?: string, fixes?: readonly Fix[]}} Trouble
 */

/** A sentence begins with a capital; a λ stays what it is. @param {string} text */
export const asSentence = (text) => text.replace(/^\p{Script=Latin}/u, (letter) => letter.toUpperCase());

/**
 * @param {Trouble} trouble
 * @param {string} [testid]
 * @param {((fix: Fix) => void) | null} [mend] does what a button of the block says
 */
export const problemBlock = ({ what, where, remedy, field, fixes = [] }, testid = "problem", mend = null) =>
  html`<div class="problem" role="alert" id=${testid} data-testid=${testid}>
    <p class="problem-what">${asSentence(what) || "Something went wrong"}</p>
    ${where && !field ? html`<p class="problem-where">${where}</p>` : nothing}
    ${remedy ? html`<p class="problem-remedy">${remedy}</p>` : nothing}
    ${
      mend && fixes.length
        ? html`<div class="problem-fixes">${fixes.map(
            (fix) =>
              html`<button type="button" class="act-quiet" data-testid="fix" @click=${() => mend(fix)}>${fix.words}</button>`,
          )}</div>`
        : nothing
    }
  </div>`;
