/**
 * The Lab around its explorer, as plain data: which studies there are, what the address asked for, what the lists above
 * the figures offer, and the preview that is being computed. Pure: no page, no request.
 * @module lab/state
 */

import { fit, LAB_VIEW } from "../base/address.js";
import { ORIGINS, plain } from "../base/format.js";
import { METHODS } from "../base/recipe_contract.js";
import { mayRun } from "../base/whoami.js";
import { carriedOn } from "../explorer/state.js";
import * as Preview from "./preview.js";
import { recipeFor } from "./preview_recipe.js";

/** @import { Trouble } from "../base/problem.js" */
/** @import { ModelEntry } from "../base/types.d.ts" */
/** @import { Visitor } from "../base/whoami.js" */
/** @import { Overlay, View, Wanted } from "../explorer/state.js" */

/** @type {Object<string, string>} lists that are locked by another's name */
const LOCKED_AS = { block: "layer", model: "study" };

/** @typedef {import("../explorer/state.js").State} ExplorerState */
/**
 * @typedef {object} Study an entry of GET /studies
 * @property {string} id
 * @property {string} title
 * @property {string} created
 * @property {string} origin
 * @property {boolean} shipped
 * @property {string} model
 * @property {boolean} has_curves
 * @property {boolean} has_codes with which its page runs the model
 * @property {{name: string, method: string, bits: number, draws: number[], lambdas: number, lam: number|null}[]} lines
 * @property {number} layers how many
 */
/**
 * @typedef {object} State
 * @property {Study[]|null} studies null before the server has answered
 * @property {string|null} first the study that opens without a wish
 * @property {Partial<Wanted>} wanted by the page's address
 * @property {string[]} remarks on what of the address could not be used
 * @property {ExplorerState} explored what the explorer shows
 * @property {ModelEntry[]|null} models that this host can compute with, once they are known
 * @property {import("./preview.js").Preview|null} preview that is being computed, or was
 * @property {Trouble|null} trouble with the last preview
 */
/** @typedef {[value: string|number, text: string]} Option */
/** @typedef {{title: string|null, options: Option[]}} Group of options; those of the group without a title stand alone */
/**
 * @typedef {object} Choice one of the lists
 * @property {string} name
 * @property {Group[]} groups without any the list is not there
 * @property {string} value
 * @property {boolean} disabled
 */
/**
 * @typedef {{type: "listed", studies: Study[], first: string|null} | {type: "remarked", remarks: string[]}
 *   | {type: "explored", explored: ExplorerState}
 *   | {type: "offered", models: ModelEntry[]}
 *   | {type: "begun", recipe: Partial<import("../base/types.d.ts").Recipe>}
 *   | {type: "made", run: import("../base/types.d.ts").Run}
 *   | {type: "event", event: import("../base/types.d.ts").RunEvent} | {type: "heard", lost: boolean}
 *   | {type: "stopping"} | {type: "kept"} | {type: "over", problem: Trouble|null}
 *   | {type: "troubled", problem: Trouble}} Action
 */

/**
 * @param {{explored: ExplorerState, wanted: Partial<Wanted>}} page
 * @returns {State}
 */
export const initial = ({ explored, wanted }) => ({
  studies: null,
  first: null,
  wanted,
  remarks: [],
  explored,
  models: null,
  preview: null,
  trouble: null,
});

/**
 * @param {State} state
 * @param {Action} action
 * @returns {State}
 */
