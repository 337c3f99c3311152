/**
 * Step 2: two weights on a lattice. The ellipse of L_recon, the circle of L_sar, the dot that each λ selects, and what
 * the column solver finds; everything is solved again while the weights or the tokens are dragged.
 * @module learn/lattice
 */

import { whole } from "../base/address.js";
import { nearest } from "../base/address_bar.js";
import { number, significant } from "../base/format.js";
import { label, mark, path, ROLES, s, segment } from "../charts/svg.js";
import { asking, between, oneFrom } from "./address.js";
import { choices, slider } from "./controls.js";
import { driftWeights, everyPair, factorise, regularisedGram, solveColumns, statisticsOf, winners } from "./solver.js";

/**
 * @typedef {import("./types.d.ts").Asking & {x: number, y: number, tokens: string, lambda: number}} Settings
 * @typedef {ReturnType<typeof facts>} Facts
 * @typedef {Facts["route"]} Route
 * @typedef {ReturnType<typeof layout>} Layout
 */

/** @type {Settings} */
export const start = { x: -0.44, y: 0.06, tokens: "-1.32,0.9;0.99,-0.95;0.56,-0.46", lambda: 0 };

/** @type {import("./solver.js").Grid} */
const GRID = { bits: 3, groupSize: null, kind: "asymmetric" };
const OWN = { scale: 1, zeroPoint: 4 }; // levels −4 to 3
const LOW = -4;
const HIGH = 3;
const REACH = 1.8; // of the tokens' own axes
const LAMS = [0, ...Array.from({ length: 49 }, (_, i) => Number((10 ** (-4 + i / 8)).toPrecision(2)))];
const MOST = 5; // jumps that one can choose, the last meaning “or more”

/** @type {[number, string][]} */
const GUESSES = Array.from({ length: MOST + 1 }, (_, i) => [i, i === MOST ? `${i} or more` : String(i)]);

export const state = {
  x: between("first weight", LOW + 0.5, HIGH - 0.5),
  y: between("second weight", LOW + 0.5, HIGH - 0.5),
  tokens: {
    title: "tokens",
    read: (/** @type {string} */ text) => (tokensOf(text) ? text : undefined),
    wants: `three pairs of numbers from −${REACH} to ${REACH}, as “1,0;0,1;1,1”`,
  },
  guess: whole("guess", 0, MOST),
  lambda: oneFrom("λ", LAMS),
};

/** @type {(value: number, low: number, high: number) => number} */
const clip = (value, low, high) => Math.max(low, Math.min(high, value));
/** @type {(value: number) => number} */
const two = (value) => Math.round(value * 100) / 100;
/** @type {(lam: number) => string} */
const lambdaText = (lam) =>
  lam === 0 ? "0" : lam < 0.001 ? lam.toFixed(5) : number(lam, lam < 0.1 ? 3 : lam < 1 ? 2 : 1);
/** @type {(pair: number[]) => string} */
const pairText = (pair) => pair.map((value) => number(value, 0)).join(", ");

/**
 * The tokens of the address, “x,y;x,y;x,y”, or null for anything else.
 * @param {string} text
 */
function tokensOf(text) {
  const tokens = text.split(";").map((pair) => pair.split(",").map((value) => (value.trim() ? Number(value) : NaN)));
  const fits = (/** @type {number[]} */ pair) => pair.length === 2 && pair.every((value) => Math.abs(value) <= REACH);
  return tokens.length === 3 && tokens.every(fits) ? tokens : null;
}

/**
 * The tokens of a text; without them those of the start.
 * @param {string} text
 * @returns {number[][]}
 */
export const readTokens = (text) => tokensOf(text) ?? tokensOf(start.tokens) ?? [];

/**
 * Points of the set where (p − w)ᵀ A (p − w) = level.
 * @param {number[][]} matrix A, symmetric, (2, 2), positive definite
 * @param {number[]} centre w, (2)
 * @param {number} level
 */
export function contour([[a, b], [, c]], centre, level, count = 120) {
  const middle = (a + c) / 2;
  const apart = Math.hypot((a - c) / 2, b);
  const turn = 0.5 * Math.atan2(2 * b, a - c);
  const [long, short] = [Math.sqrt(level / (middle + apart)), Math.sqrt(level / Math.max(middle - apart, 1e-9))];
  return Array.from({ length: count + 1 }, (_, i) => {
    const angle = (2 * Math.PI * i) / count;
    const [u, v] = [long * Math.cos(angle), short * Math.sin(angle)];
    return [centre[0] + u * Math.cos(turn) - v * Math.sin(turn), centre[1] + u * Math.sin(turn) + v * Math.cos(turn)];
  });
}

/**
 * The toy layer solved: all pairs, the winners over λ, the winner at the shown λ, and the column solver's pair.
 * @param {Settings} settings
 */
