/**
 * What a key says to the tour: keyboards and presenters' remotes, which send PageDown and PageUp, or arrows.
 * @module lecture/remote_keys
 */

/** @typedef {"on"|"back"|"fill"|"black"|"notes"|"code"} Meaning on: the answer, then the next step; code: to be scanned */
/** @typedef {Pick<KeyboardEvent, "key"|"shiftKey"|"altKey"|"ctrlKey"|"metaKey"|"defaultPrevented"|"target">} Pressed */

/** @type {Object<string, Meaning>} */
const KEYS = {
  ArrowRight: "on",
  ArrowLeft: "back",
  PageDown: "on",
  PageUp: "back",
  " ": "on",
  f: "fill",
  b: "black",
  ".": "black", // as some remotes say it
  n: "notes",
  q: "code",
};
const WRITTEN = "input:not([type=range]), select, textarea, [contenteditable]";
const ASIDE = "dialog, [popover]"; // over the tour
/** Who needs an arrow or space for itself. @type {Object<string, string>} */
const OWNERS = {
  ArrowRight: "input[type=range], [role=slider]",
  ArrowLeft: "input[type=range], [role=slider]",
  " ": "button, summary, a, [role=checkbox], .table-scroll",
};

const MEANINGS = new Set(Object.values(KEYS));

/**
 * Whether something from another window is one of the meanings.
 * @param {unknown} word
 * @returns {word is Meaning}
 */
export const isMeaning = (word) => MEANINGS.has(/** @type {Meaning} */ (word));

/**
 * What a key means, or null where it belongs to something else.
 * @param {Pressed} event
 * @returns {Meaning|null}
 */
export function meaningOf(event) {
  if (event.defaultPrevented || event.altKey || event.ctrlKey || event.metaKey) return null;
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const meaning = Object.hasOwn(KEYS, key) ? KEYS[key] : null;
  if (meaning === null) return null;
  const focused = /** @type {Partial<Element>|null} */ (event.target); // the document has no closest
  const within = (/** @type {string|undefined} */ selector) => Boolean(selector && focused?.closest?.(selector));
  if (within(WRITTEN) || within(ASIDE)) return null;
  if (within(OWNERS[key])) return null;
  if (!event.shiftKey) return meaning;
  return key === " " ? "back" : key.startsWith("Arrow") ? null : meaning;
}
