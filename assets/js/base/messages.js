/**
 * The language of the page: messages by their English text, plurals and numbers by `Intl`. A message is a whole clause or
 * sentence with named values. The document has the messages of its language (sarqc/language.py); English has none.
 * @module messages
 */

/**
 * @typedef {object} Catalogue
 * @property {Record<string, string>} messages translations
 * @property {Record<string, string[]>} plurals forms by the message for one thing
 * @property {string[]} categories of plurals, in the order of the forms
 */

const element = globalThis.document?.querySelector?.("#messages");
/** @type {Catalogue} */
const CATALOGUE = element ? JSON.parse(element.textContent ?? "") : { messages: {}, plurals: {}, categories: [] };

/** The code of the page's language; what stands at the document's root, Gradio changes. */
export const LANGUAGE = /** @type {HTMLElement | null} */ (element)?.lang ?? "en";

/** The same where the address of the page says it; empty where the document alone does. */
export const ASKED = new URLSearchParams(globalThis.location?.search ?? "").has("lang") && element ? LANGUAGE : "";

const CATEGORY = new Intl.PluralRules(LANGUAGE);
const [GROUP, DECIMAL] = ["group", "decimal"].map(
  (type) => new Intl.NumberFormat(LANGUAGE).formatToParts(12345.6).find((part) => part.type === type)?.value ?? "",
);

/** @typedef {Record<string, string | number>} Values */

/**
 * A message in the page's language.
 * @param {string} text in English; `{name}` stands for a value
 * @param {Values} [values]
 */
export const tr = (text, values) => filled(CATALOGUE.messages[text] ?? text, values);

/**
 * The message for a number of things, in the page's language.
 * @param {string} one in English for one thing; `{count}` stands for the number
 * @param {string} other for any other number
 * @param {number} count
 * @param {Values} [values] a `count` among them stands in place of digits
 */
export function trCount(one, other, count, values) {
  const form = CATALOGUE.plurals[one]?.[CATALOGUE.categories.indexOf(CATEGORY.select(count))];
  return filled(form ?? (count === 1 ? one : other), { count, ...values });
}

/**
 * A message in the page's language, in parts for a template: its text between values, and the values as they are.
 * @template Value
 * @param {string} text in English; `{name}` stands for a value
 * @param {Record<string, Value>} values e.g. templates
 * @returns {(string | Value)[]}
 */
export const trParts = (text, values) =>
  tr(text)
    .split(/\{(\w+)\}/g)
    .map((part, at) => (at % 2 ? values[part] : part));

/**
 * A number in English notation, such as “1,234.5”, in that of the page's language.
 * @param {string} number
 */
export const written = (number) =>
  LANGUAGE === "en" ? number : number.replace(/[.,]/g, (symbol) => (symbol === "," ? GROUP : DECIMAL));

/** @param {string} text @param {Values} [values] */
const filled = (text, values) =>
  values ? text.replace(/\{(\w+)\}/g, (place, name) => String(values[name] ?? place)) : text;
