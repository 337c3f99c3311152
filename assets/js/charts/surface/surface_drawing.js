/**
 * Surfaces on a canvas: one height field, which a curtain parts into what is drawn at the smallest λ and what is drawn at
 * the shown one. The saved picture comes from the same calls (sinks.js).
 * @module surface/surface_drawing
 */

/** @import { Annotation, Layout, Matrix, SceneLayout, Trace } from "../figure.d.ts" */
/** @import { Stops } from "../color_scale.js" */
/** @import { Scale } from "./field.js" */
/** @import { Look, Means, Stage } from "./frame.js" */
/** @import { Area, Box, Camera } from "./projection.js" */
/** @import { Sink } from "./sinks.js" */

import { isStill } from "../../base/motion.js";
import { channelRange } from "../cell_channels.js";
import { stopsOf } from "../color_scale.js";
import { s } from "../svg.js";
import { titledDocument } from "../svg_picture.js";
import { Curtain } from "./curtain.js";
import { copyValues, Field, paint, placeOf, pointAt, project } from "./field.js";
import {
  curtainCorners,
  endsOf,
  paintCurtainEdges,
  paintMeans,
  paintMeansName,
  paintNames,
  paintParts,
  paintPeaks,
  paintWalls,
  seen,
} from "./frame.js";
import { Morph } from "./morph.js";
import { peaksOf } from "./peaks.js";
import { boxFor, FIRST, Projection, turned, zoomed } from "./projection.js";
import { shadesTable } from "./shades.js";
import { CanvasSink, SvgSink } from "./sinks.js";
import { turnable } from "./turning.js";

const GAP = 0.05; // between the parts, of the width of the surface
const VEIL = 0.16; // opacity of the curtain
const FINE = 2; // pixels of the faces for each of the page, at rest
const QUICK = 1; // and while something moves
const REST_MS = 120; // after the last change
const NARROW = 420; // pixels of a picture that has no room for labels of peaks
const MARGIN = { left: 3.6, right: 2.4, top: 2.2, bottom: 2.4 }; // sizes of type

/** A figure at a point. @typedef {{data: Trace[], layout: Layout, means?: {words: string, times: number, of: Matrix[]}}} Made */