export function reduce(state, action) {
  const { preview } = state;
  switch (action.type) {
    case "listed":
      return { ...state, studies: action.studies, first: action.first };
    case "remarked":
      return { ...state, remarks: [...state.remarks, ...action.remarks] };
    case "explored":
      return { ...state, explored: action.explored };
    case "offered":
      return { ...state, models: action.models };
    case "begun":
      return { ...state, preview: Preview.initial(action.recipe), trouble: null, wanted: unawaited(state) };
    case "made": {
      const made = Preview.initial(action.run.recipe, action.run);
      const stopping = preview?.stopping ?? false;
      return { ...state, preview: { ...made, stopping }, trouble: null, wanted: unawaited(state) };
    }
    case "over":
      return { ...state, preview: null, trouble: action.problem, wanted: unawaited(state) };
    case "troubled":
      return { ...state, trouble: action.problem };
  }
  if (!preview) return state; // it is over, and what is still on its way is late
  switch (action.type) {
    case "event":
      return { ...state, preview: Preview.reduce(preview, action.event) };
    case "heard":
      return { ...state, preview: { ...preview, lost: action.lost } };
    case "stopping":
      return { ...state, preview: { ...preview, stopping: true } };
    case "kept":
      return { ...state, preview: { ...preview, kept: true } };
  }
}

/** What the address asked for, but for its preview. @param {State} state */
const unawaited = ({ wanted }) => ({ ...wanted, preview: undefined });

/** The preview that the address is to name: the one that is there, or that is being looked for. @param {State} state */
export const previewOf = ({ preview, wanted }) => preview?.run ?? wanted.preview;

/** What a preview of the shown point would ask for; null where there is none to be. @param {State} state */
const askedAt = ({ explored: { view, at } }) => view && recipeFor(view, at, METHODS[view.line.method]);

/**
 * What is to be said of the preview beside the curves that are shown.
 * @param {State} state
 * @returns {string[]}
 */
export function previewFacts(state) {
  const { preview, explored } = state;
  const [asked, { view }] = [askedAt(state), explored];
  if (!preview || !view) return [];
  if (!asked || !Preview.isOf(preview, asked)) return ["drawn where its layer, method and γ are shown"];
  return Preview.differences(preview, asked, view);
}

/**
 * Makes the function that says what is drawn over the main figure in a state: the same object while nothing of it changes.
 * @returns {(state: State) => Overlay|null}
 */
export function overlays() {
  /** @type {unknown[]} */
  let from = [];
  /** @type {Overlay|null} */
  let overlay = null;
  return (state) => {
    const { preview, explored } = state;
    const now = [preview, explored.view, explored.at.gamma];
    if (now.every((one, index) => one === from[index])) return overlay;
    from = now;
    const asked = askedAt(state);
    const fits = preview && asked && Preview.isOf(preview, asked);
    overlay = fits && Preview.solved(preview) ? Preview.overlay(preview) : null;
    return overlay;
  };
}

/** True where there is no study, and nothing went wrong in finding that out. @param {State} state */
export const isEmpty = ({ studies, explored }) => studies?.length === 0 && explored.problem === null;

/** True where the address names nothing that can be shown. @param {State} state */
export const isLost = ({ studies, explored }) =>
  studies !== null && studies.length > 0 && explored.problem !== null && explored.view === null;

/** True once there is something to see: before, nothing of the page stands where it will stay. @param {State} state */
export const isOpen = ({ studies, explored }) =>
  explored.pictured || explored.problem !== null || studies?.length === 0;

/**
 * What the page opens with: without a wish the study that the server names.
 * @param {{studies: Study[], first: string|null}} listing
 * @param {Partial<Wanted>} wanted by the address
 * @returns {{load: Wanted|null, remarks: string[], problem: Trouble|null}}
 */
export function opening({ studies, first }, wanted) {
  const nothing = { load: null, remarks: [], problem: null };
  if (!studies.length) return nothing;
  const named = studies.find((study) => study.id === wanted.study);
  if (wanted.study && !named) {
    const problem = {
      what: `Study “${wanted.study}” not found.`,
      where: `?study=${wanted.study} in the address of this page`,
      remedy: "It may have been deleted, or not be yours to see. These studies are here:",
    };
    return { ...nothing, problem };
  }
  const story = named ?? studies.find((study) => study.id === first) ?? studies[0];
  const { state, problems } = fit({ ...wanted, study: story.id }, story);
  return { load: /** @type {Wanted} */ (state), remarks: problems, problem: null };
}

