/**
 * What λ is worth beside the other choices of a column solver, each alone and after all the others.
 * @module learn/knobs
 */

import { LADDER_STEPS } from "../base/contract.js";
import { plain } from "../base/format.js";
import { afterGuess } from "../charts/chart.js";
import { label, ROLES, s, segment } from "../charts/svg.js";
import { asking } from "./address.js";
import { choices } from "./controls.js";
import { guessed, piece } from "./pieces.js";
import { bestOf, viewOf } from "./shipped_study.js";

/**
 * @typedef {import("./types.d.ts").Asking} Settings
 * @typedef {import("./types.d.ts").View} Data
 * @typedef {NonNullable<ReturnType<typeof facts>>} Facts
 * @typedef {import("../base/types.d.ts").EvidenceDocument} Worth
 */

/** @type {Object<string, {title: string, explained: string}>} */
const KNOBS = {
  order: { title: "the order", explained: "columns with large inputs first" },
  range: { title: "the range", explained: "levels closer together, outliers cut" },
  lambda: { title: `λ = ${plain(0.1)}`, explained: "the penalty, ten times GPTQ’s" },
  refine: { title: "refinement", explained: "three more passes over the codes" },
};

const [ALONE, AFTER] = [ROLES.quality.color, "var(--quality-faint)"];
const WORDS = 128; // pixels to the right of the longest bar

/** The guess is a position among the knobs, from 1. */
export const state = {
  guess: {
    title: "guess",
    read: (/** @type {string} */ text) => (/^[1-4]$/.test(text) ? Number(text) : undefined),
    wants: "a whole number from 1 to 4",
  },
};

/** @type {Settings} */
export const start = {};

/** @param {import("./types.d.ts").Given} given */
export const prepare = ({ study: { id, bits, identity } }) => viewOf(id, { method: identity, bits });

/**
 * What each knob saves in perplexity; a study without a ladder has none of it.
 * @param {Settings} settings
 * @param {Data|null} data
 */
export function facts(settings, data) {
  if (!data?.ladder) return null;
  const { steps, alone, last } = data.ladder;
  const knobs = LADDER_STEPS.map((name) => {
    const at = steps.findIndex((step) => step.name === name);
    return { name, ...KNOBS[name], alone: alone[at], last: last[at] };
  });
  return {
    ...asking(settings),
    guess: settings.guess,
    knobs,
    most: bestOf(knobs.map((knob) => knob.alone.change)),
    draws: data.line.draws.length,
  };
}

/** A comparison within a sentence. @param {Worth} worth */
const within = ({ words }) => `${words[0].toLowerCase()}${words.slice(1)}`;

/** What helps alone and harms after the others. @param {Facts["knobs"][0]} knob */
const turns = ({ alone, last }) => alone.verdict === "better" && last.verdict === "worse";

/** @type {import("./types.d.ts").StepModule<Settings, Data, Facts>["answer"]} */
export function answer({ guess, knobs, most }) {
  const lam = knobs[LADDER_STEPS.indexOf("lambda")];
  const best = knobs[most];
  return [
    guess === undefined ? "" : guessed(knobs[guess - 1].title),
    piece("quality", `Worth most is ${best.title}: ${within(best.alone)}`),
    ` λ alone: ${within(lam.alone)} After all the others: ${within(lam.last)}`,
    ...knobs.filter(turns).map(({ title }) => ` After the others ${title} does harm.`),
  ];
}

/** @param {Facts} facts */
export function aria({ answered, knobs }) {
  if (!answered) return `Four choices of a column solver: ${knobs.map(({ title }) => title).join(", ")}.`;
  const each = knobs.map(
    ({ title, alone, last }) => `${title} alone: ${within(alone)} After the others: ${within(last)}`,
  );
  return `Perplexity saved. ${each.join(" ")}`;
}

/** @param {Facts} facts */
export function table({ answered, knobs }) {
  const columns = [{ key: "knob", title: "Choice", kind: "text" }];
  if (!answered) return { columns, rows: knobs.map(({ title }) => ({ knob: title })) };
  columns.push(
    { key: "alone", title: "Change of perplexity, alone", kind: "change" },
    { key: "alone_low", title: "95 % from", kind: "change" },
    { key: "alone_high", title: "to", kind: "change" },
    { key: "last", title: "Change of perplexity, after the others", kind: "change" },
    { key: "last_low", title: "95 % from", kind: "change" },
    { key: "last_high", title: "to", kind: "change" },
  );
  return {
    columns,
    rows: knobs.map(({ title, alone, last }) => ({
      knob: title,
      alone: alone.change,
      alone_low: alone.low,
      alone_high: alone.high,
      last: last.change,
      last_low: last.low,
      last_high: last.high,
    })),
  };
}

