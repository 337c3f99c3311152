/**
 * A toy layer calibrated on few, more or many tokens, drawn again and again: the error on the tokens that the solver
 * saw against that on tokens it did not see.
 * @module learn/tokens
 */

import { whole } from "../base/address.js";
import { nearest } from "../base/address_bar.js";
import { CLEAR_FROM } from "../base/contract.js";
import { percent, plain } from "../base/format.js";
import { html } from "../base/html.js";
import { afterGuess, axis, curve, endLabels, frame, guessGlyph, panel, spread } from "../charts/chart.js";
import { label, mark, ROLES, s, segment } from "../charts/svg.js";
import { asking, between, oneFrom } from "./address.js";
import { action, choices, lambdaSlider } from "./controls.js";
import { guessed, piece, words } from "./pieces.js";
import { normals } from "./random.js";
import { bestOf } from "./shipped_study.js";
import { difference, quantizeLayer, reconLoss, statisticsOf } from "./solver.js";

/**
 * @typedef {import("./types.d.ts").Asking & {tokens: number, seed: number, lambda: number}} Settings
 * @typedef {ReturnType<typeof toyLayer>} Layer
 * @typedef {ReturnType<typeof errorsOf>} Draw a calibration set: its errors at every λ
 * @typedef {(tokens: number, seed: number) => Draw[]} Draws the draws of a size up to a seed, the newest last
 * @typedef {NonNullable<ReturnType<typeof facts>>} Facts
 * @typedef {"seen"|"unseen"} Text
 */

export const SIZES = [8, 24, 128];
export const LAMS = [0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30];
const FEWEST = SIZES[0];
const MOST = SIZES[SIZES.length - 1];
/** @type {import("./solver.js").Grid} */
const GRID = { bits: 2, groupSize: null, kind: "asymmetric" };
const [OUTPUTS, WIDTH, UNSEEN, KEPT] = [8, 24, 512, 30];
const TOP = 0.3; // of the guess, and of the scale unless a draw lies above it
const RING = 0.05; // where the ring stands before there is a guess
const DRAWS = 100_000;
const ENOUGH = 10; // draws from which on it is said which λ is best

export const state = {
  tokens: oneFrom("tokens", SIZES),
  seed: whole("seed", 1, DRAWS),
  lambda: oneFrom("λ", LAMS),
  guess: between("guess", 0, TOP),
};

/** @type {Settings} */
export const start = { tokens: 24, seed: 1, lambda: 0.01 };

/** The layer and its source of tokens: fixed, so that only the draw differs. */
export function toyLayer() {
  const draw = normals(11);
  const weight = Array.from({ length: OUTPUTS }, () => Array.from({ length: WIDTH }, draw));
  // A few directions carry most of the activations, as they do in language models.
  const mix = Array.from({ length: WIDTH }, (_, k) => Array.from({ length: WIDTH }, () => draw() * Math.exp(-k / 20)));
  const token = (/** @type {() => number} */ source) => {
    const raw = mix.map(() => source());
    return mix[0].map((_, i) => raw.reduce((total, value, k) => total + value * mix[k][i], 0));
  };
  const sample = (/** @type {number} */ seed, /** @type {number} */ count) => {
    const source = normals(seed);
    return Array.from({ length: count }, () => token(source));
  };
  return { weight, sample, unseen: statisticsOf(sample(90_001, UNSEEN)).gram };
}

/**
 * Relative reconstruction errors of one draw at every λ: on its own tokens and on unseen ones.
 * @param {Layer} layer
 * @param {number} tokens
 * @param {number} seed
 */
export function errorsOf({ weight, sample, unseen }, tokens, seed) {
  const statistics = statisticsOf(sample(1000 * tokens + seed, tokens));
  const energy = { seen: reconLoss(weight, statistics.gram), unseen: reconLoss(weight, unseen) };
  const pairs = LAMS.map((lam) => {
    const delta = difference(quantizeLayer(weight, statistics, GRID, { lam }).dequantized, weight);
    return [reconLoss(delta, statistics.gram) / energy.seen, reconLoss(delta, unseen) / energy.unseen];
  });
  return { seed, seen: pairs.map((pair) => pair[0]), unseen: pairs.map((pair) => pair[1]) };
}

/**
 * The draws of a layer, each made once as long as it is among the last.
 * @param {Layer} layer
 * @returns {Draws}
 */
export function drawsOf(layer) {
  /** @type {Map<number, Draw[]>} */
  const kept = new Map();
  return (tokens, seed) => {
    const first = Math.max(1, seed - KEPT + 1);
    const before = new Map(kept.get(tokens)?.map((draw) => [draw.seed, draw]));
    const draws = Array.from(
      { length: seed - first + 1 },
      (_, i) => before.get(first + i) ?? errorsOf(layer, tokens, first + i),
    );
    kept.set(tokens, draws);
    return draws;
  };
}

