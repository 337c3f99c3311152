/**
 * A made-up layer of two weights, which two steps share: its lattice, its tokens, the dots that win as λ grows, and where
 * all of it stands on a drawing.
 * @module learn/pair
 */

import { nearest } from "../base/address_bar.js";
import { number, plain } from "../base/format.js";
import { dashed } from "../charts/chart.js";
import { label, s, segment } from "../charts/svg.js";
import { between, oneFrom } from "./address.js";
import { everyPair, statisticsOf, winners } from "./solver.js";

/** @typedef {ReturnType<typeof layout>} Layout */
/**
 * @typedef {{value: number, fill: string}} Part of a bar
 * @typedef {{name: string, isBest: boolean, bars: Part[][]}} Row a dot with its bars, each of parts that add up
 */
/** @typedef {ReturnType<typeof solvePair>["route"]} Route the winners over λ, each with the λ from which it wins */

/** Where both weights and the tokens are at first, and in the step that does not let them be moved. */
export const START = { x: -0.44, y: 0.06, tokens: "-1.32,0.9;0.99,-0.95;0.56,-0.46" };

/** @type {import("./solver.js").Grid} */
export const GRID = { bits: 3, groupSize: null, kind: "asymmetric" };
export const OWN = { scale: 1, zeroPoint: 4 }; // levels −4 to 3
export const LOW = -4;
export const HIGH = 3;
export const REACH = 1.8; // of the tokens' own axes
/** So close that something moves at each. */
export const LAMS = [
  0,
  ...[0.001, 0.01, 0.1, 1].flatMap((power) => [1, 1.5, 2, 3, 5, 7].map((one) => one * power)),
  10,
].map((lam) => Number(lam.toPrecision(2)));
/** @type {(value: number, low: number, high: number) => number} */
export const clip = (value, low, high) => Math.max(low, Math.min(high, value));
/** @type {(value: number) => number} */
export const two = (value) => Math.round(value * 100) / 100;
/** @type {(pair: number[]) => string} */
export const pairText = (pair) => pair.map((value) => number(value, 0)).join(", ");

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
export const readTokens = (text) => tokensOf(text) ?? tokensOf(START.tokens) ?? [];

/** How the address says a λ, and the tokens. */
export const ENTRIES = {
  lambda: oneFrom("λ", LAMS),
  x: between("first weight", LOW + 0.5, HIGH - 0.5),
  y: between("second weight", LOW + 0.5, HIGH - 0.5),
  tokens: {
    title: "tokens",
    read: (/** @type {string} */ text) => (tokensOf(text) ? text : undefined),
    wants: `three pairs of numbers from ${plain(-REACH)} to ${plain(REACH)}, as “1,0;0,1;1,1”`,
  },
};

const LINE = 24; // pixels of the legend
const BARS = 168; // pixels below everything, where they have no room beside the lattice
const MOST_ROWS = 6;
/** @type {(parts: Part[]) => number} */
const total = (parts) => parts.reduce((sum, { value }) => sum + value, 0);

/**
 * All pairs that the weights may become, and of these the winners over λ.
 * @param {number[]} weight (2)
 * @param {number[][]} tokens (3, 2)
 */
export function solvePair(weight, tokens) {
  const { gram } = statisticsOf(tokens);
  const candidates = everyPair(weight, gram, OWN, GRID);
  return { gram, candidates, route: winners(candidates) };
}

/**
 * The winner at a λ.
 * @param {Route} route
 * @param {number} lam
 */
export const winnerAt = (route, lam) => (route.findLast(({ from }) => from <= lam) ?? route[0]).candidate;

/** Position of a λ among those that can be set. @param {number} lam */
export const positionOf = (lam) => nearest(LAMS, lam) ?? 0;

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
 * Where the lattice, the tokens' box and the legend stand, and how pixels become weights and tokens.
 * @param {import("../charts/svg.js").Size} size
 */
