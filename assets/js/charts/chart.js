/**
 * Curves over λ as the tour and a preview draw them: λ is an ordinal axis with 0 on it, labels stand at the line's end.
 * @module chart
 */

import { label, mark, path, s, segment } from "./svg.js";

/** @import { Drawn, Role } from "./svg.js" */

/**
 * @typedef {{left: number, right: number, top: number, bottom: number}} Box in pixels
 * @typedef {(number|null)[]} Values of a curve: null where nothing was measured
 * @typedef {ReturnType<typeof panel>} Panel
 */

/**
 * A panel: from positions and values to pixels.
 * @param {Box} box
 * @param {number} count positions on the axis
 * @param {[number, number]} range smallest and largest value
 */
export function panel(box, count, range) {
  const [low, high] = range;
  return {
    ...box,
    count,
    range,
    x: (/** @type {number} */ position) =>
      box.left + (count < 2 ? 0.5 : position / (count - 1)) * (box.right - box.left),
    y: (/** @type {number} */ value) => box.bottom - ((value - low) / (high - low || 1)) * (box.bottom - box.top),
    value: (/** @type {number} */ y) => low + ((box.bottom - y) / (box.bottom - box.top)) * (high - low),
    /** The position nearest to a pixel. */
    position: (/** @type {number} */ x) =>
      Math.min(count - 1, Math.max(0, Math.round(((x - box.left) / (box.right - box.left)) * (count - 1)))),
  };
}

/**
 * A range with a little air around all finite values; with `zero` it starts at 0.
 * @param {Values} values
 * @param {{zero?: boolean, air?: number}} [options]
 * @returns {[number, number]}
 */
export function spread(values, { zero = false, air = 0.08 } = {}) {
  const finite = values.filter(isMeasured);
  if (!finite.length) return [0, 1];
  const low = zero ? 0 : Math.min(...finite);
  const high = Math.max(...finite);
  const more = (high - low || Math.abs(high) || 1) * air;
  return [zero ? 0 : low - more, high + more];
}

/**
 * Round numbers inside a range, about as many as wanted.
 * @param {[number, number]} range
 */
export function ticks([low, high], wanted = 4) {
  const raw = (high - low) / wanted;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5].map((one) => one * power).find((one) => one >= raw) ?? 10 * power;
  const round = [];
  for (let value = Math.ceil(low / step) * step; value <= high + step * 1e-9; value += step)
    round.push(Number(value.toPrecision(12)));
  return round;
}

/**
 * @param {number|null|undefined} value
 * @returns {value is number}
 */
export function isMeasured(value) {
  return Number.isFinite(value);
}

const LINE = 18; // of text above a panel

/**
 * Grid lines with their values on the left, and the panel's name above them; `lines` further lines stand between.
 * @param {Panel} at
 * @param {string} name
 * @param {(value: number) => string} format
 * @param {{wanted?: number, lines?: number}} [options]
 * @returns {Drawn}
 */
export function frame(at, name, format, { wanted = 4, lines = 0 } = {}) {
  return [
    ticks(at.range, wanted).map((value) => [
      segment(at.left - 6, at.y(value), at.right + 6, at.y(value), { stroke: "var(--grid)" }),
      label(at.left - 12, at.y(value), format(value), { at: "end" }),
    ]),
    label(at.left - 6, at.top - 14 - LINE * lines, name, { fill: "var(--ink)", weight: 600 }),
  ];
}

/**
 * What the curves of a panel are, in a line above it, for panels with no room for names at their ends.
 * @param {Panel} at
 * @param {{role: Role, text: string}[]} curves
 * @returns {Drawn}
 */
export function key(at, curves) {
  let x = at.left - 6;
  return curves.map(({ role, text }) => {
    const start = x;
    x += 36 + 6.6 * text.length + 14;
    return [
      segment(start, at.top - 14, start + 28, at.top - 14, { "stroke-width": 2, ...dashed(role) }),
      mark(role.shape, start + 14, at.top - 14, 4, { fill: role.color }),
      label(start + 36, at.top - 14, text, { fill: role.ink }),
    ];
  });
}

/**
 * What stands in the place of a panel that comes with the answer.
 * @param {Box} box
 */
export const afterGuess = ({ left, right, top, bottom }, text = "More, once you have guessed") =>
  label((left + right) / 2, (top + bottom) / 2, text, { at: "middle", size: 14, fill: "var(--ink-3)" });

/**
 * The names of the positions under a panel, thinned where they would touch.
 * @param {Panel} at
 * @param {string[]} names
 * @returns {Drawn}
 */
