/**
 * GPTQ's own step: a column is rounded, and its error is pushed on to the columns to its right. One row of a made-up layer,
 * solved by the column solver itself, column by column.
 * @module learn/column_by_column
 */

import { whole } from "../base/address.js";
import { nearest } from "../base/address_bar.js";
import { number, percent, plain } from "../base/format.js";
import { html } from "../base/html.js";
import { afterGuess, curve, endLabels, frame, key, panel, spread } from "../charts/chart.js";
import { label, mark, path, ROLES, s, segment } from "../charts/svg.js";
import { asking, oneFrom } from "./address.js";
import { action, choices, lambdaSlider, slider } from "./controls.js";
import { guessed, piece, words } from "./pieces.js";
import { normals } from "./random.js";
import {
  codeRange,
  columnByColumn,
  driftWeights,
  factorise,
  gridOf,
  nearestCode,
  reconLoss,
  regularisedGram,
  statisticsOf,
} from "./solver.js";

/**
 * @typedef {import("./types.d.ts").Asking & {row: number, column: number, lambda: number}} Settings
 * @typedef {ReturnType<typeof toyRows>} Layer
 * @typedef {NonNullable<ReturnType<typeof facts>>} Facts
 * @typedef {ReturnType<typeof layout>} Layout
 */

/** @type {import("./solver.js").Grid} */
export const GRID = { bits: 2, groupSize: null, kind: "asymmetric" };
export const LAMS = [0.01, 0.1, 0.3, 1, 3, 10];
const [ROWS, WIDTH, TOKENS, SHARED] = [3, 8, 24, 3];
const NOISE = 0.35; // of a channel's own, beside what it shares with others
const STILL = 0.02; // of the distance between two levels: less is not a move
const PLAY_MS = 1100;

/** @type {[number, string][]} */
const WAYS = [
  [0, "down"],
  [1, "not at all"],
  [2, "up"],
];

export const state = {
  row: whole("row", 1, ROWS),
  column: whole("columns rounded", 0, WIDTH),
  lambda: oneFrom("λ", LAMS),
  guess: whole("guess", 0, WAYS.length - 1),
};

/** @type {Settings} */
export const start = { row: 1, column: 1, lambda: LAMS[0] };

/** The layer and its calibration tokens: channels share a few sources, so that one can stand in for another. */
export function toyRows(seed = 8) {
  const draw = normals(seed);
  const weight = Array.from({ length: ROWS }, () => Array.from({ length: WIDTH }, () => 0.5 * draw()));
  const loads = Array.from({ length: SHARED }, () => Array.from({ length: WIDTH }, draw));
  const tokens = Array.from({ length: TOKENS }, () => {
    const sources = loads.map(draw);
    return loads[0].map((_, i) => NOISE * draw() + sources.reduce((sum, one, k) => sum + one * loads[k][i], 0));
  });
  return { weight, gram: statisticsOf(tokens).gram };
}

export const prepare = () => toyRows();

/**
 * Every row after the columns that are set, and how the errors of the shown row grow with each column.
 * @param {Settings} settings
 * @param {Layer|null} layer
 */
export function facts(settings, layer) {
  if (!layer) return null;
  const { weight, gram } = layer;
  const { answered } = asking(settings);
  const position = nearest(LAMS, settings.lambda) ?? 0;
  const lam = LAMS[position];
  const { unitUpper } = factorise(regularisedGram(gram, driftWeights(gram), lam));
  const ways = weight.map((row) => columnByColumn(row, unitUpper, GRID));
  const at = settings.row - 1;
  const [row, { working, own }] = [weight[at], ways[at]];
  const range = codeRange(GRID);
  const levelAt = (/** @type {number} */ code) => (code - own.zeroPoint) * own.scale;
  const alone = row.map((value) => levelAt(nearestCode(value, gridOf(row, GRID), range)));
  const share = (/** @type {number[]} */ values) =>
    reconLoss([values.map((value, i) => value - row[i])], gram) / reconLoss([row], gram);
  const pushed = working[1][1] - row[1];
  return {
    answered,
    guess: settings.guess,
    position,
    lam,
    column: answered ? settings.column : 0,
    at,
    row,
    working,
    levels: Array.from({ length: range[1] - range[0] + 1 }, (_, i) => levelAt(range[0] + i)),
    rows: ways.map((way) => way.working),
    errors: working.map(share),
    alone: working.map((_, count) => share(row.map((value, i) => (i < count ? alone[i] : value)))),
    drift: Math.hypot(...working[WIDTH].map((value, i) => value - row[i])) / Math.hypot(...row),
    pushed,
    way: Math.abs(pushed) < STILL * own.scale ? 1 : pushed > 0 ? 2 : 0,
  };
}

