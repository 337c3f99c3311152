/**
 * What a model suggests for the form, what of it a person has chosen otherwise, and what another model has changed. Pure.
 * @module suggestions
 */

import { METHODS, RECIPE_FIELDS } from "../base/recipe_contract.js";
import { USUAL } from "./effort_choice.js";
import { valuesOf } from "./recipe_form.js";

/** @import { ModelEntry } from "../base/types.d.ts" */
/** @import { Said } from "./recipe_form.js" */

/**
 * The recipe that a model suggests, at the usual effort. One that does not ship with the app has no text but one that it
 * suggests itself: only its owner knows on what text it will be used.
 * @param {string} model
 * @param {readonly Pick<ModelEntry, "name" | "suggested">[]} models
 * @param {string} [method] that is asked for
 * @returns {Said}
 */
export function suggestedFor(model, models, method) {
  const suggested = models.find(({ name }) => name === model)?.suggested;
  const own = String(RECIPE_FIELDS.method.default);
  const { efforts } = METHODS[String(method ?? suggested?.method ?? own)] ?? METHODS[own];
  return { ...efforts[USUAL], ...suggested, model };
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

/**
 * The fields that are not in the form and hold something of their own: from a run, or from an address.
 * @param {readonly string[]} names of the fields, in the order of the form
 * @param {readonly unknown[]} values in the same order
 * @param {Said} suggested by the model, and by the chosen effort
 */
export const alsoSet = (names, values, suggested) => {
  const [usual, plain] = [suggested, {}].map((said) => valuesOf([...names], said));
  return names.flatMap((name, index) =>
    RECIPE_FIELDS[name].form !== "none" || [usual, plain].some((own) => isSame(values[index], own[index]))
      ? []
      : [{ title: RECIPE_FIELDS[name].title, index, value: values[index], usual: usual[index] }],
  );
};

/** @typedef {{name: string, title: string, index: number, before: unknown, now: unknown}} Altered a field that another model has changed */

/**
 * Of what a model changes what a person has to know: other bits, and another λ or γ. The rest belongs to its text.
 * @param {readonly Altered[]} changes
 * @param {string} method which has its own λ and γ where a field is empty
 */
export const toTell = (changes, method) =>
  changes
    .map(({ before, now, ...field }) => {
      const own = METHODS[method]?.defaults[field.name] ?? "";
      return { ...field, before: (before ?? "") === "" ? own : before, now: (now ?? "") === "" ? own : now };
    })
    .filter(({ name, before, now }) => ["bits", "lam", "gamma"].includes(name) && !isSame(before, now));

/** Not told: the model, which was chosen, and texts that are asked for now. @param {string} name @param {unknown} now */
const isUntold = (name, now) => name === "model" || (["calibration", "test"].includes(name) && (now ?? "") === "");

/**
 * The fields that another model has changed, but for the model itself and texts that are asked for now.
 * @param {readonly string[]} names of the fields, in the order of the form
 * @param {readonly unknown[]} before
 * @param {readonly unknown[]} now
 * @returns {Altered[]}
 */
export const altered = (names, before, now) =>
  names.flatMap((name, index) =>
    isUntold(name, now[index]) || !before.length || isSame(before[index], now[index])
      ? []
      : [{ name, title: RECIPE_FIELDS[name].title, index, before: before[index], now: now[index] }],
  );

/** An empty field is empty, whatever Gradio says of it. @param {unknown} one @param {unknown} other */
const isSame = (one, other) => String(one ?? "") === String(other ?? "");
