/**
 * A drawn figure moved to another λ or γ in place: only what changes is touched, in the drawing and in plotly's own
 * record of it, so that a later redraw, a hover or a picture of the figure finds the same. plotly would lay out
 * everything anew.
 *
 * What can't be moved this way (another number of points, text with other markup, a symbol of another shape) is left
 * for `Plotly.react`: `stepInPlace` then says false, and nothing has been touched.
 * @module step
 */

import { refill } from "../base/dom.js";
import { boundValue, setPath } from "./bind.js";
import { moveHeatmap } from "./step_heatmap.js";
import { axisOf, moveScatter, short } from "./step_scatter.js";

const SVG = "http://www.w3.org/2000/svg";

/** The bindings of a figure that change with λ or γ, in the order in which they are applied. */
export function movingBindings(figure, narrow) {
  const all = [...(figure.bindings ?? []), ...((narrow && figure.narrow_bindings) || [])];
  return all.filter((binding) => binding.array !== undefined || binding.over.length);
}

/** Whether what a binding says may differ between two points. */
function follows({ array, over, lambda }, from, to) {
  if (from.gamma !== to.gamma && (array !== undefined || over.includes("gamma"))) return true;
  return from.lambda !== to.lambda && (array === undefined ? over.includes("lambda") : lambda === undefined);
}

/**
 * Prepares a figure for moving: a line keeps all its points, and a text that hangs on its left end grows to the right.
 * @param {{data: object[], layout: object}} made the figure for plotly, which is changed
 * @param {object[]} moving its bindings that follow λ or γ
 */
export function prepare(made, moving) {
  for (const { path } of moving) {
    const [where, index, name] = path.split(".");
    if (where === "data" && name === "y" && made.data[index].line) made.data[index].line.simplify = false;
    if (where === "layout" && index === "annotations") {
      const one = made.layout.annotations[name];
      if (one.xanchor !== "center") one.align ??= one.xanchor;
    }
  }
}

/**
 * Moves what `moving` binds to its values at a point.
 * @param {HTMLElement} canvas where plotly has drawn the figure
 * @param {object[]} moving
 * @param {{gamma: number, lambda: number}} from the drawn point
 * @param {{gamma: number, lambda: number}} to
 * @param {Object<string, {matrix: Function}>} arrays
 * @returns {boolean} false where plotly has to do it
 */
export function stepInPlace(canvas, moving, from, to, arrays) {
  if (!canvas._fullLayout || !canvas.calcdata) return false;
  const changes = new Map(); // what is changed → its new values by name
  for (const binding of moving) {
    if (binding.path === "aria" || !follows(binding, from, to)) continue;
    const [where, index, ...rest] = binding.path.split(".");
    const [key, name] = where === "data" ? [`data.${index}`, rest.join(".")] : [`layout.${index}.${rest[0]}`, rest[1]];
    const value = boundValue(binding, to, arrays);
    if (value === undefined) return false;
    if (same(value, boundValue(binding, from, arrays))) continue; // e.g. at λ = 0 every γ
    if (!changes.has(key)) changes.set(key, {});
    changes.get(key)[name] = value;
  }
  const movers = [];
  for (const [key, values] of changes) {
    const mover = moverFor(canvas, key, values);
    if (!mover) return false;
    movers.push(mover);
  }
  for (const mover of movers) mover();
  for (const [key, values] of changes) {
    for (const [name, value] of Object.entries(values)) {
      setPath(canvas, `${key}.${name}`, value);
      setPath(canvas, `_full${key[0].toUpperCase()}${key.slice(1)}.${name}`, value);
    }
  }
  return true;
}

/** Equality of what figures hold: texts, numbers, lists and typed arrays of them. */
function same(one, other) {
  if (one === other || typeof one !== "object" || typeof other !== "object" || !one || !other) return one === other;
  return one.length === other.length && one.every((value, index) => same(value, other[index]));
}

/** A function that does one change, or null where it can't be done in place. It only reads until it is called. */
function moverFor(canvas, key, values) {
  const [where, second, third] = key.split(".");
  if (where === "layout" && second === "annotations") return annotation(canvas, Number(third), values);
  if (where === "layout" && second === "shapes") return shape(canvas, Number(third), values);
  if (where === "layout")
    return /^[xy]axis\d*$/.test(second) && third === "title" ? axisTitle(canvas, second, values) : null;
  const trace = canvas._fullData[second];
  if (trace?.type === "scatter") return moveScatter(canvas, trace, canvas.calcdata[trace.index], values);
  if (trace?.type === "surface") return surface(canvas, trace, values);
  if (trace?.type === "heatmap") return moveHeatmap(canvas, trace, canvas.calcdata[trace.index], values);
  return null;
}

/** The words beside an axis, which stay where they are centred. */
function axisTitle(canvas, name, { text, ...others }) {
  const element = canvas.querySelector(`.${name[0]}${name.slice(5)}title`);
  const pieces = typeof text === "string" && tspans(text);
  if (!element || !pieces || Object.keys(others).length || /<br/.test(text)) return null;
  return () => {
    refill(element, pieces);
    element.setAttribute("data-unformatted", text);
  };
}

