/**
 * What a run has said so far, folded into one state. Pure: the page draws it, the tests read it.
 * @module run_state
 */

import { bytes, count, counted, duration, format, number, plain } from "../base/format.js";
import { asSentence } from "../base/problem.js";
import { shadesOf, stopsOf } from "../charts/color_scale.js";
import { distanceWords } from "./distances.js";
import { share, timed } from "./run_clock.js";

/** @import { Carrier, EvidenceDocument, Failed, LadderRun, Measured, Phase, Recipe, Run as RunRow, State, StoredEvent, Tuning, Warned } from "../base/types.d.ts" */
/** @import { Kept } from "./kept.js" */
/** @import { Timed } from "./run_clock.js" */
/**
 * What GET /runs/{id} says of a run beside its row.
 * @typedef {object} Further
 * @property {Recipe} recipe
 * @property {Record<string, any> | null} summary
 * @property {Carrier[]} [formats] of a finished run: who can load it
 * @property {Run[]} [exports] of a finished run
 * @property {Kept | null} [kept] how long it stays
 * @property {QueuePlace | null} [queue] of one that waits
 * @property {EvidenceDocument | null} [evidence] beside GPTQ 1 %, over the draws of its recipe
 */
/** @typedef {Omit<RunRow, "recipe" | "summary"> & Further} Run */
/** @typedef {{number: number, at_work: number, worked: number | null, behind: string | null, seconds: number | null}} QueuePlace */
/** @typedef {{name: string, block: number, module: string, expert?: number | null}} Layer */
/** @typedef {{lam: number, perplexity: number | null, total?: number}} Candidate of λ for the whole model, as it was judged */
/**
 * @typedef {object} Result of a layer
 * @property {string} name
 * @property {number | null} tokens that reached it
 * @property {number | null} recon relative error; null where there is none
 * @property {Record<string, any>} report
 * @property {number} seconds
 * @property {boolean} cached
 */
/**
 * @typedef {object} Learning of a block
 * @property {number} block
 * @property {"epoch" | "step"} unit of what is counted
 * @property {number} done
 * @property {number} total at most
 * @property {"objective" | "held-out error"} judge what the states are judged by
 * @property {number | null} value of it; null: too large to be a number
 * @property {number | null} first the same before the first step
 */
/** @typedef {{at: string, text: string, tone: string}} LogLine */

export const CHOOSING = "choosing λ"; // the stage in which one λ is sought for the whole model
const RECENT = 8; // layers whose time decides the estimate

/** The state before the first event. */
export function initial() {
  return /** @type {RunProgress} */ ({
    seq: 0,
    device: "",
    layers: [],
    results: new Map(),
    phases: [],
    phase: null,
    advanced: null,
    seconds: [],
    points: 0,
    learning: null,
    candidates: [],
    tuning: null,
    ladder: null,
    standingAt: "",
    rounded: null,
    stage: "",
    detail: "",
    measured: {},
    warnings: [],
    log: [],
    summary: null,
    took: null,
    failure: null,
    ended: null,
  });
}

/**
 * @typedef {object} RunProgress what a run has said
 * @property {number} seq of the last event
 * @property {string} device
 * @property {Layer[]} layers
 * @property {Map<number, Result>} results by the layer's index
 * @property {readonly Phase[]} phases of the run with the seconds that its plan counts; none of a run from before there were any
 * @property {Timed | null} phase that is worked on
 * @property {{done: number, total: number, what: string} | null} advanced within it
 * @property {number[]} seconds that the last layers took
 * @property {number} points share of the λ of a run's only layer that are solved
 * @property {Learning | null} learning the block that is being learned
 * @property {Candidate[]} candidates
 * @property {Tuning | null} tuning where tuning stands
 * @property {LadderRun | null} ladder where a ladder stands
 * @property {string} standingAt when either was said
 * @property {{blocks: number} | null} rounded blocks of which early stopping kept a state; another object after each
 * @property {string} stage
 * @property {string} detail
 * @property {Record<string, Measured>} measured
 * @property {Warned[]} warnings
 * @property {LogLine[]} log
 * @property {Record<string, any> | null} summary
 * @property {number | null} took seconds
 * @property {Failed | null} failure
 * @property {State | null} ended
 */

