/**
 * The methods, grouped by their penalty, with a line of each: instead of a list of names.
 * @module method_list
 */

import { html } from "../base/html.js";
import { AS_FOUND, METHODS, REPAIRING } from "../base/recipe_contract.js";
import { methodOf, methodTitle } from "./recipe_form.js";

/** @import { FormMethod } from "../base/types.d.ts" */

/** @type {[FormMethod["penalty"], string][]} */
const PENALTIES = [
  ["", "Baseline"],
  ["identity", "+ identity penalty"],
  ["saliency", "+ saliency penalty"],
];

/** @type {[string, FormMethod[]][]} titles of groups, and what is in them */
const GROUPS = PENALTIES.map(([penalty, title]) => [
  title,
  Object.values(METHODS).filter((one) => one.penalty === penalty),
]);
/** @type {[string, FormMethod[]][]} */
const OF_OPENED = [
  ["As it is", [AS_FOUND]],
  ["Repaired: its scales stay, its codes are solved again", REPAIRING.map((name) => METHODS[name])],
];

/**
 * @param {string} chosen name of the method
 * @param {boolean} isOpened whether they are for a checkpoint that others quantized
 * @param {(name: string) => void} choose
 */
export function methodList(chosen, isOpened, choose) {
  const method = methodOf(chosen);
  return html`<details class="methods" data-testid="methods">
    <summary><strong>${methodTitle(chosen)}</strong><span>${method ? method.about : "no such method"}</span></summary>
    <div class="method-groups">${(isOpened ? OF_OPENED : GROUPS).map(
      ([title, methods]) =>
        html`<fieldset><legend>${title}</legend>${methods.map((one) => row(one, chosen, choose))}</fieldset>`,
    )}</div>
  </details>`;
}

/** @param {FormMethod} method @param {string} chosen @param {(name: string) => void} choose */
const row = (method, chosen, choose) =>
  html`<label><input type="radio" name="method" value=${method.name} .checked=${method.name === chosen} @change=${() => choose(method.name)} />
    <strong>${method.title}</strong><span class="method-about">${method.about}</span></label>`;