/** @type {import("./types.d.ts").StepModule<Settings, Layer, Facts>["answer"]} */
export function answer({ guess, way, pushed, row, working, errors, alone, drift, lam }) {
  const [from, to] = [row[0], working[1][0]].map((value) => number(value, 2));
  const pushes = way === 1 ? "stays" : `is pushed ${way ? "up" : "down"} by ${number(Math.abs(pushed), 2)}`;
  const error = piece("recon", percent(errors[WIDTH], 1));
  return words`${guess === undefined ? "" : guessed(WAYS[guess][1], guess === way)}\
The first weight goes from ${from} to ${to}, the second ${pushes}. With all columns rounded this row’s error is ${error}; \
with each rounded for itself, ${percent(alone[WIDTH], 1)}. At λ = ${plain(lam)} the row has \
${piece("drift", `drifted ${percent(drift)}`)}.`;
}

/** @param {Facts} facts */
export function aria({ answered, column, row, working }) {
  const values = working[column].map((value) => number(value, 2)).join(", ");
  return answered
    ? `The row with ${column} of ${WIDTH} columns rounded: ${values}.`
    : `A row of ${row.length} weights before any is rounded: ${values}.`;
}

/** @param {Facts} facts */
export function table({ answered, row, working, column, errors, alone }) {
  const columns = [
    { key: "column", title: "Column", kind: "plain" },
    { key: "weight", title: "Weight", kind: "significant" },
    { key: "now", title: `With ${column} rounded`, kind: "significant" },
    { key: "error", title: "Error up to this column", kind: "share" },
    { key: "alone", title: "Each for itself", kind: "share" },
  ];
  const rows = row.map((weight, i) => ({
    column: i + 1,
    weight,
    ...(answered ? { now: working[column][i], error: errors[i + 1], alone: alone[i + 1] } : {}),
  }));
  return { columns: answered ? columns : columns.slice(0, 2), rows };
}

/**
 * Matrix, row and errors below each other; a column has one place in all three.
 * @param {import("../charts/svg.js").Size} size
 */
function layout({ width, height }) {
  const narrow = width < 560;
  const [left, right] = [narrow ? 52 : 64, width - (narrow ? 16 : 104)];
  const step = (right - left) / WIDTH;
  const cell = 26;
  const matrix = 34;
  const top = matrix + ROWS * cell + 66;
  return {
    left,
    right,
    step,
    cell,
    matrix,
    narrow,
    places: narrow ? [0, 82, 142, 224] : [0, 96, 172, 270], // of the signs with their words
    row: { left, right, top, bottom: height - 216 },
    errors: { left: left + step / 2, right: right - step / 2, top: height - (narrow ? 118 : 136), bottom: height - 24 },
    middle: (/** @type {number} */ column) => left + (column + 0.5) * step,
  };
}

/**
 * @param {import("./stage.js").Stage<Settings, Layer, Facts>} stage
 * @returns {import("./types.d.ts").StepView<Facts>}
 */
