/**
 * Numbers of a text that count from what they were to what they are, where the words around them stay the same.
 * @module counting
 */

import { isStill, onTheWay } from "../base/motion.js";

const DURATION = 200; // milliseconds
const NUMBER = /\d+(?:\.\d+)?/g;

/** @typedef {{node: Text, from: string, to: string}} Change of a piece of text */

/** @param {string} text */
const wordsOf = (text) => text.replace(NUMBER, "#");

/**
 * A text between two that differ in numbers alone, each with the decimals of the later one.
 * @param {string} from
 * @param {string} to
 * @param {number} share of the way, 0 to 1
 */
export function counted(from, to, share) {
  const before = from.match(NUMBER) ?? [];
  let at = 0;
  return to.replace(NUMBER, (after) => {
    const [was, is] = [before[at], after].map(Number);
    at += 1;
    return was === is ? after : (was + share * (is - was)).toFixed(after.split(".")[1]?.length ?? 0);
  });
}

/** @param {Node} place @returns {Text[]} */
function textsIn(place) {
  const walker = document.createTreeWalker(place, NodeFilter.SHOW_TEXT);
  /** @type {Text[]} */
  const texts = [];
  while (walker.nextNode()) texts.push(/** @type {Text} */ (walker.currentNode));
  return texts;
}

/**
 * Changes the texts in a place, and lets their numbers count. What is read aloud is the end of it.
 * @param {HTMLElement} place
 * @param {() => void} change puts the new texts there
 * @returns {() => void} ends the counting at the new texts
 */
export function count(place, change) {
  const before = textsIn(place).map(({ data }) => data);
  change();
  const now = textsIn(place);
  if (isStill() || before.length !== now.length) return () => {};
  const changes = now
    .map((node, at) => ({ node, from: before[at], to: node.data }))
    .filter(({ from, to }) => from !== to && wordsOf(from) === wordsOf(to));
  if (!changes.length) return () => {};
  const put = (/** @type {number} */ share) => {
    for (const { node, from, to } of changes) node.data = share < 1 ? counted(from, to, share) : to;
  };
  place.setAttribute("aria-busy", "true");
  put(0);
  const stop = onTheWay(DURATION, (share) => {
    put(share);
    if (share === 1) place.removeAttribute("aria-busy");
  });
  return () => {
    stop();
    put(1);
    place.removeAttribute("aria-busy");
  };
}
