/**
 * The receipt of a homework: plain lines to paste into a form, with a short hash that shows a slip of the keyboard. It proves
 * nothing about who wrote it, since anybody can compute it. Pure: no page, no request.
 * @module homework/receipt
 */

import { sha256 } from "../base/sha256.js";

const FIRST = "sarqc receipt 1";
const HASH = "check: ";
const LONGEST = 4000; // characters that are looked at

/** @typedef {{name: string, answer: string, isRight: boolean}} Answered */

/**
 * The receipt of a homework, in the page's language; its first line and the name of the last are the same in all.
 * @param {object} done
 * @param {string} done.label
 * @param {import("./answers.js").Facts} done.facts
 * @param {Answered[]} done.answered
 * @param {number} done.tries
 */
export function receiptOf({ label, facts, answered, tries }) {
  const { study, line, bits, gamma } = facts;
  const lines = [
    FIRST,
    ...(label ? [`task: ${label}`] : []),
    `study: ${study}`,
    gamma ? `set: ${line}, ${bits} bits, γ = ${gamma}` : `set: ${line}, ${bits} bits`,
    ...answered.map(({ name, answer, isRight }) =>
      isRight ? `${name}: ${answer}, right` : `${name}: ${answer}, not right`,
    ),
    `checked: ${tries} ${tries === 1 ? "time" : "times"}`,
  ];
  return [...lines, HASH + hashOf(lines)].join("\n");
}

/** Twelve digits of the hash, in groups. @param {string[]} lines */
const hashOf = (lines) => (sha256(lines.join("\n")).slice(0, 12).match(/.{4}/g) ?? []).join("-");

/**
 * Whether a pasted receipt is as it was written; spaces around lines and empty lines do not count.
 * @param {string} text
 * @returns {"empty" | "none" | "fits" | "differs"} none: this is not a receipt
 */
export function standingOf(text) {
  const lines = text
    .slice(0, LONGEST)
    .split(/\r?\n/)
    .map((line) => line.trim())
    .filter(Boolean);
  if (!lines.length) return "empty";
  const [first, last] = [lines.indexOf(FIRST), lines.findIndex((line) => line.startsWith(HASH))];
  if (first < 0 || last < first) return "none";
  return lines[last] === HASH + hashOf(lines.slice(first, last)) ? "fits" : "differs";
}

/** What is said of a pasted receipt. @type {Readonly<Record<ReturnType<typeof standingOf>, string>>} */
export const STANDINGS = {
  empty: "",
  none: "This is not a whole receipt: it begins with “sarqc receipt 1” and ends with “check:”.",
  fits: "The check fits: nothing was mistyped or lost. It does not show who wrote the receipt, since anybody can compute it.",
  differs: "The check does not fit: a character was changed or lost. Copy the receipt again.",
};