export class SurfaceDrawing {
  /**
   * @param {HTMLElement} place of the drawing, positioned
   * @param {HTMLElement} card around it
   * @param {string} name of the figure
   */
  constructor(place, card, name) {
    this.place = place;
    this.canvas = document.createElement("canvas");
    this.canvas.className = "surface";
    place.append(this.canvas);
    this.sink = new CanvasSink(this.canvas);
    this.curtain = new Curtain(card, place, name, (position) => this.part(position));
    this.share = 0.5; // of the inputs that the curtain leaves to the smallest λ
    /** @type {Camera} */
    this.camera = { ...FIRST };
    /** @type {Made|null} */
    this.made = null;
    /** @type {Look|null} */
    this.look = null;
    this.width = 0;
    this.height = 0;
    /** @type {Field[]} at the smallest λ and at the shown one, or of a lone λ */
    this.fields = [];
    /** @type {Means[]} */
    this.means = [];
    this.morph = new Morph(new Float32Array(0));
    this.table = new Uint32Array(0);
    this.colours = ""; // of which the table was made
    this.frame = 0;
    this.rest = 0;
    /** @type {(points: {curveNumber: number, pointNumber: [number, number]}[]) => void} */
    this.clicked = () => {};
    /** @type {(points: {curveNumber: number, pointNumber: [number, number]}[]) => void} */
    this.hovered = () => {};
    this.painted = () => {};
    turnable(place, card, this);
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) this.arrive();
    });
  }

  /**
   * Draws a figure.
   * @param {Made} made with colours, without bindings
   * @param {{width: number, height: number}} size in pixels
   * @param {Look} look
   * @param {boolean} [isStep] whether it is the same figure at another point, to which heights go over
   */
  draw(made, { width, height }, look, isStep = false) {
    [this.made, this.look, this.width, this.height] = [made, look, width, height];
    const isGradual = this.take(made) && isStep && !isStill();
    const colours = JSON.stringify(made.data[0].colorscale);
    if (colours !== this.colours) {
      this.table = shadesTable(stopsOf(/** @type {Stops|string} */ (made.data[0].colorscale)));
      this.colours = colours;
    }
    if (isGradual) {
      this.morph.begin(performance.now());
      this.ask();
    } else {
      this.morph.finish();
      this.paint(isStep || this.frame ? QUICK : FINE);
    }
  }

  /**
   * Takes the values of a figure as where to go.
   * @param {Made} made
   * @returns {boolean} whether what is drawn can go there: it has as many of each
   */
  take({ data, means }) {
    const grids = [...data.map(({ z = [] }) => z), ...(means?.of ?? [])];
    const sizes = grids.map((z) => [z.length, z[0]?.length ?? 0]);
    const counts = sizes.map(([rows, columns], at) => (at < data.length ? rows * columns : rows + columns));
    const total = counts.reduce((sum, count) => sum + count, 0);
    const isSame =
      total === this.morph.values.length &&
      data.length === this.fields.length &&
      this.fields.every(({ rows, columns }, at) => rows === sizes[at][0] && columns === sizes[at][1]);
    if (!isSame) this.prepare(sizes, counts, data.length);
    let start = 0;
    grids.forEach((z, at) => {
      const target = this.morph.to.subarray(start, start + counts[at]);
      if (at < data.length) copyValues(z, target);
      else copyMeans(z, target, means?.times ?? 1);
      start += counts[at];
    });
    return isSame;
  }

  /**
   * Makes room for fields and means of other sizes, all in one list, so that they move as one.
   * @param {number[][]} sizes rows and columns of each
   * @param {number[]} counts of values of each
   * @param {number} fields how many of them are fields
   */
  prepare(sizes, counts, fields) {
    const values = new Float32Array(counts.reduce((sum, count) => sum + count, 0));
    [this.fields, this.means] = [[], []];
    let start = 0;
    sizes.forEach(([rows, columns], at) => {
      const own = values.subarray(start, start + counts[at]);
      if (at < fields) this.fields.push(new Field(rows, columns, own));
      else this.means.push({ columns: own.subarray(0, columns), rows: own.subarray(columns) });
      start += counts[at];
    });
    this.morph = new Morph(values);
  }

  /** Takes the drawing away. */
  clear() {
    this.made = null;
    cancelAnimationFrame(this.frame);
    clearTimeout(this.rest);
    this.frame = 0;
    this.curtain.hide();
    this.sink.brush.clearRect(0, 0, this.width, this.height);
  }

  /** Draws with the next frame. */
  ask() {
    if (this.frame) return;
    this.frame = requestAnimationFrame((now) => {
      this.frame = 0;
      this.morph.advance(Math.max(now, this.morph.start));
      this.paint(QUICK);
      if (this.morph.isUnderWay) this.ask();
    });
  }

  /** Heights are at once where they go. */
  arrive() {
    if (!this.morph.isUnderWay) return;
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    this.morph.finish();
    this.paint(FINE);
  }

  /**
   * Draws on the canvas, now.
   * @param {number} fineness
   */
  paint(fineness) {
    const { made, width, height, table } = this;
    if (!made || !width || !height) return;
    const density = Math.max(1, window.devicePixelRatio || 1);
    const family = made.layout.font?.family ?? "sans-serif";
    this.sink.begin({ width, height, family, table, density, fineness });
    this.paintOn(this.sink);
    this.putCurtain();
    clearTimeout(this.rest);
    if (fineness !== FINE) this.rest = window.setTimeout(() => this.frame || this.paint(FINE), REST_MS);
    this.painted();
  }

  /** @returns {SceneLayout} */
  get scene() {
    return this.made?.layout.scene ?? {};
  }

  /** The column at which the curtain stands; null for a lone λ. */
  get cut() {
    const [field, other] = this.fields;
    return field && other ? Math.round(this.share * (field.columns - 1)) : null;
  }

  /** The box of the surface, and the one around it with the gap between the parts. @returns {{inner: Box, outer: Box, area: Area}} */
  get boxes() {
    const { width, height, size } = this;
    const area = {
      left: MARGIN.left * size,
      top: MARGIN.top * size,
      width: Math.max(1, width - (MARGIN.left + MARGIN.right) * size),
      height: Math.max(1, height - (MARGIN.top + MARGIN.bottom) * size),
    };
    const outer = boxFor(area);
    const gap = this.cut === null ? 0 : GAP * outer.width;
    return { inner: { ...outer, width: outer.width - gap }, outer, area };
  }

  /** Of type, in pixels. */
  get size() {
    return this.made?.layout.font?.size ?? 12;
  }

  /** @returns {Scale} */
  get scale() {
    const [low, high] = this.scene.zaxis?.range ?? [0, 1];
    const { cmin = low, cmax = high } = /** @type {{cmin?: number, cmax?: number}} */ (this.made?.data[0] ?? {});
    return { low, high, coldest: cmin, warmest: cmax };
  }

  /**
   * What is drawn, in the order in which it is drawn.
   * @param {Sink} sink
   */
  paintOn(sink) {
    const { made, look, fields, means, scale, size, width, height, cut } = this;
    if (!made || !look) return;
    const { inner, outer, area } = this.boxes;
    const projection = new Projection(this.camera, outer, area);
    /** @type {Stage} */
    const stage = { sink, projection, box: outer, scale, look, size, width, height };
    this.stage = stage;
    paintWalls(stage);
    paintMeans(stage, means);
    const last = fields[0].columns - 1;
    const shift = (outer.width - inner.width) / 2;
    const stretches =
      cut === null
        ? [{ from: 0, to: last, shift: 0 }]
        : [
            { from: 0, to: cut, shift: -shift },
            { from: cut, to: last, shift },
          ];
    const x = cut === null ? null : placeOf(cut, last + 1, inner.width);
    fields.forEach((field, part) => {
      project(field, stretches[part], projection, inner, scale);
    });
    const parts = projection.towards.x >= 0 ? [0, 1] : [1, 0]; // the farther one first
    parts.forEach((part, turn) => {
      if (turn && x !== null) sink.veil(curtainCorners(stage, x), look.accent, VEIL);
      if (fields[part]) paint(fields[part], sink, projection, inner, scale);
    });
    sink.facesEnd();
    if (x !== null) paintCurtainEdges(stage, x);
    if (means.length && made.means) paintMeansName(stage, means, made.means.words);
    paintNames(stage, { inputs: this.scene.xaxis?.title?.text ?? "", outputs: this.scene.yaxis?.title?.text ?? "" });
    const names = (made.layout.annotations ?? []).map(({ text }) => String(text ?? ""));
    const lines = paintParts(stage, names, x, [cut !== 0, cut !== last]);
    if (width >= NARROW) paintPeaks(stage, this.peaks(), lines);
  }

  /** The highest peaks of what is seen, with their input channels. */
  peaks() {
    const { made, fields, cut, morph } = this;
    const { columns, rows } = fields[0];
    const { x = [], meta } = made?.data[0] ?? {};
    const [, inputs, word] = /** @type {[number, number, string]} */ (meta);
    const count = rows * columns;
    const shown = new Float32Array(count);
    for (let at = 0; at < count; at += 1) {
      const part = cut !== null && at % columns >= cut ? 1 : 0;
      shown[at] = morph.to[part * count + at];
    }
    return peaksOf(shown, columns).map(({ row, column }) => ({
      ...this.spotOf([row, column]),
      text: channelRange(word, x, column, inputs),
    }));
  }

  /**
   * Where a cell is seen, in pixels from the canvas's upper left corner.
   * @param {[row: number, column: number]} cell
   */
  spotOf([row, column]) {
    const field = this.fields[this.cut !== null && column >= this.cut ? 1 : 0];
    const at = field.at(row, column);
    return { left: field.lefts[at], top: field.tops[at] };
  }

  putCurtain() {
    const { stage, cut, fields, made } = this;
    if (!stage || cut === null || !made) {
      this.curtain.hide();
      return;
    }
    const { nearY } = endsOf(stage);
    const half = this.boxes.inner.width / 2;
    const [left, top, right, bottom] = seen(stage.projection, [-half, nearY, 0, half, nearY, 0]);
    const { x = [], meta } = made.data[0];
    const [, inputs, word] = /** @type {[number, number, string]} */ (meta);
    const [first, shown] = (made.layout.annotations ?? []).map(({ text }) => String(text ?? ""));
    this.curtain.put(
      { from: [left, top], to: [right, bottom] },
      {
        last: fields[0].columns - 1,
        position: cut,
        label: `Curtain between ${first} and ${shown}`,
        words: `at ${channelRange(word, x, cut, inputs, true)}`,
      },
    );
  }

  /** Moves the curtain to a column. @param {number} column */
  part(column) {
    this.share = column / Math.max(1, this.fields[0].columns - 1);
    this.ask();
  }

  /** @param {number} dx @param {number} dy */
  turn(dx, dy) {
    this.camera = turned(this.camera, dx, dy);
    this.ask();
  }

  /** @param {number} times */
  zoom(times) {
    this.camera = zoomed(this.camera, times);
    this.ask();
  }

  turnBack() {
    this.camera = { ...FIRST };
    this.ask();
  }

  /** @param {MouseEvent} event */
  hover(event) {
    this.hovered(this.pointsAt(event));
  }

  leave() {
    this.hovered([]);
  }

  /** @param {MouseEvent} event */
  choose(event) {
    const points = this.pointsAt(event);
    this.hovered(points); // a finger has not hovered before
    this.clicked(points);
  }

  /** @param {MouseEvent} event */
  pointsAt({ clientX, clientY }) {
    if (!this.made) return [];
    const box = this.canvas.getBoundingClientRect();
    const cell = this.cellAt(clientX - box.left, clientY - box.top);
    return cell ? [{ curveNumber: 0, pointNumber: cell }] : [];
  }

  /**
   * The cell that is seen at a spot, of the nearer part first.
   * @param {number} left pixels
   * @param {number} top
   * @returns {[row: number, column: number]|null}
   */
  cellAt(left, top) {
    const isFirstNearer = (this.stage?.projection.towards.x ?? 0) < 0;
    const fields = isFirstNearer ? this.fields : [...this.fields].reverse();
    for (const field of fields) {
      const cell = pointAt(field, left, top);
      if (cell) return cell;
    }
    return null;
  }

  /**
   * The drawing as a document of its own.
   * @param {{title: string, foot?: string, ground: string, ink: string}} look a title above it and what it stands on, in colours
   */
  svgText(look) {
    const { width, height, size, table } = this;
    const sink = new SvgSink(table, this.sink);
    this.paintOn(sink);
    const family = this.made?.layout.font?.family ?? "sans-serif";
    const svg = s("svg", { width, height, "font-family": family, "font-size": size }, sink.drawn);
    return titledDocument(svg, look);
  }
}

/**
 * The scaled mean of each column and of each row of a matrix.
 * @param {Matrix} z
 * @param {Float32Array} target columns, then rows
 * @param {number} times
 */
function copyMeans(z, target, times) {
  const columns = z[0]?.length ?? 0;
  target.fill(0);
  z.forEach((line, row) => {
    for (let column = 0; column < columns; column += 1) {
      const value = (line[column] ?? 0) * times;
      target[column] += value / z.length;
      target[columns + row] += value / columns;
    }
  });
}
