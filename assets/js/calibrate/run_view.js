/**
 * One run, drawn from its events: the matrix of layers filling up, where it stands, its log, and at the end the report
 * card with the study's own figures.
 * @module run_view
 */

import { asProblem, listen, offline, request } from "../base/client.js";
import { AT_REST } from "../base/contract.js";
import { count, duration, when } from "../base/format.js";
import { html, nothing, render, repeat } from "../base/html.js";
import { store } from "../base/page_state.js";
import { problemBlock } from "../base/problem.js";
import { calibrateLink } from "../base/recipe_address.js";
import { AS_FOUND, METHODS, RECIPE_FIELDS } from "../base/recipe_contract.js";
import { shareLink } from "../base/share_link.js";
import { at } from "../base/site.js";
import { stateChip } from "../base/state_chip.js";
import { mayChange, mayShare } from "../base/whoami.js";
import { curvesPart } from "../explorer/curves_part.js";
import { expertsPart } from "../explorer/experts_part.js";
import { Explorer } from "../explorer/explorer.js";
import { numbersPart } from "../explorer/numbers_part.js";
import { slidersPart } from "../explorer/sliders_part.js";
import { theoremPart } from "../explorer/theorem_part.js";
import { weightsPart } from "../explorer/weights_part.js";
import { wordsPart } from "../explorer/words_part.js";
import { exportsCard } from "./exports_card.js";
import { keptWords } from "./kept.js";
import { describe, saidBeside, valuesOf } from "./recipe_form.js";
import { candidateStrip, recipeCard, reportCard } from "./report.js";
import { runMatrix } from "./run_matrix.js";
import * as State from "./run_state.js";
import { tuningFields } from "./tune_form.js";
import { budgetWords, drawsWords, modelsWords, share as shareOf, standing } from "./tuning_progress.js";

/** @import { Trouble } from "../base/problem.js" */
/** @import { Visitor } from "../base/whoami.js" */
/** @import { Run, RunProgress } from "./run_state.js" */
/** @import { Recipe, Tuning } from "../base/types.d.ts" */

/**
 * What the card shows.
 * @typedef {object} Shown
 * @property {string | null} id of the run that is open
 * @property {Run | null} run its row, once it is there
 * @property {RunProgress} said what its events say
 * @property {Trouble | null} trouble the last request's
 * @property {boolean} isLost whether the stream is silent
 * @property {string | null} before what the run does that it waits for
 * @property {number | null} block whose experts were chosen to be shown
 * @property {readonly string[]} unfolded titles of the report's folds that were opened
 */
/**
 * @typedef {{type: "opened", id: string} | {type: "closed"} | {type: "row", run: Run, before: string | null}
 *   | {type: "said", event: import("../base/types.d.ts").StoredEvent} | {type: "stream", isLost: boolean}
 *   | {type: "trouble", error: Trouble} | {type: "unfolded", title: string} | {type: "block", block: number}} Action
 */

const POLL_MS = 1500;
const ROOM_FOR_LOG = "(min-width: 901px)"; // beside the report; below that width the texts come first

/** @returns {Shown} */
const nothingYet = () => ({
  id: null,
  run: null,
  said: State.initial(),
  trouble: null,
  isLost: false,
  before: null,
  block: null,
  unfolded: [],
});

/**
 * What the card shows after something has happened. Pure.
 * @param {Shown} shown
 * @param {Action} action
 * @returns {Shown}
 */
export function reduce(shown, action) {
  switch (action.type) {
    case "opened":
      return { ...nothingYet(), id: action.id };
    case "closed":
      return nothingYet();
    case "row":
      return { ...shown, run: action.run, before: action.before, isLost: false, trouble: null };
    case "said":
      return withSaid(shown, State.reduce(shown.said, action.event));
    case "stream":
      // A stream that has said its last word is closed by the server.
      return { ...shown, isLost: action.isLost && !isOver(shown) };
    case "trouble":
      return { ...shown, trouble: action.error };
    case "block":
      return { ...shown, block: action.block };
    case "unfolded":
      return shown.unfolded.includes(action.title) ? shown : { ...shown, unfolded: [...shown.unfolded, action.title] };
  }
}

