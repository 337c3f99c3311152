/**
 * Where a drawing goes: to a canvas, or into an SVG document. Both take the same calls in the same order.
 *
 * Points of lines and areas are left, top, left, top … in pixels; angles are in radians.
 * @module surface/sinks
 */

/** @import { FaceSink } from "./field.js" */

import { channels } from "../color_scale.js";
import { short } from "../flat/text.js";
import { s } from "../svg.js";
import { Pixels } from "./pixels.js";
import { cssOf } from "./shades.js";

/** @typedef {{color: string, width?: number, dash?: number[], opacity?: number}} Stroke */
/** @typedef {{color: string, size: number, align?: "start"|"middle"|"end", weight?: number, angle?: number, halo?: string}} Type `halo`: the colour around letters */
/**
 * @typedef {object} DrawingSink
 * @property {(points: number[], stroke: Stroke) => void} line
 * @property {(points: number[], color: string, opacity?: number) => void} area
 * @property {(left: number, top: number, text: string, type: Type) => void} text `top` is the middle of the line
 * @property {(text: string, type: Type) => number} widthOf a text in pixels
 * @property {(points: number[], color: string, opacity: number) => void} veil an area among the faces, with upright sides
 * @property {FaceSink["triangle"]} triangle
 * @property {() => void} facesEnd after the last face: what follows lies above them
 */
/** @typedef {FaceSink & DrawingSink} Sink */

/** @implements {DrawingSink} */
export class CanvasSink {
  /**
   * @param {HTMLCanvasElement} canvas
   * @param {() => HTMLCanvasElement} makeCanvas one to hold the faces
   */
  constructor(canvas, makeCanvas = () => document.createElement("canvas")) {
    this.canvas = canvas;
    this.brush = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    this.layer = makeCanvas();
    this.layerBrush = /** @type {CanvasRenderingContext2D} */ (this.layer.getContext("2d"));
    /** @type {Pixels|null} */
    this.pixels = null;
    /** @type {ImageData|null} */
    this.image = null;
    this.family = "sans-serif";
    this.width = 0;
    this.height = 0;
  }

  /**
   * Begins an empty picture.
   * @param {{width: number, height: number, family: string, table: Uint32Array, density: number, fineness: number}} page its
   *   size in pixels of the page, its type, its colours, and how many pixels the canvas and the faces have for each of the page
   */
  begin({ width, height, family, table, density, fineness }) {
    const [across, down] = [Math.round(width * density), Math.round(height * density)];
    if (this.canvas.width !== across || this.canvas.height !== down)
      [this.canvas.width, this.canvas.height] = [across, down];
    this.brush.setTransform(density, 0, 0, density, 0, 0);
    this.brush.clearRect(0, 0, width, height);
    this.brush.lineJoin = "round";
    this.brush.lineCap = "round";
    this.pixels ??= new Pixels(table);
    this.pixels.table = table;
    this.pixels.begin(
      this.imageOf(Math.max(1, Math.round(width * fineness)), Math.max(1, Math.round(height * fineness))),
      fineness,
    );
    [this.width, this.height, this.family] = [width, height, family];
  }

  /**
   * The image of the faces, made anew for another size.
   * @param {number} width
   * @param {number} height
   */
  imageOf(width, height) {
    if (this.image?.width === width && this.image.height === height) return this.image;
    [this.layer.width, this.layer.height] = [width, height];
    this.image = this.layerBrush.createImageData(width, height);
    return this.image;
  }

  /** @type {DrawingSink["line"]} */
  line(points, { color, width = 1, dash = [], opacity = 1 }) {
    this.outline(points);
    this.brush.globalAlpha = opacity;
    this.brush.strokeStyle = color;
    this.brush.lineWidth = width;
    this.brush.setLineDash(dash);
    this.brush.stroke();
    this.brush.globalAlpha = 1;
  }

  /** @type {DrawingSink["area"]} */
  area(points, color, opacity = 1) {
    this.outline(points);
    this.brush.closePath();
    this.brush.globalAlpha = opacity;
    this.brush.fillStyle = color;
    this.brush.fill();
    this.brush.globalAlpha = 1;
  }

  /** @param {number[]} points */
  outline(points) {
    this.brush.beginPath();
    this.brush.moveTo(points[0], points[1]);
    for (let at = 2; at < points.length; at += 2) this.brush.lineTo(points[at], points[at + 1]);
  }