export const prepare = () => drawsOf(toyLayer());

/**
 * The range of λ without a significant difference from the best error on new tokens: neighbours of it whose paired
 * difference is not clear (Student's t at 5 %).
 * @param {Draw[]} draws
 * @param {number} best position of the best λ
 * @returns {[first: number, last: number]}
 */
export function bandAround(draws, best) {
  const isAsGood = (/** @type {number} */ other) => {
    const differences = draws.map(({ unseen }) => unseen[other] - unseen[best]);
    const [n, middle] = [draws.length, mean(differences)];
    if (n < 2) return true;
    const error = Math.sqrt(differences.reduce((sum, one) => sum + (one - middle) ** 2, 0) / (n - 1) / n);
    return middle <= error * CLEAR_FROM[Math.min(n - 1, CLEAR_FROM.length) - 1];
  };
  let [first, last] = [best, best];
  while (first > 0 && isAsGood(first - 1)) first -= 1;
  while (last < LAMS.length - 1 && isAsGood(last + 1)) last += 1;
  return [first, last];
}

/** @type {(values: number[]) => number} */
const mean = (values) => values.reduce((a, b) => a + b, 0) / values.length;

/**
 * The draws of every size, and the λ at which they are looked at.
 * @param {Settings} settings
 * @param {Draws|null} drawsUpTo
 */
export function facts(settings, drawsUpTo) {
  if (!drawsUpTo) return null;
  const { answered, hasGuess } = asking(settings);
  const position = nearest(LAMS, settings.lambda) ?? 0;
  const groups = SIZES.map((tokens) => {
    const draws = drawsUpTo(tokens, settings.seed);
    const average = (/** @type {Text} */ text) => LAMS.map((_, i) => mean(draws.map((draw) => draw[text][i])));
    const [seen, unseen] = [average("seen"), average("unseen")];
    const best = bestOf(unseen);
    return { tokens, draws, seen, unseen, best, band: bandAround(draws, best) };
  });
  const chosen = groups.find(({ tokens }) => tokens === settings.tokens) ?? groups[0];
  return { answered, hasGuess, guess: settings.guess, position, groups, chosen };
}

/** @type {import("./types.d.ts").StepModule<Settings, Draws, Facts>["answer"]} */
export function answer({ guess, position, groups }) {
  const [few, many] = [groups[0], groups[groups.length - 1]];
  const draws = few.draws.length;
  const errors = (/** @type {Facts["groups"][0]} */ group) => [
    percent(group.seen[position], 1),
    percent(group.unseen[position], 1),
  ];
  const [seen, unseen] = errors(few);
  const [manySeen, manyUnseen] = errors(many);
  return words`${guess === undefined ? "" : guessed(percent(guess))}\
${draws === 1 ? "In this draw" : `Over ${draws} draws`}, at λ = ${plain(LAMS[position])}, ${String(FEWEST)} tokens give \
${piece("recon", seen)} on themselves and ${piece("held_out", unseen)} on new ones; ${String(MOST)} give ${manySeen} and \
${manyUnseen}. ${whichLambda(groups)}`;
}

/**
 * Which λ is best by the number of tokens, where the draws are enough to tell.
 * @param {Facts["groups"]} groups
 * @returns {import("./types.d.ts").Piece[]}
 */
function whichLambda(groups) {
  const few = groups[0].draws.length;
  if (few < ENOUGH)
    return [
      few === 1
        ? "One draw can’t tell which λ is best: its curve goes up and down by chance. Ask for ten."
        : `${few} draws are few. Ask for ten.`,
    ];
  const said = groups.map(({ tokens, best, band: [first, last] }) => {
    const asGood = first < last ? ` (${plain(LAMS[first])} to ${plain(LAMS[last])} as good)` : "";
    return `${plain(LAMS[best])} with ${tokens}${asGood}`;
  });
  const lams = piece("held_out", said.join(", "));
  const [most, least] = [groups[0].band, groups[groups.length - 1].band];
  return words`On new ones the best λ is ${lams}${least[1] < most[0] ? ": more tokens want a smaller λ" : ""}.`;
}

/** @param {Facts} facts */
export function aria({ answered, position, groups }) {
  const [seen, unseen] = [groups[0].seen, groups[0].unseen].map((errors) => percent(errors[position], 1));
  const text = `Error of a toy layer on the ${FEWEST} tokens that it was calibrated on: ${seen}`;
  return answered ? `${text}; on new tokens ${unseen}.` : `${text}.`;
}

