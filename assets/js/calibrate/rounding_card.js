/**
 * Learned rounding with early stopping over its steps, as far as the blocks of a run are done: the server draws, and is
 * asked again after each block. A run without it shows nothing.
 * @module rounding_card
 */

import { nothing, render } from "../base/html.js";
import { standing } from "./standing.js";

/** @import { RoundingView as Sent } from "../base/types.d.ts" */
/** @import { Figure } from "../charts/bind.js" */
/** @typedef {Omit<Sent, "figure"> & {figure: Figure}} RoundingView */

/** @param {HTMLElement} root the column with the figure */
export function roundingCard(root) {
  const [words, trouble] = ["words", "trouble"].map(
    (name) => /** @type {HTMLElement} */ (root.querySelector(`[data-part="rounding-${name}"]`)),
  );
  const standings = standing({ name: "rounding", draw, trouble });
  let id = "";

  /** @param {RoundingView} answer */
  async function draw(answer) {
    root.classList.add("is-shown"); // a figure that is not shown has no size
    render(answer.words.join(" "), words);
    (await standings.host()).show(answer.figure);
  }

  return {
    /** Shows a run. @param {string} run @param {object | null} rounded another object after each of its blocks */
    show(run, rounded) {
      if (run !== id) begin();
      id = run;
      if (rounded) standings.follow(run, rounded);
    },
    close() {
      id = "";
      standings.close();
      begin();
    },
  };

  function begin() {
    root.classList.remove("is-shown");
    for (const place of [words, trouble]) render(nothing, place);
  }
}
