/**
 * What the page of runs knows and what may be done with each run. Pure: no DOM. The server filters, sorts and cuts the
 * list; here is one page of it, and what the stream says since.
 * @module runs/runs_state
 */

import { AT_REST, RUN_SORTS } from "../base/contract.js";
import { counted, count as grouped } from "../base/format.js";
import { mayChange } from "../base/whoami.js";
import { decimalsOf } from "../calibrate/distances.js";
import { shortModel } from "../calibrate/recipe_form.js";

/** @import { Answer, Query, Row, Run, RunsAction, RunsState } from "./types.d.ts" */

export const PAGE = 50; // rows
export const MOST_PICKED = 200; // as many as the server takes at once
export const MOST_COMPARED = 8; // studies in one comparison
export const SORT = "-created";
const GROUPINGS = ["", "seeds", "batch"];

/** @type {Query} */
const EVERYTHING = { filter: "", sort: SORT, group: "", page: 0 };

/** @type {RunsState} */
export const START = {
  query: EVERYTHING,
  runs: new Map(),
  groups: null,
  unfolded: new Map(),
  total: null,
  all: 0,
  isStale: false,
  isLoading: false,
  heard: new Map(),
  picked: new Map(),
  asking: null,
  deleting: null,
  editing: null,
  said: "",
  trouble: null,
  isLost: false,
  who: null,
};

/**
 * @param {RunsState} state
 * @param {RunsAction} action
 * @returns {RunsState}
 */
export function reduce(state, action) {
  switch (action.type) {
    case "visited":
      return { ...state, who: action.who };
    case "asked": // from the first page again, unless a page was asked for
      return { ...state, query: { ...state.query, page: 0, ...action.query }, isStale: true };
    case "loading":
      return { ...state, isLoading: true, isStale: false };
    case "listed":
      return listed(state, action.answer);
    case "unfolded": {
      const unfolded = new Map(state.unfolded);
      if (action.runs) unfolded.set(action.key, action.runs);
      else unfolded.delete(action.key);
      return { ...state, unfolded };
    }
    case "changed":
      return changed(state, action.run);
    case "removed":
      return removed(state, action.id);
    case "picked": {
      const picked = new Map(state.picked);
      for (const run of action.runs) {
        if (!action.isPicked) picked.delete(run.id);
        else if (picked.size < MOST_PICKED) picked.set(run.id, run);
      }
      return { ...state, picked, asking: null, said: "", trouble: null };
    }
    case "picked none":
      return { ...state, picked: new Map(), asking: null };
    case "asking":
      return { ...state, asking: action.what, said: "" };
    case "deletion asked":
      return { ...state, deleting: action.id };
    case "editing":
      return { ...state, editing: action.id };
    case "said":
      return { ...state, said: action.words, asking: null };
    case "trouble":
      return { ...state, trouble: action.trouble };
    case "stream":
      return { ...state, isLost: action.isLost };
  }
}

/**
 * @param {RunsState} state
 * @param {Answer} answer
 */
function listed(state, { runs, groups, total }) {
  const pages = Math.max(1, Math.ceil(total / PAGE));
  const shared = { ...state, total, isLoading: false, heard: new Map() };
  if (state.query.page >= pages) return { ...shared, query: { ...state.query, page: pages - 1 }, isStale: true };
  if (Array.isArray(runs)) {
    const shown = new Map(runs.map((run) => [run.id, newer(state.runs.get(run.id), run)]));
    return { ...shared, runs: shown, groups: null, unfolded: new Map(), all: total };
  }
  return { ...shared, runs: new Map(), groups: groups ?? [], all: runs };
}

/** The later of two versions of a run. @param {Run | undefined} known @param {Run} run */
const newer = (known, run) => (known && known.revision > run.revision ? known : run);

/** What of a run decides where it is listed: progress does not. @param {Run} run */
const signature = ({ state, name, note, tags, summary }) => JSON.stringify([state, name, note, tags, summary]);

/**
 * A run as the stream has it takes the place of the one that is shown. One that may have to be listed elsewhere, or to
 * come into the list, makes the page stale.
 * @param {RunsState} state
 * @param {Run} run
 */
function changed(state, run) {
  const inGroups = [...state.unfolded].find(([, runs]) => runs.some(({ id }) => id === run.id));
  const shown = state.runs.get(run.id) ?? inGroups?.[1].find(({ id }) => id === run.id);
  const known = shown ? signature(shown) : state.heard.get(run.id);
  const isStale = state.isStale || known !== signature(run);
  const next = { ...state, isStale };
  if (state.picked.has(run.id)) next.picked = new Map([...state.picked, [run.id, run]]);
  if (!shown) return { ...next, heard: new Map([...state.heard, [run.id, signature(run)]]) };
  if (shown.revision >= run.revision) return { ...state };
  if (!inGroups) return { ...next, runs: new Map([...state.runs, [run.id, run]]) };
  const [key, runs] = inGroups;
  const replaced = runs.map((one) => (one.id === run.id ? run : one));
  return { ...next, unfolded: new Map([...state.unfolded, [key, replaced]]) };
}

