/**
 * Words that answers of several steps share, and words in the colour of a quantity.
 * @module learn/pieces
 */

/** @import { Piece } from "./types.d.ts" */
/** @typedef {Exclude<Piece, string>} Coloured */

/**
 * Words in the colour of a quantity.
 * @param {Coloured["role"]} role
 * @param {string} text
 * @returns {Coloured}
 */
export const piece = (role, text) => ({ role, text });

/**
 * What was guessed, before the answer.
 * @param {string} guess
 * @param {boolean} [isRight] said where it is
 */
export const guessed = (guess, isRight = false) => `${isRight ? `You said ${guess}: right.` : `You said ${guess}.`} `;

/**
 * A template literal whose values may be words in colour, or an answer of several pieces.
 * @param {TemplateStringsArray} texts
 * @param {...(Piece | Piece[])} values
 * @returns {Piece[]}
 */
export const words = (texts, ...values) => texts.flatMap((text, at) => [text, ...[values[at] ?? []].flat()]);
