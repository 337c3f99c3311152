/**
 * What a page shows, as its address says it: one table from a control's name to its parameter, and reading and writing
 * follow from it. Pure: no DOM. A parameter that can't be used is told in words and left out, never guessed.
 *
 * @module address
 */

import { CARDS, DOORS, DRAWINGS, LADDER_STEPS, POOLINGS, QUANTITIES, SHOWN } from "./contract.js";

/**
 * How a control stands in the address.
 * @typedef {object} Parameter
 * @property {string} title
 * @property {(text: string) => string | number | undefined} read the value of a text, or undefined where it is none
 * @property {string} wants what values are allowed, in words: “bits must be …”
 * @property {string | number} [standard] the value that need not stand in the address
 * @property {string} [formerly] its former name, which is still read
 */
/** @typedef {Record<string, Parameter>} AddressTable */
/** @typedef {Record<string, any>} AddressState values by parameter; which type each has, its `read` says */
/**
 * What a link does to a page.
 * @typedef {object} Link
 * @property {string[]} hide
 * @property {string[]} lock
 * @property {boolean} embed whether it is for a frame
 * @property {string} [card] the only card of the frame; empty for the whole page
 * @property {string} [theme] of the frame, “light” or “dark”; empty for that of the page around it
 * @property {boolean} [lecture] whether it is for a hall
 */

const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;
const CONTROL = /^[a-z][a-z0-9_-]{0,40}$/;
const CHANNEL = /^[0-9a-f]{16}$/;
const DECIMAL = /^\d+(\.\d+)?(e[+-]?\d+)?$/i;
const WHOLE = /^\d{1,9}$/;

/** @param {string} title @returns {Parameter} */
const name = (title) => ({ title, read: (text) => (NAME.test(text) ? text : undefined), wants: "a name" });
/** @param {string} title @returns {Parameter} */
const size = (title) => ({
  title,
  read: (text) => (DECIMAL.test(text) && Number.isFinite(Number(text)) ? Number(text) : undefined),
  wants: "a number from 0",
});
/** @param {string} title @param {number} least @param {number} most @returns {Parameter} */
export const whole = (title, least, most) => ({
  title,
  read: (text) => (WHOLE.test(text) && Number(text) >= least && Number(text) <= most ? Number(text) : undefined),
  wants: `a whole number from ${least} to ${most}`,
});
/** @param {string} title @returns {Parameter} */
const position = (title) => ({
  title,
  read: (text) => (text === "all" ? "all" : WHOLE.test(text) ? Number(text) : undefined),
  wants: "“all” or a whole number from 0",
  standard: "all",
});
/** @param {string} title @param {readonly string[]} options @param {string} [standard] @returns {Parameter} */
export const oneOf = (title, options, standard) => ({
  title,
  read: (text) => (options.includes(text) ? text : undefined),
  wants: `one of ${options.join(", ")}`,
  ...(standard === undefined ? {} : { standard }),
});

/** @param {string} title @param {readonly string[]} all @returns {Parameter} */
const anyOrder = (title, all) => ({
  title,
  read: (text) => (text.split(",").sort().join() === [...all].sort().join() ? text : undefined),
  wants: `${all.join(", ")} in any order, joined by commas`,
  standard: all.join(),
});

/** @param {string} title @param {readonly string[]} all @returns {Parameter} */
const some = (title, all) => ({
  title,
  read: (text) => (text.split(",").every((name) => all.includes(name)) ? inOrder(text.split(","), all) : undefined),
  wants: `some of ${all.join(", ")}, joined by commas`,
});

/**
 * Names in the order of all that there are, each once, joined by commas.
 * @param {string[]} names
 * @param {readonly string[]} all
 */
const inOrder = (names, all) => all.filter((name) => names.includes(name)).join();