/**
 * @param {import("./stage.js").Stage<Settings, Data, Facts>} stage
 * @returns {import("./types.d.ts").StepView<Facts>}
 */
export function create(stage) {
  return {
    ask: () =>
      choices({
        control: "guess",
        label: "Worth most",
        options: LADDER_STEPS.map((name, index) => /** @type {[number, string]} */ ([index + 1, KNOBS[name].title])),
        value: stage.state.guess,
        change: (guess) => stage.set({ guess }),
      }),
    draw: (size, facts) => drawn(size, facts),
  };
}

/** The ends of the 95 % interval of what is saved; the value itself where one draw can't say. @param {Worth} worth */
const whisker = ({ change, low, high }) => [-(high ?? change), -(low ?? change)];

/**
 * A row for each knob: its name, and with the answer two bars, alone and after the others; to the left of 0 what does
 * harm.
 * @param {import("../charts/svg.js").Size} size
 * @param {Facts} facts
 */
function drawn({ width, height }, { answered, knobs, guess }) {
  const box = { left: 14, right: width - 14, top: 62, bottom: height - 34 };
  const tall = (box.bottom - box.top) / knobs.length;
  const thick = Math.min(30, Math.max(12, (tall - 34) / 2.4));
  const ends = knobs.flatMap(({ alone, last }) => [...whisker(alone), ...whisker(last)]);
  const high = Math.max(...ends);
  const lowest = Math.min(0, ...ends);
  const low = lowest - 0.03 * (high - lowest); // the last whisker ends in sight
  const room = box.right - box.left - WORDS;
  const x = (/** @type {number} */ value) => box.left + (room * (value - low)) / (high - low || 1);
  /** @type {(worth: Worth, y: number, fill: string) => import("../charts/svg.js").Drawn} */
  const bar = (worth, y, fill) => {
    const value = -worth.change;
    const [least, most] = whisker(worth);
    const [from, to] = [Math.min(x(0), x(value)), Math.max(x(0), x(value))];
    return [
      s("rect", { x: from, y: y - thick / 2, width: Math.max(1, to - from), height: thick, rx: 2, fill }),
      segment(x(least), y, x(most), y, { stroke: "var(--ink)", "stroke-width": 1.5 }),
      [least, most].map((end) => segment(x(end), y - 4, x(end), y + 4, { stroke: "var(--ink)", "stroke-width": 1.5 })),
      label(Math.max(x(0), x(most)) + 8, y, worth.size, { fill: "var(--ink)" }),
    ];
  };
  const rows = knobs.map(({ title, explained, alone, last }, index) => {
    const y = box.top + index * tall;
    const chosen = guess === index + 1;
    const first = y + 24 + thick / 2;
    return [
      label(box.left, y + 8, chosen ? `${title}, your guess` : title, {
        weight: 600,
        fill: chosen ? "var(--series-4-ink)" : "var(--ink)",
        size: 14,
      }),
      width > 460 && label(box.right, y + 8, explained, { at: "end" }),
      answered
        ? [
            bar(alone, first, ALONE),
            bar(last, first + thick + 4, AFTER),
            segment(x(0), first - thick / 2 - 3, x(0), first + 1.5 * thick + 7, { stroke: "var(--ink-3)" }),
          ]
        : segment(box.left, y + 24, box.right, y + 24, { stroke: "var(--line)" }),
    ];
  });
  return [
    label(
      box.left,
      16,
      !answered
        ? "Perplexity saved on unseen text"
        : width > 460
          ? "Perplexity saved on unseen text, with 95 % intervals"
          : "Perplexity saved, with 95 % intervals",
      { weight: 600, size: 13 },
    ),
    legend(box.left, "alone", ALONE),
    legend(box.left + 80, "after all the others", AFTER),
    rows,
    !answered && afterGuess({ ...box, top: box.bottom - 4, bottom: box.bottom + 24 }),
  ];
}

/** @type {(x: number, text: string, fill: string) => import("../charts/svg.js").Drawn} */
const legend = (x, text, fill) => [
  s("rect", { x, y: 32, width: 14, height: 12, rx: 2, fill }),
  label(x + 20, 38, text),
];