/**
 * What has to be fetched when something is chosen in a list: another view, or only the map by another quantity.
 * @param {ExplorerState} explored
 * @param {string} list its name
 * @param {string} text the chosen value
 * @returns {{load: Wanted} | {recolour: string} | null}
 */
export function fetchedFor(explored, list, text) {
  const { view } = explored;
  const name = { block: "layer", model: "study" }[list] ?? list; // a block leads to its first layer
  const value = /** @type {Object<string, {read: (text: string) => any}>} */ (LAB_VIEW)[name].read(text);
  if (!view) return name === "study" ? { load: { study: value } } : null;
  const wanted = { ...carriedOn({ ...explored, view }), [name]: value };
  if (name === "quantity") return { recolour: value };
  if (name === "study") {
    // Another study has other lines and layers; only the place on the λ axis is worth keeping.
    const { study, lambda, gamma, drawing, quantity } = wanted;
    return { load: { study, lambda, gamma, drawing, quantity } };
  }
  // The method is kept when the width changes, if the study has it there.
  const has = view.choices.some((line) => line.name === wanted.method && line.bits === wanted.bits);
  return { load: name === "bits" && !has ? { ...wanted, method: undefined } : wanted };
}

/**
 * The lists without the layers and draws of which there are no views; a list of the shown one alone is not there.
 * @param {State} state
 * @param {(wanted: Wanted) => boolean} holds whether a view can be had
 * @returns {Choice[]}
 */
export function picks(state, holds = () => true) {
  const { explored } = state;
  /** @param {string} name @param {Option} option */
  const isThere = (name, [value]) => {
    const wish = fetchedFor(explored, name, String(value));
    return !wish || !("load" in wish) || holds(wish.load);
  };
  return everyPick(state).map((pick) => {
    if (!["block", "layer", "draw"].includes(pick.name)) return pick;
    const groups = pick.groups.map((group) => ({
      ...group,
      options: group.options.filter((option) => isThere(pick.name, option)),
    }));
    const [all, left] = [pick.groups, groups].map((some) => some.flatMap(({ options }) => options).length);
    return left === all ? pick : { ...pick, groups: left > 1 ? groups : [], disabled: pick.disabled || left < 2 };
  });
}

/**
 * The lists of models and of the studies of the shown one, which is not there where there is one alone.
 * @param {Study[]} studies
 * @param {string|undefined} shown
 * @param {boolean} isLocked
 * @returns {Choice[]}
 */
function studyLists(studies, shown = "", isLocked) {
  const model = studies.find(({ id }) => id === shown)?.model;
  const ofModel = (/** @type {string|undefined} */ name) => studies.filter((study) => study.model === name);
  const models = [...new Set(studies.map((study) => study.model))].map(
    /** @returns {Option} */ (name) => [name === model ? shown : fullest(ofModel(name)).id, name],
  );
  const further = ofModel(model);
  const groups = [
    { title: null, options: further.filter((study) => study.shipped).map(studyOption) },
    {
      title: "Your runs",
      options: further
        .filter((study) => !study.shipped)
        .sort(byLam)
        .map(runOption),
    },
  ].filter(({ options }) => options.length);
  return [
    {
      name: "model",
      groups: models.length ? [{ title: null, options: models }] : [],
      value: shown,
      disabled: isLocked || models.length < 2,
    },
    {
      name: "study",
      groups: further.length < 2 ? [] : groups,
      value: shown,
      disabled: isLocked || further.length < 2,
    },
  ];
}

/**
 * All the lists, in the order of the page.
 * @param {State} state
 * @returns {Choice[]}
 */