export function create(stage) {
  /** @type {ReturnType<typeof setInterval>|undefined} */
  let timer;
  const to = (/** @type {number} */ column) => stage.set({ column: Math.min(WIDTH, column) });
  const stop = () => {
    clearInterval(timer);
    timer = undefined;
  };
  function play() {
    if (timer !== undefined) stop();
    else {
      to(stage.state.column === WIDTH ? 0 : stage.state.column + 1);
      timer = setInterval(() => {
        if (stage.section.hidden || stage.state.column >= WIDTH) stop();
        else to(stage.state.column + 1);
        if (timer === undefined) stage.set({}); // the button says “Play” again
      }, PLAY_MS);
    }
    stage.set({});
  }
  const byHand = (/** @type {number} */ column) => {
    stop();
    to(column);
  };

  return {
    ask: () =>
      choices({
        control: "guess",
        label: "Pushed",
        options: WAYS,
        value: stage.state.guess,
        change: (guess) => stage.set(stage.answered ? {} : { guess }),
      }),
    controls: (facts) => html`
      ${action({ control: "play", text: timer === undefined ? "Play" : "Pause", act: play })}
      ${action({ control: "next-column", text: "One column", act: () => byHand((facts?.column ?? 0) + 1) })}
      ${choices({
        control: "row",
        label: "Row",
        options: Array.from({ length: ROWS }, (_, i) => /** @type {[number, string]} */ ([i + 1, String(i + 1)])),
        value: stage.state.row,
        change: (row) => stage.change({ row }),
      })}
      ${slider({
        control: "column",
        sign: "rounded",
        label: "Columns rounded",
        names: Array.from({ length: WIDTH + 1 }, (_, i) => String(i)),
        position: facts?.column ?? 0,
        change: byHand,
      })}
      ${lambdaSlider({ lams: LAMS, position: facts?.position ?? 0, change: (lambda) => stage.change({ lambda }) })}`,
    draw(size, facts) {
      const at = layout(size);
      return [
        stripe(facts, at),
        matrix(facts, at),
        weights(facts, at),
        facts.answered
          ? errors(facts, at)
          : afterGuess(at.errors, at.narrow ? undefined : "How the error grows, once you have guessed"),
      ];
    },
  };
}

/** The column that was rounded last. @type {(facts: Facts, at: Layout) => import("../charts/svg.js").Drawn} */
function stripe({ column, answered }, { left, step, matrix, row }) {
  const last = answered ? column - 1 : 0;
  if (last < 0) return null;
  const x = left + last * step;
  return s("rect", {
    x,
    y: matrix - 6,
    width: step,
    height: row.bottom - matrix + 30,
    rx: 6,
    fill: "var(--accent-soft)",
  });
}

/**
 * The whole layer as numbers: bold once they are rounded, in the colour of drift while they are moved.
 * @type {(facts: Facts, at: Layout) => import("../charts/svg.js").Drawn}
 */
function matrix({ rows, at: own, column }, { left, cell, matrix: top, middle, narrow }) {
  return [
    label(
      left - 8,
      top - 20,
      narrow ? "W: bold is rounded, blue was pushed" : "W, the layer: bold is rounded, blue was pushed",
      { fill: "var(--ink)", weight: 600 },
    ),
    rows.map((working, r) => {
      const y = top + (r + 0.5) * cell;
      return [
        label(left - 12, y, narrow ? String(r + 1) : `row ${r + 1}`, {
          at: "end",
          weight: r === own ? 700 : null,
          fill: r === own ? "var(--ink)" : "var(--ink-2)",
        }),
        working[column].map((value, i) => {
          const isRounded = i < column;
          const isMoved = !isRounded && column > 0;
          return label(middle(i), y, number(value, narrow ? 1 : 2), {
            at: "middle",
            weight: isRounded ? 700 : null,
            fill: isRounded ? "var(--ink)" : isMoved ? ROLES.drift.ink : "var(--ink-2)",
          });
        }),
      ];
    }),
  ];
}

/**
 * The shown row between its levels: where each weight was, is, and was pushed to in this step.
 * @type {(facts: Facts, at: Layout) => import("../charts/svg.js").Drawn}
 */