/**
 * @param {RunsState} state
 * @param {string} id
 */
function removed(state, id) {
  const without = (/** @type {ReadonlyMap<string, Run>} */ runs) => new Map([...runs].filter(([one]) => one !== id));
  const unfolded = new Map([...state.unfolded].map(([key, runs]) => [key, runs.filter((run) => run.id !== id)]));
  return { ...state, runs: without(state.runs), picked: without(state.picked), unfolded, isStale: true };
}

/**
 * The rows of the table: runs, or groups with those of their runs that are unfolded. A group of one is its run.
 * @param {RunsState} state
 * @returns {Row[]}
 */
export function rows({ runs, groups, unfolded }) {
  if (!groups) return [...runs.values()].map((run) => ({ run, isInner: false }));
  return groups.flatMap((group) => {
    if (group.count === 1) return [{ run: group.run, isInner: false }];
    const inner = (unfolded.get(group.key) ?? []).map((run) => ({ run, isInner: true }));
    return [{ group }, ...inner];
  });
}

/** The runs among the rows. @param {RunsState} state */
export const shownRuns = (state) => rows(state).flatMap(({ run }) => (run ? [run] : []));

/**
 * How many runs the list has.
 * @param {RunsState} state
 */
export function count({ query, total, all, groups }) {
  if (total === null) return "";
  const runs = `${amount(all, "run")}${query.filter.trim() ? " found" : ""}`;
  return groups ? `${runs} in ${amount(total, "group")}` : runs;
}

/** @param {number} value @param {string} noun */
const amount = (value, noun) => counted(value, noun, grouped(value));

/** Which rows the page shows, of how many. @param {RunsState} state */
export function place({ query: { page }, total }) {
  const all = total ?? 0;
  const last = Math.max(0, Math.ceil(all / PAGE) - 1);
  const [from, to] = [page * PAGE + 1, Math.min(all, (page + 1) * PAGE)];
  return { last, words: last ? `${grouped(from)} to ${grouped(to)} of ${grouped(all)}` : "" };
}

/**
 * The list as a request's query, in its part that every answer needs.
 * @param {Query} query
 */
export function asked({ filter, sort }) {
  const search = new URLSearchParams();
  if (filter.trim()) search.set("filter", filter.trim());
  if (sort !== SORT) search.set("sort", sort);
  return search;
}

/** The address of the page of the list. @param {Query} query */
export function pathOf(query) {
  const search = asked(query);
  search.set("limit", String(PAGE));
  if (query.page) search.set("offset", String(query.page * PAGE));
  if (query.group) search.set("by", query.group);
  return `/runs${query.group ? "/groups" : ""}?${search}`;
}

/** What a file or a figure is made of: the picked runs, or all that pass the filter. @param {RunsState} state */
export function chosen({ query, picked }) {
  const search = asked(query);
  if (picked.size) {
    search.delete("filter");
    search.set("ids", [...picked.keys()].join(","));
  }
  return search;
}

/**
 * The query of the page's address, and back; what an address can't mean is left out.
 * @param {URLSearchParams} search
 * @returns {Query}
 */
export function readQuery(search) {
  const sort = search.get("sort") ?? SORT;
  const group = search.get("group") ?? "";
  const page = Number(search.get("page") ?? 1);
  return {
    filter: search.get("filter") ?? "",
    sort: RUN_SORTS.includes(sort.replace(/^-/, "")) ? sort : SORT,
    group: /** @type {Query["group"]} */ (GROUPINGS.includes(group) ? group : ""),
    page: Number.isInteger(page) && page > 0 ? page - 1 : 0,
  };
}

/** The page's address of that. @param {Query} query */
export function addressOf(query) {
  const search = asked(query);
  if (query.group) search.set("group", query.group);
  if (query.page) search.set("page", String(query.page + 1));
  const text = search.toString();
  return text ? `?${text}` : "";
}

/**
 * What a click on a column's head sorts by: it turns what is sorted by it already. Quality and names begin with the
 * least, all else with the most.
 * @param {string} sort
 * @param {string} name
 */
export function sortedBy(sort, name) {
  if (sort.replace(/^-/, "") === name) return sort.startsWith("-") ? name : `-${name}`;
  const most = ["created", "accuracy", "size", "duration"];
  return most.includes(name) ? `-${name}` : name;
}