function everyPick({ studies, wanted, explored: { view, locked } }) {
  /** @type {(name: string, options: Option[], value: string|number|null|undefined) => Choice} */
  const list = (name, options, value) => ({
    name,
    groups: options.length ? [{ title: null, options }] : [],
    value: String(value ?? ""),
    disabled: options.length < 2 || locked.includes(LOCKED_AS[name] ?? name),
  });
  const top = studyLists(studies ?? [], view?.study.id ?? wanted.study, locked.includes("study"));
  if (!view) return top;
  const { line } = view;
  const widths = [...new Set(view.choices.map(({ bits }) => bits))].sort((a, b) => a - b);
  const lines = view.choices.filter(({ bits }) => bits === line.bits);
  const { blocks, block, groups, layer } = layerChoice(view);
  /** @type {Option[]} */
  const draws = view.draws.map((seed) => [seed, `draw ${seed}`]);
  return [
    ...top,
    list(
      "bits",
      widths.map(/** @returns {Option} */ (bits) => [bits, `${bits}-bit`]),
      line.bits,
    ),
    list(
      "method",
      lines.map(
        /** @returns {Option} */ ({ name, title, method }) => [
          name,
          // several of one title are told apart by their names
          lines.filter((one) => one.title === title).length > 1 ? `${title} · ${method}` : title,
        ],
      ),
      line.name,
    ),
    list("block", blocks ?? [], block),
    { name: "layer", groups, value: layer, disabled: view.layers.length < 2 || locked.includes("layer") },
    list("draw", draws.length > 1 ? [["all", `${draws.length} draws`], ...draws] : [], view.draw ?? "all"),
    list(
      "quantity",
      view.quantities.map(/** @returns {Option} */ ({ name, title }) => [name, title]),
      view.quantity,
    ),
  ];
}

/** The study with the most points of a line over its draws, with which its model opens. @param {Study[]} studies */
const fullest = (studies) => studies.reduce((best, study) => (points(study) > points(best) ? study : best));

/** @param {Study} study */
const points = ({ lines }) => Math.max(0, ...lines.map(({ draws, lambdas }) => draws.length * lambdas));

/** @param {Study} one @param {Study} other */
const byLam = ({ lines: [one] }, { lines: [other] }) => (one?.lam ?? -1) - (other?.lam ?? -1);

/**
 * A study without the name of its model, which another list has, and with where it comes from, when that is not this
 * host's app.
 * @param {Study} study
 * @returns {Option}
 */
function studyOption({ id, title, origin, model }) {
  const from = /** @type {Object<string, string>} */ (ORIGINS)[origin];
  const name = title.startsWith(`${model}, `) ? title.slice(model.length + 2) : title.split(": ").at(-1);
  return [id, `${name || id}${from ? ` · ${from}` : ""}`];
}

/**
 * A study of one's own: of a run its λ, width and method.
 * @param {Study} study
 * @returns {Option}
 */
function runOption(study) {
  const [{ lam, bits, method }, ...more] = study.lines;
  if (study.origin !== "run" || more.length) return studyOption(study);
  const facts = [lam === null ? "no λ" : `λ = ${plain(lam)}`, `${bits} bits`, METHODS[method]?.also || method];
  return [study.id, `${facts.join(", ")} · ${study.created.slice(5, 16).replace("T", " ")}`];
}

/** A study whose page runs its model; undefined where none is kept with codes. @param {State} state */
export const runningModel = ({ studies }) => studies?.find((study) => study.has_codes && study.shipped);

/**
 * Choosing a layer: one list for a dense model; for a mixture, which may have thousands of layers, a block and then a
 * layer of it, grouped by expert. Both are ordinary lists, so typing finds an entry.
 * @param {Pick<View, "layers"|"layer"|"blocks">} view `layers` of a mixture are those of the shown block
 * @returns {{blocks: Option[]|null, block: string, groups: Group[], layer: string}} `blocks` is null for a dense model,
 *   whose layers stand in one group
 */
