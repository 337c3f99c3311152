/**
 * Why drift matters: few tokens leave a flat direction, along which weights slide for free, and new tokens, which point a
 * little elsewhere, pay for it. The layer is that of the lattice.
 * @module learn/new_text
 */

import { whole } from "../base/address.js";
import { number, plain, significant } from "../base/format.js";
import { html } from "../base/html.js";
import { dashed } from "../charts/chart.js";
import { label, mark, path, ROLES, s, segment } from "../charts/svg.js";
import { asking, oneFrom } from "./address.js";
import { choices, lambdaSlider, slider } from "./controls.js";
import {
  axes,
  barsOf,
  contour,
  ENTRIES,
  fromText,
  LAMS,
  layout,
  legendOf,
  lineSign,
  pairText,
  positionOf,
  readTokens,
  START,
  solvePair,
  winnerAt,
} from "./pair.js";
import { guessed, piece, words } from "./pieces.js";
import { reconLoss, statisticsOf } from "./solver.js";

/**
 * @typedef {import("./types.d.ts").Asking & {angle: number, lambda: number}} Settings
 * @typedef {ReturnType<typeof facts>} Facts
 * @typedef {import("./pair.js").Layout} Layout
 */

const ANGLES = Array.from({ length: 19 }, (_, i) => 5 * i); // degrees
/** How many times as large, as classes that begin at a number. @type {[number, string][]} */
const CLASSES = [
  [0, "less than twice"],
  [2, "2 to 5 times"],
  [5, "5 to 10 times"],
  [10, "10 times or more"],
];

export const state = {
  angle: oneFrom("angle", ANGLES),
  lambda: ENTRIES.lambda,
  guess: whole("guess", 0, CLASSES.length - 1),
};

/** @type {Settings} */
export const start = { angle: 15, lambda: 0 };

/**
 * Tokens turned about the origin.
 * @param {number[][]} tokens
 * @param {number} degrees against the clock
 */
export function turned(tokens, degrees) {
  const [c, s] = [Math.cos((degrees * Math.PI) / 180), Math.sin((degrees * Math.PI) / 180)];
  return tokens.map(([x, y]) => [c * x - s * y, s * x + c * y]);
}

/**
 * The direction in which the tokens have least: of length 1.
 * @param {number[][]} gram (2, 2)
 */
export function flatDirection([[a, b], [, c]]) {
  const along = 0.5 * Math.atan2(2 * b, a - c); // of most
  return [-Math.sin(along), Math.cos(along)];
}

/**
 * The winners over λ, each with its error on the tokens it was chosen by and on the new ones.
 * @param {Settings} settings
 */
export function facts(settings) {
  const { answered } = asking(settings);
  const weight = [START.x, START.y];
  const tokens = readTokens(START.tokens);
  const fresh = turned(tokens, settings.angle);
  const freshGram = statisticsOf(fresh).gram;
  const { gram, candidates, route } = solvePair(weight, tokens);
  const position = positionOf(settings.lambda);
  const lam = answered ? LAMS[position] : 0;
  const best = winnerAt(route, lam);
  const dots = route.map(({ from, candidate }) => {
    const delta = candidate.levels.map((level, i) => level - weight[i]);
    return { ...candidate, from, fresh: reconLoss([delta], freshGram), distance: Math.hypot(...delta), candidate };
  });
  const ratio = dots[0].fresh / dots[0].recon;
  return {
    answered,
    guess: settings.guess,
    angle: settings.angle,
    weight,
    tokens,
    fresh,
    gram,
    freshGram,
    candidates,
    position,
    lam,
    dots,
    shown: dots.findIndex(({ candidate }) => candidate === best),
    ratio,
    size: CLASSES.findLastIndex(([from]) => ratio >= from),
    /** The winner that new tokens like best. */
    kept: dots.reduce((least, dot, i) => (dot.fresh < dots[least].fresh ? i : least), 0),
  };
}

