/**
 * What “Compute here” asks the server for: the recipe of one layer of the shown line, on the study's own calibration.
 * @module preview_recipe
 */

import { METHODS } from "../base/recipe_contract.js";
import { layerAt } from "../explorer/state.js";

/** @import { Recipe } from "../base/types.d.ts" */

/** λ at which the layer is solved between the ends of the line's own, beside these. */
export const LAMS = [0, 0.005, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3];
const HELD_OUT = 8; // sequences on which unseen text is judged, at least
/** What is taken over from the recipe of the study. @type {(keyof Recipe)[]} */
const KEPT = ["revision", "calibration", "samples", "length", "sampling", "seed", "indivisible"];

/**
 * The recipe of the preview, or null where there is nothing to compute: no layer chosen, a line without λ, a method
 * that works on several linears at once, or a study whose calibration text is not known.
 * @param {import("../explorer/state.js").View} view
 * @param {import("../charts/bind.js").Point} at the point shown
 * @param {{unit: string, tunes: string[]}|undefined} method what METHODS says of it
 */
export function recipeFor(view, at, method) {
  const layer = view.layer === null ? null : layerAt(view, view.layer);
  const base = view.as_recipe.recipe;
  if (!layer || !base?.calibration || !view.line.has_lam || method?.unit !== "layer") return null;
  const { line, lams, second } = view;
  if (second.name === "shift_strength") return null; // a shift needs the quantized blocks before the layer
  const value = view.gammas[at.gamma];
  const isRead = second.name === "first_order" || method.tunes.includes("gamma");
  const between = LAMS.filter((lam) => lam > lams[0] && lam < lams[lams.length - 1]);
  return /** @type {Partial<Recipe>} */ ({
    ...Object.fromEntries(KEPT.filter((name) => base[name] !== undefined).map((name) => [name, base[name]])),
    model: base.model ?? view.study.model.name,
    bits: line.bits,
    grid: line.grid,
    group_size: line.group_size ?? "per_channel",
    method: line.method,
    ...line.fitting,
    lambda: lams[at.lambda],
    ...(Number.isFinite(value) && isRead ? { [second.name]: value } : {}),
    held_out_samples: Math.max(HELD_OUT, base.held_out_samples ?? 0),
    inputs_from: "float",
    sweep: [...new Set([...lams, ...between])].sort((a, b) => a - b),
    layer: layer.name,
  });
}

/**
 * The preview of the point that the Lab shows, or null where nothing can be computed: a study that no run of this host
 * left may be of a model that it does not have.
 * @param {Pick<import("./state.js").State, "explored"|"models">} state
 */
export function offered({ explored: { view, at }, models }) {
  if (!view || view.layer === null || !models) return null;
  if (!view.study.recipe && !models.some(({ name }) => name === view.study.model.name)) return null;
  return recipeFor(view, at, METHODS[view.line.method]);
}