export function layerChoice({ layers, layer: chosen, blocks }) {
  /** @type {Option} */
  const all = ["all", "all layers"];
  const layer = chosen === null ? "all" : String(chosen);
  if (!blocks) {
    const options = layers.map(/** @returns {Option} */ ({ index, label }) => [index, label]);
    return { blocks: null, block: "all", groups: [{ title: null, options: [all, ...options] }], layer };
  }
  const offered = [all, ...blocks.map(/** @returns {Option} */ ([block, first]) => [first, `block ${block}`])];
  if (chosen === null) return { blocks: offered, block: "all", groups: [], layer }; // the list of blocks says it
  /** @type {Map<string, Option[]>} */
  const groups = new Map();
  for (const { index, label, block, expert } of layers) {
    const title = expert === null ? `block ${block}` : `expert ${expert}`;
    const group = groups.get(title) ?? [];
    groups.set(title, group);
    group.push([index, label.split(" · ").slice(1).join(" · ")]);
  }
  const here = layers[0].block;
  return {
    blocks: offered,
    block: String(blocks.find(([block]) => block === here)?.[1]),
    groups: [...groups].map(([title, options]) => ({ title, options })),
    layer,
  };
}

/**
 * What needs not stand in the address of a view: the first study, its first line, and the point where a line opens.
 * @param {View} view
 * @param {string|null} first
 */
export function standard({ line, default: usual, lams, gammas, start, quantities }, first) {
  const isUsual = line.name === usual.method && line.bits === usual.bits;
  return {
    study: first,
    ...(isUsual ? { method: line.name, bits: line.bits } : {}),
    lambda: lams[start.lambda],
    gamma: gammas[start.gamma],
    quantity: quantities[0]?.name,
  };
}

/**
 * What the browser's Back undoes one by one: another study, width, method or layer. λ and γ move too often for that.
 * @param {Wanted} address
 */
export const stepOf = ({ study, bits, method, layer }) => [study, bits, method, layer].join(" ");

/**
 * Values of a link that the shown line does not have, and what is shown instead.
 * @param {Partial<Wanted>} wanted
 * @param {{view: Pick<View, "line"|"lams"|"lam_texts"|"gammas"|"second"|"gamma_texts"|"quantity">,
 *   at: import("../charts/bind.js").Point}} point
 * @returns {string[]}
 */
export function elsewhere({ lambda, gamma, quantity }, { view, at }) {
  /** @type {(sign: string, value: number|undefined, values: (number|null)[], texts: string[], place: number) => string[]} */
  const nearby = (sign, value, values, texts, place) => {
    if (value === undefined || values.includes(value)) return [];
    const instead = texts[place] ? `${sign} = ${texts[place]} is shown` : "it has none";
    return [`${sign} = ${value} was not measured: ${instead}.`];
  };
  const { has_lam: hasLam } = view.line;
  return [
    ...nearby("λ", lambda, hasLam ? view.lams : [], hasLam ? view.lam_texts : [], at.lambda),
    ...nearby(view.second.sign, gamma, view.gammas, view.gamma_texts, at.gamma),
    ...(quantity !== undefined && quantity !== view.quantity
      ? [`This line has no map of “${quantity ?? ""}”: the first it has is shown.`]
      : []),
  ];
}

/**
 * The shown study where it can be shown to others by a link: those that came with the app everybody sees anyway, and a
 * private host has no others. Null for none.
 * @param {State} state
 * @param {Visitor} who
 */
export function toShare({ studies, explored }, who) {
  const study = studies?.find(({ id }) => id === explored.view?.study.id);
  return who.public && mayRun(who) && study && study.origin !== "shipped" ? study.id : null;
}

/**
 * The shown study where its site can be written; null for none.
 * @param {State} state
 * @param {Visitor} who
 */
export const toPublish = ({ explored }, who) => (mayRun(who) ? (explored.view?.study.id ?? null) : null);
