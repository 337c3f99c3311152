/**
 * Between the form and the recipe. Pure.
 * @module recipe_form
 */

import { FITTING_WORDS, SIGNS } from "../base/contract.js";
import { count, plain } from "../base/format.js";
import { LONGEST } from "../base/recipe_address.js";
import { AS_FOUND, METHODS, NOT_ASKED_OF_OPENED, RECIPE_FIELDS } from "../base/recipe_contract.js";

/** @import { Trouble } from "../base/problem.js" */
/** @import { FormMethod, Recipe } from "../base/types.d.ts" */

const LIST = new Intl.ListFormat("en-GB");

/**
 * What a form says: part of a recipe, of a batch where λ or γ has several values, or what a person typed where a field takes no such text; the server refuses that.
 * @typedef {Partial<Record<keyof Recipe, any>>} Said
 */

/**
 * All that a form says: empty fields are left out, lists are split.
 * @param {string[]} names of the fields, in the order of the form
 * @param {any[]} values in the same order
 * @returns {Said}
 */
export function readForm(names, values) {
  /** @type {Record<string, any>} */
  const said = {};
  names.forEach((name, index) => {
    const { key, kind } = RECIPE_FIELDS[name];
    const value = read(values[index], kind);
    if (value !== null && value !== undefined && value !== "" && !Number.isNaN(value)) said[key] = value;
  });
  return said;
}

/**
 * The recipe that a form says, without what means nothing to its method.
 * @param {string[]} names
 * @param {any[]} values
 */
export function recipeOf(names, values) {
  const said = readForm(names, values);
  const idle = idleFields(said).map((name) => RECIPE_FIELDS[name].key);
  return Object.fromEntries(Object.entries(said).filter(([key]) => !idle.includes(key)));
}

/**
 * What a form says beside the defaults: enough to fill it again.
 * @param {string[]} names
 * @param {any[]} values
 * @returns {Said}
 */
export function saidBeside(names, values) {
  const said = /** @type {Record<string, any>} */ (readForm(names, values));
  return Object.fromEntries(
    names.flatMap((name) => {
      const { key, default: own } = RECIPE_FIELDS[name];
      return said[key] === undefined || JSON.stringify(said[key]) === JSON.stringify(own) ? [] : [[key, said[key]]];
    }),
  );
}

/**
 * The fields that mean nothing to the method of a recipe, as it is asked for.
 * @param {Said} recipe
 */
export function idleFields(recipe) {
  const method = methodOf(recipe.method);
  if (!method) return recipe.quantized_checkpoint ? [...NOT_ASKED_OF_OPENED] : [];
  // A repair keeps sequences to judge the codes that it found, as “auto” does.
  const idle = recipe.quantized_checkpoint || tuned(recipe, method).length ? method.unasked.auto : method.unasked.given;
  return recipe.quantized_checkpoint ? [...new Set([...idle, ...NOT_ASKED_OF_OPENED])] : idle;
}

/**
 * A method by its public name, also that of quantized checkpoints; nothing for one that this version does not know.
 * @param {string | null | undefined} name
 * @returns {FormMethod | undefined}
 */
export const methodOf = (name) => (name === AS_FOUND.name ? AS_FOUND : METHODS[name ?? ""]);

/**
 * What “auto” chooses in a recipe: of "lam", "gamma" and "shift_strength".
 * @param {Said} recipe
 * @param {FormMethod} method
 */
function tuned(recipe, method) {
  const said = /** @type {Record<string, any>} */ (recipe);
  return method.auto ? method.tunes.filter((name) => [said[RECIPE_FIELDS[name].key]].flat().includes("auto")) : [];
}

/**
 * What “auto” does for the method of a recipe; empty where it has nothing to choose.
 * @param {Said} recipe
 * @returns {string} such as “auto: 4 values of λ × 3 of γ for each layer, judged on 8 of 32 sequences”
 */
export function autoWords(recipe) {
  const method = METHODS[recipe.method];
  const auto = method?.auto;
  const asked = auto ? tuned(recipe, method) : [];
  if (!auto || !asked.length) return "";
  const tried = asked
    .map((field, index) => {
      const values = field === "lam" ? auto.lams : field === "gamma" ? auto.gammas : auto.strengths;
      return `${values.length} ${index ? "" : "values "}of ${SIGNS[field]} (${span(values)})`;
    })
    .join(" × ");
  const kept = judgedOn(recipe);
  const sequences = kept === null ? "a part of the sequences" : `${kept} of ${recipe.samples} sequences`;
  const share = recipe.channel_fraction ?? 1;
  if (auto.by !== "layer") return `auto: ${tried} for the whole model, judged by perplexity on ${sequences}`;
  const channels = share > 0 && share < 1 ? ` and ${plain(100 * share)} % of the channels` : "";
  return `auto: ${tried} for each layer, judged on ${sequences}${channels}`;
}