/** @param {Facts} facts */
export function table({ answered, position, groups }) {
  const columns = [
    { key: "tokens", title: "Tokens", kind: "plain" },
    { key: "draw", title: "Draw", kind: "plain" },
    { key: "lambda", title: "λ", kind: "plain" },
    { key: "seen", title: "Error, tokens it saw", kind: "share" },
    { key: "unseen", title: "Error, new tokens", kind: "share" },
  ];
  const rows = (answered ? groups : groups.slice(0, 1)).flatMap(({ tokens, draws }) =>
    (answered ? draws : draws.slice(-1)).map((draw) => ({
      tokens,
      draw: draw.seed,
      lambda: LAMS[position],
      seen: draw.seen[position],
      unseen: answered ? draw.unseen[position] : null,
    })),
  );
  return { columns, rows };
}

/**
 * Both panels: errors by number of tokens, and errors over λ, beside or below the other.
 * @param {import("../charts/svg.js").Size} size
 * @param {Facts} facts
 */
function panels({ width, height }, { answered, groups }) {
  const narrow = width < 560;
  const top = Math.max(...groups.flatMap(({ draws }) => draws.flatMap((draw) => draw.unseen)));
  const range = answered && top > TOP ? spread([top], { zero: true }) : /** @type {[number, number]} */ ([0, TOP]);
  const first = narrow
    ? { left: 52, right: width - 20, top: 40, bottom: height * 0.46 }
    : { left: 60, right: width * 0.48, top: 44, bottom: height - 62 };
  const second = narrow
    ? { left: 52, right: width - 108, top: height * 0.46 + 86, bottom: height - 44 }
    : { left: width * 0.48 + 76, right: width - 104, top: 44, bottom: height - 62 };
  const means = groups.flatMap(({ seen, unseen }) => [...seen, ...unseen]);
  return {
    narrow,
    left: panel(first, groups.length * 2, range),
    right: panel(second, LAMS.length, spread(means, { zero: true })),
  };
}

/**
 * @param {import("./stage.js").Stage<Settings, Draws, Facts>} stage
 * @returns {import("./types.d.ts").StepView<Facts>}
 */
export function create(stage) {
  const { board } = stage;
  const ring = () => stage.state.guess ?? RING;
  const moveRing = (/** @type {number} */ value) =>
    stage.set({ guess: Math.round(1000 * Math.max(0, Math.min(TOP, value))) / 1000 });
  const again = (/** @type {number} */ count) => stage.change({ seed: Math.min(DRAWS, stage.state.seed + count) });
  const guess = board.handle({
    control: "guess",
    label: "Your guess of the error on new tokens",
    glyph: guessGlyph(),
    drag: (_, y) => stage.facts && moveRing(panels(board.size, stage.facts).left.value(y)),
    step: (dx, dy) => moveRing(ring() + 0.01 * (dx + dy)),
  });

  return {
    controls: (facts) => html`
      ${action({ control: "draw", text: "Draw again", act: () => again(1) })}
      ${action({ control: "draw-ten", text: "Ten draws", act: () => again(10) })}
      ${choices({
        control: "tokens",
        label: "Tokens",
        options: SIZES.map((tokens) => [tokens, String(tokens)]),
        value: stage.state.tokens,
        change: (tokens) => stage.set({ tokens }),
      })}
      ${lambdaSlider({ lams: LAMS, position: facts?.position ?? 0, change: (lambda) => stage.change({ lambda }) })}`,
    draw(size, facts) {
      const { answered, groups, hasGuess } = facts;
      const { narrow, left, right } = panels(size, facts);
      guess.at(left.x(1) - 8, left.y(ring()), ring(), percent(ring()));
      guess.still(answered);
      guess.show(hasGuess);
      const title = answered ? "Error of each draw, by number of tokens" : "Error of the first draw";
      const note = !answered
        ? "tokens that the solver saw"
        : narrow
          ? "tokens; stronger: the error on new ones"
          : "tokens that the solver saw; stronger: the error on new ones";
      return [
        frame(left, title, (value) => percent(value), { wanted: 5 }),
        (answered ? groups : groups.slice(0, 1)).map((group, column) => columnOf(group, column, left, facts)),
        label(left.left - 6, left.bottom + 44, note),
        answered ? curves(right, facts) : afterGuess(right),
      ];
    },
  };
}

/**
 * The draws of one number of tokens as dots with their mean, on the tokens seen and beside them on unseen ones.
 * @type {(group: Facts["groups"][number], column: number, left: import("../charts/chart.js").Panel, facts: Facts) =>
 *   import("../charts/svg.js").Drawn}
 */
