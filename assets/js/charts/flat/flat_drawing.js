/**
 * Flat figures as SVG: what plotly's words say, drawn at once and anew at each change. It knows the words that the
 * figures of the app are written in (figure.d.ts); what it can't draw is an error, never left out.
 * @module flat/flat_drawing
 */

/** @import { Datum, Layout, Trace } from "../figure.d.ts" */
/** @import { Drawn } from "../svg.js" */
/** @import { Box, FlatLayout, FlatPoint, FlatTrace, Hit } from "./figure.d.ts" */
/** @import { Mark } from "./hop.js" */
/** @import { Ground, KeyedMark } from "./scatter.js" */

import { isStill, onTheWay } from "../../base/motion.js";
import { s } from "../svg.js";
import { titledDocument } from "../svg_picture.js";
import { Plane } from "./axes.js";
import { bars } from "./bars.js";
import { Clips } from "./clips.js";
import { hoverWords } from "./format.js";
import { between, canGlide, DURATION } from "./glide.js";
import { gridOf } from "./grid_lines.js";
import { boxBetween, colorBar, edgesOf, heatmap } from "./heatmap.js";
import { hop } from "./hop.js";
import { HoverLabel } from "./hover.js";
import { INK } from "./marks.js";
import { noteOf } from "./notes.js";
import { hitAt, hitsAbove, isHovered, pointOf, said, sayingOf } from "./points.js";
import { scatter } from "./scatter.js";
import { shapeOf } from "./shapes.js";

const LAYERS = ["heatmap", "bar", "scatter"]; // traces by type, the lowest first
const XML = "http://www.w3.org/XML/1998/namespace";

/**
 * Where the first horizontal axis lies on the canvas, and its positions by pixels from the canvas's left edge.
 * @typedef {{left: number, width: number, top: number, height: number, pixelOf: (value: number) => number,
 *   valueAt: (pixel: number) => number}} Area
 */

/** The drawing of a flat figure on a canvas. */
export class FlatDrawing {
  /** @param {HTMLElement} canvas positioned, so that labels can stand in it */
  constructor(canvas) {
    this.canvas = canvas;
    this.svg = s("svg", { class: "flat" });
    this.svg.setAttributeNS(XML, "xml:space", "preserve"); // spaces keep words apart
    this.svg.style.display = "block";
    canvas.append(this.svg);
    this.label = new HoverLabel(canvas);
    /** @type {Trace[]} what is drawn */
    this.data = [];
    /** @type {Layout} */
    this.layout = {};
    /** @type {Area|null} null before there is a drawing */
    this.area = null;
    /** @type {Plane|null} */
    this.plane = null;
    /** @type {Hit[]} points and bars of the drawing */
    this.hits = [];
    /** @type {Map<string, Mark>} of the drawing that have a key */
    this.marks = new Map();
    this.stop = () => {}; // ends a way on which the figure is
    this.pointed = ""; // names of the points of the last report
    /** @type {(points: FlatPoint[]) => void} hears of the points at a click, never of none */
    this.clicked = () => {};
    /** @type {(points: FlatPoint[]) => void} of those that the pointer comes to, with none when it leaves them */
    this.hovered = () => {};
    canvas.addEventListener("pointermove", (event) => this.follow(event));
    canvas.addEventListener("pointerleave", () => this.leave());
    canvas.addEventListener("pointerdown", () => this.leave());
    canvas.addEventListener("click", (event) => this.click(event));
  }

  /**
   * Draws a figure in the place of what was drawn.
   * @param {{data: Trace[], layout: Layout}} figure with colours, without bindings
   * @param {{width: number, height: number}} size in pixels
   */
  draw(figure, size) {
    this.stop();
    this.put(figure, size);
  }

  /**
   * Lets the drawing go to the same figure at another point; it is there at once under reduced motion, in another size
   * and where the figure shows other things.
   * @param {{data: Trace[], layout: Layout}} figure
   * @param {{width: number, height: number}} size
   * @param {() => void} painted hears of each drawing
   */
  glide(figure, size, painted) {
    const { data, layout, plane } = this;
    const isFitting = plane?.width === size.width && plane.height === size.height && canGlide(this, figure);
    if (!plane || !isFitting || isStill()) {
      this.draw(figure, size);
      painted();
      return;
    }
    this.stop();
    const placeOf = (/** @type {unknown} */ value, /** @type {string} */ axis) =>
      plane.axis(axis).positionOf(/** @type {Datum} */ (value));
    this.stop = onTheWay(DURATION, (share) => {
      this.put(between({ data, layout }, figure, share, placeOf), size);
      painted();
    });
  }

