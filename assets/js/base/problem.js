/**
 * An error in its three parts, as a block that every page shows alike.
 * @module problem
 */

import { html, nothing } from "./html.js";

/**
 * What went wrong, where, and what helps.
 * @typedef {{what: string, where?: string | null, remedy?: string | null}} Trouble
 */

/**
 * @param {Trouble} trouble
 * @param {string} [testid]
 */
export const problemBlock = ({ what, where, remedy }, testid = "problem") =>
  html`<div class="problem" role="alert" data-testid=${testid}>
    <p class="problem-what">${what || "Something went wrong"}</p>
    ${where ? html`<p class="problem-where">${where}</p>` : nothing}
    ${remedy ? html`<p class="problem-remedy">${remedy}</p>` : nothing}
  </div>`;
