/**
 * Two weights on a lattice. The ellipse of L_recon, the circle of L_sar, the dot that each λ selects, and what
 * the column solver finds; everything is solved again while the weights or the tokens are dragged.
 * @module learn/lattice
 */

import { whole } from "../base/address.js";
import { number, plain } from "../base/format.js";
import { dashed } from "../charts/chart.js";
import { label, mark, path, ROLES, s, segment } from "../charts/svg.js";
import { asking } from "./address.js";
import { choices, lambdaSlider } from "./controls.js";
import {
  axes,
  barsOf,
  clip,
  contour,
  ENTRIES,
  fromText,
  GRID,
  HIGH,
  LAMS,
  LOW,
  layout,
  legendOf,
  lineSign,
  OWN,
  pairText,
  positionOf,
  REACH,
  readTokens,
  START,
  solvePair,
  two,
  winnerAt,
} from "./pair.js";
import { driftWeights, factorise, regularisedGram, solveColumns } from "./solver.js";

/**
 * @typedef {import("./types.d.ts").Asking & {x: number, y: number, tokens: string, lambda: number}} Settings
 * @typedef {ReturnType<typeof facts>} Facts
 * @typedef {import("./pair.js").Route} Route
 * @typedef {import("./pair.js").Layout} Layout
 */

/** @type {Settings} */
export const start = { ...START, lambda: 0 };

const MOST = 5; // jumps that one can choose, the last meaning “or more”

/** @type {[number, string][]} */
const GUESSES = Array.from({ length: MOST + 1 }, (_, i) => [i, i === MOST ? `${i} or more` : String(i)]);

export const state = { ...ENTRIES, guess: whole("guess", 0, MOST) };

/**
 * The toy layer solved: all pairs, the winners over λ, the winner at the shown λ, and the column solver's pair.
 * @param {Settings} settings
 */
export function facts(settings) {
  const { answered, hasGuess } = asking(settings);
  const weight = [clip(settings.x, LOW, HIGH), clip(settings.y, LOW, HIGH)];
  const tokens = readTokens(settings.tokens);
  const { gram, candidates, route } = solvePair(weight, tokens);
  const position = positionOf(settings.lambda);
  const lam = answered ? LAMS[position] : 0;
  const best = winnerAt(route, lam);
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
  const isFound = solved.every((value, i) => value === best.levels[i]);
  return [
    `${changes(jumps, guess, right)} At λ = ${plain(lam)} the best dot is (${pairText(best.levels)}). ` +
      "The column solver tries few dots: it rounds one weight and lets the next make up for it. " +
      `It ${isFound ? "finds this one too" : `stops at (${pairText(solved)})`}. Drag the cross or the tokens.`,
  ];
}

/** How often the winner changes, beside what was guessed. @type {(jumps: number, guess: number|undefined, right: boolean) => string} */
function changes(jumps, guess, right) {
  if (guess === undefined) return `It changes ${jumps} ${jumps === 1 ? "time." : "times."}`;
  const changed = `it changes ${jumps} ${jumps === 1 ? "time" : "times"}.`;
  const guessed = GUESSES[guess]?.[1] ?? guess;
  return right ? `You said ${guessed}, and so it is: ${changed}` : `You said ${guessed}; ${changed}`;
}

