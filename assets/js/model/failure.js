/**
 * What can be wrong with a model's files: a worker throws it, and the page shows it.
 * @module model/failure
 */

/** @typedef {Record<string, string | number>} Values */
/** @typedef {{reason: keyof typeof WORDS, values: Values}} Told what a worker tells the page of it */

const WORDS = {
  /** @param {Values} values */
  header: (values) => `${values.name} can’t be read: its header is cut off.`,
  /** @param {Values} values */
  tensor: (values) => `${values.name} can’t be read: ${values.tensor} is cut off.`,
  /** @param {Values} values */
  missing: (values) => `${values.name} can’t be read: it is missing.`,
  /** @param {Values} values */
  kind: (values) => `${values.name} can’t be read: it is ${values.found} in place of ${values.wanted}.`,
  /** @param {Values} values */
  unlisted: (values) => `${values.name} is not among the model’s files.`,
  /** @param {Values} values */
  refused: (values) => `${values.name} can’t be fetched: the server answered ${values.status}.`,
  /** @param {Values} values */
  more: (values) => `${values.name} has more bytes than it should.`,
  /** @param {Values} values */
  fewer: (values) => `${values.name} is cut off: ${values.have} of ${values.bytes} bytes arrived.`,
  /** @param {Values} values */
  config: (values) => `This page can’t run the model: ${values.name} is ${values.value}, not ${values.wanted}.`,
  /** @param {Values} values */
  rope: (values) => `This page can’t run the model: rope_type is ${values.value}.`,
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