  /** @type {DrawingSink["text"]} */
  text(left, top, text, type) {
    const { brush } = this;
    this.setType(type);
    brush.save();
    brush.translate(left, top);
    if (type.angle) brush.rotate(type.angle);
    brush.textAlign = type.align === "middle" ? "center" : (type.align ?? "start");
    brush.textBaseline = "middle";
    if (type.halo) {
      brush.strokeStyle = type.halo;
      brush.lineWidth = 3;
      brush.setLineDash([]);
      brush.strokeText(text, 0, 0);
    }
    brush.fillStyle = type.color;
    brush.fillText(text, 0, 0);
    brush.restore();
  }

  /** @type {DrawingSink["widthOf"]} */
  widthOf(text, type) {
    this.setType(type);
    return this.brush.measureText(text).width;
  }

  /** @param {Type} type */
  setType({ size, weight = 400 }) {
    this.brush.font = `${weight} ${size}px ${this.family}`;
  }

  /** @type {FaceSink["triangle"]} */
  triangle(ax, ay, bx, by, cx, cy, colour) {
    this.pixels?.triangle(ax, ay, bx, by, cx, cy, colour);
  }

  /** @type {DrawingSink["veil"]} */
  veil(points, color, opacity) {
    this.pixels?.veil(points, channels(color) ?? [128, 128, 128], opacity);
  }

  facesEnd() {
    if (!this.image) return;
    this.layerBrush.putImageData(this.image, 0, 0);
    this.brush.imageSmoothingQuality = "low"; // of four pixels for one it makes the mean
    this.brush.drawImage(this.layer, 0, 0, this.width, this.height);
  }
}

/** @implements {DrawingSink} */
export class SvgSink {
  /** @param {Uint32Array} table @param {CanvasSink} ruler by which texts are measured */
  constructor(table, ruler) {
    this.table = table;
    this.ruler = ruler;
    /** @type {SVGElement[]} */
    this.drawn = [];
  }

  /** @type {DrawingSink["line"]} */
  line(points, { color, width = 1, dash = [], opacity = 1 }) {
    this.drawn.push(
      s("polyline", {
        points: written(points),
        fill: "none",
        stroke: color,
        "stroke-width": width,
        "stroke-dasharray": dash.length ? dash.join(" ") : null,
        "stroke-opacity": opacity === 1 ? null : opacity,
        "stroke-linejoin": "round",
        "stroke-linecap": "round",
      }),
    );
  }

  /** @type {DrawingSink["area"]} */
  area(points, color, opacity = 1) {
    this.drawn.push(
      s("polygon", { points: written(points), fill: color, "fill-opacity": opacity === 1 ? null : opacity }),
    );
  }

  /** @type {DrawingSink["text"]} */
  text(left, top, text, { color, size, align = "start", weight, angle = 0, halo }) {
    const turn = angle ? ` rotate(${((angle * 180) / Math.PI).toFixed(2)})` : "";
    this.drawn.push(
      s(
        "text",
        {
          transform: `translate(${short(left)} ${short(top)})${turn}`,
          dy: "0.35em",
          "font-size": size,
          "font-weight": weight,
          "text-anchor": align,
          fill: color,
          ...(halo ? { stroke: halo, "stroke-width": 3, "paint-order": "stroke", "stroke-linejoin": "round" } : {}),
        },
        text,
      ),
    );
  }

  /** @type {DrawingSink["widthOf"]} */
  widthOf(text, type) {
    return this.ruler.widthOf(text, type);
  }

  /** @type {FaceSink["triangle"]} */
  triangle(ax, ay, bx, by, cx, cy, colour) {
    const fill = cssOf(this.table[colour]);
    // A line of the same colour covers the seams that readers of SVG files leave between neighbours.
    this.drawn.push(
      s("path", { d: `M${written([ax, ay, bx, by, cx, cy])}Z`, fill, stroke: fill, "stroke-width": 0.5 }),
    );
  }

  /** @type {DrawingSink["veil"]} */
  veil(points, color, opacity) {
    this.area(points, color, opacity);
  }

  facesEnd() {}
}

/** @param {number[]} points */
const written = (points) => points.map((value) => short(value)).join(" ");