function weights(
  { answered, at: own, row, working, levels, column },
  { left, right, row: box, middle, narrow, places },
) {
  const at = panel(box, WIDTH, spread([...levels, ...working.flat()], { air: 0.06 }));
  const [now, before] = [working[column], working[Math.max(0, column - 1)]];
  const last = column - 1;
  const signs = [
    [mark("circle", 0, 0, 5, { fill: "none", stroke: "var(--ink-3)", "stroke-width": 1.5 }), "as it was"],
    [mark("circle", 0, 0, 6, { fill: "var(--ink)" }), "now"],
    [mark("square", 0, 0, 6, { fill: ROLES.drift.color }), "rounded"],
    [segment(0, -7, 0, 7, { stroke: ROLES.drift.color, "stroke-width": 4 }), narrow ? "pushed" : "pushed in this step"],
  ];
  return [
    label(left - 8, box.top - 40, `Row ${own + 1} between its ${levels.length} levels`, {
      fill: "var(--ink)",
      weight: 600,
    }),
    signs.map(([sign, text], i) => [
      s("g", { transform: `translate(${left + places[i]} ${box.top - 18})` }, sign),
      label(left + 12 + places[i], box.top - 18, String(text)),
    ]),
    levels.map((level) => [
      segment(left, at.y(level), right, at.y(level), { stroke: "var(--line-2)" }),
      label(left - 12, at.y(level), number(level, 2), { at: "end" }),
    ]),
    row.map((weight, i) => {
      const x = middle(i);
      const y = at.y(now[i]);
      return [
        segment(x, at.y(weight), x, y, { stroke: "var(--ink-3)", "stroke-dasharray": "2 4" }),
        mark("circle", x, at.y(weight), 5, { fill: "none", stroke: "var(--ink-3)", "stroke-width": 1.5 }),
        i === last && segment(x, at.y(before[i]), x, y, { stroke: "var(--ink)", "stroke-width": 3 }),
        i > last && column > 0 && segment(x, at.y(before[i]), x, y, { stroke: ROLES.drift.color, "stroke-width": 4 }),
        i < column
          ? mark("square", x, y, 6, { fill: ROLES.drift.color })
          : mark("circle", x, y, 6, { fill: "var(--ink)" }),
        label(x, box.bottom + 18, String(i + 1), { at: "middle" }),
        !answered &&
          i === 1 &&
          label(x, y - 20, "?", { at: "middle", size: 18, weight: 700, fill: "var(--series-4-ink)" }),
      ];
    }),
    !answered && arrow(middle(0), at.y(working[0][0]), at.y(working[1][0])),
  ];
}

/** Where a weight is about to go. @type {(x: number, from: number, to: number) => import("../charts/svg.js").Drawn} */
function arrow(x, from, to) {
  const tip = Math.sign(to - from) * Math.min(7, Math.abs(to - from));
  return [
    segment(x, from, x, to, { stroke: "var(--ink)", "stroke-width": 3 }),
    path(
      [
        [x - 6, to - tip],
        [x, to],
        [x + 6, to - tip],
      ],
      { stroke: "var(--ink)", "stroke-width": 3 },
    ),
  ];
}

/**
 * The row's error with each column that is rounded, below that column: with pushing, up to where the solver stands, and
 * without.
 * @type {(facts: Facts, at: Layout) => import("../charts/svg.js").Drawn}
 */
function errors({ errors: all, alone, column }, { errors: box, narrow }) {
  const at = panel(box, WIDTH, spread([...all, ...alone], { zero: true }));
  const pushed = all.slice(1);
  const names = [
    { value: alone[WIDTH], text: "each for itself", role: ROLES.grey },
    { value: all[WIDTH], text: "pushed on", role: ROLES.recon },
  ];
  const reached = pushed.map((error, i) => (i < column ? error : null));
  return [
    frame(
      at,
      narrow ? "Error, rounded up to here" : "Error on the calibration tokens, rounded up to here",
      (value) => percent(value),
      { wanted: 2, lines: narrow ? 1 : 0 },
    ),
    curve(at, alone.slice(1), ROLES.grey, { size: 3 }),
    curve(at, pushed, ROLES.recon, { faint: true, marks: false }),
    curve(at, reached, ROLES.recon),
    narrow ? key(at, names) : endLabels(at, names),
  ];
}
