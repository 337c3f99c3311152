/**
 * The ladder of a model while it is measured: the sentence, the steps as they stand, and at the end the run to follow. The
 * server draws; this asks for a new drawing after each step, one at a time.
 * @module ladder_card
 */

import { AT_REST } from "../base/contract.js";
import { copyPanel } from "../base/copy_panel.js";
import { html, nothing, render } from "../base/html.js";
import { afterLadder } from "./ladder_form.js";
import { beginRun, drawSentence, standing } from "./standing.js";

/** @import { LadderRun, LadderView as Sent } from "../base/types.d.ts" */
/** @import { Figure } from "../charts/bind.js" */
/** @import { Run } from "./run_state.js" */
/** @import { Corpus } from "./tune_form.js" */
/** @typedef {Omit<Sent, "figure"> & {figure: Figure}} LadderView */

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
  const standings = standing({ name: "ladder", draw, trouble: next });
  const texts = copyPanel("rung", "Its recipe, to run elsewhere");
  /** @type {Run | null} */
  let run = null;
  let mayRun = false;

  /**
   * Shows a ladder as its events have told it so far.
   * @param {Run} which
   * @param {LadderRun | null} ladder
   * @param {boolean} isTheirs whether who looks at it may go on with it
   */
  function show(which, ladder, isTheirs) {
    const isOther = which.id !== run?.id;
    [run, mayRun] = [which, isTheirs];
    root.classList.add("is-shown");
    if (isOther) begin();
    if (!ladder) render(AT_REST.includes(which.state) ? NOTHING : SOON, words);
    standings.follow(which.id, ladder);
  }

  function begin() {
    root.classList.add("is-empty"); // a figure with nothing in it is not shown
    for (const place of [words, small, next]) render(nothing, place);
    texts.show(null);
    standings.host();
  }

  /** @param {LadderView} answer */
  async function draw(answer) {
    root.classList.toggle("is-empty", !answer.figure.data.length);
    drawSentence(answer.sentence, words);
    render(answer.small_print.join(" "), small);
    const after = afterLadder(answer.ladder, corpora);
    render(after ? toFollow(after) : nothing, next);
    texts.show(after?.recipe ?? null);
    (await standings.host()).show(answer.figure);
  }

  /** What the ladder leads to, ready to be begun. @param {NonNullable<ReturnType<typeof afterLadder>>} after */
  const toFollow = ({ recipe, lead, button }) => html`<div class="tuning-next" data-testid="after-ladder">
      <p>${lead}</p>
      ${
        mayRun
          ? html`<button type="button" class="act" data-testid="run-rung"
              @click=${(/** @type {Event} */ event) => beginRun(event, recipe, next, go)}>${button}</button>`
          : nothing
      }
      ${texts.element}
      <div data-part="trouble"></div>
    </div>`;

  function close() {
    run = null;
    standings.close();
    root.classList.remove("is-shown");
  }

  return { show, close, clock: part("clock"), recipe: part("recipe"), end: part("end") };
}
