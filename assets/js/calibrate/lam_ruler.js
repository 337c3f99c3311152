/**
 * The λ axis below the field of λ: the chosen values, the default damping of GPTQ, and the λ that a shipped study of the
 * same model, bits and grid can't tell from its best one.
 * @module calibrate/lam_ruler
 */

import { counted, plain } from "../base/format.js";
import { html, nothing } from "../base/html.js";
import { GPTQ_LAM, METHODS, RECIPE_FIELDS, STUDIED_BANDS } from "../base/recipe_contract.js";
import { fittingWords, shortModel } from "./recipe_form.js";

/** @import { StudiedBand } from "../base/types.d.ts" */
/** @import { Said } from "./recipe_form.js" */

const [FIRST, LAST] = [-3, 1]; // powers of ten at the ends; 0 stands before the first
const START = 0.14; // of the width, where the powers begin
const TICKS = [0, 0.001, 0.01, 0.1, 1, 10];

/**
 * The place of a λ, from 0 to 1.
 * @param {number} lam
 */
export const placeOf = (lam) =>
  lam <= 0 ? 0 : START + (1 - START) * Math.min(1, Math.max(0, (Math.log10(lam) - FIRST) / (LAST - FIRST)));

/**
 * The band of the line that is most like a recipe: of its model, bits, grid and method, and with as much as possible of
 * its group size, fitting and γ; undefined where no study has one.
 * @param {Said} said by the form
 * @returns {StudiedBand | undefined}
 */
export function bandFor(said) {
  const held = /** @type {Record<string, unknown>} */ (said);
  const gamma = Number(said.gamma ?? METHODS[said.method]?.defaults.gamma);
  const unlike = (/** @type {StudiedBand} */ band) =>
    4 * Number(band.group_size !== (said.group_size ?? RECIPE_FIELDS.group_size.default)) +
    Object.entries(band.fitting).filter(([name, value]) => value !== (held[name] ?? RECIPE_FIELDS[name].default))
      .length +
    Math.min(0.9, Math.abs((band.gamma ?? gamma) - gamma) || 0);
  return STUDIED_BANDS.filter(
    ({ model, bits, grid, method }) =>
      model === shortModel(said.model) &&
      bits === said.bits &&
      grid === (said.grid ?? RECIPE_FIELDS.grid.default) &&
      method === said.method,
  ).sort((one, other) => unlike(one) - unlike(other))[0];
}

/**
 * The band in words, with what of its line is not as in the recipe.
 * @param {StudiedBand | undefined} band
 * @param {Said} said by the form
 */
export function bandWords(band, said) {
  if (!band) return "No study of this model at these bits.";
  const { study, low, high, best, draws, group_size: size, fitting, gamma } = band;
  const facts = [size ? `groups of ${size}` : "", ...fittingWords({ method: said.method, ...fitting })];
  if (gamma !== null) facts.push(`γ = ${plain(gamma)}`);
  return `Best in the study ${study}: λ = ${plain(best)}; ${plain(low)} to ${plain(high)} can’t be told from it (95 %, ${counted(draws, "draw")}; ${facts.filter(Boolean).join(", ")}).`;
}

/** @param {Said} said by the form */
export function lamRuler(said) {
  const method = METHODS[said.method];
  if (!method?.tunes.includes("lam") || said.quantized_checkpoint) return nothing;
  const band = bandFor(said);
  const words = bandWords(band, said);
  const chosen = [said.lambda ?? method.defaults.lam].flat().filter((value) => typeof value === "number");
  const whose = method.penalty === "identity" ? "GPTQ’s default" : "GPTQ’s default (identity)";
  return html`<div class="ruler-axis" role="img" aria-label=${`λ axis. ${whose}: ${GPTQ_LAM}. ${words}`}>
      ${
        band
          ? html`<i class="ruler-band" style=${`left: ${percentOf(band.low)}; right: calc(100% - ${percentOf(band.high)})`}></i>`
          : nothing
      }
      ${TICKS.map((lam) => html`<span class="ruler-tick" style=${`left: ${percentOf(lam)}`}>${plain(lam)}</span>`)}
      <span class="ruler-gptq" style=${`left: ${percentOf(GPTQ_LAM)}`}>${whose}</span>
      ${chosen.map((lam) => html`<b class="ruler-lam" style=${`left: ${percentOf(lam)}`}></b>`)}
    </div>
    <p>${words}</p>`;
}

/** @param {number} lam */
const percentOf = (lam) => `${(100 * placeOf(lam)).toFixed(1)}%`;