export function layout({ width, height }) {
  const narrow = width < 560;
  const side = narrow ? 108 : 150;
  const area = narrow
    ? { left: 44, top: 8, size: Math.min(width - 60, height - side - 88 - BARS) }
    : { left: 56, top: 8, size: Math.min(height - 60, width - side - 120) };
  const box = narrow
    ? { left: width - side - 12, top: height - side - 8 - BARS }
    : { left: width - side - 40, top: 44 };
  const legend = narrow ? { left: 16, top: box.top + 8 } : { left: box.left, top: box.top + side + 40 };
  const bars = narrow
    ? { left: 16, right: width - 16, top: height - BARS + 30, bottom: height }
    : { left: box.left, right: width - 12, top: legend.top + 5 * LINE + 8, bottom: height - 8 };
  const unit = area.size / (HIGH - LOW + 1);
  const centre = [box.left + side / 2, box.top + side / 2];
  const reach = side / 2 / (REACH + 0.2);
  return {
    narrow,
    area,
    box: { ...box, side },
    legend,
    bars,
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

/** @type {(at: Layout) => import("../charts/svg.js").Drawn} */
export function axes({ area, place }) {
  const levels = Array.from({ length: HIGH - LOW + 1 }, (_, i) => LOW + i);
  return [
    levels.map((value) => [
      label(place([value, LOW])[0], area.top + area.size + 14, number(value, 0), { at: "middle" }),
      label(area.left - 12, place([LOW, value])[1], number(value, 0), { at: "middle" }),
    ]),
    label(area.left + area.size / 2, area.top + area.size + 34, "first weight", {
      at: "middle",
      fill: "var(--ink)",
    }),
    turnedLabel(area.left - 28, area.top + area.size / 2, "second weight"),
  ];
}

/**
 * A word along an axis that goes up.
 * @param {number} x
 * @param {number} y
 * @param {string} text
 */
export function turnedLabel(x, y, text) {
  const node = label(x, y, text, { at: "middle", fill: "var(--ink)" });
  node.setAttribute("transform", `rotate(-90 ${x} ${y})`);
  return node;
}

/**
 * Bars of a few dots below each other: those of the best one bold, and those around it where there are many.
 * @param {Layout} at
 * @param {{title: string, rows: Row[], full: number}} content `full`: the value whose bar fills the room; longer bars end
 * there with a sign
 * @returns {import("../charts/svg.js").Drawn}
 */
export function barsOf({ bars: box }, { title, rows, full }) {
  const best = rows.findIndex(({ isBest }) => isBest);
  const first = Math.max(0, Math.min(best - 2, rows.length - MOST_ROWS));
  const shown = rows.slice(first, first + MOST_ROWS);
  const tall = Math.min(36, (box.bottom - box.top - 16) / shown.length);
  const left = box.left + 46;
  const room = box.right - left - 12;
  return [
    label(box.left, box.top, title, { fill: "var(--ink)", weight: 600 }),
    shown.map(({ name, isBest, bars }, row) => {
      const top = box.top + 14 + row * tall;
      const thick = Math.min(16, (tall - 6) / bars.length);
      return [
        label(left - 8, top + (thick * bars.length) / 2, name, {
          at: "end",
          fill: isBest ? "var(--ink)" : "var(--ink-2)",
          weight: isBest ? 700 : null,
        }),
        bars.map((parts, i) => {
          let x = left;
          const y = top + i * thick;
          return [
            parts.map(({ value, fill }) => {
              const width = Math.min(left + room - x, (value / full) * room);
              const part = s("rect", {
                x,
                y,
                width: Math.max(0, width),
                height: thick - 1,
                fill,
                opacity: isBest ? null : 0.55,
              });
              x += Math.max(0, width);
              return part;
            }),
            total(parts) > full && label(left + room + 3, y + thick / 2, "›", { fill: "var(--ink)" }),
          ];
        }),
      ];
    }),
  ];
}

/**
 * Signs and what they mean, one below the other.
 * @param {{left: number, top: number}} corner
 * @param {(false|[(x: number, y: number) => import("../charts/svg.js").Drawn, string, string?])[]} entries a sign 26 pixels
 * wide that begins at a place, its words and their colour; those that are false are left out
 * @returns {import("../charts/svg.js").Drawn}
 */
export function legendOf({ left, top }, entries) {
  return entries
    .filter((entry) => entry !== false)
    .map(([sign, text, fill], i) => [sign(left, top + LINE * i), label(left + 36, top + LINE * i, text, { fill })]);
}

/** A line of a role as a sign. @type {(role: import("../charts/svg.js").Role) => (x: number, y: number) => SVGElement} */
export const lineSign = (role) => (x, y) => segment(x, y, x + 26, y, { "stroke-width": 2, ...dashed(role) });

/** From which λ a pair wins, as it is written: two digits, the third moves with a hair of a drag. @param {number} from */
export const fromText = (from) => (from === 0 ? "0" : plain(Number(from.toPrecision(2))));