export function axis(at, names, sign = "λ") {
  const room = at.x(1) - at.x(0);
  const wide = (/** @type {string} */ name) => 6.4 * name.length;
  const fits = (/** @type {number} */ every) =>
    names.every(
      (name, position) =>
        position % every ||
        position + every >= names.length ||
        (wide(name) + wide(names[position + every])) / 2 + 4 <= every * room,
    );
  const every = names.findIndex((_, index) => fits(index + 1)) + 1;
  return [
    names.map((name, position) =>
      position % every ? null : label(at.x(position), at.bottom + 20, name, { at: "middle" }),
    ),
    label(at.left - 22, at.bottom + 20, sign, { at: "end", fill: "var(--ink)", weight: 600 }),
  ];
}

/**
 * A role's line: its colour and its dash, of which the dots are round.
 * @param {Role} role
 */
export const dashed = ({ color, dash }) => ({
  stroke: color,
  "stroke-dasharray": dash,
  "stroke-linecap": dash === "1 5" ? "round" : null,
});

/**
 * A curve with its markers, and error bars, as far as the panel goes, where it has intervals.
 * @param {Panel} at
 * @param {Values} values
 * @param {Role} role
 * @param {{ends?: ([low: number, high: number] | null)[] | null, width?: number, size?: number, faint?: boolean, marks?: boolean}} [look]
 * @returns {Drawn}
 */
export function curve(at, values, role, { ends = null, width = 2, size = 4, faint = false, marks = true } = {}) {
  const points = values.map((value, position) => (isMeasured(value) ? [at.x(position), at.y(value)] : null));
  const look = { "stroke-width": width, opacity: faint ? 0.28 : null };
  const bar = (/** @type {[number, number]|null} */ interval, /** @type {number} */ position) => {
    if (!interval || interval[0] === interval[1] || !isMeasured(values[position])) return null;
    const x = at.x(position);
    const [low, high] = interval.map((end) => Math.max(at.top, Math.min(at.bottom, at.y(end))));
    return segment(x, low, x, high, { stroke: role.color, "stroke-width": 1.5 });
  };
  return [
    path(points, { ...look, ...dashed(role) }),
    ends?.map(bar),
    marks
      ? points.map(
          (point) => point && mark(role.shape, point[0], point[1], size, { fill: role.color, opacity: look.opacity }),
        )
      : null,
  ];
}

/**
 * Names at the right ends of curves, pushed apart where they would touch.
 * @param {Panel} at
 * @param {{value: number, text: string, role: Role}[]} ends
 * @returns {Drawn}
 */
export function endLabels(at, ends, gap = 16) {
  const placed = ends.map((end) => ({ ...end, y: at.y(end.value) })).sort((a, b) => a.y - b.y);
  for (let i = 1; i < placed.length; i += 1) placed[i].y = Math.max(placed[i].y, placed[i - 1].y + gap);
  const over = Math.max(0, (placed.at(-1)?.y ?? 0) - at.bottom);
  return placed.map((end) => label(at.right + 12, end.y - over, end.text, { fill: end.role.ink }));
}

/**
 * A vertical line at a position.
 * @param {Panel} at
 * @param {number} position
 * @param {{stroke?: string, dash?: string|null}} [look]
 */
export function upright(at, position, { stroke = "var(--ink)", dash = null } = {}) {
  const x = at.x(position);
  return segment(x, at.top - 4, x, at.bottom + 6, { stroke, "stroke-width": 1.5, "stroke-dasharray": dash });
}

const HEAP = 0.5; // of a panel's height, for the most frequent guess
const LEAST = 22; // pixels, so that its number has room in a bar

/**
 * Number of guesses at each position, as bars on the axis with the numbers at the foot; none where it is 0.
 * @param {Panel} at
 * @param {number[] | null} counts
 * @returns {Drawn}
 */
export function heaps(at, counts) {
  const most = Math.max(0, ...(counts ?? []));
  if (!counts || !most) return null;
  const width = 0.6 * (at.count < 2 ? 60 : at.x(1) - at.x(0));
  return counts.map((count, position) => {
    if (!count) return null;
    const height = Math.max(LEAST, HEAP * (at.bottom - at.top) * (count / most));
    const x = at.x(position);
    const box = { x: x - width / 2, y: at.bottom - height, width, height, rx: 2 };
    return [
      s("rect", { ...box, fill: "var(--series-4)", opacity: 0.35, class: "heap" }),
      label(x, at.bottom - 11, String(count), { at: "middle", fill: "var(--ink)", size: 13, weight: 700 }),
    ];
  });
}

/** The knob of a guess on a λ axis. */
export function guessGlyph() {
  return [
    s("circle", { r: 9, fill: "var(--surface)", stroke: "var(--series-4)", "stroke-width": 3 }),
    s("circle", { r: 3, fill: "var(--series-4)" }),
  ];
}
