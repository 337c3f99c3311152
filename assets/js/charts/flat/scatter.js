/**
 * Scatter traces: areas, error bars, lines, markers and words at points.
 * @module flat/scatter
 */

/** @import { Axis } from "./axes.js" */
/** @import { Clips } from "./clips.js" */
/** @import { ErrorBars, FlatTrace, Font, Hit } from "./figure.d.ts" */
/** @import { Mark } from "./hop.js" */

import { s } from "../svg.js";
import { INK, markerAt, of, stroke } from "./marks.js";
import { LINE, linesOf, short, textAt } from "./text.js";

/** @typedef {{at: number, x: number, y: number, isInside: boolean}} Place of a point, in pixels */
/** @typedef {{axes: [x: Axis, y: Axis], clips: Clips, font: Font}} Ground of a trace */
/** @typedef {{key: string} & Mark} KeyedMark */

/**
 * Where the points of a trace lie; null for those that lie nowhere.
 * @param {FlatTrace} trace
 * @param {[x: Axis, y: Axis]} axes
 * @returns {(Place|null)[]}
 */
export function placesOf({ x, y = [] }, [xaxis, yaxis]) {
  return Array.from({ length: x ? Math.min(x.length, y.length) : y.length }, (_, at) => {
    const [across, along] = [xaxis.positionOf(x ? x[at] : at), yaxis.positionOf(y[at])];
    if (!Number.isFinite(across) || !Number.isFinite(along)) return null;
    return { at, x: xaxis.at(across), y: yaxis.at(along), isInside: xaxis.holds(across) && yaxis.holds(along) };
  });
}

/**
 * What a trace draws, and what there is to point at.
 * @param {FlatTrace} trace
 * @param {FlatTrace|undefined} before the trace before it, to which an area reaches
 * @param {Ground} ground
 * @param {number} curve its number
 * @returns {{drawn: import("../svg.js").Drawn, hits: Hit[], marks: KeyedMark[]}}
 */
export function scatter(trace, before, { axes, clips, font }, curve) {
  const mode = trace.mode ?? "lines";
  const places = placesOf(trace, axes);
  const points = places.filter((place) => place !== null);
  const clip = clips.to(axes[0].name, axes[1].name);
  const keepsAll = trace.cliponaxis === false; // its markers are whole, even at the edge
  const shown = keepsAll ? points.filter(({ isInside }) => isInside) : points;
  const { marker = {} } = trace;
  const hasMarkers = mode.includes("markers");
  const [across, along] = /** @type {const} */ (["error_x", "error_y"]).map((name, side) => {
    const bars = trace[name];
    return bars && bars.visible !== false ? errorBars(bars, axes[side], points) : [];
  });
  const cut = [
    trace.fill && trace.fill !== "none" ? area(trace, points, before ? placesOf(before, axes) : []) : null,
    [across, along],
    mode.includes("lines") ? line(trace, places) : null,
  ];
  const markers = hasMarkers ? shown.map(({ at, x, y }) => markerAt(marker, at, x, y)) : [];
  const whole = [markers, mode.includes("text") ? shown.map((place) => words(trace, place, hasMarkers, font)) : null];
  return {
    drawn: [s("g", { "clip-path": clip }, cut), s("g", { "clip-path": keepsAll ? null : clip }, whole)],
    hits: points
      .filter(({ isInside }) => isInside)
      .map(({ at, x, y }) => {
        const r = hasMarkers ? (of(marker.size, at) ?? 6) / 2 : 0;
        return { curve, point: at, left: x, top: y, box: { left: x - r, top: y - r, width: 2 * r, height: 2 * r } };
      }),
    marks: trace.ids ? [...keyedMarkers(trace.ids, shown, markers), ...keyedBars(trace, axes[1], points, along)] : [],
  };
}

/**
 * @param {string[]} ids
 * @param {Place[]} places
 * @param {SVGElement[]} elements
 * @returns {KeyedMark[]}
 */
const keyedMarkers = (ids, places, elements) =>
  elements.map((element, index) => {
    const { at, x, y } = places[index];
    return { key: ids[at], element, x, top: y, bottom: y };
  });

/**
 * The upright error bars, which move and grow on their own.
 * @param {FlatTrace} trace
 * @param {Axis} axis
 * @param {Place[]} places
 * @param {(SVGElement|null)[]} elements
 * @returns {KeyedMark[]}
 */
