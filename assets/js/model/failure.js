/**
 * What can be wrong with a model's files. A worker throws it in English, for it has no page; the page says it in its own
 * language.
 * @module model/failure
 */

import { tr } from "../base/messages.js";

/** @typedef {import("../base/messages.js").Values} Values */
/** @typedef {{reason: keyof typeof WORDS, values: Values}} Told what a worker tells the page of it */

const WORDS = {
  /** @param {Values} values */
  header: (values) => tr("{name} can’t be read: its header is cut off.", values),
  /** @param {Values} values */
  tensor: (values) => tr("{name} can’t be read: {tensor} is cut off.", values),
  /** @param {Values} values */
  missing: (values) => tr("{name} can’t be read: it is missing.", values),
  /** @param {Values} values */
  kind: (values) => tr("{name} can’t be read: it is {found} in place of {wanted}.", values),
  /** @param {Values} values */
  unlisted: (values) => tr("{name} is not among the model’s files.", values),
  /** @param {Values} values */
  refused: (values) => tr("{name} can’t be fetched: the server answered {status}.", values),
  /** @param {Values} values */
  more: (values) => tr("{name} has more bytes than it should.", values),
  /** @param {Values} values */
  fewer: (values) => tr("{name} is cut off: {have} of {bytes} bytes arrived.", values),
  /** @param {Values} values */
  config: (values) => tr("This page can’t run the model: {name} is {value}, not {wanted}.", values),
  /** @param {Values} values */
  rope: (values) => tr("This page can’t run the model: rope_type is {value}.", values),
};

/** @param {Told} told */
export const worded = ({ reason, values }) => WORDS[reason](values);

export class Failure extends Error {
  /** @param {Told["reason"]} reason @param {Values} values */
  constructor(reason, values) {
    super(worded({ reason, values }));
    /** @type {Told} */
    this.told = { reason, values };
  }
}