  /**
   * @param {{data: Trace[], layout: Layout}} figure
   * @param {{width: number, height: number}} size
   */
  put({ data, layout }, { width, height }) {
    const [traces, page] = /** @type {[FlatTrace[], FlatLayout]} */ (/** @type {unknown} */ ([data, layout]));
    for (const { type = "scatter" } of traces)
      if (!LAYERS.includes(type)) throw new Error(`no flat trace of type ${type}`);
    const plane = new Plane(traces, page, { width, height });
    const { drawn, hits, marks } = drawnIn(plane, traces, page);
    const { family = "sans-serif", size = 12 } = page.font ?? {};
    for (const [name, value] of Object.entries({ width, height, "font-family": family, "font-size": size }))
      this.svg.setAttribute(name, String(value));
    this.svg.replaceChildren(...drawn);
    this.leave();
    if (this.plane?.width === width && this.plane.height === height) hop(this.marks, marks);
    [this.data, this.layout, this.plane, this.hits, this.marks] = [data, layout, plane, hits, marks];
    const axis = plane.axis("x");
    this.area = {
      left: Math.min(axis.start, axis.end),
      width: axis.length,
      top: plane.paper.top,
      height: plane.paper.height,
      pixelOf: (value) => axis.at(value),
      valueAt: (pixel) => axis.positionAt(pixel),
    };
  }

  /** Takes the drawing away. */
  clear() {
    this.stop();
    this.leave();
    this.svg.replaceChildren();
    [this.data, this.layout, this.plane, this.area, this.hits, this.marks] = [[], {}, null, null, [], new Map()];
  }

  /** @returns {FlatTrace[]} */
  get traces() {
    return /** @type {FlatTrace[]} */ (/** @type {unknown} */ (this.data));
  }

  /** @returns {FlatLayout} */
  get page() {
    return /** @type {FlatLayout} */ (/** @type {unknown} */ (this.layout));
  }

  /**
   * Where a cell of a heatmap is drawn; null where there is none.
   * @param {number} trace its position in the figure
   * @param {[row: number, column: number]} cell
   * @returns {Box|null}
   */
  cellBox(trace, [row, column]) {
    const of = this.traces[trace];
    if (!this.plane || of?.type !== "heatmap") return null;
    const { lefts, tops } = edgesOf(of, this.plane.axesOf(of));
    const [across, down] = [lefts.slice(column, column + 2), tops.slice(row, row + 2)];
    return across.length === 2 && down.length === 2 ? boxBetween(across, down) : null;
  }

  /**
   * The row of a point, half a unit to both sides, over the whole width; null where there is none.
   * @param {number} trace its position in the figure
   * @param {number} point
   * @returns {Box|null}
   */
  rowBox(trace, point) {
    const of = this.traces[trace];
    if (!this.plane || !of) return null;
    const [, yaxis] = this.plane.axesOf(of);
    const middle = yaxis.positionOf(of.y?.[point]);
    if (!Number.isFinite(middle)) return null;
    return boxBetween([0, this.plane.width], [yaxis.at(middle - 0.5), yaxis.at(middle + 0.5)]);
  }

  /** @param {PointerEvent} event */
  follow(event) {
    if (event.buttons) this.leave();
    else this.point(this.spotOf(event));
  }

  leave() {
    this.label.hide();
    this.tell([]);
  }

  /** @param {MouseEvent} event */
  click(event) {
    const hits = this.point(this.spotOf(event)); // a finger has not hovered before
    if (hits.length) this.clicked(this.pointsOf(hits));
  }

  /** @param {MouseEvent} event */
  spotOf({ clientX, clientY }) {
    const { left, top } = this.canvas.getBoundingClientRect();
    return { x: clientX - left, y: clientY - top };
  }

  /**
   * Shows and tells what is at a spot.
   * @param {{x: number, y: number}} spot
   * @returns {Hit[]}
   */
  point(spot) {
    const { plane, traces, hits, page } = this;
    if (!plane || page.hovermode === false) return [];
    const isShared = page.hovermode === "x unified";
    const nearest = isShared ? hitsAbove(spot, hits, traces, plane, page) : (hitAt(spot, hits, traces, plane) ?? []);
    const there = Array.isArray(nearest) ? nearest : [nearest];
    const speaking = there.filter(({ curve }) => traces[curve].hoverinfo !== "none");
    if (!speaking.length) this.label.hide();
    else {
      const [first] = speaking;
      const sayings = speaking.map((hit) => sayingOf(traces[hit.curve], hit, plane));
      if (isShared)
        this.label.showPlace(this.placeName(first), sayings, { x: first.left, y: spot.y }, plane.paper, page);
      else this.label.showPoint(sayings[0], { x: first.left, y: first.top }, page);
    }
    this.tell(there);
    return there;
  }

