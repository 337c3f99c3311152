/**
 * The page's side of the worker that runs a model.
 * @module model/remote
 */

import { WORKER } from "../base/contract.js";

/** @import { Files } from "./session.js" */
/** @import { Answer, Place } from "./worker.js" */

/** A worker with a model, from its start to its end. */
export class RemoteModel {
  /**
   * @param {{places: Place[], first: Place[]}} files
   * @param {(answer: Answer) => void} hear
   */
  constructor(files, hear) {
    this.number = 0; // of the last request
    // Beside the script of the page, of which this module is a part.
    this.worker = new Worker(new URL(WORKER, import.meta.url), { type: "module" });
    this.worker.onmessage = (/** @type {MessageEvent<Answer>} */ { data }) => hear(data);
    this.worker.onerror = ({ message }) =>
      hear({
        kind: "failed",
        number: null,
        what: message
          ? `The model can’t be started: ${message}.`
          : "The model can’t be started: its script did not load.",
      });
    this.worker.postMessage({ kind: "open", ...files });
  }

  /** Makes further files known. @param {Place[]} places */
  add(places) {
    this.worker.postMessage({ kind: "add", places });
  }

  /** @param {string} text @param {Files} files @returns {number} of the request */
  ask(text, files) {
    this.number += 1;
    this.worker.postMessage({ kind: "ask", number: this.number, text, files });
    return this.number;
  }

  /** @param {Files} files @returns {number} of the request */
  search(files) {
    this.number += 1;
    this.worker.postMessage({ kind: "search", number: this.number, files });
    return this.number;
  }

  close() {
    this.worker.terminate();
  }
}
