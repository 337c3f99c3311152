/**
 * Heatmaps and the bars that explain their colours.
 * @module flat/heatmap
 */

/** @import { Axis, Plane } from "./axes.js" */
/** @import { Clips } from "./clips.js" */
/** @import { Box, FlatTrace, Font } from "./figure.d.ts" */
const BESIDE = 10; // pixels between a map and its bar, at most

import { stopsOf as scaleStops } from "../color_scale.js";
import { heatmapPicture } from "../heatmap_picture.js";
import { s } from "../svg.js";
import { Axis as ScaleAxis } from "./axes.js";
import { INK } from "./marks.js";
import { LINE, MIDDLE, short, textAt } from "./text.js";
import { ticksOf } from "./ticks.js";

const XLINK = "http://www.w3.org/1999/xlink";

/**
 * Where the edges of a heatmap's columns and rows lie, in pixels.
 * @param {FlatTrace} trace
 * @param {[x: Axis, y: Axis]} axes
 */
export function edgesOf({ x, y, z = [] }, [xaxis, yaxis]) {
  const [columns, rows] = [z[0]?.length ?? 0, z.length];
  if (!columns || !rows) return { lefts: [], tops: [] };
  return {
    lefts: xaxis.edges(x, columns).map((edge) => xaxis.at(edge)),
    tops: yaxis.edges(y, rows).map((edge) => yaxis.at(edge)),
  };
}

/**
 * The box between two edges across and two down.
 * @param {number[]} across
 * @param {number[]} down
 * @returns {Box}
 */
export function boxBetween(across, down) {
  const [left, top] = [Math.min(...across), Math.min(...down)];
  return { left, top, width: Math.max(...across) - left, height: Math.max(...down) - top };
}

/** @param {FlatTrace} trace @returns {[number, string][]} */
function stopsOf({ colorscale, reversescale }) {
  const stops = scaleStops(colorscale);
  return reversescale
    ? stops.map(([share, colour]) => /** @type {[number, string]} */ ([1 - share, colour])).reverse()
    : stops;
}

/** @param {FlatTrace} trace @returns {[low: number, high: number]} */
function scaleOf({ z = [], zmin, zmax }) {
  const values =
    zmin === undefined || zmax === undefined
      ? z.flatMap((row) => Array.from(row)).filter((value) => value !== null)
      : [];
  return [zmin ?? Math.min(...values), zmax ?? Math.max(...values)];
}

/**
 * The cells of a heatmap as one picture.
 * @param {FlatTrace} trace
 * @param {[x: Axis, y: Axis]} axes
 * @param {Clips} clips
 */
export function heatmap(trace, axes, clips) {
  const { z = [], xgap = 0, ygap = 0 } = trace;
  const { lefts, tops } = edgesOf(trace, axes);
  if (!lefts.length) return null;
  const box = boxBetween(lefts.map(Math.round), tops.map(Math.round));
  const [zmin, zmax] = scaleOf(trace);
  // Cells of one size without gaps are a pixel each, made larger by the image.
  const isEven = !xgap && !ygap && isSteady(lefts) && isSteady(tops);
  const within = (/** @type {number[]} */ edges, /** @type {number} */ start) =>
    isEven
      ? edges.map((_, at) => (edges[0] < edges[1] ? at : edges.length - 1 - at))
      : edges.map((edge) => Math.round(edge) - start);
  const size = /** @type {[number, number]} */ (
    isEven ? [lefts.length - 1, tops.length - 1] : [Math.max(1, box.width), Math.max(1, box.height)]
  );
  const places = { size, lefts: within(lefts, box.left), tops: within(tops, box.top), xgap, ygap };
  const image = s("image", {
    class: "cells",
    x: box.left,
    y: box.top,
    width: box.width,
    height: box.height,
    preserveAspectRatio: "none",
    "image-rendering": "pixelated",
    "clip-path": clips.to(axes[0].name, axes[1].name),
  });
  const picture = heatmapPicture(z, { ...places, zmin, zmax, colorscale: stopsOf(trace) });
  image.setAttributeNS(XLINK, "xlink:href", picture); // the older name, which every reader of SVG files knows
  return image;
}

/** Whether edges are equally far apart. @param {number[]} edges */
const isSteady = (edges) =>
  edges.every(
    (edge, at) => !at || Math.abs(edge - edges[at - 1] - (edges[1] - edges[0])) < 1e-6 * Math.abs(edge) + 1e-6,
  );

/**
 * The bar of a heatmap's colours at the right, from its lowest value upwards, with its title on top.
 * @param {FlatTrace} trace
 * @param {Plane} plane
 * @param {Font} font of the figure
 * @param {string} id of its colours on the page
 */
export function colorBar(trace, plane, font, id) {
  const bar = trace.colorbar ?? {};
  const { len = 1, thickness = 30, x = 1.02, xpad = 10, ypad = 10, outlinewidth = 1, title } = bar;
  if (title?.text && (title.side ?? "top") !== "top") throw new Error(`no title at the ${title.side} of a colour bar`);
  const { paper } = plane;
  // A bar stands beside the paper, however wide that is: its room is a margin of pixels.
  const left = paper.left + paper.width + Math.min(paper.width * (x - 1), BESIDE) + xpad;
  const [whole, middle] = [paper.height * len - 2 * ypad, paper.top + paper.height / 2];
  const bottom = middle + whole / 2;
  const titleSize = title?.font?.size ?? font.size ?? 12;
  const head = middle - whole / 2;
  const top = title?.text ? head + LINE * titleSize + 5 : head;
  const color = font.color ?? INK;
  const axis = new ScaleAxis("y", bar, [bottom, top], []);
  axis.range = scaleOf(trace);
  const size = bar.tickfont?.size ?? font.size ?? 12;
  const stops = stopsOf(trace).map(([share, colour]) => s("stop", { offset: share, "stop-color": colour }));
  return s(
    "g",
    { class: "colorbar" },
    s("linearGradient", { id, x1: 0, y1: 1, x2: 0, y2: 0 }, stops),
    s("rect", {
      x: short(left),
      y: short(top),
      width: thickness,
      height: short(Math.max(0, bottom - top)),
      fill: `url(#${id})`,
      stroke: outlinewidth ? INK : "none",
      "stroke-width": outlinewidth,
    }),
    title?.text
      ? textAt(title.text, {
          x: left,
          y: head + 3 + 0.75 * titleSize,
          size: titleSize,
          color: title.font?.color ?? color,
        })
      : null,
    ticksOf(axis, size).map(({ position, text }) =>
      textAt(text, {
        x: left + thickness + 0.5 + 0.2 * size,
        y: axis.at(position) + MIDDLE * size,
        size,
        color: bar.tickfont?.color ?? color,
      }),
    ),
  );
}
