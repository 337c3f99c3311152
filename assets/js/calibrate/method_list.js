/**
 * The methods, grouped by their penalty, with a line and the cost of each: instead of a list of names.
 * @module method_list
 */

import { plain } from "../base/format.js";
import { html } from "../base/html.js";
import { METHODS } from "../base/recipe_contract.js";

/** @import { FormMethod } from "../base/types.d.ts" */

/** @type {[FormMethod["penalty"], string][]} */
const GROUPS = [
  ["", "Baseline"],
  ["identity", "+ identity penalty"],
  ["saliency", "+ saliency penalty"],
];

/**
 * What a method costs beside GPTQ, in words.
 * @param {number} cost
 */
export const costWords = (cost) =>
  cost >= 0.9 && cost <= 1.1 ? "GPTQ’s time" : `${plain(cost < 10 ? cost : Math.round(cost))} × GPTQ’s time`;

/**
 * @param {string} chosen name of the method
 * @param {(name: string) => void} choose
 */
export function methodList(chosen, choose) {
  const method = METHODS[chosen];
  return html`<details class="methods" data-testid="methods">
    <summary><strong>${method?.title ?? chosen}</strong><span>${method ? `${method.about} · ${costWords(method.cost)}` : "no such method"}</span></summary>
    <div class="method-groups">${GROUPS.map(
      ([penalty, title]) =>
        html`<fieldset><legend>${title}</legend>${Object.values(METHODS)
          .filter((one) => one.penalty === penalty)
          .map((one) => row(one, chosen, choose))}</fieldset>`,
    )}</div>
  </details>`;
}

/** @param {FormMethod} method @param {string} chosen @param {(name: string) => void} choose */
const row = ({ name, title, about, cost }, chosen, choose) =>
  html`<label><input type="radio" name="method" value=${name} .checked=${name === chosen} @change=${() => choose(name)} />
    <strong>${title}</strong><span class="method-cost">${costWords(cost)}</span><span class="method-about">${about}</span></label>`;
