/**
 * Lines, rectangles and paths of a layout, behind or before what is drawn.
 * @module flat/shapes
 */

/** @import { Datum } from "../figure.d.ts" */
/** @import { Plane } from "./axes.js" */
/** @import { Clips } from "./clips.js" */
/** @import { Shape } from "./figure.d.ts" */

import { s } from "../svg.js";
import { stroke } from "./marks.js";
import { short } from "./text.js";

const PAIR = /(-?[\d.]+(?:e[-+]?\d+)?)[ ,]+(-?[\d.]+(?:e[-+]?\d+)?)/gi;

/**
 * @param {Shape} shape
 * @param {number} index
 * @param {Plane} plane
 * @param {Clips} clips
 */
export function shapeOf(shape, index, plane, clips) {
  const { type = "rect", xref = "x", yref = "y", fillcolor, opacity, line } = shape;
  const look = {
    ...stroke(line),
    fill: type === "line" ? "none" : (fillcolor ?? "none"),
    "fill-rule": "evenodd",
    opacity,
    "clip-path": clips.to(xref, yref),
  };
  return s("path", { class: "shape", "data-index": index, d: outline(type, shape, plane), ...look });
}

/** @param {string} type @param {Shape} shape @param {Plane} plane */
function outline(type, { xref, yref, x0, x1, y0, y1, path = "" }, plane) {
  const x = (/** @type {Datum|undefined} */ value) => short(plane.place("x", xref, value));
  const y = (/** @type {Datum|undefined} */ value) => short(plane.place("y", yref, value));
  if (type === "line") return `M${x(x0)} ${y(y0)}L${x(x1)} ${y(y1)}`;
  if (type === "rect") return `M${x(x0)} ${y(y0)}H${x(x1)}V${y(y1)}H${x(x0)}Z`;
  if (type !== "path") throw new Error(`no shape of type ${type}`);
  return path.replace(PAIR, (_, across, along) => `${x(Number(across))} ${y(Number(along))}`);
}
