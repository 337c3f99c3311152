/**
 * Texts of one's own by their titles: recipes and answers name them by their content, and only their owner's page knows
 * the titles. Pure but for what it remembers.
 * @module base/text_names
 */

const OWN_TEXT = /text-[0-9a-f]{24}/g;
const AS_NAMED = new Set(["recipe", "stamp", "fixes"]); // parts of an answer that go back to the server

/** @type {Map<string, string>} titles by name, as they were last listed */
const titles = new Map();

/**
 * Remembers what a visitor's texts are called. Of several with one title, all but the first are numbered.
 * @param {readonly {name: string, title: string}[]} texts newest first
 */
export function rememberTexts(texts) {
  titles.clear();
  /** @type {Map<string, number>} */
  const times = new Map();
  for (const { name, title } of [...texts].reverse()) {
    const time = (times.get(title) ?? 0) + 1;
    times.set(title, time);
    titles.set(name, time > 1 ? `${title} (${time})` : title);
  }
}

/** Whether a text names some that are not known by a title. @param {string} text */
export const hasUnknownTexts = (text) => (text.match(OWN_TEXT) ?? []).some((name) => !titles.has(name));

/** The title of a text where it has one. @param {string} text with names of texts */
export const withTitles = (text) => text.replace(OWN_TEXT, (name) => titles.get(name) ?? name);

/** Which texts of one's own a text names, in words; empty without any. @param {string} text */
export const textWords = (text) =>
  [...new Set(text.match(OWN_TEXT))]
    .flatMap((name) => (titles.has(name) ? [`${name} is ${titles.get(name)}.`] : []))
    .join(" ");

/**
 * A document as it is shown: all its texts by their titles, but for recipes.
 * @template T
 * @param {T} document
 * @returns {T}
 */
export function titled(document) {
  return titles.size ? shown(document) : document;
}

/** @param {any} part @returns {any} */
function shown(part) {
  if (typeof part === "string") return withTitles(part);
  if (Array.isArray(part)) return part.map(shown);
  if (typeof part !== "object" || part === null) return part;
  return Object.fromEntries(
    Object.entries(part).map(([key, value]) => [key, AS_NAMED.has(key) ? value : shown(value)]),
  );
}