/**
 * The picked runs that can be compared: those with a study.
 * @param {RunsState} state
 * @returns {(Run & {study_id: string})[]}
 */
export const comparable = ({ picked }) =>
  [...picked.values()].flatMap((run) => (run.study_id ? [{ ...run, study_id: run.study_id }] : []));

/**
 * Why the picked runs can't be compared, as what to do about it; empty where they can. By the rules of the server.
 * @param {RunsState} state
 */
export function whyNotCompared(state) {
  const runs = comparable(state);
  if (runs.length < 2 || runs.length > MOST_COMPARED) return `Pick two to ${MOST_COMPARED} finished runs`;
  const models = [...new Set(runs.map(({ recipe }) => recipe.model))];
  if (models.length > 1) return `Pick runs of one model: these are of ${among(models.map(shortModel))}`;
  const tests = [...new Set(runs.flatMap(({ test }) => test || []))];
  if (tests.length > 1) return `Pick runs with one test text: these have ${among(tests)}`;
  return "";
}

/** @param {readonly string[]} words */
const among = (words) => `${words.slice(0, -1).join(", ")} and ${words.at(-1) ?? ""}`;

/** Whether perplexities of the list are on several test texts. @param {RunsState} state */
export const manyTexts = (state) => new Set(shownRuns(state).flatMap(({ test }) => test || [])).size > 1;

/** A run's test text, without its windows and tokens. @param {Run} run */
export const testName = ({ test, summary }) => {
  const { corpus, part } = summary?.protocol?.test ?? {};
  return corpus ? [corpus, part].filter(Boolean).join(", ") : test;
};

/**
 * What stands before many runs are deleted for good.
 * @param {RunsState} state
 */
export function deletionWords({ picked, who }) {
  const runs = [...picked.values()];
  const theirs = runs.filter(({ owner }) => !mayChange(who, owner)).length;
  const busy = runs.filter(({ state, owner }) => mayChange(who, owner) && !AT_REST.includes(state)).length;
  const gone = runs.length - theirs - busy;
  const words = [`Delete ${amount(gone, "run")} for good, with studies, logs and exports?`];
  const stay = (/** @type {number} */ some) => (some === 1 ? "stays" : "stay");
  if (busy) words.push(`${amount(busy, "run")} at work or waiting ${stay(busy)}: cancel first.`);
  if (theirs) words.push(`${amount(theirs, "run")} of others ${stay(theirs)}.`);
  return words.join(" ");
}

/**
 * What came of a deed on many runs.
 * @typedef {"deleted" | "tagged" | "without the tag"} Verb
 * @param {Verb} verb
 * @param {{done: string[], left: {error: {what: string}}[]}} answer
 */
export function outcomeWords(verb, { done, left }) {
  const words = [`${amount(done.length, "run")} ${verb}.`];
  const why = [...new Set(left.map(({ error }) => error.what))].join("; ");
  if (left.length) words.push(`${amount(left.length, "run")} ${left.length === 1 ? "was" : "were"} left: ${why}.`);
  return words.join(" ");
}

/**
 * Perplexity of the quantized model; of a tuning run that of its best λ.
 * @param {Run} run
 */
export const perplexity = ({ summary, tuned }) => (tuned ? tuned.perplexity : (summary?.perplexity ?? null));

/** Seconds from start to end; null where one is missing. @param {Run} run */
export const seconds = ({ started, ended }) =>
  started && ended ? (Date.parse(ended) - Date.parse(started)) / 1000 : null;

/**
 * “0.034 ± 0.002”: the error with one digit, two where it begins with 1, and the value with as many decimals.
 * @param {number} value
 * @param {number | null | undefined} error
 * @param {(value: number, decimals: number) => string} write
 * @param {number} decimals where the error is not known
 */
export function plusMinus(value, error, write, decimals) {
  if (!error) return write(value, decimals);
  const digits = Math.min(4, decimalsOf(error));
  return `${write(value, digits)}\u00a0±\u00a0${write(error, digits)}`;
}

/**
 * What may be done with a run where it stands, by name, in the order of its buttons.
 * @param {Pick<RunsState, "deleting" | "who">} state
 * @param {Run} run
 */
export function deeds({ deleting, who }, { id, state, batch, study_id, owner }) {
  const isTheirs = mayChange(who, owner);
  const deletion = deleting === id ? ["delete-yes", "delete-no"] : ["delete"];
  return [
    ...(batch ? ["batch"] : []),
    ...(study_id ? ["lab"] : []),
    ...(isTheirs && ["queued", "running"].includes(state) ? ["cancel"] : []),
    ...(isTheirs && AT_REST.includes(state) && state !== "finished" ? ["continue"] : []),
    ...(isTheirs && AT_REST.includes(state) ? deletion : []),
  ];
}