export function facts(settings) {
  const { answered, hasGuess } = asking(settings);
  const weight = [clip(settings.x, LOW, HIGH), clip(settings.y, LOW, HIGH)];
  const tokens = readTokens(settings.tokens);
  const { gram } = statisticsOf(tokens);
  const candidates = everyPair(weight, gram, OWN, GRID);
  const position = nearest(LAMS, settings.lambda) ?? 0;
  const lam = answered ? LAMS[position] : 0;
  const route = winners(candidates);
  const best = (route.findLast(({ from }) => from <= lam) ?? route[0]).candidate;
  const weights = driftWeights(gram);
  const regularised = regularisedGram(gram, weights, lam);
  const solved = solveColumns([weight], factorise(regularised).unitUpper, GRID, [[OWN]]).dequantized[0];
  return {
    answered,
    hasGuess,
    guess: settings.guess,
    weight,
    tokens,
    gram,
    regularised,
    meanDiagonal: weights[0],
    candidates,
    position,
    lam,
    route,
    best,
    solved,
  };
}

/** @type {import("./types.d.ts").StepModule<Settings, null, Facts>["answer"]} */
export function answer({ route, lam, best, solved, guess }) {
  const jumps = route.length - 1;
  const right = guess === jumps || (guess === MOST && jumps >= MOST);
  const name = guess === undefined ? "" : (GUESSES[guess]?.[1] ?? guess);
  const own = guess === undefined ? "It" : right ? `You said ${name}, and so it is: it` : `You said ${name}; it`;
  const solver = solved.every((value, i) => value === best.levels[i])
    ? "finds it too"
    : `stops at (${pairText(solved)})`;
  return [
    `${own} changes ${jumps} ${jumps === 1 ? "time" : "times"}. `,
    `At λ = ${lambdaText(lam)} the best dot is (${pairText(best.levels)}); `,
    `the column solver, which takes one weight after the other, ${solver}. Drag the cross or the tokens.`,
  ];
}

/** @param {Facts} facts */
export function aria({ weight, best, lam }) {
  const pair = weight.map((value) => number(value, 2)).join(", ");
  return (
    `A lattice of pairs of quantized weights around the float pair ${pair}. ` +
    `At λ = ${lambdaText(lam)} the pair ${pairText(best.levels)} is best.`
  );
}

/** @param {Facts} facts */
export function table({ route, answered }) {
  const columns = [
    { key: "from", title: "From λ", kind: "significant" },
    { key: "first", title: "First weight", kind: "plain" },
    { key: "second", title: "Second weight", kind: "plain" },
    { key: "recon", title: "L_recon", kind: "significant" },
    { key: "sar", title: "L_sar", kind: "significant" },
  ];
  const rows = (answered ? route : route.slice(0, 1)).map(({ from, candidate: { levels, recon, sar } }) => ({
    from,
    first: levels[0],
    second: levels[1],
    recon,
    sar,
  }));
  return { columns, rows };
}

/**
 * Where the lattice, the tokens' box and the legend stand, and how pixels become weights and tokens.
 * @param {import("../charts/svg.js").Size} size
 */
export function layout({ width, height }) {
  const narrow = width < 560;
  const side = narrow ? 108 : 150;
  const area = narrow
    ? { left: 44, top: 8, size: Math.min(width - 60, height - side - 88) }
    : { left: 56, top: 8, size: Math.min(height - 60, width - side - 120) };
  const box = narrow ? { left: width - side - 12, top: height - side - 8 } : { left: width - side - 40, top: 44 };
  const legend = narrow ? { left: 16, top: box.top + 8 } : { left: box.left, top: box.top + side + 40 };
  const unit = area.size / (HIGH - LOW + 1);
  const centre = [box.left + side / 2, box.top + side / 2];
  const reach = side / 2 / (REACH + 0.2);
  return {
    narrow,
    area,
    box: { ...box, side },
    legend,
    centre,
    /** From two weights to pixels, and back. */
    place: (/** @type {number[]} */ [x, y]) => [area.left + (x - LOW + 0.5) * unit, area.top + (HIGH + 0.5 - y) * unit],
    weights: (/** @type {number} */ x, /** @type {number} */ y) => [
      (x - area.left) / unit + LOW - 0.5,
      HIGH + 0.5 - (y - area.top) / unit,
    ],
    /** From a token to pixels, and back. */
    tokenPlace: (/** @type {number[]} */ [x, y]) => [centre[0] + x * reach, centre[1] - y * reach],
    token: (/** @type {number} */ x, /** @type {number} */ y) => [(x - centre[0]) / reach, (centre[1] - y) / reach],
  };
}

/**
 * @param {import("./stage.js").Stage<Settings, null, Facts>} stage
 * @returns {import("./types.d.ts").StepView<Facts>}
 */
