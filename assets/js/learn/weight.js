/**
 * One weight of a group, the levels that a few bits leave, and where it goes.
 * @module learn/weight
 */

import { number } from "../base/format.js";
import { afterGuess, frame, guessGlyph, panel } from "../charts/chart.js";
import { label, mark, path, ROLES, s, segment } from "../charts/svg.js";
import { asking, between, oneFrom } from "./address.js";
import { choices } from "./controls.js";
import { guessed, piece, words } from "./pieces.js";
import { normals } from "./random.js";
import { codeRange, gridOf, nearestCode } from "./solver.js";

/**
 * @typedef {import("./types.d.ts").Asking & {bits: number, weight: number}} Settings
 * @typedef {ReturnType<typeof facts>} Facts
 */

const WIDTHS = [2, 3, 4];
const [LOWEST, HIGHEST] = [-0.82, 0.94]; // weights of the group: its grid follows from them
const RANGE = [-1.15, 1.25]; // of the number line
const NAME = 40; // pixels that the name of a level takes
const RING = -0.3; // where the ring stands before there is a guess

export const state = {
  bits: oneFrom("bits", WIDTHS),
  weight: between("weight", LOWEST, HIGHEST),
  guess: between("guess", RANGE[0], RANGE[1]),
};

/** @type {Settings} */
export const start = { bits: 2, weight: 0.42 };

const draw = normals(4);
const OTHERS = [LOWEST, HIGHEST, ...Array.from({ length: 13 }, () => Math.max(-0.75, Math.min(0.85, 0.38 * draw())))];

/** @type {(value: number, low: number, high: number) => number} */
const clip = (value, low, high) => Math.max(low, Math.min(high, value));
/** @type {(value: number) => number} */
const two = (value) => Math.round(value * 100) / 100;

/**
 * The weight that is set and its group, at the bits that are set: the levels and where each weight goes.
 * @param {Settings} settings
 */
export function facts(settings) {
  const { bits, guess } = settings;
  /** @type {import("./solver.js").Grid} */
  const grid = { bits, groupSize: null, kind: "asymmetric" };
  const weights = [clip(settings.weight, LOWEST, HIGHEST), ...OTHERS];
  const own = gridOf(weights, grid);
  const [first, last] = codeRange(grid);
  const at = (/** @type {number} */ code) => (code - own.zeroPoint) * own.scale;
  const levelOf = (/** @type {number} */ value) => at(nearestCode(value, own, [first, last]));
  return {
    ...asking(settings),
    bits,
    guess,
    weights,
    rounded: weights.map(levelOf),
    levels: Array.from({ length: last - first + 1 }, (_, i) => at(first + i)),
    step: own.scale,
    zero: own.zeroPoint,
    /** How far all levels lie from where they would reach from the smallest weight to the largest. */
    shift: at(first) - LOWEST,
    levelOf,
  };
}

/** @type {import("./types.d.ts").StepModule<Settings, null, Facts>["answer"]} */
export function answer({ weights, rounded, step, shift, guess }) {
  const near = guess !== undefined && Math.abs(guess - rounded[0]) < step / 2;
  const level = piece("drift", number(rounded[0], 2));
  const moved = number(Math.abs(rounded[0] - weights[0]), 2);
  const shifted = Math.abs(shift) < 0.005 ? "" : `So that 0 is a level, all are shifted by ${number(shift, 2)}. `;
  return words`${guess === undefined ? "" : guessed(number(guess, 2), near)}The nearest level is ${level}. \
The weight moves by ${moved}; none moves by more than half a step, ${number(step / 2, 2)}. \
${shifted}Drag the large dot, change the bits.`;
}

/** @param {Facts} facts */
export function aria({ weights, levels, rounded, bits, answered }) {
  const text =
    `A number line with ${weights.length} weights from ${number(LOWEST, 2)} to ${number(HIGHEST, 2)} and ` +
    `${levels.length} levels of ${bits} bits.`;
  if (!answered) return text;
  const way = { weight: number(weights[0], 2), level: number(rounded[0], 2) };
  return `${text} The weight ${way.weight} goes to ${way.level}.`;
}

/** @param {Facts} facts */
export function table({ weights, rounded, answered }) {
  const columns = [
    { key: "weight", title: "Weight", kind: "significant" },
    { key: "level", title: "Its level", kind: "significant" },
    { key: "moved", title: "Moves by", kind: "significant" },
  ];
  const rows = weights.map((weight, i) =>
    answered ? { weight, level: rounded[i], moved: rounded[i] - weight } : { weight },
  );
  return { columns, rows };
}

/**
 * The number line: from values to pixels and back.
 * @param {import("../charts/svg.js").Size} size
 */
export function lineOf({ width }) {
  const [left, right] = [56, width - 32];
  return {
    left,
    right,
    x: (/** @type {number} */ value) => left + ((value - RANGE[0]) / (RANGE[1] - RANGE[0])) * (right - left),
    value: (/** @type {number} */ x) => RANGE[0] + ((x - left) / (right - left)) * (RANGE[1] - RANGE[0]),
  };
}

/**
 * @param {import("./stage.js").Stage<Settings, null, Facts>} stage
 * @returns {import("./types.d.ts").StepView<Facts>}
 */
