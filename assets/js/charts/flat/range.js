/**
 * The range of an axis that has none of its own: all that is drawn on it, with air around points and lines.
 * @module flat/range
 */

/** @import { Axis, Plane } from "./axes.js" */
/** @import { FlatTrace } from "./figure.d.ts" */

import { barSpans } from "./bars.js";
import { of } from "./marks.js";

const AIR = 0.05; // of the axis
const MOST_AIR = 0.3;

/**
 * @param {Axis} axis
 * @param {FlatTrace[]} data
 * @param {Plane} plane
 * @returns {[number, number]} positions
 */
export function automaticRange(axis, data, plane) {
  const spans = data
    .filter((trace) => trace.visible !== false && plane.axesOf(trace).includes(axis))
    .map((trace) => spanOf(axis, trace, plane))
    .filter(({ places }) => places.length)
    .map(({ places, air }) => ({
      low: Math.min(...places),
      high: Math.max(...places),
      air: Math.min(air, MOST_AIR * axis.length),
    }));
  if (!spans.length) return [0, 1];
  const [low, high] = [Math.min(...spans.map((span) => span.low)), Math.max(...spans.map((span) => span.high))];
  if (low === high) return [low - 1, high + 1];
  // Of all pairs of lower and upper ends, the one whose air needs most of the axis sets the scale.
  let best = { scale: 0, low, high };
  for (const lower of spans) {
    for (const upper of spans) {
      const scale = (upper.high - lower.low) / (axis.length - lower.air - upper.air);
      if (scale <= best.scale) continue;
      best = { scale, low: lower.low - scale * lower.air, high: upper.high + scale * upper.air };
    }
  }
  return [best.low, best.high];
}

/**
 * Positions that a trace reaches on an axis, and the pixels of air beyond them.
 * @param {Axis} axis
 * @param {FlatTrace} trace
 * @param {Plane} plane
 */
function spanOf(axis, trace, plane) {
  const isX = axis.letter === "x";
  const values = (isX ? trace.x : trace.y) ?? [];
  if (trace.type === "heatmap") {
    const { z = [] } = trace;
    const count = isX ? (z[0]?.length ?? 0) : z.length;
    return { places: count ? axis.edges(isX ? trace.x : trace.y, count) : [], air: 0 };
  }
  if (trace.type === "bar") {
    const spans = barSpans(trace, ...plane.axesOf(trace));
    const along = (trace.orientation === "h") === isX;
    return {
      places: spans.flatMap((span) => (along ? span.along : span.across)).filter(Number.isFinite),
      air: along ? AIR * axis.length : 0,
    };
  }
  const { mode = "lines", marker } = trace;
  const bars = isX ? trace.error_x : trace.error_y;
  const places = values
    .flatMap((value, at) => {
      if (!bars || typeof value !== "number") return [value];
      const above = bars.array?.[at] ?? 0;
      return [value - ((bars.symmetric === false ? bars.arrayminus?.[at] : above) ?? 0), value + above];
    })
    .map((value) => axis.positionOf(value))
    .filter(Number.isFinite);
  if (isX && mode === "lines") return { places, air: 0 };
  const sizes = mode.includes("markers") ? values.map((_, at) => of(marker?.size, at) ?? 6) : [];
  return { places, air: AIR * axis.length + (sizes.length ? Math.max(3, Math.max(...sizes) / 1.6) : 0) };
}
