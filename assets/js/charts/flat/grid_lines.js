/**
 * What stands around a plot and behind it: grid lines, ticks and their names, and titles of axes.
 * @module flat/grid_lines
 */

/** @import { Axis, Plane } from "./axes.js" */
/** @import { FlatLayout, Font } from "./figure.d.ts" */
/** @import { Tick } from "./ticks.js" */

import { s } from "../svg.js";
import { INK, stroke } from "./marks.js";
import { heightOf, LINE, linesOf, MIDDLE, short, textAt, widthOf } from "./text.js";
import { ticksOf } from "./ticks.js";

const LABEL_GAP = 1; // pixels from an axis to the names of its ticks
const NAME_GAP = 4; // pixels between two names
const OWN_NAME_GAP = 2; // the same between numbers that a figure names, which are left out less readily
const NUMBER = /^[\d.,]+$/;
const BESIDE_TICKS = 0.2; // further from an axis with ticks outside, in the size of the names
const DESCENT = 0.25; // of a text below its baseline, in its size
const CAPITAL = 0.7; // height of a capital
const STANDOFF = 12; // pixels to a title that says nothing of it

/**
 * An axis with its grid.
 * @param {Axis} axis
 * @param {Plane} plane
 * @param {FlatLayout} layout
 */
export function gridOf(axis, plane, layout) {
  const { visible, showgrid, gridcolor = "#eee", tickfont } = axis.layout;
  if (visible === false) return null;
  const font = { ...layout.font, ...tickfont };
  const ticks = ticksOf(axis, font.size);
  const foot = plane.anchorOf(axis).start;
  const isNamed = axis.layout.showticklabels !== false;
  const names = isNamed ? apart(axis, ticks, font).map((tick) => label(axis, tick, foot, font)) : [];
  return s(
    "g",
    { class: "axis", "data-axis": axis.name },
    showgrid === false ? null : gridLines(axis, ticks, plane, gridcolor),
    axis.layout.ticks === "outside" ? outsideTicks(axis, ticks, foot) : null,
    names,
    titleOf(axis, foot, depthOf(axis, isNamed ? ticks : [], font), layout),
  );
}

/**
 * The ticks that are named. Where names would touch, these are every second or fewer, zero among them; of numbers that a
 * figure names, all that don't touch the one before. Its words stay: each names something else.
 * @param {Axis} axis
 * @param {Tick[]} ticks
 * @param {Font} font
 */
function apart(axis, ticks, { size = 12, family = "sans-serif" }) {
  if (axis.letter === "y") return ticks;
  if (axis.layout.tickvals) {
    return ticks.every(({ text }) => NUMBER.test(text)) ? withoutTouching(axis, ticks, { size, family }) : ticks;
  }
  const zero = Math.max(
    0,
    ticks.findIndex(({ position }) => position === 0),
  );
  const reach = ticks.map(({ text, position }) => ({ at: axis.at(position), width: widthOf(text, size, family) }));
  const touches = (/** @type {number} */ every) =>
    reach.some(({ at, width }, index) => {
      const next = reach[index + every];
      return next && Math.abs(next.at - at) < (width + next.width) / 2 + NAME_GAP;
    });
  let every = 1;
  while (every < ticks.length && touches(every)) every += 1;
  return ticks.filter((_, index) => (index - zero) % every === 0);
}

/** @param {Axis} axis @param {Tick[]} ticks @param {Font} font */
function withoutTouching(axis, ticks, { size = 12, family = "sans-serif" }) {
  let end = -Infinity; // of the last name, in pixels
  return ticks.filter(({ text, position }) => {
    const [at, half] = [axis.at(position), widthOf(text, size, family) / 2];
    const isFree = at - half >= end + OWN_NAME_GAP;
    if (isFree) end = at + half;
    return isFree;
  });
}

/** @param {Axis} axis @param {Tick[]} ticks @param {Plane} plane @param {string} color */
function gridLines(axis, ticks, plane, color) {
  const d = plane.across(axis).flatMap(({ start, end }) =>
    ticks.map(({ position }) => {
      const at = short(axis.at(position));
      return axis.letter === "x" ? `M${at} ${short(start)}V${short(end)}` : `M${short(start)} ${at}H${short(end)}`;
    }),
  );
  return d.length ? s("path", { class: "grid", d: d.join(""), ...stroke({ color, width: 1 }) }) : null;
}

/** @param {Axis} axis @param {Tick[]} ticks @param {number} foot */
function outsideTicks(axis, ticks, foot) {
  const { ticklen = 5, tickcolor = INK } = axis.layout;
  const d = ticks.map(({ position }) => {
    const at = short(axis.at(position));
    return axis.letter === "x" ? `M${at} ${short(foot)}v${ticklen}` : `M${short(foot)} ${at}h${-ticklen}`;
  });
  return d.length ? s("path", { class: "ticks", d: d.join(""), ...stroke({ color: tickcolor, width: 1 }) }) : null;
}

/** From an axis to the names of its ticks. @param {Axis} axis @param {number} size */
function gapOf({ layout: { ticks, ticklen = 5, ticklabelstandoff = 0 } }, size) {
  return LABEL_GAP + ticklabelstandoff + (ticks === "outside" ? ticklen + BESIDE_TICKS * size : 0);
}

/** The name of a tick. @param {Axis} axis @param {Tick} tick @param {number} foot @param {Font} font */
function label(axis, { position, text }, foot, { size = 12, color = INK }) {
  if (!text) return null;
  const [at, gap] = [axis.at(position), gapOf(axis, size)];
  if (axis.letter === "x") return textAt(text, { x: at, y: foot + gap + size, size, color, anchor: "middle" });
  const up = ((linesOf(text).length - 1) * LINE * size) / 2;
  return textAt(text, { x: foot - gap, y: at + MIDDLE * size - up, size, color, anchor: "end" });
}

/** How far the names of ticks reach from their axis. @param {Axis} axis @param {Tick[]} ticks @param {Font} font */
function depthOf(axis, ticks, { size = 12, family = "sans-serif" }) {
  if (!axis.layout.title?.text || !ticks.length) return 0;
  const sizes = ticks.map(({ text }) =>
    axis.letter === "x" ? heightOf(text, size) - (LINE - 1) * size + DESCENT * size : widthOf(text, size, family),
  );
  return gapOf(axis, size) + Math.max(...sizes);
}

/**
 * The words at an axis, in its middle beyond the names of its ticks.
 * @param {Axis} axis
 * @param {number} foot
 * @param {number} depth
 * @param {FlatLayout} layout
 */
function titleOf(axis, foot, depth, layout) {
  const { title } = axis.layout;
  if (!title?.text) return null;
  const general = layout.template?.layout?.[`${axis.letter}axis`]?.title?.font;
  const { size = 12, color = INK } = { ...layout.font, ...general, ...title.font };
  const [middle, away] = [(axis.start + axis.end) / 2, depth + (title.standoff ?? STANDOFF)];
  const further = (linesOf(title.text).length - 1) * LINE * size;
  const place =
    axis.letter === "x"
      ? { x: middle, y: foot + away + CAPITAL * size }
      : { x: foot - away - MIDDLE * size - further, y: middle, turn: -90 };
  const words = textAt(title.text, { ...place, size, color, anchor: "middle" });
  words.setAttribute("class", "axis-title");
  return words;
}