/** @type {import("./types.d.ts").StepModule<Settings, null, Facts>["answer"]} */
export function answer({ guess, ratio, size, dots, kept, shown, lam }) {
  const dot = dots[shown];
  const nearest = kept === 0 ? "" : ` On new tokens the winner for λ ≥ ${fromText(dots[kept].from)} does best.`;
  return words`${guess === undefined ? "" : guessed(CLASSES[guess][1], guess === size)}\
Without λ the winner’s error is ${number(ratio, 1)} times as large on new tokens.${nearest} \
At λ = ${plain(lam)}, ${piece("drift", `drift ${number(dot.distance, 2)}`)}: \
error ${piece("recon", significant(dot.recon))}, on new tokens ${piece("held_out", significant(dot.fresh))}.`;
}

/** @param {Facts} facts */
export function aria({ answered, angle, dots, shown }) {
  const { levels, recon, fresh } = dots[shown];
  const values = { angle, pair: pairText(levels), error: significant(recon), fresh: significant(fresh) };
  return answered
    ? `A lattice of pairs of weights; new tokens are turned by ${values.angle} degrees. The pair ` +
        `${values.pair} has error ${values.error} on the calibration tokens and ${values.fresh} on the new ones.`
    : `A lattice of pairs of weights; new tokens are turned by ${values.angle} degrees. The pair ` +
        `${values.pair} has error ${values.error} on the calibration tokens.`;
}

/** @param {Facts} facts */
export function table({ answered, dots }) {
  const columns = [
    { key: "from", title: "From λ", kind: "significant" },
    { key: "pair", title: "Pair", kind: "text" },
    { key: "drift", title: "Drift", kind: "significant" },
    { key: "recon", title: "Error, calibration tokens", kind: "significant" },
    { key: "fresh", title: "Error, new tokens", kind: "significant" },
  ];
  const rows = dots.map(({ from, levels, distance, recon, fresh }) => ({
    from,
    pair: pairText(levels),
    drift: distance,
    recon,
    fresh,
  }));
  return answered ? { columns, rows } : { columns: columns.slice(0, 4), rows: rows.slice(0, 1) };
}

/**
 * @param {import("./stage.js").Stage<Settings, null, Facts>} stage
 * @returns {import("./types.d.ts").StepView<Facts>}
 */
export function create(stage) {
  return {
    ask: () =>
      choices({
        control: "guess",
        label: "How much larger",
        options: CLASSES.map(([, text], i) => /** @type {[number, string]} */ ([i, text])),
        value: stage.state.guess,
        change: (guess) => stage.set(stage.answered ? {} : { guess }),
      }),
    controls: (facts) => html`
      ${lambdaSlider({ lams: LAMS, position: facts?.position ?? 0, change: (lambda) => stage.set({ lambda }) })}
      ${slider({
        control: "angle",
        sign: "turn",
        label: "How far the new tokens are turned",
        names: ANGLES.map((angle) => `${angle}°`),
        position: ANGLES.indexOf(facts?.angle ?? 0),
        change: (position) => stage.change({ angle: ANGLES[position] }),
      })}`,
    draw(size, facts) {
      const at = layout(size);
      return [picture(facts, at), axes(at), tokenBox(facts, at), legend(at), facts.answered && errors(facts, at)];
    },
  };
}

/**
 * The lattice: the way that the winner slid, along the flat direction, and both ellipses through it.
 * @type {(facts: Facts, at: Layout) => import("../charts/svg.js").Drawn}
 */