/**
 * The state after one more event. Events that were already told (a stream that begins again) change nothing.
 * @param {RunProgress} state
 * @param {StoredEvent} event
 * @returns {RunProgress}
 */
export function reduce(state, event) {
  const seq = Number(event.seq ?? 0);
  if (seq && seq <= state.seq) return state;
  const next = { ...state, seq: seq || state.seq };
  /** @param {string} text */
  const tell = (text, tone = "") => {
    next.log = [...next.log, { at: event.at, text, tone }];
  };
  switch (event.type) {
    case "started":
      // A further attempt begins anew; what is on disk is told again, quickly.
      Object.assign(next, {
        device: event.device,
        layers: event.layers,
        results: new Map(),
        phases: event.phases ?? [],
        phase: timed(event.phases ?? [], null, state.stage, state.detail, event.at),
        advanced: null,
        seconds: [],
        points: 0,
        learning: null,
        candidates: [],
        ended: null,
        failure: null,
      });
      tell(
        event.finished_layers
          ? `Started on ${event.device}; ${event.finished_layers} of ${event.layers.length} layers are already on disk`
          : `Started on ${event.device}: ${event.layers.length} layers`,
      );
      break;
    case "stage":
      Object.assign(next, { stage: event.name, detail: event.detail ?? "", learning: null, advanced: null });
      next.phase = timed(state.phases, state.phase, event.name, event.detail ?? "", event.at);
      tell(asSentence(stageAndDetail(event.name, event.detail ?? "")));
      break;
    case "dry_run":
      tell(
        event.peak_bytes === null || event.device_bytes === null
          ? `The largest layer was tried in ${duration(event.seconds)}`
          : `The largest layer fits: ${bytes(event.peak_bytes)} of ${bytes(event.device_bytes)} at the peak`,
      );
      break;
    case "advanced":
      next.advanced = { done: event.done, total: event.total, what: event.what };
      break;
    case "layer_done":
      // One map that grows: a copy for each of the thousands of layers of a mixture would take seconds.
      next.results = state.results.set(event.index, {
        name: event.name,
        tokens: event.report?.n_tokens ?? null,
        recon: event.report?.relative_recon ?? null,
        report: event.report ?? {},
        seconds: event.seconds,
        cached: Boolean(event.from_cache),
      });
      if (!event.from_cache) next.seconds = [...state.seconds, event.seconds].slice(-RECENT);
      break;
    case "point_done":
      next.points = (event.index + 1) / event.total;
      break;
    case "epoch_done": {
      const { block, epoch: done, epochs: total, objective: value } = event;
      next.learning = learned(state, { block, unit: "epoch", done, total, judge: "objective", value });
      const { first } = next.learning;
      if (event.epoch === event.epochs && !choosing(state)) {
        const from = first === null ? "" : `${format(first, "significant")} → `;
        tell(`Block ${block}: objective ${from}${format(value, "significant")} after ${total} epochs`);
      }
      break;
    }
    case "rounding_checked": {
      const { block, step: done, steps: total, held_out_error: value } = event;
      next.learning = learned(state, { block, unit: "step", done, total, judge: "held-out error", value });
      break;
    }
    case "block_rounded": {
      next.rounded = { blocks: (state.rounded?.blocks ?? 0) + 1 };
      const [start] = event.checks;
      const kept = event.checks.find(({ step }) => step === event.kept) ?? start;
      const [first, last] = [start, kept].map((check) => format(check.held_out_error, "significant"));
      tell(
        `Block ${event.block}: held-out error ${first} → ${last}, kept after ${event.kept} of at most ` +
          `${start.steps} steps`,
      );
      break;
    }
    case "scales_distilled":
      tell(
        `Scales after epoch ${event.epoch} of at most ${event.epochs}: held-out KL ` +
          `${format(event.held_out_kl, "significant")}`,
      );
      break;
    case "block_distilled":
      tell(
        `Scales of block ${event.block}: held-out error ${format(event.held_out_before, "significant")} → ` +
          `${format(event.held_out, "significant")} in ${event.kept} of ${event.epochs} epochs`,
      );
      break;
    case "candidate_done":
      next.candidates = [...state.candidates, { lam: event.lam, perplexity: event.perplexity, total: event.total }];
      next.learning = null;
      tell(
        `λ = ${plain(event.lam)}: perplexity ${format(event.perplexity, "perplexity")} on the sequences kept for judging`,
      );
      break;
    case "tuning_standing":
      Object.assign(next, { tuning: event.tuning, standingAt: event.at });
      break;
    case "ladder_standing": {
      const { draws } = event.ladder;
      if (draws > (state.ladder?.draws ?? 0)) tell(`Every step is measured in ${counted(draws, "draw")}`);
      Object.assign(next, { ladder: event.ladder, standingAt: event.at });
      break;
    }
    case "measured": {
      next.measured = { ...state.measured, [`${event.quantity}_${event.which}`]: /** @type {Measured} */ (event) };
      const [name, kind] = event.quantity === "perplexity" ? ["Perplexity", "perplexity"] : ["Accuracy", "share"];
      const model = event.which === "float" ? "float" : "quantized";
      const error = event.standard_error ? ` ± ${format(event.standard_error, kind)}` : "";
      tell(`${name} of the ${model} model: ${format(event.value, kind)}${error}`);
      break;
    }
    case "diverged":
      tell(`Beside the float model: ${distanceWords(event.divergences)}`);
      break;
    case "compared":
      tell(event.baseline.words);
      break;
    case "texts_compared": {
      const apart = event.greedy.divergence;
      const words = apart === null ? "the same greedy text" : `greedy texts apart from token ${apart + 1}`;
      tell(`Text ${event.index + 1} of ${event.total}: ${words}`);
      break;
    }
    case "speed_measured":
      if (event.reason) tell(`Speed: ${event.reason}`, "warn");
      else tell(`Speed measured with ${String(event.kernel)}`);
      break;
    case "saved":
      tell(`Saved: ${event.what}`);
      break;
    case "warned":
      next.warnings = [...state.warnings, /** @type {Warned} */ (event)];
      tell(event.where ? `${event.where}: ${event.what}` : event.what, "warn");
      break;
    case "finished":
      Object.assign(next, { summary: event.summary, took: event.seconds, ended: "finished" });
      tell(`Finished in ${duration(event.seconds)}`);
      break;
    case "failed":
      Object.assign(next, { failure: event, ended: "failed" });
      tell(event.what, "bad");
      break;
    case "cancelled":
      next.ended = "cancelled";
      tell("Cancelled; finished layers are kept");
      break;
    case "yielded":
      tell(event.what);
      break;
    case "interrupted":
      next.ended = "interrupted";
      tell(event.what, "bad");
      break;
    default: // an event that Python says and this page does not know is an error of types; of a newer server it is none
      /** @satisfies {never} */ (event);
  }
  return next;
}