/**
 * Another attempt begins with layers of its own.
 * @param {Shown} shown
 * @param {RunProgress} said
 */
const withSaid = (shown, said) => ({ ...shown, said, block: said.layers === shown.said.layers ? shown.block : null });

/** @param {Shown} shown */
const isOver = ({ run, said }) => isAtRest(run?.state) || isAtRest(said.ended);

/** @param {string | null | undefined} state */
const isAtRest = (state) => AT_REST.some((one) => one === state);

/** @param {string} id */
const pathOf = (id) => `/runs/${encodeURIComponent(id)}`;

/**
 * The cards of a run.
 * @param {object} options
 * @param {HTMLElement} options.card
 * @param {HTMLElement} options.recipeCard
 * @param {HTMLElement} options.logCard
 * @param {HTMLElement} options.study the figures of the run's study
 * @param {ReturnType<typeof import("./tuning_card.js").tuningCard>} options.tuning what a tuning run has found out
 * @param {string[]} options.names fields of a recipe in the order of the form
 * @param {(summary: Record<string, any> | null) => void} options.measured hears the summary of a finished run, or null
 * @param {() => void} options.leave goes back to the plan
 * @param {Visitor | null} options.who looks at it; null where the server did not say
 */
export function runView({ card, recipeCard: recipePlace, logCard, study, tuning, names, measured, leave, who }) {
  const view = store(nothingYet(), reduce, draw);
  /** @type {{close: () => void} | null} */
  let stream = null;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  /** @type {ReturnType<typeof exportsCard> | null} */
  let files = null;
  /** @type {HTMLElement | null} */
  let link = null;
  /** @type {Explorer | null} */
  let explorer = null;
  let [measuredOf, studyOf] = ["", ""]; // the run and the study whose further cards are filled

  /** Shows a run and follows it. @param {string} id @param {(run: Run) => void} [arrived] hears the run once it is there */
  async function open(id, arrived = () => {}) {
    close();
    view.dispatch({ type: "opened", id });
    view.draw();
    try {
      const run = await request(pathOf(id));
      if (view.state.id !== id) return;
      arrived(run);
      if (tunes(run)) recipeCard(tuning.recipe, id, run.recipe, tuningFields(names));
      else recipeCard(recipePlace, id, run.recipe, names);
      view.dispatch({ type: "row", run, before: null });
      view.draw();
      follow();
    } catch (error) {
      if (view.state.id === id) view.dispatch({ type: "trouble", error: asProblem(error) });
    }
  }

  function close() {
    stream?.close();
    stream = null;
    clearTimeout(timer);
    files?.close();
    files = link = null;
    measuredOf = "";
    study.classList.remove("is-shown");
    tuning.close();
    explorer?.stop();
    measured(null);
    view.dispatch({ type: "closed" });
  }

  /** Events arrive by stream; the run's own state, which also changes while it waits, by asking now and then. */
  function follow() {
    const { id } = view.state;
    if (!id) return;
    stream?.close();
    stream = listen(`${pathOf(id)}/events`, {
      message: (event) => {
        view.dispatch({ type: "said", event });
        if (isAtRest(event.type)) refresh();
      },
      state: (word) => view.dispatch({ type: "stream", isLost: word === "lost" }),
    });
    poll();
  }

  function poll() {
    clearTimeout(timer);
    timer = setTimeout(async () => {
      if (!view.state.id || isAtRest(view.state.run?.state)) return;
      if (!document.hidden) await refresh();
      poll();
    }, POLL_MS);
  }

  async function refresh() {
    const { id } = view.state;
    if (!id) return;
    try {
      const run = await request(pathOf(id));
      const before = run.queue?.behind ? await titleBehind(run.queue.behind) : null;
      if (view.state.id !== id) return;
      view.dispatch({ type: "row", run, before });
      if (isAtRest(run.state) && isAtRest(view.state.said.ended)) stream?.close();
    } catch (error) {
      if (view.state.id === id) view.dispatch({ type: "trouble", error: asProblem(error) });
    }
  }

  /** @param {"cancel" | "continue"} verb */
  async function act(verb) {
    const { id } = view.state;
    if (!id) return;
    try {
      const run = await request(`${pathOf(id)}/${verb}`, { method: "POST" });
      if (view.state.id !== id) return;
      view.dispatch({ type: "row", run, before: null });
      if (verb === "continue") follow();
    } catch (error) {
      if (view.state.id === id) view.dispatch({ type: "trouble", error: asProblem(error) });
    }
  }

  const folds = {
    isOpen: (/** @type {string} */ title) => view.state.unfolded.includes(title),
    open(/** @type {string} */ title) {
      view.dispatch({ type: "unfolded", title });
      view.draw();
    },
  };

  /** @param {number} block */
  const choose = (block) => view.dispatch({ type: "block", block });

  /** @param {Shown} shown */
  function draw(shown) {
    const { id, run, said } = shown;
    const isFinished = run?.state === "finished";
    const isTheirs = !run || mayChange(who, run.owner);
    if (run && isFinished && run.formats?.length && isTheirs && !isNoGain(run))
      files ??= exportsCard({ ...run, formats: run.formats });
    if (run && who && mayShare(who, run.owner)) link ??= shareLink("run", run.id);
    // Another run's card begins anew: its log open, its folds closed.
    const content = repeat(
      id ? [id] : [],
      (one) => one,
      () =>
        shown.trouble && !run
          ? unreachable(shown.trouble, leave)
          : cardOf(shown, { folds, choose, act, leave, files, link, isTheirs, names }),
    );
    render(content, card);
    const isBeside = run !== null && !tunes(run); // a tuning run has its log in its card
    logCard.hidden = !isBeside;
    const logs = isBeside && run ? [run.id] : []; // another run's log is open at first
    render(
      repeat(
        logs,
        (one) => one,
        () => logOf(said, !isOver(shown) || matchMedia(ROOM_FOR_LOG).matches),
      ),
      logCard,
    );
    if (run && tunes(run)) tuning.show(run, said.tuning ?? run.summary?.tuning ?? null, isTheirs);
    if (run && isFinished) showFurther(run, said);
  }

  /** What a finished run has in cards of its own. @param {Run} run @param {RunProgress} said */
  function showFurther(run, said) {
    if (!run.summary && !said.summary) return;
    // Texts are in the events only: the run's own summary is kept short.
    if (said.summary && measuredOf !== run.id) {
      measuredOf = run.id;
      measured(said.summary);
    }
    if (!run.study_id) return;
    study.classList.add("is-shown");
    if (studyOf === run.study_id) return;
    studyOf = run.study_id;
    explorer ??= new Explorer({
      root: study,
      prefix: "run-",
      parts: [
        curvesPart(["hero", "deciles", "gap", "inspector"]),
        expertsPart(),
        theoremPart(),
        wordsPart(),
        slidersPart(),
        numbersPart(),
        weightsPart(),
      ],
    });
    explorer.load({ study: run.study_id }); // it says itself what is wrong
  }

  return { open, close };
}

