/**
 * Gradio's fields on the page: which are seen, which one is wrong, and what they show, whatever put it there.
 * @module calibrate/form_fields
 */

import { say } from "../base/dom.js";
import { RECIPE_FIELDS } from "../base/recipe_contract.js";
import { autoWords, idleFields, methodOf, readForm } from "./recipe_form.js";

/** The element of a field. @param {string} name */
export const selector = (name) => `#field-${name.replaceAll("_", "-")}`;

/**
 * What a field shows, as the form's values say it; undefined for one that is not seen.
 * @param {ParentNode} form
 * @param {string} name
 * @param {(title: string) => string} choiceOf a choice by its title; of any other text the text itself
 * @returns {string | boolean | undefined}
 */
function shown(form, name, choiceOf) {
  const field = form.querySelector(selector(name));
  if (!field?.checkVisibility()) return undefined;
  const input = field.querySelector("textarea, input");
  if (input instanceof HTMLTextAreaElement) return input.value;
  if (!(input instanceof HTMLInputElement)) return undefined;
  if (input.type === "radio" || input.readOnly) return undefined; // Gradio draws what it holds
  if (input.type === "checkbox") return input.checked;
  return input.role === "combobox" ? choiceOf(input.value) : input.value;
}

/**
 * The fields that show something else than these values, with what they show.
 * @param {ParentNode} form
 * @param {readonly string[]} names of the fields, in the order of the form
 * @param {readonly unknown[]} values in the same order
 * @param {(name: string, title: string) => string} choiceOf what a choice of a field means, by its title
 * @returns {{index: number, value: string | boolean}[]}
 */
export function unlikeShown(form, names, values, choiceOf) {
  return names.flatMap((name, index) => {
    const value = shown(form, name, (title) => choiceOf(name, title));
    if (value === undefined) return [];
    const [seen, held] = [value, values[index]].map((one) => JSON.stringify(readForm([name], [one])));
    return seen === held ? [] : [{ index, value }];
  });
}

/**
 * Whether an input event brought a text as a whole, rather than one more character of it.
 * @param {Event} event
 */
export const isWhole = (event) =>
  !(event instanceof InputEvent) ||
  (!event.inputType.startsWith("delete") && (event.inputType !== "insertText" || [...(event.data ?? "")].length > 1));

/**
 * The field that a refusal is about says so, to the eye and to a screen reader.
 * @param {string[]} names
 * @param {string} wrong public name of the field, or empty
 */
export function markWrong(names, wrong) {
  for (const name of names) {
    const field = document.querySelector(selector(name));
    const isWrong = wrong !== "" && RECIPE_FIELDS[name].key === wrong;
    if (!field || field.classList.contains("is-wrong") === isWrong) continue;
    field.classList.toggle("is-wrong", isWrong);
    for (const input of field.querySelectorAll("input, textarea")) {
      input.toggleAttribute("aria-invalid", isWrong);
      if (isWrong) {
        input.setAttribute("aria-invalid", "true");
        input.setAttribute("aria-describedby", "refusal");
      } else input.removeAttribute("aria-describedby");
    }
  }
}

/**
 * Only what means something to the method is asked for, and λ and γ say what they are when left empty.
 * @param {string[]} names
 * @param {unknown[]} values
 * @param {CSSStyleSheet} off a rule rather than a class, which Gradio would replace
 */
export function drawFields(names, values, off) {
  const said = readForm(names, values);
  const method = methodOf(said.method);
  const idle = idleFields(said);
  const isGiven = (/** @type {string} */ name) => {
    const { key, default: own } = RECIPE_FIELDS[name];
    const value = /** @type {Record<string, unknown>} */ (said)[key];
    return value !== undefined && JSON.stringify(value) !== JSON.stringify(own);
  };
  // Values from a block on are asked for with the block.
  const isWanted = (/** @type {string} */ name) => isGiven(name) || (name.startsWith("then_") && isGiven("from_block"));
  const hidden = names.filter(
    (name) => idle.includes(name) || (RECIPE_FIELDS[name].form === "given" && !isWanted(name)),
  );
  const unseen = [...hidden.map(selector), ...(said.quantized_checkpoint ? [] : [".form-fields > :has(.opened-size)"])];
  off.replaceSync(unseen.length ? `${unseen.join(", ")} { display: none !important }` : "");
  for (const name of names) {
    const { kind } = RECIPE_FIELDS[name];
    const field = kind === "number or word" && document.querySelector(selector(name));
    if (!field) continue;
    const own = method?.defaults[name];
    const input = field.querySelector("input");
    // The number is as it can be typed.
    if (input) input.placeholder = typeof own === "number" ? `${own}, the method’s own` : "";
  }
  const words = autoWords(said);
  const place = document.querySelector(".auto-note");
  place?.classList.toggle("is-off", !words);
  say(place, words);
}
