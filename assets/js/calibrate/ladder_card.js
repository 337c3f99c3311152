/**
 * The ladder of a model while it is measured: the sentence, the steps as they stand, and at the end the run to follow. The
 * server draws; this asks for a new drawing after each step, one at a time.
 * @module ladder_card
 */

import { asProblem, request } from "../base/client.js";
import { AT_REST } from "../base/contract.js";
import { copyPanel } from "../base/copy_panel.js";
import { html, nothing, render } from "../base/html.js";
import { problemBlock } from "../base/problem.js";
import { figureMenu } from "../charts/figure_menu.js";
import { plot } from "../charts/plot_host.js";
import { afterLadder } from "./ladder_form.js";

/** @import { LadderRun, LadderView as Sent } from "../base/types.d.ts" */
/** @import { Figure } from "../charts/bind.js" */
/** @import { PlotHost } from "../charts/plot_host.js" */
/** @import { Said } from "./recipe_form.js" */
/** @import { Run } from "./run_state.js" */
/** @import { Corpus } from "./tune_form.js" */
/** @typedef {Omit<Sent, "figure"> & {figure: Figure}} LadderView */

const EVERY_MS = 800; // between two drawings
const FIRST = { gamma: 0, lambda: 0 };
const SOON = "First the float model is measured; then each step, draw by draw.";
const NOTHING = "It ended before anything was measured.";

/**
 * @param {object} options
 * @param {HTMLElement} options.root the column with the figure
 * @param {readonly Corpus[]} options.corpora that this host has
 * @param {(id: string) => void} options.go shows a run that was begun
 */
export function ladderCard({ root, corpora, go }) {
  const part = (/** @type {string} */ name) =>
    /** @type {HTMLElement} */ (root.querySelector(`[data-part="ladder-${name}"]`));
  const [words, small, next] = ["sentence", "small-print", "next"].map(part);
  const texts = copyPanel("rung", "Its recipe, to run elsewhere");
  /** @type {Run | null} */
  let run = null;
  /** @type {LadderRun | null} what the events have told last */
  let told = null;
  /** @type {LadderRun | null} what is drawn */
  let drawn = null;
  /** @type {LadderView | null} */
  let view = null;
  let isAsking = false;
  let mayRun = false;
  /** @type {PlotHost | null} */
  let host = null;

  /**
   * Shows a ladder as its events have told it so far.
   * @param {Run} which
   * @param {LadderRun | null} ladder
   * @param {boolean} isTheirs whether who looks at it may go on with it
   */
  function show(which, ladder, isTheirs) {
    const isOther = which.id !== run?.id;
    [run, told, mayRun] = [which, ladder, isTheirs];
    root.classList.add("is-shown");
    if (isOther) begin();
    if (!ladder) render(AT_REST.includes(which.state) ? NOTHING : SOON, words);
    follow();
  }

  async function begin() {
    [drawn, view] = [null, null];
    root.classList.add("is-empty"); // a figure with nothing in it is not shown
    for (const place of [words, small, next]) render(nothing, place);
    texts.show(null);
    if (host) return;
    host = await plot("ladder");
    figureMenu(host, {
      file: () => `ladder-${run?.id ?? ""}`,
      table: () => view?.table ?? { columns: [], rows: [] },
    });
  }

  /** Asks until what is drawn is what was told last. */
  async function follow() {
    if (isAsking) return;
    isAsking = true;
    while (run && told && told !== drawn) {
      const [id, mine] = [run.id, told];
      try {
        /** @type {LadderView | null} */
        const answer = await request(`/runs/${encodeURIComponent(id)}/ladder`);
        if (run?.id !== id) continue;
        drawn = mine;
        if (answer) await draw(answer);
      } catch (error) {
        drawn = mine; // the next step asks again
        if (run?.id === id) render(problemBlock(asProblem(error)), next);
      }
      await new Promise((resolve) => setTimeout(resolve, EVERY_MS));
    }
    isAsking = false;
  }

  /** @param {LadderView} answer */
  async function draw(answer) {
    view = answer;
    root.classList.toggle("is-empty", !answer.figure.data.length);
    const said = answer.sentence.map(({ text }) => text).join("");
    if (words.textContent !== said)
      render(
        answer.sentence.map(({ text, role, verdict }) =>
          role ? html`<strong class=${verdict ? "verdict" : `role-${role}`}>${text}</strong>` : text,
        ),
        words,
      );
    render(answer.small_print.join(" "), small);
    const after = afterLadder(answer.ladder, corpora);
    render(after ? toFollow(after) : nothing, next);
    texts.show(after?.recipe ?? null);
    await (host ?? (await plot("ladder"))).show(answer.figure, FIRST);
  }

  /** What the ladder leads to, ready to be begun. @param {NonNullable<ReturnType<typeof afterLadder>>} after */
  const toFollow = ({ recipe, lead, button }) => html`<div class="tuning-next" data-testid="after-ladder">
      <p>${lead}</p>
      ${
        mayRun
          ? html`<button type="button" class="act" data-testid="run-rung"
              @click=${(/** @type {Event} */ event) => begun(event, recipe)}>${button}</button>`
          : nothing
      }
      ${texts.element}
      <div data-part="trouble"></div>
    </div>`;

  /** @param {Event} event @param {Said} recipe */
  async function begun(event, recipe) {
    const button = /** @type {HTMLButtonElement} */ (event.currentTarget);
    const trouble = /** @type {HTMLElement} */ (next.querySelector('[data-part="trouble"]'));
    button.disabled = true;
    try {
      const made = await request("/runs", { method: "POST", body: recipe });
      go(made.id);
    } catch (error) {
      render(problemBlock(asProblem(error), "refusal"), trouble);
    } finally {
      button.disabled = false;
    }
  }

  function close() {
    run = told = null;
    root.classList.remove("is-shown");
  }

  return { show, close, clock: part("clock"), recipe: part("recipe"), end: part("end") };
}
