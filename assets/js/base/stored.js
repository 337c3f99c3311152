/**
 * What Python has stored in English, in the page's language: each text is a message with its values, which are taken out of
 * it. A text that is none of the known messages is shown as it is. Pure.
 * @module stored
 */

/** @typedef {{message: string, pattern: RegExp}} Stored */

const NUMBER = /^[−+-]?\d[\d,]*(\.\d+)?(e[−+-]?\d+)?$/;

/**
 * A message that is stored with its values.
 * @param {string} message in English
 * @returns {Stored}
 */
export function stored(message) {
  const source = message
    .split(/(\{\w+\})/)
    .map((part) => (/^\{\w+\}$/.test(part) ? `(?<${part.slice(1, -1)}>.+?)` : escaped(part)))
    .join("");
  return { message, pattern: new RegExp(`^${source}$`, "su") };
}

/** @param {string} text */
const escaped = (text) => text.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&");

/**
 * A stored text in the page's language.
 * @param {string} text in English
 * @param {Stored[]} known messages; of two that fit the first one counts
 * @param {Record<string, string>} [values] in the place of the text's own
 * @returns {string}
 */
export function wordsOf(text, known, values) {
  for (const { message, pattern } of known) {
    const match = pattern.exec(text);
    if (!match) continue;
    const own = Object.entries(match.groups ?? {}).map(([name, value]) => [
      name,
      NUMBER.test(value) ? value : wordsOf(value, known),
    ]);
    return filled(message, { ...Object.fromEntries(own), ...values });
  }
  return text; // the title of a method
}