function picture({ answered, weight, gram, freshGram, candidates, dots, shown }, at) {
  const { area, place, narrow } = at;
  const { levels, recon, fresh } = dots[shown];
  const [u, v] = flatDirection(gram);
  const end = (/** @type {number} */ far) => place([weight[0] + far * u, weight[1] + far * v]);
  const [from, to, cross, best] = [end(-12), end(12), place(weight), place(levels)];
  const around = (/** @type {number[][]} */ matrix, /** @type {number} */ level) =>
    contour(matrix, weight, Math.max(level, 1e-6)).map(place);
  const dot = (/** @type {number[]} */ pair, /** @type {number} */ size, /** @type {string} */ fill) => {
    const [x, y] = place(pair);
    return mark("circle", x, y, size, { fill });
  };
  return [
    s(
      "clipPath",
      { id: "new-text-area" },
      s("rect", { x: area.left, y: area.top, width: area.size, height: area.size }),
    ),
    s(
      "g",
      { "clip-path": "url(#new-text-area)" },
      segment(from[0], from[1], to[0], to[1], { stroke: "var(--ink-3)", "stroke-dasharray": "2 6" }),
      path(around(gram, recon), { "stroke-width": 2, ...dashed(ROLES.recon) }),
      answered && path(around(freshGram, fresh), { "stroke-width": 2.5, ...dashed(ROLES.heldOut) }),
    ),
    candidates.map((one) => dot(one.levels, narrow ? 2.5 : 3.5, "var(--ink-3)")),
    answered && dots.map((one) => dot(one.levels, 5, "var(--ink-2)")),
    segment(cross[0], cross[1], best[0], best[1], { stroke: ROLES.drift.color, "stroke-width": 3 }),
    path(
      [
        [cross[0] - 8, cross[1] - 8],
        [cross[0] + 8, cross[1] + 8],
        null,
        [cross[0] - 8, cross[1] + 8],
        [cross[0] + 8, cross[1] - 8],
      ],
      { stroke: "var(--ink)", "stroke-width": 3.5 },
    ),
    mark("circle", best[0], best[1], 8, { fill: "var(--ink)", stroke: "var(--surface)", "stroke-width": 2 }),
  ];
}

/** @type {(facts: Facts, at: Layout) => import("../charts/svg.js").Drawn} */
function tokenBox({ tokens, fresh }, { box: { left, top, side }, centre: [x, y], tokenPlace }) {
  const rays = (
    /** @type {number[][]} */ all,
    /** @type {import("../charts/svg.js").Role} */ role,
    /** @type {number} */ size,
  ) =>
    all.map((token) => {
      const [endX, endY] = tokenPlace(token);
      return [
        segment(x, y, endX, endY, { stroke: role.color, "stroke-width": 1.5 }),
        mark("circle", endX, endY, size, { fill: role.color }),
      ];
    });
  return [
    s("rect", { x: left, y: top, width: side, height: side, rx: 8, fill: "var(--ground)" }),
    segment(left + 6, y, left + side - 6, y),
    segment(x, top + 6, x, top + side - 6),
    rays(fresh, ROLES.heldOut, 4),
    rays(tokens, ROLES.recon, 5),
    label(left, top - 14, "Tokens", { fill: "var(--ink)", weight: 600 }),
  ];
}

/** @type {(at: Layout) => import("../charts/svg.js").Drawn} */
function legend(at) {
  return legendOf(at.legend, [
    [lineSign(ROLES.recon), "calibration tokens", ROLES.recon.ink],
    [lineSign(ROLES.heldOut), "new tokens", ROLES.heldOut.ink],
    [lineSign({ ...ROLES.grey, dash: "2 6" }), "flat direction"],
    [lineSign({ ...ROLES.drift, dash: null }), "drift of the winner", ROLES.drift.ink],
  ]);
}

/**
 * Both errors of each winner.
 * @type {(facts: Facts, at: Layout) => import("../charts/svg.js").Drawn}
 */
function errors({ dots, shown }, at) {
  const rows = dots.map(({ levels, recon, fresh }, i) => ({
    name: pairText(levels),
    isBest: i === shown,
    bars: [[{ value: recon, fill: ROLES.recon.color }], [{ value: fresh, fill: ROLES.heldOut.color }]],
  }));
  return barsOf(at, {
    title: "error of each winner",
    rows,
    full: Math.max(...dots.flatMap((one) => [one.recon, one.fresh])),
  });
}
