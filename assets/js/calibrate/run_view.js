/**
 * One run, drawn from its events: the matrix of layers filling up, where it stands, its log; at the end the report first,
 * and how it ran behind one line.
 * @module run_view
 */

import { asProblem, listen, offline, request } from "../base/client.js";
import { AT_REST } from "../base/contract.js";
import { counted, duration, number, when } from "../base/format.js";
import { button, html, nothing, render, repeat } from "../base/html.js";
import { store } from "../base/page_state.js";
import { moreMenu } from "../base/popover.js";
import { asSentence, problemBlock } from "../base/problem.js";
import { calibrateLink } from "../base/recipe_address.js";
import { AS_FOUND, METHODS, RECIPE_FIELDS } from "../base/recipe_contract.js";
import { shareLink } from "../base/share_link.js";
import { at } from "../base/site.js";
import { stateChip } from "../base/state_chip.js";
import { mayChange, mayShare } from "../base/whoami.js";
import { exportsCard } from "./exports_card.js";
import { keptWords } from "./kept.js";
import { ladderFields, ladderShare, ladderStanding, ladderTime } from "./ladder_form.js";
import { guessing, nextStep } from "./next_step.js";
import { describe, restOf, saidBeside, valuesOf } from "./recipe_form.js";
import { candidateStrip, recipeCard, reportCard } from "./report.js";
import { runMatrix } from "./run_matrix.js";
import * as State from "./run_state.js";
import { tuningFields } from "./tune_form.js";
import { tuningBar } from "./tuning_bar.js";
import { budgetWords, leftWords, modelsWords, now } from "./tuning_progress.js";

/** @import { Trouble } from "../base/problem.js" */
/** @import { LadderRun, Recipe, StoredEvent, Tuning } from "../base/types.d.ts" */
/** @import { Visitor } from "../base/whoami.js" */
/** @import { Folds } from "./report.js" */
/** @import { Run, RunProgress } from "./run_state.js" */

/**
 * What the card shows.
 * @typedef {object} Shown
 * @property {string | null} id of the run that is open
 * @property {Run | null} run its row, once it is there
 * @property {RunProgress} said what its events say
 * @property {Trouble | null} trouble the last request's
 * @property {boolean} isLost whether the stream is silent
 * @property {string | null} before what the run does that it waits for
 * @property {string} drawn how far a tuning run is by its drawing
 * @property {number | null} block whose experts were chosen to be shown
 * @property {readonly string[]} unfolded titles of the report's folds that were opened
 */
/**
 * @typedef {{type: "opened", id: string} | {type: "closed"} | {type: "row", run: Run, before: string | null}
 *   | {type: "said", event: StoredEvent} | {type: "stream", isLost: boolean}
 *   | {type: "trouble", error: Trouble} | {type: "drawn", words: string} | {type: "unfolded", title: string} | {type: "block", block: number}} Action
 */

const POLL_MS = 1500;
const FURTHER = 3; // draws that are measured at a press
const TICK_MS = 1000; // of the clock of a tuning run

/** @returns {Shown} */
const nothingYet = () => ({
  id: null,
  run: null,
  said: State.initial(),
  trouble: null,
  isLost: false,
  before: null,
  drawn: "",
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
    case "said": {
      const said = State.reduce(shown.said, action.event);
      // Another attempt begins with layers of its own.
      return { ...shown, said, block: said.layers === shown.said.layers ? shown.block : null };
    }
    case "stream":
      // A stream that has said its last word is closed by the server.
      return { ...shown, isLost: action.isLost && !isOver(shown) };
    case "trouble":
      return { ...shown, trouble: action.error };
    case "drawn":
      return { ...shown, drawn: action.words };
    case "block":
      return { ...shown, block: action.block };
    case "unfolded":
      return shown.unfolded.includes(action.title) ? shown : { ...shown, unfolded: [...shown.unfolded, action.title] };
  }
}

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
 * @param {ReturnType<typeof import("./tuning_card.js").tuningCard>} options.tuning what a tuning run has found out
 * @param {ReturnType<typeof import("./ladder_card.js").ladderCard>} options.ladder what a ladder has found out
 * @param {ReturnType<typeof import("./rounding_card.js").roundingCard>} options.rounding how its blocks were learned
 * @param {string[]} options.names fields of a recipe in the order of the form
 * @param {(summary: Record<string, any> | null) => void} options.measured hears the summary of a finished run, or null
 * @param {() => void} options.leave goes back to the plan
 * @param {Visitor | null} options.who looks at it; null where the server did not say
 */