/**
 * The first block with a layer that is not done, where a block before it is; null where there is none.
 * @param {RunProgress} state
 * @returns {number | null}
 */
export function unfinishedBlock({ layers, results }) {
  const next = layers.find((_, index) => !results.has(index));
  return next && next.block !== layers[0].block ? next.block : null;
}

/**
 * True while one λ is sought for the whole model; layers are reported only after that.
 * @param {RunProgress} state
 */
export function choosing(state) {
  return state.stage === CHOOSING;
}

/**
 * What is before a waiting run: how many, of whomever, how long the one at work has worked, and when it may begin.
 * @param {QueuePlace | null} place null where it is not known
 */
export function queueWords(place) {
  const { number = 1, at_work: atWork = 0, worked = null, seconds = null } = place ?? {};
  const where = number > 1 ? `number ${number} in the queue` : "next in the queue";
  const ahead = [];
  if (atWork) ahead.push(atWorkWords(atWork, worked));
  if (number > 1) ahead.push(`${number - 1} ${number - 1 === 1 ? "waits" : "wait"} before it`);
  const clauses = [ahead.length ? `${where}: ${ahead.join("; ")}` : where];
  if (seconds !== null) clauses.push(`it begins in about ${duration(seconds)}`);
  else if (atWork) clauses.push("how long that takes is not known");
  return clauses.join("; ");
}