/** Whether it is a repair whose files are not worth having. @param {Run} run */
function isNoGain({ summary }) {
  const repair = summary?.repair ?? null;
  return repair !== null && repair.kl_difference !== null && repair.verdict !== -1;
}

/** @param {Run} run */
const tunes = (run) => run.recipe.kind === "tune";

/** What the run does that another waits for; null where it is gone by now. @param {string} id */
const titleBehind = (id) =>
  request(pathOf(id)).then(
    (/** @type {Run} */ run) => describe(run.recipe),
    () => null,
  );

/** @typedef {{isOpen: (title: string) => boolean, open: (title: string) => void}} Folds */
/** @typedef {{folds: Folds, choose: (block: number) => void, act: (verb: "cancel" | "continue") => void, leave: () => void, files: {element: HTMLElement} | null, link: HTMLElement | null, isTheirs: boolean, names: string[]}} Acts */

/** @param {string} text @param {string} name @param {() => void} act @param {string} [kind] */
const button = (text, name, act, kind = "quiet") =>
  html`<button type="button" class=${kind} data-testid=${name} @click=${act}>${text}</button>`;

/** @param {Trouble} trouble @param {() => void} leave */
const unreachable = (trouble, leave) =>
  html`<div class="run-body">${problemBlock(trouble)}${button("Plan a run", "leave", leave)}</div>`;

