/**
 * The results of a tuning run while it goes on: the sentence, the race of λ, the log, and at the end the runs to follow.
 * The server draws; this asks for a new drawing after each step, one at a time.
 * @module tuning_card
 */

import { request } from "../base/client.js";
import { AT_REST } from "../base/contract.js";
import { copyPanel } from "../base/copy_panel.js";
import { duration } from "../base/format.js";
import { html, nothing, render } from "../base/html.js";
import { beginRun, drawSentence, standing } from "./standing.js";
import { moreOf, nextOf } from "./tune_form.js";
import { clock } from "./tuning_bar.js";

/** @import { Plan, Tuning, TuningView as Sent } from "../base/types.d.ts" */
/** @import { Figure } from "../charts/bind.js" */
/** @import { Said } from "./recipe_form.js" */
/** @import { Run } from "./run_state.js" */
/** @import { Corpus } from "./tune_form.js" */
/** @typedef {Omit<Sent, "figure"> & {figure: Figure}} TuningView */

const SOON = "First the errors of layers are compared, for every λ and γ.";
const NOTHING = "It ended before anything was compared: no λ is known.";

/**
 * @param {object} options
 * @param {HTMLElement} options.root the column with the chart
 * @param {readonly Corpus[]} options.corpora that this host has
 * @param {(id: string) => void} options.go shows a run that was begun
 */
export function tuningCard({ root, corpora, go }) {
  const part = (/** @type {string} */ name) =>
    /** @type {HTMLElement} */ (root.querySelector(`[data-part="tuning-${name}"]`));
  const [words, small, legend, log, next] = ["sentence", "small-print", "legend", "log", "next"].map(part);
  const standings = standing({ name: "tuning", draw, trouble: next });
  const texts = copyPanel("following", "Its recipe, to run elsewhere");
  /** @type {Run | null} */
  let run = null;
  /** @type {TuningView | null} */
  let view = null;
  let mayRun = false;
  let heard = (/** @type {string} */ _words) => {};
  /** @type {{of: string, minutes: number | null} | null} planned time of a recipe to follow */
  let planned = null;

  /**
   * Shows a tuning run as its events have told it so far.
   * @param {Run} which
   * @param {Tuning | null} tuning
   * @param {boolean} isTheirs whether who looks at it may go on with it
   * @param {(words: string) => void} drawn hears how far it is, with each drawing
   */
  function show(which, tuning, isTheirs, drawn) {
    const isOther = which.id !== run?.id;
    [run, mayRun, heard] = [which, isTheirs, drawn];
    root.classList.add("is-shown");
    if (isOther) begin();
    if (!tuning) render(AT_REST.includes(which.state) ? NOTHING : SOON, words);
    standings.follow(which.id, tuning);
  }

  async function begin() {
    [view, planned] = [null, null];
    root.classList.add("is-empty"); // a chart with nothing in it is not shown
    for (const place of [words, small, legend, log, next]) render(nothing, place);
    texts.show(null);
    const host = await standings.host();
    host.flat?.clear(); // marks of another run are not those of this one
  }

  /** @param {TuningView} answer */
  async function draw(answer) {
    view = answer;
    root.classList.remove("is-empty");
    drawSentence(answer.sentence, words);
    render(answer.small_print.join(" "), small);
    render(
      answer.legend.map(
        ({ mark, text }) => html`<li><i class=${`mark mark-${mark}`} aria-hidden="true"></i>${text}</li>`,
      ),
      legend,
    );
    render(
      answer.log.map(({ seconds, text }) => html`<li><time>${clock(seconds)}</time><span>${text}</span></li>`),
      log,
    );
    drawNext(answer);
    heard(answer.standing);
    texts.show(nextOf(answer.tuning, corpora)?.recipe ?? null);
    (await standings.host()).show(answer.figure);
  }

  /** @param {TuningView} answer */
  function drawNext({ tuning }) {
    const after = nextOf(tuning, corpora);
    const more = run && moreOf(tuning, run.recipe);
    render(after ? toFollow(after, more) : nothing, next);
    if (after && mayRun && tuning.next !== "go_on") plan(after.recipe);
  }

  /** Asks once how long a recipe takes; without an answer no time is said. @param {Said} recipe */
  async function plan(recipe) {
    const of = JSON.stringify(recipe);
    if (planned?.of === of) return;
    planned = { of, minutes: null };
    /** @type {Plan | null} */
    const answer = await request("/plan", { method: "POST", body: recipe }).catch(() => null);
    if (planned?.of !== of || !answer || !view) return;
    planned = { of, minutes: answer.minutes };
    drawNext(view);
  }

  /** “about 40 s, opens in the Lab”. @param {Said} recipe */
  function timeWords(recipe) {
    const minutes = planned?.of === JSON.stringify(recipe) ? planned.minutes : null;
    return `${minutes === null ? "" : `about ${duration(60 * minutes)}, `}its result opens in the Lab`;
  }

  /**
   * What tuning leads to, ready to be begun.
   * @param {NonNullable<ReturnType<typeof nextOf>>} after
   * @param {ReturnType<typeof moreOf>} more
   */
  const toFollow = ({ recipe, lead, button, isMain }, more) => html`<div class="tuning-next" data-testid="following">
      ${
        mayRun
          ? html`${start(recipe, button, recipe.kind === "tune" ? "" : timeWords(recipe), isMain ? "act" : "act-quiet", "run-it")}
            ${more ? start(more.recipe, more.button, "what is measured is kept", "act-quiet", "go-on") : nothing}`
          : nothing
      }
      <p>${lead}</p>
      ${texts.element}
      <div data-part="trouble"></div>
    </div>`;

  /**
   * A button that begins a run, with a second line.
   * @param {Said} recipe
   * @param {string} name
   * @param {string} about
   * @param {string} kind
   * @param {string} testid
   */
  const start = (recipe, name, about, kind, testid) =>
    html`<button type="button" class=${`${kind} act-large`} data-testid=${testid}
      @click=${(/** @type {Event} */ event) => beginRun(event, recipe, next, go)}><span>${name}</span>${
        about ? html`<small>${about}</small>` : nothing
      }</button>`;

  function close() {
    run = null;
    standings.close();
    root.classList.remove("is-shown");
  }

  return { show, close, clock: part("clock"), recipe: part("recipe"), end: part("end") };
}