/** @param {number[]} values */
const span = (values) =>
  values.length > 4 ? `${plain(values[0])} to ${plain(values[values.length - 1])}` : values.join(", ");

/**
 * How many sequences “auto” keeps for judging, as sarqc/recipe.py counts them; null where that can't be said.
 * @param {Said} recipe
 */
export function judgedOn({ samples, validation_share: share }) {
  if (!Number.isInteger(samples) || samples < 2 || !(share > 0 && share < 1)) return null;
  const exact = share * samples;
  const low = Math.floor(exact);
  const nearest = exact - low === 0.5 ? low + (low % 2) : Math.round(exact); // halves go to the even side
  return Math.min(Math.max(1, nearest), samples - 1);
}

/** @param {any} value @param {string} kind */
function read(value, kind) {
  if (kind === "lines") {
    const lines = Array.isArray(value) ? value : String(value ?? "").split(/\r?\n/);
    return lines.filter((line) => line.trim() !== "");
  }
  if (kind === "list") {
    const parts = Array.isArray(value) ? value : String(value).split(",");
    return parts.map((part) => (typeof part === "string" ? part.trim() : part)).filter((part) => part !== "");
  }
  if (kind === "number or word" && typeof value === "string") {
    const values = valuesIn(value);
    return values.length > 1 ? values : values[0];
  }
  return kind !== "text" && typeof value === "string" ? numberOr(value.trim()) : value;
}

/** @param {string} text @returns {number | string} the text as it is where it is not a number */
function numberOr(text) {
  const number = Number(text);
  return Number.isFinite(number) && text !== "" ? number : text;
}

/**
 * The values that a field of numbers holds, each once: several, with commas between them, are several runs.
 * @param {string} text
 */
export function valuesIn(text) {
  const parts = text.split(",").map((part) => part.trim());
  return [...new Set(parts.filter((part) => part !== "").map(numberOr))];
}

/**
 * Why a form can't be planned as it stands: a text is too long to be sent, or a comma may be a decimal one.
 * @param {string[]} names of the fields, in the order of the form
 * @param {any[]} values in the same order
 * @returns {Trouble | null}
 */
export function formTrouble(names, values) {
  for (const [index, name] of names.entries()) {
    const { key, kind, title } = RECIPE_FIELDS[name];
    const text = String(values[index] ?? "");
    if (text.length > LONGEST)
      return {
        what: `${title}: ${count(text.length)} characters, ${count(LONGEST)} fit`,
        remedy: "Shorten it, or write a recipe file.",
        field: key,
      };
    // With a point somewhere, commas are between values.
    if (!(kind === "number or word" || name === "sweep") || text.includes(".") || !/\d,\d/.test(text)) continue;
    const readings = [text.split(/[,;]\s+|;/u).map((part) => part.replace(",", ".")), text.split(",")];
    const answers = readings.map((parts) => parts.map((part) => numberOr(part.trim())));
    return {
      what: `${title}: “${text.trim()}” can be read in two ways`,
      remedy: "Write 0.1 for one value, or “0, 1” with a blank for two.",
      field: key,
      fixes: answers
        .filter((numbers) => numbers.every((value) => typeof value === "number"))
        .map((numbers) => ({
          words: valuesWords(numbers),
          values: { [key]: numbers.length > 1 ? numbers : numbers[0] },
        })),
    };
  }
  return null;
}

/** @param {(number | string)[]} values */
const valuesWords = (values) =>
  values.length === 1 ? `One value, ${values[0]}` : `${values.length} values, ${LIST.format(values.map(String))}`;

/**
 * The fields of numbers that hold several values, for as many runs.
 * @param {string[]} names of the fields, in the order of the form
 * @param {any[]} values in the same order
 */
export function severalValues(names, values) {
  return names.flatMap((name, index) => {
    const { kind, title } = RECIPE_FIELDS[name];
    const several = kind === "number or word" ? valuesIn(String(values[index] ?? "")) : [];
    return several.length > 1 ? [{ name, title, values: several }] : [];
  });
}

/**
 * Form values for a recipe; fields that it does not name take their own defaults.
 * @param {string[]} names of the fields, in the order of the form
 * @param {Said} recipe
 */