/** @param {Shown} shown @param {Acts} acts */
function cardOf(shown, acts) {
  const { run, said } = shown;
  const known = State.progress(said);
  const total = known.total || run?.progress?.total || 0;
  const done = known.total ? known.done : (run?.progress?.done ?? 0);
  const tuning = run && tunes(run) ? (said.tuning ?? run.summary?.tuning ?? null) : null;
  const isFinished = run?.state === "finished";
  const clock = run && !AT_REST.some((one) => one === run.state) ? State.clock(said, Date.now()) : null;
  const byLayers = () => State.workDone(said, { done, total });
  const work = run && tunes(run) ? (tuning ? shareOf(tuning) : 0) : isFinished ? 1 : (clock?.done ?? byLayers());
  const share = Math.round(1000 * work) / 10;
  const summary = run?.summary ?? said.summary;
  const learns = (said.learning || (run && METHODS[run.recipe.method]?.unit === "block")) && total > 0 && done < total;
  const candidates = isFinished ? [] : said.candidates;
  const trouble = run ? troubleOf(shown, run) : null;
  const epoch = said.learning ? `${(100 * said.learning.epoch) / said.learning.epochs}%` : "0%";
  return html`<header class="card-head run-head">
      <h2 class="run-title" id="run-title">${run ? describe(run.recipe) : "Run"}</h2>
      <span>${run ? stateChip(run.state) : nothing}</span>
    </header>
    <div class="run-body">
      <div>${trouble ? problemBlock(trouble) : nothing}</div>
      <div>${run && isFinished && summary && !tunes(run) ? reportCard(run.id, summary, State.layerReports(said), acts.folds) : nothing}</div>
      <div>${isFinished && !(run && tunes(run)) ? acts.files?.element : nothing}</div>
      <div class="run-progress">
        <div class=${`meter${isFinished ? " is-done" : ""}`} role="progressbar" aria-label="Work done" aria-valuemin="0" aria-valuemax="100"
          aria-valuenow=${share}><span style=${`width: ${share}%`}></span></div>
        <p class="run-now" data-testid="progress">${
          run ? (tunes(run) ? tuningNow(shown, run, tuning) : nowText(shown, run, done, total)) : nothing
        }</p>
      </div>
      <div class="run-epochs" ?hidden=${!(run?.state === "running" && learns)}>
        <p class="run-now" data-testid="learning">${State.learningWords(said)}</p>
        <div class="meter meter-small"><span style=${`width: ${epoch}`}></span></div>
      </div>
      <div data-testid="candidates">${
        candidates.length ? candidateStrip(candidates, State.bestCandidate(candidates)?.lam) : nothing
      }</div>
      ${
        run && tunes(run)
          ? nothing
          : html`${runMatrix({ said, isRunning: run?.state === "running", chosen: shown.block, choose: acts.choose })}
            <p class="legend">Reconstruction error, calibration text: 0.001 <span class="ramp"></span> 1</p>`
      }
      <dl class="facts">${run ? factsOf(run, said, tuning) : nothing}</dl>
      <div class="run-buttons">${run ? buttons(run, acts) : nothing}</div>
      ${
        acts.link
          ? html`<details class="run-share" data-testid="run-share"><summary>Share this run</summary>${acts.link}</details>`
          : nothing
      }
      <div>${isFinished && run && tunes(run) ? acts.files?.element : nothing}</div>
      ${run && tunes(run) ? logOf(said, false) : nothing}
    </div>`;
}