/** Where an annotation was when plotly placed it; it moves by the way that its point has moved since. */
const origins = new WeakMap();

function annotation(canvas, index, values) {
  const layout = canvas._fullLayout.annotations[index];
  const element = canvas.querySelector(`.annotation[data-index="${index}"]`);
  const visible = values.visible ?? layout.visible;
  if (!element) return visible ? null : () => {};
  const box = element.querySelector(".annotation-text-g > g");
  const text = box?.querySelector("text");
  const pieces = values.text === undefined ? [] : tspans(values.text);
  if (!text || !pieces) return null;
  if (!origins.has(element)) {
    const [, left, top] = /translate\(([-\d.]+),\s*([-\d.]+)\)/.exec(box.getAttribute("transform")) ?? [];
    origins.set(element, { left: Number(left), top: Number(top), x: layout.x, y: layout.y });
  }
  const origin = origins.get(element);
  const way = { x: 0, y: 0 };
  for (const name of ["x", "y"]) {
    const axis = values[name] === undefined ? null : axisOf(canvas, layout[`${name}ref`]);
    if (axis === undefined) return null;
    if (axis) way[name] = axis.r2p(values[name]) - axis.r2p(origin[name]);
  }
  return () => {
    element.style.display = visible ? "" : "none";
    if (values.text !== undefined && text.getAttribute("data-unformatted") !== values.text) {
      refill(text, pieces);
      text.setAttribute("data-unformatted", values.text);
    }
    box.setAttribute("transform", `translate(${Math.round(origin.left + way.x)},${Math.round(origin.top + way.y)})`);
  };
}

/**
 * plotly's little markup as SVG: bold and coloured spans; null for what is not known here.
 * @param {string} text
 */
function tspans(text) {
  if (/&|<(?!\/?b>|\/?span[ >])/.test(text)) return null;
  const top = document.createElementNS(SVG, "g");
  let place = top;
  for (const [, tag, style, words] of text.matchAll(/<(\/?\w+)(?: style="([^"]*)")?>|([^<]+)/g)) {
    if (words) place.append(words);
    else if (tag.startsWith("/")) place = place.parentNode ?? top;
    else {
      const span = document.createElementNS(SVG, "tspan");
      span.setAttribute("style", tag === "b" ? "font-weight:bold" : (style ?? "").replace(/\bcolor:/, "fill:"));
      place.append(span);
      place = span;
    }
  }
  return [...top.childNodes];
}

/** A rectangle whose sides move along its axes, or a path of points “x,y” in the units of its axes. */
function shape(canvas, index, values) {
  const layout = canvas._fullLayout.shapes[index];
  const path = canvas.querySelector(`path[data-index="${index}"]`);
  if (layout.type === "path")
    return path && Object.keys(values).join() === "path"
      ? () => path.setAttribute("d", drawnPath(canvas, layout, values.path))
      : null;
  const { x0 = layout.x0, x1 = layout.x1, y0 = layout.y0, y1 = layout.y1, ...others } = values;
  const sides = /^M([-\d.]+),([-\d.]+)H([-\d.]+)V([-\d.]+)H[-\d.]+Z$/.exec(path?.getAttribute("d") ?? "");
  if (layout.type !== "rect" || !sides || Object.keys(others).length) return null;
  const [, left, top, right, bottom] = sides;
  const across = moved(canvas, layout.xref, "x0" in values || "x1" in values ? [x0, x1] : null, [left, right]);
  const down = moved(canvas, layout.yref, "y0" in values || "y1" in values ? [y0, y1] : null, [top, bottom]);
  return (
    across && down && (() => path.setAttribute("d", `M${across[0]},${down[0]}H${across[1]}V${down[1]}H${across[0]}Z`))
  );
}

/** Two sides on the canvas: where they are, or for new values where those lie on their axis; null without one. */
function moved(canvas, reference, values, before) {
  if (!values) return before;
  const axis = axisOf(canvas, reference);
  return axis ? values.map((value) => short(axis._offset + axis.r2p(value))) : null; // a number among categories is a position
}

function drawnPath(canvas, { xref, yref }, text) {
  const [xaxis, yaxis] = [axisOf(canvas, xref), axisOf(canvas, yref)];
  const point = (_, x, y) =>
    `${short(xaxis._offset + xaxis.r2p(Number(x)))},${short(yaxis._offset + yaxis.r2p(Number(y)))}`;
  return text.replace(/(-?[\d.]+),(-?[\d.]+)/g, point);
}

/** Heights of a surface: the scene keeps its scale, so only this one surface goes to the graphics card again. */
function surface(canvas, trace, values) {
  const { z, ...others } = values;
  const scene = canvas._fullLayout[trace.scene]?._scene;
  const drawn = scene?.traces[trace.uid];
  if (!drawn || scene.glplot.contextLost || !z || Object.keys(others).length) return null;
  return () => {
    trace.z = z;
    drawn.update(trace);
    scene.glplot.redraw();
  };
}
