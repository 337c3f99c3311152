/**
 * Recipes in the address of Calibrate, field by field: how a link fills the form. Pure: no DOM.
 * @module recipe_address
 */

import { CALIBRATE_VIEW, serialise } from "./address.js";
import { FORMER_NAMES, METHODS, RECIPE_FIELDS } from "./recipe_contract.js";
import { at } from "./site.js";

/** @import { AddressTable, Link, Parameter } from "./address.js" */
/** @import { RecipeField } from "./types.d.ts" */

export const LONGEST = 8192; // characters of a value

/** @type {Partial<Record<RecipeField["kind"], Pick<Parameter, "read" | "wants">>>} for all others: a text */
const READ = {
  truth: { read: (text) => (["true", "false"].includes(text) ? text : undefined), wants: "true or false" },
  number: { read: numberIn, wants: "a number" },
  whole: {
    read: (text) => (Number.isInteger(numberIn(text)) ? numberIn(text) : undefined),
    wants: "a whole number",
  },
};
const TEXT = {
  read: (/** @type {string} */ text) => (text.length <= LONGEST ? text : undefined),
  wants: `a text of at most ${LONGEST} characters`,
};

/** @param {string} text */
function numberIn(text) {
  const number = Number(text);
  return text.trim() !== "" && Number.isFinite(number) ? number : undefined;
}

/**
 * The parameters of Calibrate: a run, or what fills the fields of the form.
 * @param {readonly string[]} names of the fields that the form has
 * @returns {AddressTable}
 */
export const calibrateView = (names) => ({
  ...CALIBRATE_VIEW,
  ...Object.fromEntries(
    names.map((name) => {
      const { key, kind, title } = RECIPE_FIELDS[name];
      const read = name === "group_size" ? TEXT : (READ[kind] ?? TEXT); // a group may be “per_channel” too
      const formerly = Object.keys(FORMER_NAMES).find((former) => FORMER_NAMES[former] === name);
      return [key, { title, ...read, ...(formerly && { formerly }) }];
    }),
  ),
});

/**
 * What the parameters say of a recipe; null where they say nothing.
 * @param {Record<string, any>} state of an address
 * @param {readonly string[]} names of the fields that the form has
 */
export function recipeIn(state, names) {
  const said = names.flatMap((name) => {
    const { key, kind } = RECIPE_FIELDS[name];
    if (state[key] === undefined) return [];
    if (name === "method") return [[key, publicMethod(state[key])]];
    return [[key, kind === "truth" ? state[key] === "true" : state[key]]];
  });
  return said.length ? Object.fromEntries(said) : null;
}

/**
 * The public name of a method that may be given by its further one, in which a typed address has a blank for the plus.
 * @param {string} given
 */
function publicMethod(given) {
  const also = given.replaceAll(" ", "+");
  return Object.keys(METHODS).find((name) => METHODS[name].also && METHODS[name].also === also) ?? given;
}

/**
 * Where the form is filled with a recipe, or with a batch.
 * @param {Record<string, any>} recipe
 */
export const calibrateLink = (recipe) => at(`/calibrate${recipeSearch(recipe)}`);

/**
 * The query string that says a recipe, or a batch.
 * @param {Record<string, any>} recipe
 * @param {Partial<Link>} [link] what it hides and locks
 */
export function recipeSearch(recipe, link = {}) {
  /** @param {string} key @param {any} value */
  const text = (key, value) =>
    Array.isArray(value) ? value.join(key === RECIPE_FIELDS.prompts.key ? "\n" : ", ") : value;
  const said = Object.fromEntries(Object.entries(recipe).map(([key, value]) => [key, text(key, value)]));
  return serialise(said, calibrateView(Object.keys(RECIPE_FIELDS)), { link });
}