/**
 * What is wrong with a run, or null.
 * @param {Shown} shown
 * @param {Run} run
 * @returns {Trouble | null}
 */
function troubleOf({ said, trouble, isLost }, run) {
  if (isLost) return offline("The run goes on without this page; it will be shown again here.");
  if (run.state === "failed")
    return run.error ?? said.failure ?? { what: "The run failed.", remedy: "The log has more." };
  if (run.state !== "interrupted") return trouble;
  return {
    what: run.error?.what ?? "The process that did the work is gone.",
    where: run.error?.where,
    remedy: run.error?.remedy || "Finished layers are kept: Continue goes on from them and ends with the same weights.",
  };
}

/**
 * Where a tuning run stands, in words.
 * @param {Shown} shown
 * @param {Run} run
 * @param {Tuning | null} tuning
 */
function tuningNow({ said, before }, run, tuning) {
  const stage = said.stage ? `${said.stage}${said.detail ? `: ${said.detail}` : ""}` : "Starting the worker";
  const known = tuning ? drawsWords(tuning.draws) : "the first draw";
  switch (run.state) {
    case "queued":
      return waiting(run, before);
    case "running":
      if (run.waits_for_room) return withoutRoom(run.progress.done, run.progress.total);
      return tuning ? standing(tuning, run.recipe) : stage;
    case "cancelling":
      return "Stopping after the current model";
    case "cancelled":
      return `Cancelled after ${known}; what was measured is kept`;
    case "interrupted":
      return `Interrupted after ${known}`;
    case "failed":
      return `Failed after ${known}`;
    default:
      return `${tuning ? `${modelsWords(tuning)} models measured` : "Done"} in ${duration(said.took ?? seconds(run))}`;
  }
}

/** @param {number} done @param {number} total */
const withoutRoom = (done, total) => `Waits for room on the disk${total ? `, at ${done} of ${total}` : ""}`;

/**
 * Behind what a run waits, and until when.
 * @param {Run} run
 * @param {string | null} before
 */
function waiting({ queue, stepped_aside, waits_for_room, progress }, before) {
  if (waits_for_room) return withoutRoom(progress.done, progress.total);
  const { number = 1, behind = null, seconds = null } = queue ?? {};
  const place = number > 1 ? `number ${number} in the queue` : "next in the queue";
  const link =
    behind && before
      ? html`, behind <a href=${at(`/calibrate?run=${encodeURIComponent(behind)}`)}>${before}</a>`
      : nothing;
  const why = stepped_aside
    ? `Stepped aside for a preview at ${progress.done} of ${progress.total}`
    : "Waiting for a device";
  return html`${why}, ${place}${link}${seconds === null ? nothing : `, begins in about ${duration(seconds)}`}`;
}

/**
 * Where a run stands, in words.
 * @param {Shown} shown
 * @param {Run} run
 * @param {number} done
 * @param {number} total
 */
function nowText({ said, before }, run, done, total) {
  const layers = `${done} of ${total} layers`;
  const stage = `${said.stage}${said.detail ? `: ${said.detail}` : ""}`;
  switch (run.state) {
    case "queued":
      return waiting(run, before);
    case "running": {
      if (run.waits_for_room) return withoutRoom(done, total);
      if (!total) return said.stage ? stage : "Starting the worker";
      if (said.advanced)
        return `${stage}, ${count(said.advanced.done)} of ${count(said.advanced.total)} ${said.advanced.what}`;
      if (said.stage !== "quantizing" && !State.choosing(said)) return stage;
      if (State.choosing(said)) {
        const judged = said.candidates.length;
        return `Choosing λ for the whole model: ${judged ? `${judged} of ${said.candidates[0].total} values judged` : "none judged yet"}`;
      }
      const current = State.currentLayer(said);
      if (done >= total) return `${layers}, ${stage}`;
      return current && done > 0 && !said.learning
        ? `${layers}, now ${current.replace(/^model\./, "")}`
        : `${layers}, ${said.stage || "starting"}`;
    }
    case "cancelling":
      return `${layers}, stopping after the current step`;
    case "cancelled":
      return `Cancelled at ${layers}; finished layers are kept`;
    case "interrupted":
      return `Interrupted at ${layers}`;
    case "failed":
      return total ? `Failed at ${layers}` : "Failed";
    default:
      return `All ${layers.replace(/^\d+ of /, "")} in ${duration(said.took ?? seconds(run))}`;
  }
}

