/**
 * How the levels of a group are fitted, as one switch: several fields of the fold at once.
 * @module calibrate/grid_switch
 */

import { number } from "../base/format.js";
import { html, nothing } from "../base/html.js";
import { PAPERS_GRID, RECIPE_FIELDS } from "../base/recipe_contract.js";
import { groupsOf, methodOf } from "./recipe_form.js";

/** @import { GridName, Plan } from "../base/types.d.ts" */
/** @import { Said } from "./recipe_form.js" */

/** @type {[GridName, string, string][]} */
const CHOICES = [
  ["paper", "Paper’s grid", "from the smallest to the largest weight"],
  ["best", "Searched grid", "the range searched, the codes refined"],
  ["refitted", "Refitted grid", "both ends searched, scales fitted to the codes; the slowest"],
];

/**
 * The fields of a grid, by a method: the paper's, or those of an effort.
 * @param {GridName} name
 * @param {string} method
 * @returns {Record<string, string | number | boolean>}
 */
function gridFields(name, method) {
  const efforts = methodOf(method)?.efforts;
  if (name === "paper" || !efforts) return PAPERS_GRID;
  const fitting = efforts[name === "best" ? "balanced" : "best"];
  return Object.fromEntries(Object.keys(PAPERS_GRID).map((field) => [field, fitting[field]]));
}

/**
 * The fields of a grid that mean something to a method. Learned rounding refines codes of its start alone.
 * @param {GridName} name
 * @param {string} method
 * @returns {[string, string | number | boolean][]}
 */
const meant = (name, method) =>
  Object.entries(gridFields(name, method)).filter(
    ([field]) =>
      methodOf(method)?.options.includes(field) && !(field === "refine" && methodOf(method)?.unit === "block"),
  );

/**
 * The choices that a method has: learned rounding keeps its scales.
 * @param {string} method
 */
const choicesOf = (method) =>
  CHOICES.filter(([name]) => name !== "refitted" || methodOf(method)?.options.includes("refit"));

/**
 * Which of them a form holds; null where it holds none.
 * @param {Said} said
 * @returns {GridName | null}
 */
export function gridOf(said) {
  const held = /** @type {Record<string, unknown>} */ (said);
  const isHeld = (/** @type {GridName} */ name) =>
    meant(name, said.method).every(([field, value]) => (held[field] ?? RECIPE_FIELDS[field].default) === value);
  return (
    choicesOf(said.method)
      .map(([name]) => name)
      .find(isHeld) ?? null
  );
}

/**
 * @param {Said} said by the form
 * @param {(values: Record<string, string | number | boolean>) => void} choose
 */
export function gridSwitch(said, choose) {
  if (said.quantized_checkpoint || !meant("best", said.method).length) return nothing;
  const chosen = gridOf(said);
  return html`<fieldset class="grid-switch" data-testid="grid-switch"><legend>Fitting of the grid</legend
    ><div class="grid-choices">${choicesOf(said.method).map(
      ([name, title, about]) => html`<label
        ><input type="radio" name="grid-fitting" value=${name} .checked=${name === chosen} @change=${() => choose(gridFields(name, said.method))} />
        <span>${title}</span><small>${about}</small></label>`,
    )}</div>${chosen ? nothing : html`<p class="grid-own">Range, order, refinement or refit are your own.</p>`}</fieldset>`;
}

/**
 * What a weight costs on a grid with all that is stored beside its code, and who loads the codes; empty where a plan has
 * several grids or none of its own.
 * @param {Said} said by the form
 * @param {Pick<Plan, "bits_per_weight" | "formats">} plan of what it said
 */
export function gridCost(said, { bits_per_weight: bits, formats }) {
  if (said.quantized_checkpoint || bits === null) return "";
  const cost = `${groupsOf(said)}: ${number(bits, 2)} bits per weight`;
  const withCodes = formats.filter(({ format }) => format !== "plain");
  const loaded = withCodes.flatMap(({ format, possible, readers }) => {
    const names = possible ? readers.filter(({ loads }) => loads === "yes").map(({ reader }) => reader) : [];
    return names.length ? [`as ${format} by ${names.join(", ")}`] : [];
  });
  if (loaded.length) return `${cost}, loaded ${loaded.join("; ")}`;
  if (withCodes.some(({ possible }) => possible)) return `${cost}, loaded by no reader that was tried`;
  return withCodes.length ? `${cost}; no format holds its codes` : cost;
}