function columnOf({ tokens, draws }, column, left, { answered, chosen, position }) {
  const bold = tokens === chosen.tokens || !answered;
  const last = draws.length - 1;
  const dots = (/** @type {Text} */ text, /** @type {number} */ side) => {
    const role = text === "seen" ? ROLES.recon : ROLES.heldOut;
    const x = left.x(2 * column + side) + (side ? -8 : 8);
    const dot = (/** @type {Draw} */ draw, /** @type {number} */ i) => {
      const at = x + 12 * Math.sin(draw.seed * 2.4);
      const look = { fill: role.color, opacity: i === last ? 1 : 0.45 };
      return mark("circle", at, left.y(draw[text][position]), i === last ? 6 : 3.5, look);
    };
    if (!answered) return dot(draws[last], last);
    const average = left.y(mean(draws.map((draw) => draw[text][position])));
    return [
      draws.map(dot),
      last > 0 && segment(x - 20, average, x + 20, average, { stroke: role.ink, "stroke-width": 2.5 }),
    ];
  };
  return [
    label(left.x(2 * column + 0.5), left.bottom + 20, String(tokens), {
      at: "middle",
      fill: "var(--ink)",
      weight: bold ? 700 : 400,
      size: 14,
    }),
    dots("seen", 0),
    answered && dots("unseen", 1),
  ];
}

/**
 * Both errors over λ: the last draws faintly, their mean boldly.
 * @type {(right: import("../charts/chart.js").Panel, facts: Facts) => import("../charts/svg.js").Drawn}
 */
function curves(right, { position, groups, chosen }) {
  const { tokens, draws, seen, unseen } = chosen;
  const faint = { faint: true, width: 1, marks: false };
  const x = right.x(position);
  return [
    frame(right, `${tokens} tokens, over λ`, (value) => percent(value), { wanted: 5 }),
    axis(right, LAMS.map(plain)),
    segment(x, right.top, x, right.bottom, { stroke: "var(--ink)" }),
    s(
      "clipPath",
      { id: "tokens-over-lambda" },
      s("rect", {
        x: right.left - 6,
        y: right.top,
        width: right.right - right.left + 12,
        height: right.bottom - right.top,
      }),
    ),
    s(
      "g",
      { "clip-path": "url(#tokens-over-lambda)" },
      draws
        .slice(-12)
        .map((draw) => [curve(right, draw.unseen, ROLES.heldOut, faint), curve(right, draw.seen, ROLES.recon, faint)]),
    ),
    groups.map((group) => group !== chosen && curve(right, group.unseen, { ...ROLES.heldOut, dash: null }, THIN)),
    curve(right, unseen, ROLES.heldOut, { width: 3 }),
    curve(right, seen, ROLES.recon, { width: 3 }),
    draws.length < ENOUGH ? null : sweetSpots(right, groups, chosen), // words go over curves
    endLabels(right, [
      { value: unseen[unseen.length - 1], text: "new tokens", role: ROLES.heldOut },
      { value: seen[seen.length - 1], text: "tokens it saw", role: ROLES.recon },
    ]),
  ];
}

const THIN = { width: 1, marks: false };

/** From a lowest point to the middle of its words, in pixels, the best first; and what they keep clear of others. */
const OFFSETS = [20, -20, 32, -32];
const CLEAR = 9;

/**
 * Where the mean errors on new tokens are least, each with the number of tokens that want it, clear of curves and of the
 * other words.
 * @type {(right: import("../charts/chart.js").Panel, groups: Facts["groups"], chosen: Facts["chosen"]) =>
 *   import("../charts/svg.js").Drawn}
 */
function sweetSpots(right, groups, chosen) {
  /** @type {[position: number, y: number][]} */
  const words = [];
  return groups.map((group) => {
    const { tokens, unseen, best } = group;
    const [x, y] = [right.x(best), right.y(unseen[best])];
    const reach = best < 2 ? [0, 2] : best > LAMS.length - 3 ? [-2, 0] : [-1, 1];
    const near = (/** @type {number} */ position) => position >= best + reach[0] && position <= best + reach[1];
    const taken = [
      ...[...groups.map((one) => one.unseen), chosen.seen].flatMap((errors) =>
        errors.filter((_, position) => near(position)).map((error) => right.y(error)),
      ),
      ...words.filter(([position]) => Math.abs(position - best) < 4).map(([, height]) => height),
      right.bottom,
    ];
    const room = (/** @type {number} */ offset) => Math.min(...taken.map((height) => Math.abs(height - y - offset)));
    const most = OFFSETS.reduce((best, one) => (room(one) > room(best) ? one : best));
    const offset = OFFSETS.find((one) => room(one) >= CLEAR) ?? most;
    words.push([best, y + offset]);
    const isChosen = group === chosen;
    return [
      s("circle", {
        cx: x,
        cy: y,
        r: 9,
        fill: "none",
        stroke: ROLES.heldOut.ink,
        "stroke-width": isChosen ? 2.5 : 1.5,
      }),
      label(x, y + offset, `best with ${tokens}`, {
        at: best < 2 ? "start" : best > LAMS.length - 3 ? "end" : "middle",
        fill: ROLES.heldOut.ink,
        weight: isChosen ? 700 : null,
        halo: true,
      }),
    ];
  });
}