/** @param {number} runs that have a device @param {number | null} worked seconds of the first of them to end */
function atWorkWords(runs, worked) {
  const words = runs === 1 ? "one run is at work" : `${runs} runs are at work`;
  if (worked === null) return words;
  return `${words}, ${runs === 1 ? "" : "the next to end "}for ${duration(worked)} so far`;
}

/**
 * Layers done, of all.
 * @param {RunProgress} state
 */
export function progress(state) {
  return { done: state.results.size, total: state.layers.length };
}

/**
 * Seconds a layer takes lately, or null before the first.
 * @param {RunProgress} state
 */
export function pace(state) {
  if (!state.seconds.length) return null;
  return state.seconds.reduce((sum, value) => sum + value, 0) / state.seconds.length;
}

/**
 * How far the phase is that is worked on, from 0 to 1, or null where it does not say.
 * @param {RunProgress} state
 */
export function withinPhase(state) {
  if (state.stage === "quantizing") return workDone({ ...state, candidates: [] }, progress(state));
  if (choosing(state)) {
    const total = state.candidates.at(-1)?.total;
    return total ? state.candidates.length / total : null;
  }
  return state.advanced ? state.advanced.done / state.advanced.total : null;
}

/**
 * How much of the work is done by time, from 0 to 1, and the seconds that are left; null of a run that counts none.
 * @param {RunProgress} state
 * @param {number} now in milliseconds
 */
export const clock = (state, now) => share(state.phases, state.phase, withinPhase(state), now);

/**
 * The layer that is being solved now, or null.
 * @param {RunProgress} state
 */
export function currentLayer(state) {
  if (!state.layers.length || state.ended) return null;
  return state.layers[state.results.size]?.name ?? null;
}

/**
 * Whether a layer is being worked on: with its whole block where that is learned, else alone.
 * @param {RunProgress} state
 * @param {number} index
 */
export function isCurrent(state, index) {
  if (state.ended || state.results.has(index)) return false;
  if (state.learning) return state.layers[index]?.block === state.learning.block;
  return state.stage === "quantizing" && state.layers[index]?.name === currentLayer(state);
}

/**
 * Where the learning of a block stands, or empty.
 * @param {RunProgress} state
 */
export function learningWords(state) {
  if (!state.learning) return "";
  const { block, unit, done, total, judge, value, first } = state.learning;
  const before = first === null || done === 0 ? "" : ` (${format(first, "significant")} before the first step)`;
  return `block ${block} · ${unit} ${done} of ${total} · ${judge} ${format(value, "significant")}${before}`;
}

/**
 * A state of the block that is being learned, with what the same block began with.
 * @param {RunProgress} state before it
 * @param {Omit<Learning, "first">} reached
 * @returns {Learning}
 */
function learned({ learning }, reached) {
  const isSame = learning !== null && learning.block === reached.block && learning.done < reached.done;
  return { ...reached, first: isSame ? learning.first : reached.done === 0 ? reached.value : null };
}

/**
 * The candidate of λ with the smallest perplexity so far, the first of equals, or null.
 * @param {Candidate[]} candidates
 */
export function bestCandidate(candidates) {
  const judged = candidates.filter((one) => one.perplexity !== null); // null: too large to be a number
  return judged.reduce(
    (best, one) => (best === null || Number(one.perplexity) < Number(best.perplexity) ? one : best),
    /** @type {Candidate | null} */ (null),
  );
}

/**
 * How far the work is, from 0 to 1: each candidate of λ is one walk through the model, and so is the final solve. A
 * block that is being learned counts with the epochs or steps it has behind it, a layer that is alone with its λ.
 * @param {RunProgress} state
 * @param {{done: number, total: number}} layers
 */
export function workDone(state, { done, total }) {
  if (!total) return 0;
  const { learning, layers } = state;
  const before = learning ? layers.filter((layer) => layer.block < learning.block).length : 0;
  const within = learning
    ? layers.filter((layer) => layer.block === learning.block).length * (learning.done / learning.total)
    : 0;
  const candidates = state.candidates.at(-1)?.total ?? 0;
  return (state.candidates.length + Math.max(done, before + within, state.points) / total) / (candidates + 1);
}

/**
 * Name and report of every finished layer, in the order of the model.
 * @param {RunProgress} state
 */
