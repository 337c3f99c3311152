/**
 * What a tuning run has found out, drawn while it finds it out: the sentence, the chart, and at the end the run to follow.
 * The server draws; this asks for a new drawing after each step, one at a time.
 * @module tuning_card
 */

import { asProblem, request } from "../base/client.js";
import { AT_REST } from "../base/contract.js";
import { copyPanel } from "../base/copy_panel.js";
import { html, nothing, render } from "../base/html.js";
import { problemBlock } from "../base/problem.js";
import { figureMenu } from "../charts/figure_menu.js";
import { plot } from "../charts/plot_host.js";
import { nextOf } from "./tune_form.js";

/** @import { Tuning, TuningView as Sent } from "../base/types.d.ts" */
/** @import { Figure } from "../charts/bind.js" */
/** @import { PlotHost } from "../charts/plot_host.js" */
/** @import { Said } from "./recipe_form.js" */
/** @import { Run } from "./run_state.js" */
/** @import { Corpus } from "./tune_form.js" */
/** @typedef {Omit<Sent, "figure"> & {figure: Figure}} TuningView */

const EVERY_MS = 800; // between two drawings
const FIRST = { gamma: 0, lambda: 0 };
const SOON = "First the errors of layers are compared, for every λ and γ; the chart begins with them.";
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
  const [words, small, next] = ["sentence", "small-print", "next"].map(part);
  const texts = copyPanel("following", "Its recipe, to run elsewhere");
  /** @type {Run | null} */
  let run = null;
  /** @type {Tuning | null} what the events have told last */
  let told = null;
  /** @type {Tuning | null} what is drawn */
  let drawn = null;
  /** @type {TuningView | null} */
  let view = null;
  let isAsking = false;
  let mayRun = false;
  /** @type {PlotHost | null} */
  let host = null;

  /**
   * Shows a tuning run as its events have told it so far.
   * @param {Run} which
   * @param {Tuning | null} tuning
   * @param {boolean} isTheirs whether who looks at it may go on with it
   */
  function show(which, tuning, isTheirs) {
    const isOther = which.id !== run?.id;
    [run, told, mayRun] = [which, tuning, isTheirs];
    root.classList.add("is-shown");
    if (isOther) begin();
    if (!tuning) render(AT_REST.includes(which.state) ? NOTHING : SOON, words);
    follow();
  }

  async function begin() {
    [drawn, view] = [null, null];
    root.classList.add("is-empty"); // a chart with nothing in it is not shown
    for (const place of [words, small, next]) render(nothing, place);
    texts.show(null);
    if (!host) {
      host = await plot("tuning");
      figureMenu(host, {
        file: () => `tuning-${run?.id ?? ""}`,
        table: () => view?.table ?? { columns: [], rows: [] },
      });
    }
  }

  /** Asks until what is drawn is what was told last. */
  async function follow() {
    if (isAsking) return;
    isAsking = true;
    while (run && told && told !== drawn) {
      const [id, mine] = [run.id, told];
      try {
        /** @type {TuningView | null} */
        const answer = await request(`/runs/${encodeURIComponent(id)}/tuning`);
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

  /** @param {TuningView} answer */
  async function draw(answer) {
    view = answer;
    root.classList.remove("is-empty");
    const said = answer.sentence.map(({ text }) => text).join("");
    if (words.textContent !== said)
      render(
        answer.sentence.map(({ text, role, verdict }) =>
          role ? html`<strong class=${verdict ? "verdict" : `role-${role}`}>${text}</strong>` : text,
        ),
        words,
      );
    render(answer.small_print.join(" "), small);
    const after = nextOf(answer.tuning, corpora);
    render(after ? toFollow(after) : nothing, next);
    texts.show(after?.recipe ?? null);
    await (host ?? (await plot("tuning"))).show(answer.figure, FIRST);
  }

  /** What tuning leads to, ready to be begun. @param {NonNullable<ReturnType<typeof nextOf>>} after */
  const toFollow = ({ recipe, lead, button, isMain }) => html`<div class="tuning-next" data-testid="following">
      <p>${lead}</p>
      ${
        mayRun
          ? html`<button type="button" class=${isMain ? "act" : "act-quiet"} data-testid="run-it"
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

  return { show, close, recipe: part("recipe"), end: part("end") };
}