export function runView({ card, recipeCard: recipePlace, tuning, ladder, rounding, names, measured, leave, who }) {
  const view = store(nothingYet(), reduce, draw);
  /** @type {{close: () => void} | null} */
  let stream = null;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  /** @type {ReturnType<typeof setInterval> | undefined} */
  let ticks;
  /** @type {ReturnType<typeof exportsCard> | null} */
  let files = null;
  /** @type {HTMLElement | null} */
  let link = null;
  let measuredOf = ""; // the run whose further cards are filled

  /** Shows a run and follows it. @param {string} id @param {(run: Run) => void} [arrived] hears the run once it is there */
  function open(id, arrived = () => {}) {
    close();
    view.dispatch({ type: "opened", id });
    view.draw();
    attempt(async () => {
      const run = await request(pathOf(id));
      if (view.state.id !== id) return;
      arrived(run);
      if (tunes(run)) recipeCard(tuning.recipe, id, run.recipe, tuningFields(names));
      else if (isLadder(run)) recipeCard(ladder.recipe, id, run.recipe, ladderFields(names));
      else recipeCard(recipePlace, id, run.recipe, names);
      view.dispatch({ type: "row", run, before: null });
      view.draw();
      follow();
    });
  }

  /** What goes wrong is said, unless another run was opened meanwhile. @param {(id: string) => Promise<void>} work */
  async function attempt(work) {
    const { id } = view.state;
    if (!id) return;
    try {
      await work(id);
    } catch (error) {
      if (view.state.id === id) view.dispatch({ type: "trouble", error: asProblem(error) });
    }
  }

  function close() {
    stream?.close();
    stream = null;
    clearTimeout(timer);
    clearInterval(ticks);
    for (const { clock } of [tuning, ladder]) render(nothing, clock);
    files?.close();
    files = link = null;
    measuredOf = "";
    tuning.close();
    ladder.close();
    rounding.close();
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

  const refresh = () =>
    attempt(async (id) => {
      const run = await request(pathOf(id));
      const before = run.queue?.behind ? await titleBehind(run.queue.behind) : null;
      if (view.state.id !== id) return;
      view.dispatch({ type: "row", run, before });
      if (isAtRest(run.state) && isAtRest(view.state.said.ended)) stream?.close();
    });

  /** @param {"cancel" | "continue"} verb */
  const act = (verb) =>
    attempt(async (id) => {
      const run = await request(`${pathOf(id)}/${verb}`, { method: "POST" });
      if (view.state.id !== id) return;
      view.dispatch({ type: "row", run, before: null });
      if (verb === "continue") follow();
    });

  const drawn = (/** @type {string} */ words) => view.dispatch({ type: "drawn", words });

  /** Queues the same recipe on further draws of calibration text; its runs join this one's comparison. */
  const measureDraws = () =>
    attempt(async (id) => {
      const { run } = view.state;
      if (!run) return;
      const seed = Array.from({ length: FURTHER }, (_, at) => Number(run.recipe.seed) + 1 + at);
      const made = await request("/runs", { method: "POST", body: { ...run.recipe, sampling: "random", seed } });
      if (view.state.id === id) window.location.href = at(`/runs?filter=${encodeURIComponent(made.batch)}`);
    });

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
    const acts = { folds, choose, act, measureDraws, leave, files, link, isTheirs, names };
    // Another run's card begins anew: its folds closed.
    const content = repeat(
      id ? [id] : [],
      (one) => one,
      () =>
        shown.trouble && !run
          ? html`<div class="run-body">${problemBlock(shown.trouble)}${button("Plan a run", "leave", leave)}</div>`
          : cardOf(shown, acts),
    );
    render(content, card);
    if (!run) return;
    if (compares(run)) {
      drawClock();
      render(ofTuningRun(shown, run, acts), (tunes(run) ? tuning : ladder).end);
      if (tunes(run)) tuning.show(run, tuningOf(shown), isTheirs, drawn);
      else ladder.show(run, ladderIn(shown), isTheirs);
    }
    rounding.show(run.id, said.rounded);
    // Texts are in the events only: the run's own summary is kept short.
    if (isFinished && said.summary && measuredOf !== run.id) {
      measuredOf = run.id;
      measured(said.summary);
    }
  }

  /** The clock of a run that compares models, which goes on between two events. */
  function drawClock() {
    const { run, said } = view.state;
    if (!run || !compares(run)) return;
    render(clockOf(view.state, run), (tunes(run) ? tuning : ladder).clock);
    clearInterval(ticks);
    const standing = tunes(run) ? said.tuning : said.ladder;
    if (run.state === "running" && standing && !standing.end) ticks = setInterval(drawClock, TICK_MS);
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

/** @param {Run} run */
const isLadder = (run) => run.recipe.kind === "ladder";

/** Whether it compares models and keeps none. @param {Run} run */
const compares = (run) => tunes(run) || isLadder(run);

/** What the run does that another waits for; null where it is gone by now. @param {string} id */
const titleBehind = (id) =>
  request(pathOf(id)).then(
    (/** @type {Run} */ run) => describe(run.recipe),
    () => null,
  );

/** @typedef {{folds: Folds, choose: (block: number) => void, act: (verb: "cancel" | "continue") => void, measureDraws: () => void, leave: () => void, files: {element: HTMLElement} | null, link: HTMLElement | null, isTheirs: boolean, names: string[]}} Acts */

/** @param {Shown} shown @param {Acts} acts */
function cardOf(shown, acts) {
  const { run, said } = shown;
  const isTuning = run !== null && compares(run);
  const isFinished = run?.state === "finished";
  const summary = run?.summary ?? said.summary;
  const trouble = run ? troubleOf(shown, run) : null;
  const head = html`<header class="card-head run-head">
      <h2 class="run-title" id="run-title">${run ? describe(run.recipe) : "Run"}</h2>
      <span>${run ? stateChip(run.state) : nothing}</span>
    </header>`;
  const wrong = html`<div>${trouble ? problemBlock(trouble) : nothing}</div>`;
  // What a tuning run came to stands right below its title, and everything else below that.
  if (isTuning)
    return html`${head}<div class="run-body">${wrong}${untrained(summary)}${isAtRest(run.state) ? nothing : liveButtons(run, acts)}</div>`;
  return html`${head}
    <div class="run-body">
      ${wrong}
      <div>${
        run && isFinished && summary
          ? reportCard(run, summary, State.layerReports(said), acts.folds, proposal(summary, run, acts.names))
          : nothing
      }</div>
      ${isFinished ? buttonsOf(run, acts) : nothing}
      <div>${isFinished ? acts.files?.element : nothing}</div>
      ${isFinished ? howItRan(shown, acts) : [course(shown, acts), run ? buttonsOf(run, acts, State.unfinishedBlock(said)) : nothing, logOf(said)]}
    </div>`;
}

/** @param {Record<string, any> | null} summary of a run that tuned */
function untrained(summary) {
  const words = guessing(summary ?? {});
  return words ? html`<p class="warning" data-testid="untrained">${words}</p>` : nothing;
}

/**
 * What to try next, with the address of the form that has it.
 * @param {Record<string, any>} summary
 * @param {Run} run
 * @param {string[]} names of the form's fields
 */
function proposal(summary, { recipe, evidence }, names) {
  const next = nextStep(summary, recipe, evidence);
  return (
    next && { words: next.words, href: next.recipe && calibrateLink(saidBeside(names, valuesOf(names, next.recipe))) }
  );
}

/** What stands below the chart of a tuning run. @param {Shown} shown @param {Run} run @param {Acts} acts */
const ofTuningRun = (shown, run, acts) => html`<div class="run-body">
    ${isAtRest(run.state) ? buttonsOf(run, acts) : nothing}
    ${howItRan(shown, acts)}
  </div>`;

/** Bar, layers, device and log of a run that has ended, behind one line. @param {Shown} shown @param {Acts} acts */
function howItRan(shown, acts) {
  const { run, said } = shown;
  const end = run && compares(run) ? comparingNow(shown, run) : nowOf(shown);
  const device = said.device || run?.device;
  const words = !isOver(shown) || end === nothing ? device : device ? [end, ", on ", device] : end;
  return html`<details class="how-it-ran" data-testid="how-it-ran"
      ><summary>${isOver(shown) ? "How it ran" : "How it goes"}${words ? html`<span class="how-words">: ${words}</span>` : nothing}</summary>
      <div class="how-parts">${course(shown, acts)}${logOf(said)}</div></details>`;
}

/** @param {Shown} shown */
const tuningOf = ({ run, said }) => (run && tunes(run) ? (said.tuning ?? run.summary?.tuning ?? null) : null);

/** @param {Shown} shown */
const ladderIn = ({ run, said }) => (run && isLadder(run) ? (said.ladder ?? run.summary?.ladder ?? null) : null);

/** How a run goes: its bar, its layers and its facts. @param {Shown} shown @param {Acts} acts */
function course(shown, acts) {
  const { run, said } = shown;
  const { done, total } = layersOf(shown);
  const learns = (said.learning || (run && METHODS[run.recipe.method]?.unit === "block")) && total > 0 && done < total;
  const candidates = run?.state === "finished" ? [] : said.candidates;
  const share = said.learning ? `${(100 * said.learning.done) / said.learning.total}%` : "0%";
  const isTuning = run !== null && compares(run);
  return html`${isTuning ? nothing : progressOf(shown)}
      <div class="run-epochs" ?hidden=${!(run?.state === "running" && learns)}>
        <p class="run-now" data-testid="learning">${State.learningWords(said)}</p>
        <div class="meter meter-small"><span style=${`width: ${share}`}></span></div>
      </div>
      <div data-testid="candidates">${
        candidates.length ? candidateStrip(candidates, State.bestCandidate(candidates)?.lam) : nothing
      }</div>
      ${
        isTuning
          ? nothing
          : html`${runMatrix({ said, isRunning: run?.state === "running", chosen: shown.block, choose: acts.choose })}
            <p class="legend">Reconstruction error, calibration text: ${number(0.001, 3)} <span class="ramp"></span> ${"1"}</p>`
      }
      <dl class="facts">${run ? factsOf(run, said, tuningOf(shown)) : nothing}</dl>`;
}

/** Layers done, of all. @param {Shown} shown */
function layersOf({ run, said }) {
  const known = State.progress(said);
  return known.total ? known : { done: run?.progress?.done ?? 0, total: run?.progress?.total ?? 0 };
}

/** The bar, and where the run stands in words. @param {Shown} shown */
function progressOf(shown) {
  const { run, said } = shown;
  const isFinished = run?.state === "finished";
  const clock = run && !isAtRest(run.state) ? State.clock(said, Date.now()) : null;
  const work = isFinished ? 1 : (clock?.done ?? State.workDone(said, layersOf(shown)));
  return bar(work, isFinished, nowOf(shown));
}

/** @param {number} work done, from 0 to 1 @param {boolean} isDone @param {unknown} words where the run stands */
function bar(work, isDone, words) {
  const share = Math.round(1000 * work) / 10;
  return html`<div class="run-progress">
      <div class=${`meter${isDone ? " is-done" : ""}`} role="progressbar" aria-label="Work done" aria-valuemin="0" aria-valuemax="100"
        aria-valuenow=${share}><span style=${`width: ${share}%`}></span></div>
      <p class="run-now" data-testid="progress">${words}</p>
    </div>`;
}

/** The bar of a run of several models, and where it stands in words. @param {Shown} shown @param {Run} run */
function clockOf(shown, run) {
  const [tuning, ladder] = [tuningOf(shown), ladderIn(shown)];
  const words = comparingNow(shown, run);
  if (tunes(run))
    return html`${tuning ? tuningBar(tuning, secondsOf(run, shown.said, tuning)) : nothing}
    <p class="run-now" data-testid="progress">${words}</p>`;
  if (!ladder) return bar(0, false, words);
  const seconds = secondsOf(run, shown.said, ladder);
  const time = run.state === "running" ? ` · ${ladderTime(ladder, seconds)}` : "";
  return bar(ladderShare(ladder, seconds), ladder.end !== null, [words, time]);
}

/** Seconds of a run's own clock: what it said last, and those since. @param {Run} run @param {RunProgress} said @param {Tuning | LadderRun} standing */
const secondsOf = (run, said, standing) =>
  run.state === "running" && !standing.end ? now(standing, said.standingAt, Date.now()) : standing.seconds;

/**
 * How a run of several models was stopped, in words; null for one that was not.
 * @param {Run["state"]} state
 * @param {number} draws that were measured before
 */
function stoppedWords(state, draws) {
  const after = draws ? `after ${counted(draws, "draw")}` : "before the first draw was complete";
  switch (state) {
    case "cancelling":
      return "Stopping after the current model";
    case "cancelled":
      return `Cancelled ${after}; its measurements are kept`;
    case "interrupted":
      return `Interrupted ${after}`;
    case "failed":
      return `Failed ${after}`;
    default:
      return null;
  }
}

/** What a run does before it can say how far it is. @param {RunProgress} said */
const beginning = ({ stage, detail }) =>
  stage ? asSentence(State.stageAndDetail(stage, detail)) : "Starting the worker";

/**
 * What is wrong with a run, or null.
 * @param {Shown} shown
 * @param {Run} run
 * @returns {Trouble | null}
 */
function troubleOf({ said, trouble, isLost }, run) {
  if (isLost) return offline("The run continues without this page, and will be shown here again.");
  if (run.state === "failed")
    return run.error ?? said.failure ?? { what: "The run failed.", remedy: "See the log for details." };
  if (run.state !== "interrupted") return trouble;
  return {
    what: run.error?.what ?? "The worker process has ended unexpectedly.",
    where: run.error?.where,
    remedy: run.error?.remedy || "Finished layers are kept: Continue goes on from them and ends with the same weights.",
  };
}

/** Where a run of several models stands, in words. @param {Shown} shown @param {Run} run */
function comparingNow(shown, run) {
  const { said, before, drawn } = shown;
  const [tuning, ladder] = [tuningOf(shown), ladderIn(shown)];
  switch (run.state) {
    case "queued":
      return waiting(run, before);
    case "running":
      if (run.waits_for_room) return withoutRoom(run.progress.done, run.progress.total);
      return [
        ladder ? ladderStanding(ladder, run.recipe) : tuning ? drawn : beginning(said),
        said.advanced && State.advancedWords(said.advanced),
        tuning && leftWords(tuning, secondsOf(run, said, tuning)),
      ]
        .filter(Boolean)
        .join(" · ");
    default: {
      const stopped = stoppedWords(run.state, (tuning ?? ladder)?.draws ?? 0);
      if (stopped) return stopped;
      if (tuning) return drawn;
      return `${ladder ? ladderStanding(ladder, run.recipe) : "Done"} in ${duration(said.took ?? seconds(run))}`;
    }
  }
}

/** @param {number} done @param {number} total */
const withoutRoom = (done, total) =>
  total ? `Waits for room on the disk, at ${done} of ${total}` : "Waits for room on the disk";

/**
 * What is before a waiting run, since when it waits and until when.
 * @param {Run} run
 * @param {string | null} before
 */
function waiting({ queue, queued, stepped_aside, waits_for_room, progress }, before) {
  if (waits_for_room) return withoutRoom(progress.done, progress.total);
  const what = stepped_aside ? `Paused for a preview at ${progress.done} of ${progress.total}` : "Waiting for a device";
  const where = `${what}${queued ? ` since ${when(queued)}` : ""}, ${State.queueWords(queue ?? null)}`;
  if (!queue?.behind || !before) return where;
  const link = html`<a href=${at(`/calibrate?run=${encodeURIComponent(queue.behind)}`)}>${before}</a>`;
  return html`${where}. Before it: ${link}`;
}

/** Where a run stands, in words. @param {Shown} shown */
function nowOf(shown) {
  const { run, said, before } = shown;
  if (!run) return nothing;
  const { done, total } = layersOf(shown);
  const layers = `${done} of ${total} layers`;
  const stage = State.stageAndDetail(said.stage, said.detail);
  switch (run.state) {
    case "queued":
      return waiting(run, before);
    case "running": {
      if (run.waits_for_room) return withoutRoom(done, total);
      if (!total) return said.stage ? stage : "Starting the worker";
      if (said.advanced) return `${stage}, ${State.advancedWords(said.advanced)}`;
      if (State.choosing(said)) {
        const judged = said.candidates.length;
        const words = judged ? `${judged} of ${said.candidates[0].total ?? judged} values judged` : "none judged yet";
        return `Choosing λ for the whole model: ${words}`;
      }
      if (said.stage !== "quantizing") return stage;
      if (done >= total) return `${layers}, ${stage}`;
      const current = State.currentLayer(said);
      return current && done > 0 && !said.learning
        ? `${layers}, now ${current.replace(/^model\./, "")}`
        : `${layers}, ${said.stage}`;
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
      return `All ${total} layers in ${duration(said.took ?? seconds(run))}`;
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
    ["Work", tuning && budgetWords(tuning, secondsOf(run, said, tuning))],
    ["Models", tuning && modelsWords(tuning)],
    ["Elapsed", isLive && since !== null ? duration(Math.max(0, since)) : null],
    ["Left", isLive && left !== null ? `about ${duration(left)}` : null],
    ["Begun", when(run.started)],
    ["Kept", isLive ? null : keptWords(run.kept)],
  ];
  return rows.filter(([, text]) => text).map(([name, text]) => html`<dt>${name}</dt><dd>${text}</dd>`);
}

/** @param {Run} run @param {Acts} acts */
const liveButtons = (run, { act, leave, isTheirs }) =>
  html`<div class="run-buttons">${
    ["queued", "running"].includes(run.state) && isTheirs
      ? button("Cancel", "cancel", () => act("cancel"), "act-quiet")
      : nothing
  }${button("Plan another run", "leave", leave)}</div>`;

/** @param {Run} run @param {Acts} acts @param {number | null} unfinished first block that is not done */
function buttonsOf(run, acts, unfinished = null) {
  const { act, leave, isTheirs, names, link } = acts;
  if (!isAtRest(run.state)) return liveButtons(run, acts);
  const canGoOn = isTheirs && run.state !== "finished";
  const study = run.study_id;
  const further = study
    ? [
        html`<a class="quiet" href=${at(`/api/studies/${study}/download`)} download data-testid="download-study">Download the study</a>`,
      ]
    : [];
  return html`<div class="run-buttons">${[
    canGoOn ? button("Continue", "continue", () => act("continue"), "act") : nothing,
    canGoOn ? restLink(run.recipe, unfinished, names) : nothing,
    isTheirs && run.evidence?.over === "windows"
      ? button(`Measure ${FURTHER} more draws, ${duration(FURTHER * (seconds(run) ?? 0))}`, "draws", acts.measureDraws)
      : nothing,
    run.state === "finished" && study
      ? html`<a class=${tunes(run) ? "act-quiet" : "act"} href=${at(`/?study=${encodeURIComponent(study)}`)} data-testid="open-lab">Open in the Lab</a>`
      : nothing,
    ...(isTheirs && run.state === "finished" ? nextOfOpened(run.recipe, names) : []),
    button("Change and run again", "leave", leave),
    further.length
      ? moreMenu({ id: `more-of-run`, label: "More of this run", items: further, testid: "more-of-run" })
      : nothing,
  ]}</div>${
    link
      ? html`<details class="run-share" data-testid="run-share"><summary>Share this run</summary>${link}</details>`
      : nothing
  }`;
}

/**
 * The form for the rest of a run with another λ: a new run, which takes the finished layers as they are.
 * @param {Recipe} recipe
 * @param {number | null} block the first that is not done
 * @param {string[]} names of the form's fields
 */
function restLink(recipe, block, names) {
  const rest = restOf(recipe, block);
  return rest
    ? html`<a class="act-quiet" href=${calibrateLink(saidBeside(names, valuesOf(names, rest)))} data-testid="rest">Run the rest with another λ</a>`
    : nothing;
}

/**
 * What one may want to see next of a checkpoint that others quantized: its repair, and the original quantized here.
 * @param {Recipe} recipe
 * @param {string[]} names of the form's fields
 */
function nextOfOpened(recipe, names) {
  if (!recipe.quantized_checkpoint) return [];
  const method = String(RECIPE_FIELDS.method.default);
  /** @param {Recipe} wanted */
  const form = (wanted) => calibrateLink({ ...saidBeside(names, valuesOf(names, wanted)), method });
  return [
    recipe.method === AS_FOUND.name
      ? html`<a class="act" href=${form(recipe)} data-testid="repair-it">Repair it</a>`
      : nothing,
    html`<a class="quiet" href=${form({ ...recipe, quantized_checkpoint: null })} data-testid="same-bits">Quantize the original at the same bits</a>`,
  ];
}

/** @param {RunProgress} said */
const logOf = ({ log }) =>
  html`<details class="run-log" open>
    <summary>Log</summary>
    <ol data-testid="log">${log
      .slice(-200)
      .reverse()
      .map(
        ({ tone, at, text }) =>
          html`<li class=${tone ? `log-${tone}` : nothing}><time>${when(at)}</time><span>${text}</span></li>`,
      )}</ol>
  </details>`;

/** @param {Run} run */
const seconds = (run) =>
  run.started && run.ended ? (new Date(run.ended).getTime() - new Date(run.started).getTime()) / 1000 : null;