  /** The name of a point's place on its horizontal axis. @param {Hit} hit */
  placeName(hit) {
    const trace = this.traces[hit.curve];
    const axis = /** @type {Plane} */ (this.plane).axesOf(trace)[0];
    const { x } = pointOf(trace, hit);
    const template = axis.layout.unifiedhovertitle?.text ?? "%{x}";
    return hoverWords(template, { x }, { x: said(axis, x) }).text;
  }

  /** Tells the points of a hover where they are others than before. @param {Hit[]} hits */
  tell(hits) {
    const names = hits.map(({ curve, point }) => `${curve}:${point}`).join(" ");
    if (names === this.pointed) return;
    this.pointed = names;
    this.hovered(this.pointsOf(hits));
  }

  /** @param {Hit[]} hits */
  pointsOf(hits) {
    return hits.map((hit) => pointOf(this.traces[hit.curve], hit));
  }

  /**
   * The drawing as a document of its own.
   * @param {{title?: string, foot?: string, ground?: string, ink?: string}} [look] what stands above and below it, and on
   *   what, in colours
   */
  svgText({ title = "", foot = "", ground = "none", ink } = {}) {
    const copy = /** @type {SVGSVGElement} */ (this.svg.cloneNode(true));
    return titledDocument(copy, { title, foot, ground, ink: ink ?? this.page.font?.color ?? INK });
  }
}

/**
 * All that a figure draws, from the back to the front, and what there is to point at.
 * @param {Plane} plane
 * @param {FlatTrace[]} traces
 * @param {FlatLayout} layout
 * @returns {{drawn: SVGElement[], hits: Hit[], marks: Map<string, Mark>}}
 */
function drawnIn(plane, traces, layout) {
  const clips = new Clips(plane);
  const { font = {}, annotations = [] } = layout;
  const shapes = (layout.shapes ?? [])
    .map((shape, index) => ({ shape, index }))
    .filter(({ shape }) => shape.visible !== false);
  const drawShapes = (/** @type {boolean} */ isBelow) =>
    s(
      "g",
      { class: isBelow ? "shapes below" : "shapes" },
      shapes
        .filter(({ shape }) => (shape.layer === "below") === isBelow)
        .map(({ shape, index }) => shapeOf(shape, index, plane, clips)),
    );
  /** @type {Hit[]} */
  const hits = [];
  /** @type {Map<string, Mark>} */
  const marks = new Map();
  const drawTrace = (/** @type {FlatTrace} */ trace, /** @type {number} */ curve) => {
    const made = drawnOf(trace, curve, traces, { axes: plane.axesOf(trace), clips, font }, plane);
    if (isHovered(trace)) hits.push(...made.hits);
    for (const { key, ...mark } of made.marks ?? []) marks.set(key, mark);
    return s("g", { class: "trace", "data-trace": curve }, made.drawn);
  };
  const drawn = [
    drawShapes(true),
    ...[...plane.axes.values()].map((axis) => gridOf(axis, plane, layout)).filter((axis) => axis !== null),
    ...LAYERS.flatMap((layer) =>
      traces.flatMap((trace, curve) =>
        (trace.type ?? "scatter") === layer && trace.visible !== false ? [drawTrace(trace, curve)] : [],
      ),
    ),
    drawShapes(false),
    ...annotations.map((note, index) => noteOf(note, index, plane, font)).filter((note) => note !== null),
  ];
  return { drawn: [s("defs", {}, [...clips.made.values()]), ...drawn], hits, marks };
}

/**
 * @param {FlatTrace} trace
 * @param {number} curve
 * @param {FlatTrace[]} traces
 * @param {Ground} ground
 * @param {Plane} plane
 * @returns {{drawn: Drawn, hits: Hit[], marks?: KeyedMark[]}}
 */
function drawnOf(trace, curve, traces, ground, plane) {
  if (trace.type === "bar") return bars(trace, ground, curve);
  if (trace.type !== "heatmap") return scatter(trace, traces[curve - 1], ground, curve);
  const { axes, clips, font } = ground;
  const scale = trace.showscale === false ? null : colorBar(trace, plane, font, `${clips.prefix}-colors-${curve}`);
  return { drawn: [heatmap(trace, axes, clips), scale], hits: [] };
}