/** The Lab. Study, line, λ and γ have no fixed standard: without them the page opens with what tells most. */
export const LAB_VIEW = {
  study: name("study"),
  method: name("method"),
  bits: whole("bits", 1, 16),
  layer: position("layer"),
  lambda: size("λ"),
  gamma: size("γ"),
  draw: position("calibration draw"),
  quantity: oneOf("quantity of the map", Object.keys(QUANTITIES)), // standard: the line's first
  steps: anyOrder("order of the ladder’s steps", LADDER_STEPS),
  show: oneOf("quantity shown", Object.keys(SHOWN), "perplexity"),
  drawing: oneOf("drawing of the weights", Object.keys(DRAWINGS)), // standard: what fits the screen
  pool: oneOf("what a cell of the drawing says", Object.keys(POOLINGS), "max"),
  open: some("parts that are open", Object.keys(DOORS)),
  preview: name("preview"), // a run of one layer, drawn over the curves
};

/** Calibrate shows a run by its id. */
export const CALIBRATE_VIEW = {
  run: name("run"),
  kind: {
    title: "What to begin",
    read: (/** @type {string} */ text) => (text === "ladder" ? text : undefined),
    wants: "ladder",
  },
};

/** What is in every page's address beside its own parameters; the last two are of former addresses and mean nothing now. */
const OWN = ["hide", "lock", "embed", "theme", "lecture", "notes", "lang", "scale"];
const THEMES = ["light", "dark"];

/** Parameters of the frame that the pages live in: nobody's mistake. */
const FOREIGN = /^__|^deep_link$/;

/**
 * Reads an address.
 * @param {string} search the part of the URL from “?”
 * @param {AddressTable} table such as LAB_VIEW
 * @returns {{state: AddressState, problems: string[]}} the standard where nothing is given; a sentence for each
 * parameter that is unknown, given twice, or can't be read
 */
export function parse(search, table) {
  const given = new URLSearchParams(search);
  /** @type {AddressState} */
  const state = {};
  /** @type {string[]} */
  const problems = [];
  for (const [key, entry] of Object.entries(table)) {
    if (entry.standard !== undefined) state[key] = entry.standard;
    const former = entry.formerly && !given.has(key) && given.has(entry.formerly) ? entry.formerly : null;
    if (former) problems.push(`“${former}” is now “${key}”; the former name is accepted until version 1.1.`);
    const [text, ...more] = given.getAll(former ?? key);
    if (more.length) problems.push(`“${key}” is given ${more.length + 1} times: only the first is used.`);
    if (text === undefined || text === "") continue;
    const value = entry.read(text);
    if (value === undefined) problems.push(refused(key, text, entry.wants));
    else state[key] = value;
  }
  const formerNames = Object.values(table).map(({ formerly }) => formerly);
  for (const key of new Set(given.keys())) {
    if (!(key in table) && !formerNames.includes(key) && !OWN.includes(key) && !FOREIGN.test(key)) {
      problems.push(`“${shortened(key)}” is ignored: unknown parameter.`);
    }
  }
  return { state, problems };
}

/**
 * The query string of a state: names in the order of the table, standards and empty values left out.
 * @param {AddressState} state
 * @param {AddressTable} table
 * @param {{standard?: AddressState, link?: Partial<Link>}} [more] further values that need not be written (those that
 * depend on what the app holds), and what a link hides and locks
 */
export function serialise(state, table, { standard = {}, link = {} } = {}) {
  const query = new URLSearchParams();
  for (const [key, entry] of Object.entries(table)) {
    const value = state[key];
    if (value === undefined || value === null || value === "") continue;
    if (value !== entry.standard && value !== standard[key]) query.set(key, String(value));
  }
  for (const key of /** @type {const} */ (["hide", "lock"])) {
    const names = link[key] ?? [];
    if (names.length) query.set(key, names.join(","));
  }
  if (link.embed) query.set("embed", link.card || "1");
  if (link.theme) query.set("theme", link.theme);
  if (link.lecture) query.set("lecture", "1");
  const text = query.toString().replaceAll("%2C", ",");
  return text ? `?${text}` : "";
}

/**
 * What a link hides, locks, and whether it is for a frame, for a hall, or for the notes of a lecture. Names are checked for
 * their form only: which there are, the page knows (see `unknownNames`).
 * @param {string} search
 * @returns {Link & {problems: string[], lecture: boolean, notes: string}} each name once, in the given order; notes: the
 * channel of the lecture to which the window belongs, empty for every other page
 */
