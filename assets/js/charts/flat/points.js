/**
 * What is under the pointer, and what it says.
 * @module flat/points
 */

/** @import { Datum } from "../figure.d.ts" */
/** @import { Axis, Plane } from "./axes.js" */
/** @import { Box, FlatLayout, FlatPoint, FlatTrace, Hit } from "./figure.d.ts" */

import { hoverWords, written } from "./format.js";
import { boxBetween, edgesOf } from "./heatmap.js";
import { of } from "./marks.js";

/** @typedef {{text: string, name: string, color: string}} Saying of a point: its words and the name and colour of its trace */
/** @typedef {{x: number, y: number}} Spot on the canvas */

export const REACH = 20; // pixels around a point

/**
 * The point, bar or cell at a spot; points lie on cells.
 * @param {Spot} spot
 * @param {Hit[]} hits
 * @param {FlatTrace[]} data
 * @param {Plane} plane
 * @returns {Hit|null}
 */
export function hitAt(spot, hits, data, plane) {
  let best = null;
  let least = Number.POSITIVE_INFINITY;
  for (const hit of hits) {
    const away = distance(spot, hit.box);
    const score = away + 1e-3 * Math.hypot(spot.x - hit.left, spot.y - hit.top); // of two under the pointer, the nearer middle
    if (away <= REACH && score < least) [best, least] = [hit, score];
  }
  return best ?? cellAt(spot, data, plane);
}

/** From a spot to a box. @param {Spot} spot @param {Box} box */
function distance({ x, y }, { left, top, width, height }) {
  return Math.hypot(Math.max(left - x, 0, x - left - width), Math.max(top - y, 0, y - top - height));
}

/** The cell of a heatmap at a spot. @param {Spot} spot @param {FlatTrace[]} data @param {Plane} plane @returns {Hit|null} */
function cellAt({ x, y }, data, plane) {
  for (let curve = data.length - 1; curve >= 0; curve -= 1) {
    const trace = data[curve];
    if (trace.type !== "heatmap" || !isHovered(trace)) continue;
    const axes = plane.axesOf(trace);
    if (!axes[0].holds(axes[0].positionAt(x)) || !axes[1].holds(axes[1].positionAt(y))) continue;
    const { lefts, tops } = edgesOf(trace, axes);
    const [column, row] = [between(lefts, x), between(tops, y)];
    if (column < 0 || row < 0) continue;
    if (trace.hoverongaps === false && !Number.isFinite(trace.z?.[row]?.[column] ?? Number.NaN)) continue;
    const box = boxBetween(lefts.slice(column, column + 2), tops.slice(row, row + 2));
    const middle = { left: box.left + box.width / 2, top: box.top + box.height / 2 };
    return { curve, point: [row, column], ...middle, box };
  }
  return null;
}

/** Which two of rising or falling edges a pixel is between; -1 for none. @param {number[]} edges @param {number} pixel */
const between = (edges, pixel) =>
  edges.slice(1).findIndex((edge, at) => pixel >= Math.min(edge, edges[at]) && pixel <= Math.max(edge, edges[at]));

/** Whether the pointer sees a trace at all. @param {FlatTrace} trace */
export const isHovered = ({ visible, hoverinfo }) => visible !== false && hoverinfo !== "skip";

/**
 * All points at the place on the shared axis that is nearest to a spot.
 * @param {Spot} spot
 * @param {Hit[]} hits
 * @param {FlatTrace[]} data
 * @param {Plane} plane
 * @param {FlatLayout} layout
 * @returns {Hit[]} in the order of their traces
 */
export function hitsAbove(spot, hits, data, plane, { hoversubplots }) {
  const plots = plane.subplots
    .map(([xaxis, yaxis]) => ({
      xaxis,
      yaxis,
      away: distance(spot, boxBetween([xaxis.start, xaxis.end], [yaxis.start, yaxis.end])),
      own: hits.filter(({ curve }) => {
        const [x, y] = plane.axesOf(data[curve]);
        return x === xaxis && y === yaxis;
      }),
    }))
    .filter(({ own, away }) => own.length && away <= REACH)
    .sort((a, b) => a.away - b.away);
  if (!plots.length) return [];
  const [{ xaxis, own }] = plots;
  const there = hoversubplots === "axis" ? hits.filter(({ curve }) => plane.axesOf(data[curve])[0] === xaxis) : own;
  const nearest = there.reduce((a, b) => (Math.abs(b.left - spot.x) < Math.abs(a.left - spot.x) ? b : a));
  const seen = new Set();
  return there.filter(({ curve, left }) => {
    if (Math.abs(left - nearest.left) > 0.5 || seen.has(curve)) return false;
    return seen.add(curve);
  });
}

/**
 * The x of a point of a trace, its y, and what else it has.
 * @param {FlatTrace} trace
 * @param {Hit} hit
 * @returns {FlatPoint}
 */
export function pointOf({ x, y, z, text, customdata }, { curve, point }) {
  const own = (/** @type {any} */ lists) => (Array.isArray(point) ? lists?.[point[0]]?.[point[1]] : lists?.[point]);
  const [row, column] = Array.isArray(point) ? point : [point, point];
  return {
    x: x ? x[column] : column,
    y: y ? y[row] : row,
    ...(z ? { z: own(z) } : {}),
    text: own(text),
    curveNumber: curve,
    pointNumber: point,
    customdata: own(customdata),
  };
}

/**
 * What a point says in a hover.
 * @param {FlatTrace} trace
 * @param {Hit} hit
 * @param {Plane} plane
 * @returns {Saying}
 */
export function sayingOf(trace, hit, plane) {
  const { x, y, z, text, customdata } = pointOf(trace, hit);
  const [xaxis, yaxis] = plane.axesOf(trace);
  const { name = "", meta, hovertemplate, marker, line } = trace;
  const words = { x: said(xaxis, x), y: said(yaxis, y) };
  const made = hovertemplate
    ? hoverWords(hovertemplate, { x, y, z, text, customdata, meta, name }, words)
    : { text: text ? String(text) : `(${words.x}, ${words.y})`, extra: null };
  const at = Array.isArray(hit.point) ? 0 : hit.point;
  return { text: made.text, name: made.extra ?? name, color: line?.color ?? of(marker?.color, at) ?? "" };
}

/** A value as its axis writes it. @param {Axis} axis @param {Datum} value */
export const said = ({ layout: { tickformat } }, value) => written(value, tickformat);