/** @param {Facts} facts */
export function aria({ weight, best, lam }) {
  const pair = weight.map((value) => number(value, 2)).join(", ");
  return (
    `A lattice of pairs of quantized weights around the float pair ${pair}. At λ = ${plain(lam)} the pair ` +
    `${pairText(best.levels)} is best.`
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
 * @param {import("./stage.js").Stage<Settings, null, Facts>} stage
 * @returns {import("./types.d.ts").StepView<Facts>}
 */
export function create(stage) {
  const { board } = stage;
  const stroke = { stroke: "var(--ink)", "stroke-width": 3.5 };
  const moveWeights = (/** @type {number[]} */ [x, y]) =>
    stage.change({ x: two(clip(x, LOW + 0.5, HIGH - 0.5)), y: two(clip(y, LOW + 0.5, HIGH - 0.5)) });
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
    stage.change({ tokens: tokens.map((token) => token.join(",")).join(";") });
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
      lambdaSlider({ lams: LAMS, position: facts?.position ?? 0, change: (lambda) => stage.set({ lambda }) }),
    draw(size, facts) {
      const { weight, tokens } = facts;
      const at = layout(size);
      const [x, y] = at.place(weight);
      const [first, second] = weight.map((value) => number(value, 2));
      cross.at(x, y, two(weight[0]), `weights ${first} and ${second}`);
      tokens.forEach((pair, i) => {
        const [left, top] = at.tokenPlace(pair);
        const [along, up] = pair.map((value) => number(value, 2));
        points[i].at(left, top, pair[0], `token ${along} and ${up}`);
      });
      return [
        curves(facts, at),
        dots(facts, at),
        axes(at),
        tokenBox(tokens, at),
        legend(at, facts),
        facts.answered && costs(facts, at),
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
      path(around(gram, error), { "stroke-width": 2, ...dashed(ROLES.recon) }),
      path(around(circle, best.sar), {
        "stroke-width": 2,
        ...dashed(ROLES.drift),
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
      names(route, place),
      s("circle", { cx, cy, r: 13, fill: "none", stroke: "var(--series-4)", "stroke-width": 2 }),
    ],
    dot(best.levels, 8, { fill: "var(--ink)", stroke: "var(--surface)", "stroke-width": 2 }),
  ];
}

/**
 * Each winner with the λ from which it wins, on the side that is free and between two rows of dots.
 * @type {(route: Route, place: Layout["place"]) => import("../charts/svg.js").Drawn}
 */
function names(route, place) {
  const up = 0.35 * (place([0, 1])[1] - place([0, 0])[1]);
  return route.map(({ from, candidate }, i) => {
    const [x, y] = place(candidate.levels);
    const before = route[i - 1] ?? route[i + 1];
    const left = before && place(before.candidate.levels)[0] > x;
    const text = `λ ≥ ${fromText(from)}`;
    return [
      mark("circle", x, y, 5, { fill: "var(--ink-2)" }),
      label(x + (left ? -20 : 20), y + up, text, {
        at: left ? "end" : "start",
        fill: "var(--ink)",
        halo: true,
      }),
    ];
  });
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
 * @type {(at: Layout, facts: Facts) => import("../charts/svg.js").Drawn}
 */
function legend(at, { answered, lam }) {
  const ring = { r: 9, fill: "none", stroke: "var(--series-4)", "stroke-width": 2 };
  const ellipse = { width: 26, height: 16, rx: 8, fill: "var(--accent-soft)" };
  return legendOf(at.legend, [
    [lineSign(ROLES.recon), "equal error", ROLES.recon.ink],
    [lineSign(ROLES.drift), "equal drift", ROLES.drift.ink],
    [(x, y) => mark("circle", x + 13, y, 7, { fill: "var(--ink)" }), "best of all dots"],
    answered && [(x, y) => s("circle", { ...ring, cx: x + 13, cy: y }), "column solver"],
    answered && lam > 0 && [(x, y) => s("rect", { ...ellipse, x, y: y - 8 }), "no better dot inside"],
  ]);
}

/**
 * What each winner costs at the λ that is set: the shortest bar wins.
 * @type {(facts: Facts, at: Layout) => import("../charts/svg.js").Drawn}
 */
function costs({ route, best, lam }, at) {
  const rows = route.map(({ candidate }) => ({
    name: pairText(candidate.levels),
    isBest: candidate === best,
    bars: [
      [
        { value: candidate.recon, fill: ROLES.recon.color },
        { value: lam * candidate.sar, fill: ROLES.drift.color },
      ],
    ],
  }));
  return barsOf(at, { title: "error + λ · drift", rows, full: 2 * (best.recon + lam * best.sar) || 1 });
}