export function readLink(search) {
  const given = new URLSearchParams(search);
  /** @type {string[]} */
  const problems = [];
  /** @param {string} key */
  const list = (key) => {
    const names = new Set(
      (given.get(key) ?? "")
        .split(",")
        .map((one) => one.trim())
        .filter(Boolean),
    );
    return [...names].filter((one) => {
      const fits = CONTROL.test(one);
      if (!fits) problems.push(`“${shortened(one)}” in ${key} is ignored: it is not a control's name.`);
      return fits;
    });
  };
  const [hide, lock, embed, theme] = [list("hide"), list("lock"), given.get("embed") ?? "", given.get("theme") ?? ""];
  const card = Object.hasOwn(CARDS, embed) ? embed : "";
  if (!card && !["0", "1", ""].includes(embed)) problems.push(refused("embed", embed, "0, 1 or the name of a card"));
  const isTheme = THEMES.includes(theme);
  if (theme && !isTheme) problems.push(refused("theme", theme, "light or dark"));
  const [lecture, notes] = [given.get("lecture"), given.get("notes") ?? ""];
  if (lecture !== null && !["0", "1", ""].includes(lecture)) problems.push(refused("lecture", lecture, "0 or 1"));
  if (notes && !CHANNEL.test(notes)) problems.push(`“notes=${shortened(notes)}” is ignored: no lecture has that name.`);
  return {
    hide,
    lock,
    embed: embed === "1" || card !== "",
    card,
    theme: isTheme ? theme : "",
    lecture: lecture === "1" || lecture === "",
    notes: CHANNEL.test(notes) ? notes : "",
    problems,
  };
}

/**
 * A sentence for each name of a link that the page does not have; panels can be hidden but not locked.
 * @param {Pick<Link, "hide" | "lock">} link
 * @param {Readonly<Record<string, string>>} controls
 * @param {Readonly<Record<string, string>>} [panels]
 */
export function unknownNames({ hide, lock }, controls, panels = {}) {
  const missing = hide.filter((one) => !(one in controls) && !(one in panels));
  const fixed = lock.filter((one) => !(one in controls));
  return [
    ...missing.map((name) => `“${name}” in hide is ignored: unknown name.`),
    ...fixed.map((name) =>
      name in panels
        ? `“${name}” in lock is ignored: it can be hidden, not locked.`
        : `“${name}” in lock is ignored: unknown control.`,
    ),
  ];
}

/**
 * What of a state a study does not have, taken out of it.
 * @param {AddressState} state
 * @param {{lines: {name: string, method: string, bits: number, draws: number[]}[], layers: number}} study
 * @returns {{state: AddressState, problems: string[]}}
 */
export function fit(state, study) {
  const fitted = { ...state };
  /** @type {string[]} */
  const problems = [];
  /** @param {"bits" | "method" | "layer" | "draw"} key @param {string} words */
  const drop = (key, words) => {
    problems.push(words);
    if (LAB_VIEW[key].standard === undefined) delete fitted[key];
    else fitted[key] = LAB_VIEW[key].standard;
  };
  const { bits, method, layer, draw } = state;
  const named = study.lines.filter((line) => method === undefined || line.name === method || line.method === method);
  const wide = study.lines.filter((line) => bits === undefined || line.bits === bits);
  if (!wide.length) drop("bits", `This study has nothing at ${bits} bits: “bits” is ignored.`);
  if (!named.length) drop("method", `This study has no method ${method}: “method” is ignored.`);
  else if (wide.length && !named.some((line) => wide.includes(line)))
    drop("method", `This study has no ${method} at ${bits} bits: “method” is ignored.`);
  if (layer !== undefined && layer !== "all" && layer >= study.layers)
    drop("layer", `This study has ${study.layers} layers, from 0: “layer” is ignored.`);
  if (draw !== undefined && draw !== "all" && !study.lines.some((line) => line.draws?.includes(draw)))
    drop("draw", `This study has no calibration draw ${draw}: “draw” is ignored.`);
  return { state: fitted, problems };
}

/** A value that can't be used. @param {string} key @param {string} text @param {string} wants */
const refused = (key, text, wants) => `“${key}=${shortened(text)}” is ignored: ${key} must be ${wants}.`;

/** @param {string} text */
const shortened = (text) => (text.length > 40 ? `${text.slice(0, 39)}…` : text);
