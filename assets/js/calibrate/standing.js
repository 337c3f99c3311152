/**
 * What the cards of a tuning run, of a ladder and of learned rounding share: the server draws where a run stands, after
 * each step anew.
 * @module standing
 */

import { asProblem, request } from "../base/client.js";
import { html, render } from "../base/html.js";
import { problemBlock } from "../base/problem.js";
import { figureMenu } from "../charts/figure_menu.js";
import { plot } from "../charts/plot_host.js";

/** @import { Piece } from "../base/types.d.ts" */
/** @import { Numbers } from "../charts/figure_menu.js" */
/** @import { PlotHost } from "../charts/plot_host.js" */
/** @import { Said } from "./recipe_form.js" */

const EVERY_MS = 800; // between two drawings

/**
 * Asks for a standing until the newest one is drawn, one request at a time.
 * @template {{table: Numbers}} View
 * @param {object} options
 * @param {string} options.name of the standing, below the address of a run, and of its plot
 * @param {(answer: View) => Promise<void>} options.draw
 * @param {HTMLElement} options.trouble where an error is shown
 */
export function standing({ name, draw, trouble }) {
  let id = "";
  /** @type {object | null} the newest by the events of the run */
  let newest = null;
  /** @type {object | null} */
  let drawn = null;
  let isAsking = false;
  /** @type {View | null} the last answer about the run */
  let view = null;
  /** @type {Promise<PlotHost> | null} */
  let host = null;

  async function ask() {
    if (isAsking) return;
    isAsking = true;
    while (newest && newest !== drawn) {
      const [run, asked] = [id, newest];
      try {
        /** @type {View | null} */
        const answer = await request(`/runs/${encodeURIComponent(run)}/${name}`);
        if (id !== run) continue;
        drawn = asked;
        view = answer;
        if (answer) await draw(answer);
      } catch (error) {
        drawn = asked; // the next step asks again
        if (id === run) render(problemBlock(asProblem(error)), trouble);
      }
      await new Promise((resolve) => setTimeout(resolve, EVERY_MS));
    }
    isAsking = false;
  }

  async function begun() {
    const made = await plot(name);
    figureMenu(made, { file: () => `${name}-${id}`, table: () => view?.table ?? { columns: [], rows: [] } });
    return made;
  }

  return {
    /** Follows a run. @param {string} run @param {object | null} told its newest standing */
    follow(run, told) {
      if (run !== id) drawn = view = null;
      [id, newest] = [run, told];
      ask();
    },
    close() {
      [id, newest] = ["", null];
    },
    /** The plot, which has its menu. */
    host() {
      host ??= begun();
      return host;
    },
  };
}

/**
 * Draws the sentence of a standing where it is another one: it is read out when it changes.
 * @param {Piece[]} pieces
 * @param {HTMLElement} place
 */
export function drawSentence(pieces, place) {
  if (place.textContent === pieces.map(({ text }) => text).join("")) return;
  render(
    pieces.map(({ text, role, verdict }) =>
      role ? html`<strong class=${verdict ? "verdict" : `role-${role}`}>${text}</strong>` : text,
    ),
    place,
  );
}

/**
 * Begins a run by a press on a button, which rests until the answer is there.
 * @param {Event} event of the button
 * @param {Said} recipe
 * @param {HTMLElement} card in which a part “trouble” is for a refusal
 * @param {(id: string) => void} go
 */
export async function beginRun({ currentTarget }, recipe, card, go) {
  const button = /** @type {HTMLButtonElement} */ (currentTarget);
  const trouble = /** @type {HTMLElement} */ (card.querySelector('[data-part="trouble"]'));
  button.disabled = true;
  try {
    go((await request("/runs", { method: "POST", body: recipe })).id);
  } catch (error) {
    render(problemBlock(asProblem(error), "refusal"), trouble);
  } finally {
    button.disabled = false;
  }
}
