/**
 * Bars, upright or lying.
 * @module flat/bars
 */

/** @import { Axis } from "./axes.js" */
/** @import { FlatTrace, Hit } from "./figure.d.ts" */
/** @import { Ground } from "./scatter.js" */

import { s } from "../svg.js";
import { INK, of } from "./marks.js";
import { errorBars } from "./scatter.js";
import { MIDDLE, short, textAt } from "./text.js";

const WIDTH = 0.8; // of the room between two bars
const TEXT_GAP = 3; // pixels between a bar and its words
const DESCENT = 0.25; // below the baseline, in the size of the text

/**
 * Positions of the edges of each bar: across it, and from its base to its end.
 * @param {FlatTrace} trace
 * @param {Axis} xaxis
 * @param {Axis} yaxis
 * @returns {{across: [number, number], along: [base: number, end: number]}[]}
 */
export function barSpans({ orientation, x = [], y = [], base, width }, xaxis, yaxis) {
  const isLying = orientation === "h";
  const [places, values, axis] = isLying ? [y, x, yaxis] : [x, y, xaxis];
  return places.map((place, at) => {
    const [middle, half] = [axis.positionOf(place), (of(width, at) ?? WIDTH) / 2];
    const foot = of(base, at) ?? 0;
    const value = values[at];
    return {
      across: [middle - half, middle + half],
      along: [foot, value === null || value === undefined ? Number.NaN : foot + Number(value)],
    };
  });
}

/**
 * @param {FlatTrace} trace
 * @param {Ground} ground
 * @param {number} curve
 * @returns {{drawn: import("../svg.js").Drawn, hits: Hit[]}}
 */
export function bars(trace, { axes, clips, font }, curve) {
  const [xaxis, yaxis] = axes;
  const isLying = trace.orientation === "h";
  const [thick, long] = isLying ? [yaxis, xaxis] : [xaxis, yaxis];
  const ends = barSpans(trace, xaxis, yaxis).flatMap(({ across, along }, at) => {
    if (![...across, ...along].every(Number.isFinite)) return [];
    const [[from, to], [foot, tip]] = [across.map((edge) => thick.at(edge)), along.map((edge) => long.at(edge))];
    const middle = (from + to) / 2;
    const [left, top] = [
      Math.min(...(isLying ? [foot, tip] : [from, to])),
      Math.min(...(isLying ? [from, to] : [foot, tip])),
    ];
    const [width, height] = isLying
      ? [Math.abs(tip - foot), Math.abs(to - from)]
      : [Math.abs(to - from), Math.abs(tip - foot)];
    const [x, y] = isLying ? [tip, middle] : [middle, tip];
    return [{ at, x, y, isUp: along[1] >= along[0], box: { left, top, width, height } }];
  });
  const clip = clips.to(xaxis.name, yaxis.name);
  const { marker = {} } = trace;
  const boxes = ends.map(({ at, box }) => {
    const edge = of(marker.line?.width, at) ?? 0;
    return s("rect", {
      class: "point",
      x: short(box.left),
      y: short(box.top),
      width: short(box.width),
      height: short(box.height),
      fill: of(marker.color, at) ?? INK,
      stroke: edge ? (of(marker.line?.color, at) ?? INK) : "none",
      "stroke-width": edge,
      opacity: marker.opacity,
    });
  });
  const error = isLying ? trace.error_x : trace.error_y;
  const words = (/** @type {typeof ends[0]} */ { at, x, y, isUp }) => {
    const said = String(trace.text?.[at] ?? "");
    const where = of(trace.textposition, at) ?? "auto";
    if (!said || where === "none") return null;
    if (where !== "outside") throw new Error(`no text of a bar at “${where}”`);
    const { size = font.size ?? 12, color = font.color ?? INK } = trace.textfont ?? {};
    const way = isUp ? 1 : -1;
    if (isLying)
      return textAt(said, { x: x + way * TEXT_GAP, y: y + MIDDLE * size, size, color, anchor: isUp ? "start" : "end" });
    const down = isUp ? -TEXT_GAP - DESCENT * size : TEXT_GAP + (1 - DESCENT) * size;
    return textAt(said, { x, y: y + down, size, color, anchor: "middle" });
  };
  return {
    drawn: [
      s("g", { "clip-path": clip }, boxes, error && error.visible !== false ? errorBars(error, long, ends) : null),
      s("g", { "clip-path": trace.cliponaxis === false ? null : clip }, ends.map(words)),
    ],
    hits: ends.map(({ at, x, y, box }) => ({ curve, point: at, left: x, top: y, box })),
  };
}