export function valuesOf(names, recipe) {
  return names.map((name) => {
    const field = RECIPE_FIELDS[name];
    const said = /** @type {Record<string, any>} */ (recipe)[field.key];
    const value = said !== undefined ? said : field.default;
    if (field.kind === "list") return Array.isArray(value) ? value.join(", ") : (value ?? "");
    if (field.kind === "lines") return Array.isArray(value) ? value.join("\n") : (value ?? "");
    if (name === "group_size") return value === null ? "per_channel" : value === undefined ? undefined : String(value);
    // Shown in a field of text, several values with commas between them.
    if (field.kind === "number or word") return Array.isArray(value) ? value.join(", ") : String(value ?? "");
    if (value === undefined || value === null) return field.kind === "text" ? "" : null;
    return value;
  });
}

/**
 * A recipe for the rest of a run, from a block on, whose λ is still to be given; null where the recipe can't change it.
 * @param {Said} recipe
 * @param {number | null} block the first that is not finished; null: none
 * @returns {Said | null}
 */
export function restOf(recipe, block) {
  const { kind, layer, sweep, quantized_checkpoint: opened, from_block: before } = recipe;
  const method = methodOf(recipe.method);
  const isOneLambda = method?.tunes.includes("lam") && !tuned(recipe, method).length && !sweep?.length;
  const isWhole = (kind ?? "run") === "run" && !layer && !opened;
  if (block === null || !isOneLambda || !isWhole || (before != null && before < block)) return null;
  return { ...recipe, from_block: block };
}

/**
 * One line for headings and tables: model, bits, method and its numbers.
 * @param {Said} recipe
 */
export function describe(recipe) {
  const method = recipe.kind === "ladder" ? "what each step is worth" : methodTitle(recipe.method);
  const width = recipe.bits ? `${recipe.bits} bits` : "";
  const bits = [width, gridWords(recipe)].filter(Boolean).join(" ");
  const given = (/** @type {string} */ sign, /** @type {unknown} */ value) =>
    value === null || value === undefined ? "" : value === "auto" ? `${sign} auto` : `${sign} = ${value}`;
  const parts = [modelWords(recipe), bits, method];
  parts.push(given("λ", recipe.lambda), given("γ", recipe.gamma), given("α", recipe.shift_strength));
  const later = [given("λ", recipe.then_lambda), given("γ", recipe.then_gamma)].filter(Boolean);
  if (later.length) parts.push(`from block ${recipe.from_block}: ${later.join(", ")}`);
  parts.push(...fittingWords(recipe));
  if (recipe.kind === "tune") parts.push("finding λ");
  return parts.filter(Boolean).join(", ");
}

/**
 * What people call a method; one that this version does not know is called by its public name.
 * @param {string} name
 */
export const methodTitle = (name) => methodOf(name)?.title ?? name;

/**
 * What is quantized, or what others have made of it.
 * @param {Said} recipe
 */
export function modelWords({ model, quantized_checkpoint: checkpoint, method }) {
  if (!checkpoint) return shortModel(model);
  const name = shortModel(checkpoint);
  return method === AS_FOUND.name ? name : `${name} repaired`;
}

/**
 * How the grid is fitted, where that is not plain and means something to the method.
 * @param {Said} recipe
 * @returns {string[]}
 */
export function fittingWords(recipe) {
  const said = /** @type {Record<string, any>} */ (recipe);
  const idle = METHODS[recipe.method]?.unasked.given;
  if (!idle) return [];
  return Object.entries(FITTING_WORDS)
    .filter(([name]) => !idle.includes(name) && (said.distill || !name.startsWith("distill")))
    .filter(([name]) => (said[name] || said[name] === 0) && said[name] !== RECIPE_FIELDS[name].default)
    .filter(([name]) => !isWithoutEffect(name, said))
    .map(([name, words]) =>
      typeof words === "string" ? words.replace("{value}", said[name]) : (words[said[name]] ?? String(said[name])),
    );
}

/**
 * Whether an option of a method lacks the value of another field that gives it an effect.
 * @param {string} name
 * @param {Record<string, any>} said
 */
function isWithoutEffect(name, said) {
  const [other, value] = METHODS[said.method]?.conditions[name] ?? [];
  return other !== undefined && (value ? said[other] !== value : !said[other]);
}

/** @param {string} kind */
const gridTitle = (kind) => kind.replaceAll("_", " ");

/**
 * The kind of the grid in words, where it is not the form's own: bits of different grids differ in full.
 * @param {Said} recipe
 */
export const gridWords = ({ grid, quantized_checkpoint: checkpoint }) =>
  !grid || checkpoint || grid === RECIPE_FIELDS.grid.default ? "" : gridTitle(grid);

/**
 * The last part of a path or a Hub name.
 * @param {string | null | undefined} name
 */
export function shortModel(name) {
  return (
    String(name ?? "")
      .split("/")
      .filter(Boolean)
      .pop() ?? ""
  );
}