export function create(stage) {
  const { board } = stage;
  const stroke = { stroke: "var(--ink)", "stroke-width": 3.5 };
  const moveWeights = (/** @type {number[]} */ [x, y]) =>
    stage.set({ x: two(clip(x, LOW + 0.5, HIGH - 0.5)), y: two(clip(y, LOW + 0.5, HIGH - 0.5)) });
  const cross = board.handle({
    control: "weights",
    label: "The two float weights",
    glyph: [
      path(
        [
          [-8, -8],
          [8, 8],
        ],
        stroke,
      ),
      path(
        [
          [-8, 8],
          [8, -8],
        ],
        stroke,
      ),
    ],
    drag: (x, y) => moveWeights(layout(board.size).weights(x, y)),
    step: (dx, dy) => moveWeights([stage.state.x + 0.05 * dx, stage.state.y + 0.05 * dy]),
  });
  const moveToken = (/** @type {number} */ which, /** @type {number[]} */ pair) => {
    const tokens = readTokens(stage.state.tokens);
    tokens[which] = pair.map((value) => two(clip(value, -REACH, REACH)));
    stage.set({ tokens: tokens.map((token) => token.join(",")).join(";") });
  };
  const points = [0, 1, 2].map((which) =>
    board.handle({
      control: `token-${which + 1}`,
      label: `Calibration token ${which + 1}`,
      glyph: [s("circle", { r: 6, fill: ROLES.recon.color, stroke: "var(--surface)", "stroke-width": 2 })],
      drag: (x, y) => moveToken(which, layout(board.size).token(x, y)),
      step: (dx, dy) => {
        const [x, y] = readTokens(stage.state.tokens)[which];
        moveToken(which, [x + 0.05 * dx, y + 0.05 * dy]);
      },
    }),
  );

  return {
    ask: () =>
      choices({
        control: "guess",
        label: "Changes",
        options: GUESSES,
        value: stage.state.guess,
        change: (guess) => stage.set(stage.answered ? {} : { guess }),
      }),
    controls: (facts) =>
      slider({
        control: "lambda",
        sign: "λ",
        label: "λ, weight of the drift penalty",
        names: LAMS.map(lambdaText),
        position: facts?.position ?? 0,
        change: (position) => stage.set({ lambda: LAMS[position] }),
      }),
    draw(size, facts) {
      const { weight, tokens } = facts;
      const at = layout(size);
      const [x, y] = at.place(weight);
      cross.at(x, y, two(weight[0]), `weights ${number(weight[0], 2)} and ${number(weight[1], 2)}`);
      tokens.forEach((pair, i) => {
        const [left, top] = at.tokenPlace(pair);
        points[i].at(left, top, pair[0], `token ${number(pair[0], 2)} and ${number(pair[1], 2)}`);
      });
      return [
        curves(facts, at),
        dots(facts, at),
        axes(at),
        tokenBox(tokens, at),
        legend(at.legend.left, at.legend.top, facts),
      ];
    },
  };
}

/**
 * Ellipses of equal error and the circle of equal drift through the best dot.
 * @type {(facts: Facts, at: Layout) => import("../charts/svg.js").Drawn}
 */
function curves({ weight, gram, regularised, meanDiagonal, best, lam }, { area, place }) {
  const around = (/** @type {number[][]} */ matrix, /** @type {number} */ level) =>
    contour(matrix, weight, level).map(place);
  const error = Math.max(best.recon, 1e-6);
  const circle = [
    [meanDiagonal, 0],
    [0, meanDiagonal],
  ];
  return [
    s(
      "clipPath",
      { id: "lattice-area" },
      s("rect", { x: area.left, y: area.top, width: area.size, height: area.size }),
    ),
    s(
      "g",
      { "clip-path": "url(#lattice-area)" },
      lam > 0 && path(around(regularised, best.recon + lam * best.sar), { fill: "var(--accent-soft)", stroke: "none" }),
      [9, 3.2].map((more) =>
        path(around(gram, error * more), { stroke: ROLES.recon.color, "stroke-width": 1.25, opacity: 0.35 }),
      ),
      path(around(gram, error), { stroke: ROLES.recon.color, "stroke-width": 2 }),
      path(around(circle, best.sar), {
        stroke: ROLES.drift.color,
        "stroke-width": 2,
        "stroke-dasharray": ROLES.drift.dash,
      }),
    ),
  ];
}

/**
 * Every pair that the two weights may become; with the answer the winners over λ and what the column solver finds.
 * @type {(facts: Facts, at: Layout) => import("../charts/svg.js").Drawn}
 */
