/**
 * What stands around a surface: the floor, the two walls behind it with the mean of each channel, the height axis, the
 * names of the axes and of the parts, the curtain between these, and the labels of peaks.
 * @module surface/frame
 */

/** @import { Box, Projection } from "./projection.js" */
/** @import { Scale } from "./field.js" */
/** @import { Sink, Type } from "./sinks.js" */

import { number } from "../../base/format.js";
import { ticks } from "../chart.js";

/** @typedef {Record<"ink"|"ink2"|"ink3"|"line"|"accent"|"drift"|"surface"|"ground", string>} Look colours of the page */
/**
 * @typedef {object} Stage what the drawing of the frame needs
 * @property {Sink} sink
 * @property {Projection} projection
 * @property {Box} box with the gap between the parts
 * @property {Scale} scale
 * @property {Look} look
 * @property {number} size of type in pixels
 * @property {number} width of the picture in pixels
 * @property {number} height
 */

export const CURTAIN_RISE = 1.08; // of the box's height
const BELOW = 2.1; // from an edge of the floor to its name, in sizes of type: the handle of the curtain stands between
const SMALL = 0.92;

/**
 * Ends of the box nearest to the viewer, and farthest.
 * @param {Pick<Stage, "projection"|"box">} stage
 */
export function endsOf({ projection: { towards }, box }) {
  const [x, y] = [box.width / 2, box.depth / 2];
  const [nearX, nearY] = [towards.x >= 0 ? x : -x, towards.y >= 0 ? y : -y];
  return { nearX, nearY, farX: -nearX, farY: -nearY };
}

/** Left and top of points of the box: x, y, z, x, y, z … @param {Projection} projection @param {number[]} points */
export function seen(projection, points) {
  const places = [];
  for (let at = 0; at < points.length; at += 3) {
    const [x, y, z] = points.slice(at, at + 3);
    places.push(projection.left(x, y), projection.top(x, y, z));
  }
  return places;
}

/** How high a value stands in the box. @param {Stage} stage @param {number} value */
const heightOf = ({ box, scale }, value) => ((value - scale.low) / (scale.high - scale.low)) * box.height;

/**
 * The floor and the walls behind the surface, with lines at the ticks and their numbers.
 * @param {Stage} stage
 */
export function paintWalls(stage) {
  const { sink, projection, box, scale, look, size } = stage;
  const { nearX, nearY, farX, farY } = endsOf(stage);
  const top = box.height;
  const place = (/** @type {number[]} */ ...points) => seen(projection, points);
  const stroke = { color: look.line };
  sink.area(place(farX, nearY, 0, farX, farY, 0, farX, farY, top, farX, nearY, top), look.ground);
  sink.area(place(nearX, farY, 0, farX, farY, 0, farX, farY, top, nearX, farY, top), look.ground);
  sink.line(place(farX, nearY, 0, nearX, nearY, 0, nearX, farY, 0, farX, farY, 0, farX, nearY, 0), stroke);
  sink.line(place(farX, farY, 0, farX, farY, top), stroke);
  const isLeft = projection.left(farX, nearY) < projection.left(nearX, farY);
  const edge = isLeft ? [farX, nearY] : [nearX, farY]; // the left end of the walls
  sink.line(place(edge[0], edge[1], 0, edge[0], edge[1], top), { color: look.ink3 });
  const values = ticks([scale.low, scale.high], 4);
  const decimals = Math.max(0, ...values.map((value) => (String(value).split(".")[1] ?? "").length));
  for (const value of values) {
    const z = heightOf(stage, value);
    sink.line(place(farX, nearY, z, farX, farY, z, nearX, farY, z), stroke);
    const [left, at] = place(edge[0], edge[1], z);
    const text = value ? number(value, decimals) : "0";
    sink.text(left - 0.5 * size, at, text, { color: look.ink2, size: SMALL * size, align: "end" });
  }
}

/**
 * The names of both floor axes along the near edges, with an arrow to where channels ascend.
 * @param {Stage} stage
 * @param {{inputs: string, outputs: string}} names
 */
