/**
 * The axes of a figure's layout on a canvas: from values to pixels and back.
 * @module flat/axes
 */

/** @import { Datum } from "../figure.d.ts" */
/** @import { AxisLayout, Box, FlatLayout, FlatTrace } from "./figure.d.ts" */

import { automaticRange } from "./range.js";

const KINDS = ["linear", "category", "log"];

/**
 * An axis. A position is a value as the axis counts it: of a category its number, on a logarithmic axis the power of ten.
 */
export class Axis {
  /**
   * @param {string} name e.g. “x2”
   * @param {AxisLayout} layout
   * @param {[start: number, end: number]} ends pixels of its range's ends
   * @param {string[]} categories
   */
  constructor(name, layout, [start, end], categories) {
    this.name = name;
    this.letter = /** @type {"x"|"y"} */ (name[0]);
    this.layout = layout;
    this.kind = layout.type ?? "linear";
    if (!KINDS.includes(this.kind)) throw new Error(`no axis of type ${this.kind}`);
    this.start = start;
    this.end = end;
    this.categories = categories;
    /** @type {[number, number]} of positions */
    this.range = layout.range ?? [0, 1];
  }

  /** Pixels from end to end. */
  get length() {
    return Math.abs(this.end - this.start);
  }

  /**
   * The position of a value of the data, of a tick or of a shape; NaN where it has none.
   * @param {Datum|undefined} value
   */
  positionOf(value) {
    if (value === null || value === undefined || value === "") return Number.NaN;
    if (this.kind === "category" && typeof value === "string") {
      const index = this.categories.indexOf(value);
      if (index >= 0) return index;
    }
    return this.kind === "log" ? Math.log10(Number(value)) : Number(value);
  }

  /**
   * The position of a value of an annotation, which on a logarithmic axis is the power of ten.
   * @param {Datum|undefined} value
   */
  notedPosition(value) {
    return this.kind === "log" ? Number(value ?? Number.NaN) : this.positionOf(value);
  }

  /** Where a position lies. @param {number} position */
  at(position) {
    const [low, high] = this.range;
    return this.start + ((this.end - this.start) * (position - low)) / (high - low);
  }

  /** Where a value lies. @param {Datum|undefined} value */
  pixelOf(value) {
    return this.at(this.positionOf(value));
  }

  /** The position at a pixel. @param {number} pixel */
  positionAt(pixel) {
    const [low, high] = this.range;
    return low + ((high - low) * (pixel - this.start)) / (this.end - this.start);
  }

  /** The place of a share of the axis's own domain. @param {number} share */
  shareAt(share) {
    return this.start + (this.end - this.start) * share;
  }

  /** Whether a position is inside the range. @param {number} position */
  holds(position) {
    const share = (position - this.range[0]) / (this.range[1] - this.range[0]);
    return share >= -1e-6 && share <= 1 + 1e-6;
  }

  /**
   * Positions of the edges of cells, between their middles; one value more than cells are the edges themselves.
   * @param {Datum[]|undefined} values
   * @param {number} count
   */
  edges(values, count) {
    const places = values
      ? values.map((value) => this.positionOf(value))
      : Array.from({ length: count }, (_, at) => at);
    if (places.length > count) return places.slice(0, count + 1);
    if (count === 1) return [places[0] - 0.5, places[0] + 0.5];
    const inner = places.slice(1).map((place, at) => (places[at] + place) / 2);
    const [first, last] = [places[0], places[count - 1]];
    return [2 * first - inner[0], ...inner, 2 * last - inner[count - 2]];
  }
}

/** All axes of a figure on a canvas. */
export class Plane {
  /**
   * @param {FlatTrace[]} data
   * @param {FlatLayout} layout
   * @param {{width: number, height: number}} size
   */
  constructor(data, layout, { width, height }) {
    const { l = 80, r = 80, t = 100, b = 80 } = layout.margin ?? {};
    this.width = width;
    this.height = height;
    /** @type {Box} the canvas inside the margins */
    this.paper = { left: l, top: t, width: Math.max(1, width - l - r), height: Math.max(1, height - t - b) };
    /** @type {Map<string, Axis>} */
    this.axes = new Map();
    for (const name of namesOf(data, layout)) this.axes.set(name, this.axisOf(name, data, layout));
    for (const axis of this.axes.values()) if (!axis.layout.range) axis.range = automaticRange(axis, data, this);
    this.subplots = subplotsOf(data, this.axes);
  }