export function create(stage) {
  const { board } = stage;
  const ring = () => stage.state.guess ?? RING;
  const moveWeight = (/** @type {number} */ value) => stage.change({ weight: two(clip(value, LOWEST, HIGHEST)) });
  const moveRing = (/** @type {number} */ value) => stage.set({ guess: two(clip(value, RANGE[0], RANGE[1])) });
  const weight = board.handle({
    control: "weight",
    label: "The weight before quantization",
    glyph: [s("circle", { r: 9, fill: "var(--ink)" })],
    drag: (x) => moveWeight(lineOf(board.size).value(x)),
    step: (dx) => moveWeight(stage.state.weight + 0.02 * dx),
  });
  const guess = board.handle({
    control: "guess",
    label: "Your guess of the level",
    glyph: guessGlyph(),
    drag: (x) => moveRing(lineOf(board.size).value(x)),
    step: (dx) => moveRing(ring() + 0.02 * dx),
  });

  return {
    ask: () =>
      choices({
        control: "bits",
        label: "Bits",
        options: WIDTHS.map((bits) => [bits, String(bits)]),
        value: stage.state.bits,
        change: (bits) => stage.change({ bits }),
      }),
    draw(size, { weights, levels, rounded, bits, step, zero, shift, levelOf, answered, hasGuess }) {
      const { width, height } = size;
      const { left, right, x } = lineOf(size);
      const [floatY, levelY] = [height * 0.17, height * 0.47];
      weight.at(x(weights[0]), floatY, weights[0], `weight ${number(weights[0], 2)}`);
      guess.at(x(ring()), levelY, ring(), `guess ${number(ring(), 2)}`);
      guess.still(answered);
      guess.show(hasGuess);
      const at = panel({ left, right, top: height * 0.68, bottom: height - 44 }, 2, [0, step * 0.62]);
      // Each second level is named where all names would touch, 0 among them.
      const every = Math.ceil(NAME / (x(levels[1]) - x(levels[0])));
      const isNamed = (/** @type {number} */ code) => (code - zero) % every === 0;
      return [
        label(left - 8, floatY - 36, "The group before quantization", { fill: "var(--ink)", weight: 600 }),
        segment(left - 8, floatY, right + 8, floatY),
        OTHERS.map((value, i) =>
          mark("circle", x(value), floatY, 5, { fill: i < 2 ? "var(--ink-2)" : "var(--ink-3)" }),
        ),
        label(left - 8, levelY + 68, `${levels.length} levels of ${bits} bits: code and value`, {
          fill: "var(--ink)",
          weight: 600,
        }),
        width > 620 && label(right + 8, levelY + 68, "grey: before the shift that makes 0 a level", { at: "end" }),
        segment(left - 8, levelY, right + 8, levelY),
        levels.map((value, code) => [
          segment(x(value - shift), levelY - 7, x(value - shift), levelY + 7, { stroke: "var(--line-2)" }),
          segment(x(value), levelY - 12, x(value), levelY + 12, {
            stroke: "var(--ink)",
            "stroke-width": code === zero ? 3.5 : 2,
          }),
          isNamed(code) && label(x(value), levelY + 26, code.toString(2).padStart(bits, "0"), { at: "middle" }),
          isNamed(code) &&
            label(x(value), levelY + 44, code === zero ? "0" : number(value, 2), {
              at: "middle",
              fill: "var(--ink)",
              weight: code === zero ? 700 : null,
            }),
        ]),
        answered ? [ways(weights, rounded), sawtooth()] : afterGuess(at, "How far it moves, once you have guessed"),
      ];

      /** Each weight's way to its level. */
      function ways(/** @type {number[]} */ from, /** @type {number[]} */ to) {
        const [own, goal] = [x(from[0]), x(to[0])];
        return [
          OTHERS.map((value, i) =>
            segment(x(value), floatY + 8, x(to[i + 1]), levelY - 14, { stroke: "var(--line-2)" }),
          ),
          segment(own, floatY + 10, goal, levelY - 14, { stroke: ROLES.drift.color, "stroke-width": 2.5 }),
          mark("square", goal, levelY, 7, { fill: ROLES.drift.color }),
        ];
      }

      /** How far a weight of each value moves. */
      function sawtooth() {
        const away = (/** @type {number} */ value) => at.y(Math.abs(levelOf(value) - value));
        const values = Array.from({ length: 401 }, (_, i) => RANGE[0] + (i / 400) * (RANGE[1] - RANGE[0])).filter(
          (value) => value >= LOWEST && value <= HIGHEST,
        );
        const [own, moved] = [x(weights[0]), away(weights[0])];
        return [
          frame(at, "How far a weight of each value moves", (value) => number(value, 2), { wanted: 2 }),
          path(
            values.map((value) => [x(value), away(value)]),
            { stroke: ROLES.drift.color, "stroke-width": 2 },
          ),
          segment(own, at.y(0), own, moved, { stroke: "var(--ink)", "stroke-dasharray": "3 3" }),
          mark("square", own, moved, 6, { fill: "var(--ink)" }),
          [-1, -0.5, 0, 0.5, 1].map((value) => label(x(value), at.bottom + 20, number(value, 1), { at: "middle" })),
        ];
      }
    },
  };
}