function dots({ candidates, route, solved, best, answered }, { place, narrow }) {
  const dot = (
    /** @type {number[]} */ levels,
    /** @type {number} */ size,
    /** @type {Object<string, string|number>} */ look,
  ) => {
    const [x, y] = place(levels);
    return mark("circle", x, y, size, look);
  };
  const [cx, cy] = place(solved);
  return [
    candidates.map(({ levels }) => dot(levels, narrow ? 2.5 : 3.5, { fill: "var(--ink-3)" })),
    answered && [
      path(
        route.map(({ candidate }) => place(candidate.levels)),
        { stroke: "var(--ink-2)", "stroke-width": 1.5 },
      ),
      names(route, place, narrow),
      s("circle", { cx, cy, r: 13, fill: "none", stroke: "var(--series-4)", "stroke-width": 2 }),
    ],
    dot(best.levels, 8, { fill: "var(--ink)", stroke: "var(--surface)", "stroke-width": 2 }),
  ];
}

/**
 * Each winner with the λ from which it wins, on the side that is free.
 * @type {(route: Route, place: Layout["place"], narrow: boolean) => import("../charts/svg.js").Drawn}
 */
function names(route, place, narrow) {
  return route.map(({ from, candidate }, i) => {
    const [x, y] = place(candidate.levels);
    const before = route[i - 1] ?? route[i + 1];
    const left = before && place(before.candidate.levels)[0] > x;
    const text = `λ ≥ ${from === 0 ? "0" : significant(from)}`;
    return [
      mark("circle", x, y, 5, { fill: "var(--ink-2)" }),
      label(x + (left ? -20 : 20), y + (narrow ? -12 : 0), text, {
        at: left ? "end" : "start",
        fill: "var(--ink)",
        halo: true,
      }),
    ];
  });
}

/** @type {(at: Layout) => import("../charts/svg.js").Drawn} */
function axes({ area, place }) {
  const levels = Array.from({ length: HIGH - LOW + 1 }, (_, i) => LOW + i);
  return [
    levels.map((value) => [
      label(place([value, LOW])[0], area.top + area.size + 14, number(value, 0), { at: "middle" }),
      label(area.left - 12, place([LOW, value])[1], number(value, 0), { at: "middle" }),
    ]),
    label(area.left + area.size / 2, area.top + area.size + 34, "first weight", { at: "middle", fill: "var(--ink)" }),
    turnedLabel(area.left - 28, area.top + area.size / 2, "second weight"),
  ];
}

/**
 * A word along an axis that goes up.
 * @param {number} x
 * @param {number} y
 * @param {string} text
 */
function turnedLabel(x, y, text) {
  const node = label(x, y, text, { at: "middle", fill: "var(--ink)" });
  node.setAttribute("transform", `rotate(-90 ${x} ${y})`);
  return node;
}

/** @type {(tokens: number[][], at: Layout) => import("../charts/svg.js").Drawn} */
function tokenBox(tokens, { box: { left, top, side }, centre: [x, y], tokenPlace, narrow }) {
  return [
    s("rect", { x: left, y: top, width: side, height: side, rx: 8, fill: "var(--ground)" }),
    segment(left + 6, y, left + side - 6, y),
    segment(x, top + 6, x, top + side - 6),
    tokens.map((pair) => {
      const [endX, endY] = tokenPlace(pair);
      return segment(x, y, endX, endY, { stroke: ROLES.recon.color, opacity: 0.5, "stroke-width": 1.5 });
    }),
    label(left, top - 14, narrow ? "Tokens" : "Calibration tokens", { fill: "var(--ink)", weight: 600 }),
  ];
}

/**
 * What the signs mean, in the order in which they appear.
 * @type {(x: number, y: number, facts: Facts) => import("../charts/svg.js").Drawn}
 */
function legend(x, y, { answered, lam }) {
  const line = (
    /** @type {import("../charts/svg.js").Role} */ role,
    /** @type {string} */ text,
    /** @type {number} */ i,
  ) => [
    segment(x, y + 24 * i, x + 26, y + 24 * i, {
      stroke: role.color,
      "stroke-width": 2,
      "stroke-dasharray": role.dash,
    }),
    label(x + 36, y + 24 * i, text, { fill: role.ink }),
  ];
  const sign = (/** @type {Node|null} */ node, /** @type {string} */ text, /** @type {number} */ i) => [
    node,
    label(x + 36, y + 24 * i, text),
  ];
  const ring = { cx: x + 13, cy: y + 72, r: 9, fill: "none", stroke: "var(--series-4)", "stroke-width": 2 };
  const ellipse = { x, y: y + 88, width: 26, height: 16, rx: 8, fill: "var(--accent-soft)" };
  return [
    line(ROLES.recon, "equal error", 0),
    line(ROLES.drift, "equal drift", 1),
    sign(mark("circle", x + 13, y + 48, 7, { fill: "var(--ink)" }), "best of all dots", 2),
    answered && sign(s("circle", ring), "column solver", 3),
    answered && lam > 0 && sign(s("rect", ellipse), "no better dot inside", 4),
  ];
}
