/**
 * A drawn figure moved to another λ in place: only what λ changes is touched, in the drawing and in plotly's own record
 * of it, so that a later redraw, a hover or a picture of the figure finds the same. plotly would lay out everything anew.
 *
 * What can't be moved this way (another number of points, text with other markup, a symbol of another shape) is left
 * for `Plotly.react`: `stepInPlace` then says false, and nothing has been touched.
 * @module step
 */

import { lookUp, setPath } from "./bind.js";
import { moveHeatmap } from "./step_heatmap.js";

const SVG = "http://www.w3.org/2000/svg";

/** Whether what a binding says changes with λ. */
export const followsLambda = (binding) =>
  binding.array === undefined ? binding.over.includes("lambda") : binding.lambda === undefined;

/** The bindings of a figure that change with λ, in the order in which they are applied. */
export function movingBindings(figure, narrow) {
  return [...(figure.bindings ?? []), ...((narrow && figure.narrow_bindings) || [])].filter(followsLambda);
}

/**
 * Prepares a figure for moving: a line keeps all its points, and a text that hangs on its left end grows to the right.
 * @param {{data: object[], layout: object}} made the figure for plotly, which is changed
 * @param {object[]} moving its bindings that follow λ
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
 * @param {{gamma: number, lambda: number}} at
 * @param {Object<string, {matrix: Function}>} arrays
 * @returns {boolean} false where plotly has to do it
 */
export function stepInPlace(canvas, moving, at, arrays) {
  if (!canvas._fullLayout || !canvas.calcdata) return false;
  const changes = new Map(); // what is changed → its new values by name
  for (const binding of moving) {
    if (binding.path === "aria") continue;
    const [where, index, ...rest] = binding.path.split(".");
    const [key, name] = where === "data" ? [`data.${index}`, rest.join(".")] : [`layout.${index}.${rest[0]}`, rest[1]];
    const value = binding.array === undefined ? lookUp(binding, at) : arrays[binding.array]?.matrix(at.gamma, at.lambda);
    if (value === undefined) return false;
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

/** A function that does one change, or null where it can't be done in place. It only reads until it is called. */
function moverFor(canvas, key, values) {
  const [where, second, third] = key.split(".");
  if (where === "layout" && second === "annotations") return annotation(canvas, Number(third), values);
  if (where === "layout" && second === "shapes") return shape(canvas, Number(third), values);
  const trace = canvas._fullData[second];
  if (trace?.type === "scatter") return scatter(canvas, trace, canvas.calcdata[trace.index], values);
  if (trace?.type === "surface") return surface(canvas, trace, values);
  if (trace?.type === "heatmap") return moveHeatmap(canvas, trace, canvas.calcdata[trace.index], values);
  return null;
}

/** The axis of a trace or a reference, e.g. “x” or “y2”; undefined for what is not an axis. */
export function axisOf(canvas, reference) {
  const [, letter, number] = /^([xy])(\d*)$/.exec(reference) ?? [];
  return letter && canvas._fullLayout[`${letter}axis${number}`];
}

const places = (axis, values) => values.map((value) => axis.c2p(axis.d2c(value)));
const short = (pixels) => String(Math.round(pixels * 100) / 100);

function scatter(canvas, trace, points, values) {
  const { x = trace.x, y = trace.y, "marker.symbol": symbols = null, name: _unseen, ...others } = values; // no legends
  if (Object.keys(others).length || points.length !== x.length || points.length !== y.length) return null;
  const [xaxis, yaxis] = [axisOf(canvas, trace.xaxis), axisOf(canvas, trace.yaxis)];
  const [across, down] = [places(xaxis, x), places(yaxis, y)];
  if (![...across, ...down].every(Number.isFinite)) return null;
  const group = canvas.querySelector(`.trace${trace.uid}`);
  const line = group?.querySelector(".js-line");
  const dots = group?.querySelectorAll(".point") ?? [];
  if (!group || (trace.mode.includes("markers") && dots.length !== x.length)) return null;
  if (trace.mode.includes("lines") && (!line || group.querySelectorAll(".js-line").length > 1)) return null;
  const shapes = symbols && symbolsOf(trace, symbols);
  if (symbols && !shapes) return null;
  return () => {
    line?.setAttribute("d", `M${across.map((left, index) => `${short(left)},${short(down[index])}`).join("L")}`);
    dots.forEach((dot, index) => {
      dot.setAttribute("transform", `translate(${short(across[index])},${short(down[index])})`);
      if (shapes) Object.assign(dot.style, shapes[index]);
    });
    points.forEach((point, index) => {
      point.x = xaxis.d2c(x[index]);
      point.y = yaxis.d2c(y[index]);
    });
  };
}

/** How each marker is filled, where its shape stays and only hollow and full change places; else null. */
function symbolsOf(trace, symbols) {
  const { color, line, symbol: before } = trace.marker;
  const plain = (name) => name.replace("-open", "");
  const same = symbols.every((name, index) => plain(name) === plain(Array.isArray(before) ? before[index] : before));
  if (!same || typeof color !== "string" || typeof line.color !== "string") return null;
  return symbols.map((name) => (name.endsWith("-open") ? { fill: "none", stroke: color } : { fill: color, stroke: line.color }));
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
    if (axis) way[name] = axis.c2p(axis.d2c(values[name])) - axis.c2p(axis.d2c(origin[name]));
  }
  return () => {
    element.style.display = visible ? "" : "none";
    if (values.text !== undefined && text.getAttribute("data-unformatted") !== values.text) {
      text.replaceChildren(...pieces);
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

/** A rectangle whose sides move along x, or a path of points “x,y” in the units of its axes. */
function shape(canvas, index, values) {
  const layout = canvas._fullLayout.shapes[index];
  const path = canvas.querySelector(`path[data-index="${index}"]`);
  const axis = axisOf(canvas, layout.xref);
  if (layout.type === "path") return path && Object.keys(values).join() === "path" ? () => path.setAttribute("d", drawnPath(canvas, layout, values.path)) : null;
  const { x0 = layout.x0, x1 = layout.x1, ...others } = values;
  const sides = /^M[-\d.]+,([-\d.]+)H[-\d.]+V([-\d.]+)H[-\d.]+Z$/.exec(path?.getAttribute("d") ?? "");
  if (layout.type !== "rect" || !axis || !sides || Object.keys(others).length) return null;
  const [left, right] = [x0, x1].map((value) => short(axis._offset + axis.c2p(value)));
  return () => path.setAttribute("d", `M${left},${sides[1]}H${right}V${sides[2]}H${left}Z`);
}

function drawnPath(canvas, { xref, yref }, text) {
  const [xaxis, yaxis] = [axisOf(canvas, xref), axisOf(canvas, yref)];
  const point = (_, x, y) => `${short(xaxis._offset + xaxis.c2p(Number(x)))},${short(yaxis._offset + yaxis.c2p(Number(y)))}`;
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