export function layerReports(state) {
  return [...state.results].sort(([a], [b]) => a - b).map(([, { name, report }]) => ({ name, report }));
}

/**
 * Rows (blocks) and columns (kinds of linear) of the layer matrix, with the layers' indices in each cell or null; the
 * experts of a block share a cell.
 * @param {Layer[]} layers
 */
export function matrix(layers) {
  const columns = [...new Set(layers.map((layer) => layer.module))];
  const rows = [...new Set(layers.map((layer) => layer.block))].sort((a, b) => a - b);
  /** @type {(number[] | null)[][]} */
  const cells = rows.map(() => columns.map(() => null));
  const row = new Map(rows.map((block, place) => [block, place]));
  const column = new Map(columns.map((module, place) => [module, place]));
  layers.forEach((layer, index) => {
    const line = cells[row.get(layer.block) ?? 0];
    const place = column.get(layer.module) ?? 0;
    const cell = line[place] ?? [];
    cell.push(index);
    line[place] = cell;
  });
  return { rows, columns, cells };
}

/**
 * The experts of a block (columns) and their linears (rows), with the layer's index in each cell or null.
 * @param {Layer[]} layers
 * @param {number} block
 */
export function expertMatrix(layers, block) {
  const own = layers.flatMap((layer, index) =>
    layer.block === block && typeof layer.expert === "number"
      ? [{ module: layer.module, expert: layer.expert, index }]
      : [],
  );
  const experts = [...new Set(own.map((layer) => layer.expert))].sort((a, b) => a - b);
  const modules = [...new Set(own.map((layer) => layer.module))];
  /** @type {(number | null)[][]} */
  const cells = modules.map(() => experts.map(() => null));
  for (const { index, module, expert } of own) cells[modules.indexOf(module)][experts.indexOf(expert)] = index;
  return { experts, modules, cells };
}

/**
 * What is known of the layers of a cell: how many are solved and how many of those no token reached, mean and largest
 * error of the others (null without any), and which layer has the largest.
 * @param {RunProgress} state
 * @param {number[]} members
 */
export function cellFacts(state, members) {
  /** @type {{done: number, starved: number, mean: number | null, worst: number | null, at: number | null}} */
  const facts = { done: 0, starved: 0, mean: null, worst: null, at: null };
  let [sum, known] = [0, 0];
  for (const index of members) {
    const result = state.results.get(index);
    if (!result) continue;
    facts.done += 1;
    if (result.tokens === 0) facts.starved += 1;
    if (result.recon === null) continue;
    sum += result.recon;
    known += 1;
    if (facts.worst === null || result.recon > facts.worst) [facts.worst, facts.at] = [result.recon, index];
  }
  if (known) facts.mean = sum / known;
  return facts;
}

const cividis = shadesOf(stopsOf());

/** Colour of a share from 0 to 1. @param {number} share */
export const shade = (share) => `rgb(${cividis(share).join(",")})`;

/**
 * Where a relative error lies on a logarithmic scale from 0.001 to 1: the same for every run, so colours compare.
 * @param {number | null} error
 */
export function heat(error) {
  return error === null || !(error > 0) ? 0 : (Math.log10(Math.min(1, Math.max(0.001, error))) + 3) / 3;
}

/**
 * The matrix in words.
 * @param {RunProgress} state
 */
export function describeMatrix(state) {
  const { done, total } = progress(state);
  /** @type {{recon: number, name: string} | null} */
  let worst = null;
  for (const { recon, name } of state.results.values()) {
    if (recon !== null && (worst === null || recon > worst.recon)) worst = { recon, name };
  }
  const largest = worst && `; largest relative reconstruction error ${number(worst.recon, 3)} in ${worst.name}`;
  return `${done} of ${total} layers solved${largest ?? ""}.`;
}

/**
 * A stage with its detail, where it has one: “quantizing: GPTQ, 3 bits”.
 * @param {string} name
 * @param {string} detail
 */
export const stageAndDetail = (name, detail) => (detail ? `${name}: ${detail}` : name);

/**
 * How far a stage is.
 * @param {{done: number, total: number, what: string}} advanced
 */
export const advancedWords = ({ done, total, what }) => `${count(done)} of ${count(total)} ${what}`;