const keyedBars = ({ ids = [], error_y: bars = {} }, axis, places, elements) =>
  elements.flatMap((element, index) => {
    const ends = errorEnds(bars, axis, places[index]);
    if (!element || !ends) return [];
    const [bottom, top] = ends;
    return [{ key: `${ids[places[index].at]} interval`, element, x: places[index].x, top, bottom }];
  });

/**
 * The line through points, broken where one is missing.
 * @param {FlatTrace} trace
 * @param {(Place|null)[]} places
 */
function line({ line: style, connectgaps }, places) {
  let d = "";
  /** @type {Place|null} */
  let last = null;
  for (const place of places) {
    if (!place) {
      if (!connectgaps) last = null;
      continue;
    }
    if (!last) d += `M${short(place.x)} ${short(place.y)}`;
    else if (style?.shape === "hv") d += `H${short(place.x)}V${short(place.y)}`;
    else d += `L${short(place.x)} ${short(place.y)}`;
    last = place;
  }
  return d ? s("path", { class: "line", d, "stroke-linejoin": "round", ...stroke(style) }) : null;
}

/**
 * The area between a line and the one before.
 * @param {FlatTrace} trace
 * @param {Place[]} points
 * @param {(Place|null)[]} before
 */
function area({ fill, fillcolor = "none" }, points, before) {
  if (fill !== "tonexty") throw new Error(`no fill “${fill}”`);
  const back = before.filter((place) => place !== null).reverse();
  const corners = [...points, ...back].map(({ x, y }) => `${short(x)} ${short(y)}`);
  return corners.length ? s("path", { class: "fill", d: `M${corners.join("L")}Z`, fill: fillcolor }) : null;
}

/**
 * Where an error bar ends, in pixels: at the lower value and at the higher one; null for a bar of no length.
 * @param {ErrorBars} bars
 * @param {Axis} axis
 * @param {{at: number, x: number, y: number}} place of its point
 */
function errorEnds({ array = [], arrayminus = [], symmetric }, axis, { at, x, y }) {
  const above = array[at] ?? 0;
  const below = (symmetric === false ? arrayminus[at] : above) ?? 0;
  if (!(Math.max(above, below) > 0)) return null;
  const position = axis.positionAt(axis.letter === "x" ? x : y);
  const value = axis.kind === "log" ? 10 ** position : position;
  return [value - below, value + above].map((end) => short(axis.pixelOf(end)));
}

/**
 * Error bars with caps; those of no length are left out.
 * @param {ErrorBars} bars
 * @param {Axis} axis
 * @param {{at: number, x: number, y: number}[]} points
 */
export function errorBars(bars, axis, points) {
  const { thickness = 2, width = 4, color } = bars;
  const isX = axis.letter === "x";
  return points.map((place) => {
    const ends = errorEnds(bars, axis, place);
    if (!ends) return null;
    const [low, high] = ends;
    const [left, top] = [short(place.x), short(place.y)];
    const d = isX
      ? `M${low} ${top - width}v${2 * width}M${low} ${top}H${high}m0 ${-width}v${2 * width}`
      : `M${left - width} ${low}h${2 * width}M${left} ${low}V${high}m${-width} 0h${2 * width}`;
    return s("path", { class: "error", d, ...stroke({ color, width: thickness }) });
  });
}

/** @type {Record<string, number>} */
const WAYS = { top: -1, left: -1, middle: 0, center: 0, bottom: 1, right: 1 };
/** @type {Record<string, string>} */
const ANCHORS = { left: "end", center: "middle", right: "start" };

/**
 * The words at a point, off its marker.
 * @param {FlatTrace} trace
 * @param {Place} place
 * @param {boolean} hasMarker
 * @param {Font} font of the figure
 */
function words({ text = [], textposition, textfont = {}, marker }, { at, x, y }, hasMarker, font) {
  const said = String(text[at] ?? "");
  if (!said) return null;
  const [upper, side] = (of(textposition, at) ?? "middle center").split(" ");
  const size = textfont.size ?? font.size ?? 12;
  const gap = hasMarker ? (of(marker?.size, at) ?? 6) / 1.6 + 1 : 0;
  const lines = 1 + (linesOf(said).length - 1) * LINE;
  const down = 0.75 * size + WAYS[upper] * gap + ((WAYS[upper] - 1) * lines * size) / 2;
  const look = { size, color: textfont.color ?? font.color ?? INK, anchor: ANCHORS[side] };
  return textAt(said, { x: x + WAYS[side] * gap, y: y + down, ...look });
}
