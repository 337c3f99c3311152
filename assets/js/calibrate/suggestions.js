/**
 * What a model suggests for the form, and what of it a person has chosen otherwise. Pure.
 * @module suggestions
 */

import { RECIPE_FIELDS } from "../base/recipe_contract.js";
import { valuesOf } from "./recipe_form.js";

/** @import { ModelEntry } from "../base/types.d.ts" */
/** @import { Said } from "./recipe_form.js" */

/**
 * The recipe that a model suggests: one that the host does not offer, or that has no texts of its own, takes the texts
 * of the first, which are on this host.
 * @param {string} model
 * @param {readonly ModelEntry[]} models
 * @returns {Said}
 */
export function suggestedFor(model, models) {
  const entry = models.find(({ name }) => name === model);
  const { calibration, test } = /** @type {Said} */ (models[0]?.suggested ?? {});
  return { calibration, test, ...entry?.suggested, model };
}

/**
 * The values of a form for another model: a field that holds what was suggested before takes what is suggested now, and
 * what a person has put into a field stays.
 * @param {readonly unknown[]} values of the form
 * @param {readonly unknown[]} before what was suggested
 * @param {readonly unknown[]} now what is
 */
export const refilled = (values, before, now) =>
  values.map((value, index) => (!before.length || isSame(value, before[index]) ? now[index] : value));

/**
 * The fields for which a model suggests something that the form does not hold.
 * @param {readonly string[]} names of the fields, in the order of the form
 * @param {readonly unknown[]} values in the same order
 * @param {Said} suggested
 * @returns {{name: string, title: string, index: number, value: unknown}[]}
 */
export function unapplied(names, values, suggested) {
  const wanted = valuesOf([...names], suggested);
  return names.flatMap((name, index) => {
    const { key, title } = RECIPE_FIELDS[name];
    const isNamed = /** @type {Record<string, any>} */ (suggested)[key] !== undefined;
    return isNamed && !isSame(values[index], wanted[index]) ? [{ name, title, index, value: wanted[index] }] : [];
  });
}

/** An empty field is empty, whatever Gradio says of it. @param {unknown} one @param {unknown} other */
const isSame = (one, other) => String(one ?? "") === String(other ?? "");
