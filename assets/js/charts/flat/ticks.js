/**
 * Which values an axis names, and how it writes them: those it is given, or round ones as plotly chooses them.
 * @module flat/ticks
 */

/** @import { Axis } from "./axes.js" */

import { formatNumber, trimmed, written } from "./format.js";

/** @typedef {{position: number, text: string}} Tick */

const MOST = 1000; // ticks of an axis
const SI = ["f", "p", "n", "μ", "m", "", "k", "M", "G", "T"];
const PLAIN_UP_TO = 3; // powers of ten that are written out
const PER_LABEL = { x: 80, y: 40 }; // pixels of the axis for each tick, where nothing says how many there are

/**
 * The ticks of an axis inside its range.
 * @param {Axis} axis
 * @param {number} [size] of its text in pixels
 * @returns {Tick[]}
 */
export function ticksOf(axis, size = 12) {
  const { tickvals } = axis.layout;
  const ticks = tickvals
    ? tickvals.map((value, at) => ({ position: axis.positionOf(value), text: textOf(axis, value, at) }))
    : axis.kind === "category"
      ? categoryTicks(axis, size)
      : axis.kind === "log"
        ? decades(axis)
        : roundTicks(axis);
  return ticks.filter(({ position }) => axis.holds(position));
}

/** @param {Axis} axis @param {import("../figure.d.ts").Datum} value @param {number} at */
function textOf({ layout: { ticktext, tickformat } }, value, at) {
  return ticktext ? String(ticktext[at] ?? "") : written(value, tickformat);
}

/** @param {Axis} axis @param {number} size */
function categoryTicks({ categories, length, range: [low, high], layout: { nticks } }, size) {
  const most = nticks || length / Math.round(1.2 * size);
  const step = Math.ceil(Math.max(Math.abs(high - low) / most, 1));
  return categories.map((text, position) => ({ position, text })).filter(({ position }) => position % step === 0);
}

/** @param {Axis} axis */
function decades({ range, layout: { tickformat } }) {
  const [low, high] = [Math.min(...range), Math.max(...range)];
  const ticks = [];
  for (let power = Math.ceil(low - 1e-9); power <= high + 1e-9; power += 1) {
    ticks.push({ position: power, text: written(10 ** power, tickformat) });
  }
  return ticks;
}

/** @param {Axis} axis */
function roundTicks({ letter, length, range, layout: { tick0 = 0, dtick, nticks, tickformat } }) {
  const [low, high] = [Math.min(...range), Math.max(...range)];
  const count = nticks || Math.min(9, Math.max(4, length / PER_LABEL[letter])) + 1;
  const step = dtick ?? roundStep((high - low) / count);
  const [first, last] = [Math.ceil((low - tick0) / step - 1e-6), Math.floor((high - tick0) / step + 1e-6)];
  if (!(last - first < MOST)) return [];
  const most = Math.max(Math.abs(low), Math.abs(high));
  return Array.from({ length: last - first + 1 }, (_, at) => {
    const position = Number((tick0 + (first + at) * step).toPrecision(12));
    return { position, text: tickformat ? formatNumber(tickformat, position) : shortText(position, step, most) };
  });
}

/** The next of 2, 5 and 10 times a power of ten. @param {number} rough */
function roundStep(rough) {
  const base = 10 ** Math.floor(Math.log10(rough));
  return base * ([2, 5].find((times) => times * base >= rough * (1 - 1e-9)) ?? 10);
}

/**
 * A value without zeros at its end; thousands and thousandths of an axis that reaches far have a letter.
 * @param {number} value
 * @param {number} step
 * @param {number} most the largest absolute value of the axis
 */
function shortText(value, step, most) {
  const places = 2 - Math.floor(Math.log10(step) + 0.01);
  const reach = Math.floor(Math.log10(most) + 0.01);
  const exponent = Math.abs(reach) > PLAIN_UP_TO ? 3 * Math.round((reach - 1) / 3) : 0;
  const digits = trimmed((Math.abs(value) / 10 ** exponent).toFixed(Math.min(Math.max(places + exponent, 0), 20)));
  if (!Number(digits)) return "0";
  return `${value < 0 ? "−" : ""}${digits}${exponent ? (SI[exponent / 3 + 5] ?? `e${exponent}`) : ""}`;
}