export function paintNames(stage, { inputs, outputs }) {
  const { sink, projection, box, look, size } = stage;
  const { nearX, nearY } = endsOf(stage);
  const [x, y] = [box.width / 2, box.depth / 2];
  for (const [text, from, to] of /** @type {[string, number[], number[]][]} */ ([
    [inputs, [-x, nearY, 0], [x, nearY, 0]],
    [outputs, [nearX, -y, 0], [nearX, y, 0]],
  ])) {
    const [left, top, right, bottom] = seen(projection, [...from, ...to]);
    const length = Math.hypot(right - left, bottom - top);
    if (length < sink.widthOf(text, { color: look.ink2, size }) + 2 * size) continue; // seen from its end
    const isForward = right >= left;
    const angle = isForward ? Math.atan2(bottom - top, right - left) : Math.atan2(top - bottom, left - right);
    const [middle, height] = [(left + right) / 2, (top + bottom) / 2];
    sink.text(
      middle - Math.sin(angle) * BELOW * size,
      height + Math.cos(angle) * BELOW * size,
      isForward ? `${text} →` : `← ${text}`,
      {
        color: look.ink2,
        size,
        align: "middle",
        angle,
      },
    );
  }
}

/** Corners of the curtain as veils take them. @param {Stage} stage @param {number} x */
export function curtainCorners({ projection, box }, x) {
  const [y, z] = [box.depth / 2, CURTAIN_RISE * box.height];
  return seen(projection, [x, -y, z, x, -y, 0, x, y, 0, x, y, z]);
}

/**
 * The edges of the curtain that nothing hides.
 * @param {Stage} stage
 * @param {number} x
 */
export function paintCurtainEdges(stage, x) {
  const { sink, projection, box, look } = stage;
  const { nearY, farY } = endsOf(stage);
  const top = CURTAIN_RISE * box.height;
  const points = seen(projection, [x, nearY, 0, x, nearY, top, x, farY, top]);
  sink.line(points, { color: look.accent, width: 1.25, opacity: 0.75 });
}

/** @typedef {{start: number, end: number, middle: number}} Line of text: its ends, and its middle from above */

/**
 * The names of the parts on both sides of the curtain's far upper corner; of a lone surface above its wall.
 * @param {Stage} stage
 * @param {string[]} names of the part on the side of low columns, and of the other
 * @param {number|null} x of the curtain
 * @param {[boolean, boolean]} isSeen whether there are cells before the curtain, and behind it
 * @param {number} before the part that is drawn before it
 * @returns {Line[]} where they stand
 */
export function paintParts(stage, names, x, isSeen, before) {
  const { sink, projection, box, look, size, width } = stage;
  const { farY } = endsOf(stage);
  const [left, top] = seen(projection, [x ?? 0, farY, (x === null ? 1 : CURTAIN_RISE) * box.height]);
  const middle = Math.max(0.7 * size, top - 0.8 * size);
  const isTurned = projection.xx < 0; // low columns are on the right
  /** @type {Line[]} */
  const lines = [];
  names.forEach((name, part) => {
    const side = Math.abs(part - before);
    if (x !== null && !isSeen[side]) return;
    const isShown = part === names.length - 1;
    /** @type {Type} */
    const type = {
      color: isShown ? look.ink : look.ink2,
      size: 1.1 * size,
      weight: isShown ? 600 : 400,
      halo: look.surface,
    };
    const wide = sink.widthOf(name, type);
    const isOnLeft = (side === 0) !== isTurned;
    const wanted = x === null ? left - wide / 2 : isOnLeft ? left - 0.7 * size - wide : left + 0.7 * size;
    const start = Math.max(2, Math.min(width - wide - 2, wanted));
    sink.text(start, middle, name, type);
    lines.push({ start, end: start + wide, middle });
  });
  return lines;
}

/** @typedef {{left: number, top: number, text: string}} PeakLabel the place of the peak */

/**
 * Labels above peaks; one that would lie over another is left out.
 * @param {Stage} stage
 * @param {PeakLabel[]} labels the most important first
 * @param {Line[]} others that are there already
 */
export function paintPeaks({ sink, look, size, width }, labels, others) {
  /** @type {Type} */
  const type = { color: look.ink, size: SMALL * size, halo: look.surface };
  const taken = [...others];
  for (const { left, top, text } of labels) {
    const wide = sink.widthOf(text, type);
    const start = Math.max(2, Math.min(width - wide - 2, left - wide / 2));
    const middle = Math.max(0.6 * size, top - 1.1 * size);
    const isTaken = taken.some(
      (other) =>
        Math.abs(other.middle - middle) < 1.3 * size && start < other.end + 4 && other.start < start + wide + 4,
    );
    if (isTaken) continue;
    taken.push({ start, end: start + wide, middle });
    sink.line([left, top - 0.45 * size, left, top], { color: look.ink2 });
    sink.text(start, middle, text, type);
  }
}