/** @param {Run} run @param {RunProgress} said @param {Tuning | null} tuning */
function factsOf(run, said, tuning) {
  const isLive = run.state === "running" || run.state === "cancelling";
  const pace = State.pace(said);
  const now = Date.now();
  const left = State.clock(said, now)?.left ?? null;
  const since = run.started === null ? null : (now - new Date(run.started).getTime()) / 1000;
  const rows = [
    ["Device", said.device || run.device],
    ["Speed", isLive && said.stage === "quantizing" && pace !== null ? `${duration(pace)} a layer` : null],
    ["Work", tuning && budgetWords(tuning)],
    ["Models", tuning && modelsWords(tuning)],
    ["Elapsed", isLive && since !== null ? duration(Math.max(0, since)) : null],
    ["Left", isLive && left !== null ? `about ${duration(left)}` : null],
    ["Begun", when(run.started)],
    ["Kept", isLive ? null : keptWords(run.kept)],
  ];
  return rows.filter(([, text]) => text).map(([name, text]) => html`<dt>${name}</dt><dd>${text}</dd>`);
}

/** @param {Run} run @param {Acts} acts */
function buttons(run, { act, leave, isTheirs, names }) {
  const isLive = ["queued", "running"].includes(run.state);
  const canGoOn = isTheirs && ["cancelled", "interrupted", "failed"].includes(run.state);
  return [
    isLive && isTheirs ? button("Cancel", "cancel", () => act("cancel"), "act-quiet") : nothing,
    canGoOn ? button("Continue", "continue", () => act("continue"), "act") : nothing,
    run.state === "finished" && run.study_id
      ? html`<a class="act" href=${`/?study=${encodeURIComponent(run.study_id)}`} data-testid="open-lab">Open in Lab</a>`
      : nothing,
    run.study_id
      ? html`<a class="quiet" href=${at(`/api/studies/${run.study_id}/download`)} download>Download the study</a>`
      : nothing,
    ...(isTheirs && run.state === "finished" ? nextOfOpened(run.recipe, names) : []),
    button(isLive ? "Plan another run" : "Change and run again", "leave", leave),
  ];
}

/**
 * What one may want to see next of a checkpoint that others quantized: its repair, and the original quantized here.
 * @param {Recipe} recipe
 * @param {string[]} names of the form's fields
 */
function nextOfOpened(recipe, names) {
  if (!recipe.opened) return [];
  const method = String(RECIPE_FIELDS.method.default);
  /** @param {Recipe} wanted */
  const form = (wanted) => calibrateLink({ ...saidBeside(names, valuesOf(names, wanted)), method });
  return [
    recipe.method === AS_FOUND.name
      ? html`<a class="act" href=${form(recipe)} data-testid="repair-it">Repair it</a>`
      : nothing,
    html`<a class="quiet" href=${form({ ...recipe, opened: null })} data-testid="same-bits">Quantize the original at the same bits</a>`,
  ];
}

/** @param {RunProgress} said @param {boolean} isOpen at first */
const logOf = (said, isOpen) =>
  html`<details class="run-log" ?open=${isOpen}>
    <summary>Log</summary>
    <ol data-testid="log">${logLines(said)}</ol>
  </details>`;

/** @param {RunProgress} said */
const logLines = ({ log }) =>
  log
    .slice(-200)
    .reverse()
    .map(
      (line) =>
        html`<li class=${line.tone ? `log-${line.tone}` : nothing}><time>${when(line.at)}</time><span>${line.text}</span></li>`,
    );

/** @param {Run} run */
const seconds = (run) =>
  run.started && run.ended ? (new Date(run.ended).getTime() - new Date(run.started).getTime()) / 1000 : null;