  /** @param {string} name @param {FlatTrace[]} data @param {FlatLayout} layout */
  axisOf(name, data, layout) {
    const own = layout[layoutName(name)] ?? {};
    const under = own.overlaying ? layout[layoutName(own.overlaying)] : undefined;
    const [low, high] = own.domain ?? under?.domain ?? [0, 1];
    const letter = /** @type {"x"|"y"} */ (name[0]);
    return new Axis(name, own, [this.shareOn(letter, low), this.shareOn(letter, high)], categoriesOf(name, own, data));
  }

  /** The place of a share of the paper. @param {"x"|"y"} letter @param {number} share */
  shareOn(letter, share) {
    const { left, top, width, height } = this.paper;
    return letter === "x" ? left + width * share : top + height * (1 - share);
  }

  /**
   * An axis by its name.
   * @param {string} name
   */
  axis(name) {
    const axis = this.axes.get(name);
    if (!axis) throw new Error(`no axis “${name}” in this figure`);
    return axis;
  }

  /**
   * The axes of a trace.
   * @param {FlatTrace} trace
   * @returns {[x: Axis, y: Axis]}
   */
  axesOf(trace) {
    return [this.axis(trace.xaxis ?? "x"), this.axis(trace.yaxis ?? "y")];
  }

  /**
   * Where a value lies by its reference: of an axis (“x2”), of an axis's own domain (“x2 domain”) or of the paper.
   * @param {"x"|"y"} letter
   * @param {string|undefined} reference
   * @param {Datum|undefined} value
   * @param {boolean} [noted] the value is one of an annotation
   */
  place(letter, reference = letter, value, noted = false) {
    if (reference === "paper") return this.shareOn(letter, Number(value));
    const [name, domain] = reference.split(" ");
    const axis = this.axis(name);
    if (domain) return axis.shareAt(Number(value));
    return axis.at(noted ? axis.notedPosition(value) : axis.positionOf(value));
  }

  /**
   * The axis that an axis stands on.
   * @param {Axis} axis
   */
  anchorOf({ letter, layout }) {
    return this.axis(layout.anchor ?? (letter === "x" ? "y" : "x"));
  }

  /**
   * Axes that an axis makes a plot with.
   * @param {Axis} axis
   */
  across(axis) {
    return this.subplots.filter((pair) => pair.includes(axis)).map(([x, y]) => (axis === x ? y : x));
  }
}

/** @param {string} name @returns {`${"x"|"y"}axis${string}`} */
const layoutName = (name) => `${/** @type {"x"|"y"} */ (name[0])}axis${name.slice(1)}`;

/** Names of the axes of a layout and of its traces. @param {FlatTrace[]} data @param {FlatLayout} layout */
function namesOf(data, layout) {
  const names = Object.keys(layout).flatMap((key) => /^([xy])axis(\d*)$/.exec(key)?.slice(1).join("") ?? []);
  return new Set(["x", "y", ...names, ...data.flatMap(({ xaxis = "x", yaxis = "y" }) => [xaxis, yaxis])]);
}

/**
 * Names on an axis: those that it is given, then those of its traces as they appear.
 * @param {string} name
 * @param {AxisLayout} layout
 * @param {FlatTrace[]} data
 */
function categoriesOf(name, { type, categoryarray = [] }, data) {
  if (type !== "category") return [];
  const values = data.flatMap((trace) =>
    name[0] === "x"
      ? ((trace.xaxis ?? "x") === name && trace.x) || []
      : ((trace.yaxis ?? "y") === name && trace.y) || [],
  );
  return [...new Set([...categoryarray.map(String), ...values.filter((value) => typeof value === "string")])];
}

/**
 * Pairs of axes that traces are drawn on, and of axes that stand on each other.
 * @param {FlatTrace[]} data
 * @param {Map<string, Axis>} axes
 */
function subplotsOf(data, axes) {
  /** @type {Map<string, [x: Axis, y: Axis]>} */
  const pairs = new Map();
  const add = (/** @type {string} */ x, /** @type {string} */ y) => {
    const [across, along] = [axes.get(x), axes.get(y)];
    if (across && along) pairs.set(`${x} ${y}`, [across, along]);
  };
  for (const { xaxis = "x", yaxis = "y" } of data) add(xaxis, yaxis);
  for (const { name, letter, layout } of axes.values()) {
    if (letter === "x") add(name, layout.anchor ?? "y");
    else add(layout.anchor ?? "x", name);
  }
  return [...pairs.values()];
}
