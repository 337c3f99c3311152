/**
 * Learned rounding with early stopping over its steps, as far as the blocks of a run are done: the server draws, and is
 * asked again after each block. A run without it shows nothing.
 * @module rounding_card
 */

import { nothing, render } from "../base/html.js";
import { figureMenu } from "../charts/figure_menu.js";
import { plot } from "../charts/plot_host.js";
import { standing } from "./standing.js";

/** @import { RoundingView as Sent } from "../base/types.d.ts" */
/** @import { Figure } from "../charts/bind.js" */
/** @import { PlotHost } from "../charts/plot_host.js" */
/** @typedef {Omit<Sent, "figure"> & {figure: Figure}} RoundingView */

const FIRST = { gamma: 0, lambda: 0 };

/** @param {HTMLElement} root the column with the figure */
export function roundingCard(root) {
  const [words, trouble] = ["words", "trouble"].map(
    (name) => /** @type {HTMLElement} */ (root.querySelector(`[data-part="rounding-${name}"]`)),
  );
  const standings = standing({ name: "rounding", draw, trouble });
  let id = "";
  /** @type {RoundingView | null} */
  let view = null;
  /** @type {PlotHost | null} */
  let host = null;

  /** @param {RoundingView} answer */
  async function draw(answer) {
    view = answer;
    root.classList.add("is-shown"); // a figure that is not shown has no size
    render(answer.words.join(" "), words);
    if (!host) {
      host = await plot("rounding");
      figureMenu(host, { file: () => `rounding-${id}`, table: () => view?.table ?? { columns: [], rows: [] } });
    }
    await host.show(answer.figure, FIRST);
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
    view = null;
    root.classList.remove("is-shown");
    for (const place of [words, trouble]) render(nothing, place);
  }
}
