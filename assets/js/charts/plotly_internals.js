/**
 * All that is known here of plotly's inside: its records of a figure (`_fullLayout`, `_fullData`, `calcdata`, scenes) and
 * the elements that it draws. None of it is a promise of plotly's; tests/js/plotly_internals.test.js checks it against
 * the plotly that is installed, and no other file touches it.
 *
 * It is for two things that plotly is too slow for: moving a drawing to another λ or γ without a layout of everything
 * anew, and surfaces that follow a slider.
 * @module plotly_internals
 */

import { setPath } from "./bind.js";
import { heatmapPicture, isReadable } from "./heatmap_picture.js";

/** @import { Axis, Calculated, Cells, Datum, Drawn, ErrorBars, FullShape, FullTrace, Matrix, Scene, SceneDrawing,
 *   SceneObject } from "./plotly.d.ts" */

/**
 * New values of a trace, an annotation, a shape or a title by name, e.g. “y” or “error_y.array”.
 * @typedef {Record<string, unknown>} Values
 */
/**
 * What draws a change; null where plotly has to.
 * @typedef {(() => void)|null} Mover
 */

const SVG = "http://www.w3.org/2000/svg";
const XLINK = "http://www.w3.org/1999/xlink";
const SCENES = /** @type {const} */ (["scene", "scene2"]);

/**
 * plotly's records of an element; null before plotly has drawn in it.
 * @param {HTMLElement} canvas
 */
function records(canvas) {
  const drawn = /** @type {Drawn} */ (canvas);
  return drawn._fullLayout && drawn.calcdata ? drawn : null;
}

/**
 * The axis of a trace or a reference, e.g. “x” or “y2”; undefined for what is not an axis.
 * @param {Drawn} drawn
 * @param {string} reference
 */
function axisOf(drawn, reference) {
  const [, letter, number] = /^([xy])(\d*)$/.exec(reference) ?? [];
  return letter ? drawn._fullLayout[`${/** @type {"x"|"y"} */ (letter)}axis${number}`] : undefined;
}

/**
 * A length in pixels as it stands in a path.
 * @param {number} pixels
 */
const short = (pixels) => String(Math.round(pixels * 100) / 100);

/**
 * Where the first horizontal axis lies on an element, and its values by pixels from the element's left edge (of
 * categories their positions). Null before it is drawn.
 * @param {HTMLElement} canvas
 */
export function plotArea(canvas) {
  const layout = records(canvas)?._fullLayout;
  const axis = layout?.xaxis;
  if (!layout || !axis) return null;
  return {
    left: axis._offset,
    width: axis._length,
    top: layout._size.t,
    height: layout._size.h,
    /** @param {number} value */
    pixelOf: (value) => axis._offset + axis.l2p(value),
    /** @param {number} pixel */
    valueAt: (pixel) => axis.p2l(pixel - axis._offset),
  };
}

/** @typedef {{left: number, top: number, width: number, height: number}} Box pixels from the canvas's upper left corner */

/**
 * Where a cell of a heatmap is drawn; null before it is.
 * @param {HTMLElement} canvas
 * @param {number} trace its position in the figure
 * @param {[row: number, column: number]} cell
 * @returns {Box|null}
 */
export function cellBox(canvas, trace, [row, column]) {
  const [drawn, of] = [records(canvas), records(canvas)?._fullData[trace]];
  const [xaxis, yaxis] = drawn && of ? [axisOf(drawn, of.xaxis), axisOf(drawn, of.yaxis)] : [];
  if (!drawn || !xaxis || !yaxis) return null;
  const cells = /** @type {Cells} */ (/** @type {unknown} */ (drawn.calcdata[trace][0]));
  return between(
    [column, column + 1].map((edge) => xaxis._offset + xaxis.c2p(cells.x[edge])),
    [row, row + 1].map((edge) => yaxis._offset + yaxis.c2p(cells.y[edge])),
  );
}

/**
 * The row of a point of a scatter trace, half a unit to both sides, over the whole width; null before it is drawn.
 * @param {HTMLElement} canvas
 * @param {number} trace its position in the figure
 * @param {number} point
 * @returns {Box|null}
 */
export function rowBox(canvas, trace, point) {
  const [drawn, of] = [records(canvas), records(canvas)?._fullData[trace]];
  const yaxis = drawn && of && axisOf(drawn, of.yaxis);
  if (!drawn || !of || !yaxis) return null;
  const middle = yaxis.d2c(of.y[point]);
  return between(
    [0, canvas.clientWidth],
    [middle - 0.5, middle + 0.5].map((edge) => yaxis._offset + yaxis.c2p(edge)),
  );
}

/** @param {number[]} across @param {number[]} down @returns {Box} */
function between(across, down) {
  const [left, top] = [Math.min(...across), Math.min(...down)];
  return { left, top, width: Math.max(...across) - left, height: Math.max(...down) - top };
}

/**
 * Where a point of a scene is seen, in pixels from the canvas's upper left corner; null where there is no drawing of it.
 * @param {HTMLElement} canvas
 * @param {number} index of the scene
 * @param {[x: number, y: number, z: number]} point in the units of its axes
 * @returns {{left: number, top: number}|null}
 */
export function spotIn(canvas, index, point) {
  const scene = drawings(canvas)[index];
  const { cameraParams } = scene?.glplot ?? {};
  if (!scene?.dataScale || !cameraParams || !scene.container) return null;
  let place = [...point.map((value, axis) => value * scene.dataScale[axis]), 1];
  for (const matrix of [cameraParams.model, cameraParams.view, cameraParams.projection])
    place = [0, 1, 2, 3].map((row) => place.reduce((sum, value, column) => sum + value * matrix[4 * column + row], 0));
  const [outer, inner] = [canvas, scene.container].map((element) => element.getBoundingClientRect());
  return {
    left: inner.left - outer.left + (0.5 + (0.5 * place[0]) / place[3]) * inner.width,
    top: inner.top - outer.top + (0.5 - (0.5 * place[1]) / place[3]) * inner.height,
  };
}

// --- A drawing moved in place ---------------------------------------------------------------------------------------

/**
 * Moves what is drawn to other values, in the drawing and in plotly's records, so that a later redraw, a hover or a
 * picture of the figure finds the same.
 * @param {HTMLElement} canvas where plotly has drawn the figure
 * @param {Map<string, Values>} changes what changes, as “data.3”, “layout.annotations.2” or “layout.xaxis.title”
 * @returns {boolean} false, and nothing has been touched, where plotly has to do it: another number of points, text with
 *   other markup, a symbol of another shape
 */
export function moveInPlace(canvas, changes) {
  const drawn = records(canvas);
  if (!drawn) return false;
  const movers = [];
  for (const [key, values] of changes) {
    const mover = moverFor(drawn, key, values);
    if (!mover) return false;
    movers.push(mover);
  }
  for (const mover of movers) mover();
  for (const [key, values] of changes) {
    for (const [name, value] of Object.entries(values)) {
      setPath(drawn, `${key}.${name}`, value);
      setPath(drawn, `_full${key[0].toUpperCase()}${key.slice(1)}.${name}`, value);
    }
  }
  return true;
}

/**
 * A function that does one change. It only reads until it is called.
 * @param {Drawn} drawn
 * @param {string} key
 * @param {Values} values
 * @returns {Mover}
 */
function moverFor(drawn, key, values) {
  const [where, second, third] = key.split(".");
  if (where === "layout" && second === "annotations") return annotation(drawn, Number(third), values);
  if (where === "layout" && second === "shapes") return shape(drawn, Number(third), values);
  if (where === "layout")
    return /^[xy]axis\d*$/.test(second) && third === "title" ? axisTitle(drawn, second, values) : null;
  const trace = drawn._fullData[Number(second)];
  if (trace?.type === "scatter") return scatter(drawn, trace, values);
  if (trace?.type === "heatmap") return heatmap(drawn, trace, values);
  if (trace?.type === "surface") return surface(drawn, trace, values);
  return null;
}

/**
 * A scatter trace: its line, markers, error bars and the area to its neighbour move, and what its points say in a hover changes.
 * @param {Drawn} drawn
 * @param {FullTrace} trace
 * @param {{x?: Datum[], y?: Datum[], text?: string[], name?: string, "marker.symbol"?: string[],
 *   "error_y.array"?: number[], "error_y.arrayminus"?: number[]}} values
 * @returns {Mover}
 */
function scatter(drawn, trace, values) {
  const { x = trace.x, y = trace.y, text = null, name: _unseen, ...others } = values; // no legends
  const { "marker.symbol": symbols, "error_y.array": longer = trace.error_y?.array, ...further } = others;
  const { "error_y.arrayminus": shorter = trace.error_y?.arrayminus, ...unknown } = further;
  const points = drawn.calcdata[trace.index];
  const bare = trace.mode === "lines" && trace.hoverinfo === "skip"; // may have another number of points
  if (Object.keys(unknown).length || x.length !== y.length || !x.length || (points.length !== x.length && !bare))
    return null;
  if (text && (trace.mode.includes("text") || text.length !== x.length)) return null;
  const [xaxis, yaxis] = [axisOf(drawn, trace.xaxis), axisOf(drawn, trace.yaxis)];
  if (!xaxis || !yaxis) return null;
  const [across, down] = [places(xaxis, x), places(yaxis, y)];
  if (![...across, ...down].every(Number.isFinite)) return null;
  const group = drawn.querySelector(`.trace${trace.uid}`);
  if (!group) return null;
  const line = group.querySelector(".js-line");
  const dots = /** @type {NodeListOf<SVGElement>} */ (group.querySelectorAll(".point"));
  if (trace.mode.includes("markers") && dots.length !== x.length) return null;
  if (trace.mode.includes("lines") && (!line || group.querySelectorAll(".js-line").length > 1)) return null;
  const looks = symbols && looksOf(trace, symbols);
  const bars = trace.error_y?.visible ? errorBars(group, trace.error_y, [shorter, longer], across, y, yaxis) : [];
  const bands = bandsOf(drawn, trace);
  if ((symbols && !looks) || !bars || !bands) return null;
  const stays = ["x", "y", "marker.symbol", "error_y.array", "error_y.arrayminus"].every((name) => !(name in values));
  return () => {
    if (stays) {
      points.forEach((point, index) => {
        if (text) point.tx = text[index];
      });
      return;
    }
    line?.setAttribute("d", `M${across.map((left, index) => `${short(left)},${short(down[index])}`).join("L")}`);
    dots.forEach((dot, index) => {
      dot.setAttribute("transform", `translate(${short(across[index])},${short(down[index])})`);
      if (looks) Object.assign(dot.style, looks[index]);
    });
    for (const bar of bars) bar.path.setAttribute("d", bar.d);
    for (const draw of bands) draw();
    points.length = Math.min(points.length, x.length);
    while (points.length < x.length) points.push({ i: points.length, x: null, y: null });
    trace._length = x.length;
    points.forEach((point, index) => {
      point.x = xaxis.d2c(x[index]);
      point.y = yaxis.d2c(y[index]);
      if (text) point.tx = text[index];
      if (bars.length) [point.ys, point.yh] = [bars[index].from, bars[index].to];
    });
  };
}

/**
 * @param {Axis} axis
 * @param {Datum[]} values
 */
const places = (axis, values) => values.map((value) => axis.c2p(axis.d2c(value)));

/**
 * The paths of error bars on a linear axis, or null where there is another kind or one comes or goes.
 * @param {Element} group of the trace
 * @param {ErrorBars} bars
 * @param {(number[]|undefined)[]} lengths below the points, which symmetric bars lack, and above
 * @param {number[]} across pixels
 * @param {Datum[]} y
 * @param {Axis} yaxis
 */
function errorBars(group, { type, symmetric, width }, [shorter, longer], across, y, yaxis) {
  const paths = [...group.querySelectorAll("path.yerror")];
  const sides = [symmetric === false ? shorter : longer, longer];
  if (type !== "data" || yaxis.type !== "linear" || paths.length !== across.length) return null;
  if (!sides.every((lengths) => lengths?.length === across.length && lengths.every(Number.isFinite))) return null;
  const [below, above] = /** @type {number[][]} */ (sides);
  return paths.map((path, index) => {
    const [from, to] = [Number(y[index]) - below[index], Number(y[index]) + above[index]];
    const [left, top, bottom] = [across[index] - width, yaxis.c2p(to), yaxis.c2p(from)];
    return { path, from, to, d: `M${left},${top}h${2 * width}m-${width},0V${bottom}m-${width},0h${2 * width}` };
  });
}

/**
 * What draws the areas that lie between a trace and its neighbours, from their lines as they are by then; null where
 * there is another kind of area.
 * @param {Drawn} drawn
 * @param {FullTrace} trace
 */
function bandsOf(drawn, trace) {
  const bands = [];
  for (const upper of [trace, trace._nexttrace]) {
    if (!upper || upper.fill === "none") continue;
    const lower = upper._prevtrace;
    if (upper.fill !== "tonexty" || !lower) return null;
    const area = drawn.querySelector(`.trace${lower.uid} .js-fill`);
    const lines = [upper, lower].map(({ uid }) => drawn.querySelector(`.trace${uid} .js-line`));
    if (!area) return null;
    bands.push(() => {
      const [there, back] = lines.map((line) => line?.getAttribute("d")?.slice(1).split("L") ?? []);
      area.setAttribute("d", `M${[...there, ...back.reverse()].join("L")}Z`);
    });
  }
  return bands;
}

/**
 * How each marker is filled, where its shape stays and only hollow and full change places; else null.
 * @param {FullTrace} trace
 * @param {string[]} symbols
 */
function looksOf(trace, symbols) {
  const { color, line, symbol: before } = trace.marker;
  const plain = (/** @type {string} */ name) => name.replace("-open", "");
  const same = symbols.every((name, index) => plain(name) === plain(Array.isArray(before) ? before[index] : before));
  if (!same || typeof color !== "string" || typeof line.color !== "string") return null;
  const edge = line.color;
  return symbols.map((name) =>
    name.endsWith("-open") ? { fill: "none", stroke: color } : { fill: color, stroke: edge },
  );
}

/**
 * A heatmap: the cells stay where plotly put them, their colours are new.
 * @param {Drawn} drawn
 * @param {FullTrace} trace
 * @param {{z?: Matrix, text?: string[][]}} values
 * @returns {Mover}
 */
function heatmap(drawn, trace, values) {
  const { z = trace.z, text = trace.text, ...others } = values;
  const [xaxis, yaxis] = [axisOf(drawn, trace.xaxis), axisOf(drawn, trace.yaxis)];
  const cells = /** @type {Cells} */ (/** @type {unknown} */ (drawn.calcdata[trace.index][0]));
  const place = trace.xaxis + trace.yaxis;
  const there = drawn._fullData.filter(
    (one) => one.type === "heatmap" && one.visible === true && one.xaxis + one.yaxis === place,
  );
  const image = drawn.querySelectorAll(`.subplot.${place} .hm image`)[there.indexOf(trace)];
  const plain = !trace.zsmooth && !trace.texttemplate && !trace.transpose && !trace.connectgaps && !trace.reversescale;
  if (!image || !plain || !xaxis || !yaxis || Object.keys(others).length) return null;
  if (z.length !== cells.y.length - 1 || z.some((row) => row.length !== cells.x.length - 1)) return null;
  const { xgap = 0, ygap = 0, zmin, zmax, colorscale } = trace;
  if (!isReadable(colorscale)) return null;
  return () => {
    const whole = trace._islinear && !xgap && !ygap; // one pixel for each cell, made larger by the image
    const [width, height] = whole
      ? [cells.x.length - 1, z.length]
      : ["width", "height"].map((name) => Number(image.getAttribute(name)));
    const lefts = whole ? steps(width, xaxis) : edges(Number(image.getAttribute("x")), cells.x, xaxis, width);
    const tops = whole ? steps(height, yaxis) : edges(Number(image.getAttribute("y")), cells.y, yaxis, height);
    const picture = heatmapPicture(z, { size: [width, height], lefts, tops, xgap, ygap, zmin, zmax, colorscale });
    image.setAttributeNS(XLINK, "xlink:href", picture);
    cells.z = z.map((row) => Array.from(row, (value) => value ?? undefined));
    cells.text = text;
  };
}

/**
 * Edges of so many cells, one pixel each, in the direction of an axis.
 * @param {number} count
 * @param {Axis} axis
 */
function steps(count, axis) {
  const falling = axis.c2p(1) < axis.c2p(0);
  return Array.from({ length: count + 1 }, (_, index) => (falling ? count - index : index));
}

/**
 * Edges of cells in pixels of an image that begins at `start` and is `size` long.
 * @param {number} start
 * @param {number[]} values
 * @param {Axis} axis
 * @param {number} size
 */
const edges = (start, values, axis, size) =>
  values.map((value) => Math.min(Math.max(Math.round(axis.c2p(value) - start), 0), size));

/**
 * Heights of a surface: the scene keeps its scale, so only this one surface goes to the graphics card again.
 * @param {Drawn} drawn
 * @param {FullTrace} trace
 * @param {{z?: Matrix}} values
 * @returns {Mover}
 */
function surface(drawn, trace, values) {
  const { z, ...others } = values;
  const scene = drawn._fullLayout[/** @type {"scene"|"scene2"} */ (trace.scene)]?._scene;
  const [shown, picture] = [scene?.traces?.[trace.uid], scene?.glplot];
  if (!shown || !picture || picture.contextLost || !z || Object.keys(others).length) return null;
  return () => {
    trace.z = z;
    shown.update(trace);
    // It asks for its size, which lays out what has changed: once, behind all other changes of the step.
    queueMicrotask(() => picture.contextLost || picture.redraw());
  };
}

/**
 * The words beside an axis, which stay where they are centred.
 * @param {Drawn} drawn
 * @param {string} name e.g. “xaxis2”
 * @param {Values} values
 * @returns {Mover}
 */
function axisTitle(drawn, name, { text, ...others }) {
  const element = drawn.querySelector(`.${name[0]}${name.slice(5)}title`);
  if (!element || typeof text !== "string" || Object.keys(others).length || /<br/.test(text)) return null;
  return words(element, text);
}

/**
 * Where an annotation was when plotly placed it; it moves by the way that its point has moved since.
 * @type {WeakMap<Element, {left: number, top: number, x: Datum, y: Datum}>}
 */
const origins = new WeakMap();

/**
 * @param {Drawn} drawn
 * @param {number} index
 * @param {{x?: Datum, y?: Datum, text?: string, visible?: boolean}} values
 * @returns {Mover}
 */
function annotation(drawn, index, values) {
  const { x, y, text: said, visible: seen, ...others } = values;
  const layout = drawn._fullLayout.annotations[index];
  const element = /** @type {SVGElement|null} */ (drawn.querySelector(`.annotation[data-index="${index}"]`));
  const visible = seen ?? layout.visible;
  if (Object.keys(others).length) return null;
  if (!element) return visible ? null : () => {};
  const box = element.querySelector(".annotation-text-g > g");
  const text = box?.querySelector("text");
  const write = text && (said === undefined ? () => {} : words(text, said));
  if (!box || !write) return null;
  let origin = origins.get(element);
  if (!origin) {
    const [, left, top] = /translate\(([-\d.]+),\s*([-\d.]+)\)/.exec(box.getAttribute("transform") ?? "") ?? [];
    origin = { left: Number(left), top: Number(top), x: layout.x, y: layout.y };
    origins.set(element, origin);
  }
  const across = wayOf(drawn, layout.xref, origin.x, x ?? layout.x);
  const down = wayOf(drawn, layout.yref, origin.y, y ?? layout.y);
  if (across === null || down === null) return null;
  const place = `translate(${Math.round(origin.left + across)},${Math.round(origin.top + down)})`;
  return () => {
    element.style.display = visible ? "" : "none";
    write();
    box.setAttribute("transform", place);
  };
}

/**
 * Pixels from one value to another along an axis; null without an axis.
 * @param {Drawn} drawn
 * @param {string} reference
 * @param {Datum} from
 * @param {Datum} to
 */
function wayOf(drawn, reference, from, to) {
  if (to === from) return 0;
  const axis = axisOf(drawn, reference);
  return axis ? axis.r2p(to) - axis.r2p(from) : null;
}

/**
 * Writes a text with plotly's little markup; null for markup that is not known here.
 * @param {Element} element
 * @param {string} text
 * @returns {Mover}
 */
function words(element, text) {
  if (element.getAttribute("data-unformatted") === text) return () => {};
  const pieces = tspans(text);
  if (!pieces) return null;
  return () => {
    takeWords(element, pieces);
    element.setAttribute("data-unformatted", text);
  };
}

/**
 * Puts words in the place of an element's. Where only texts differ, the elements stay and take the new texts: nothing is
 * then taken out of the page, which would make the browser match all its styles again.
 * @param {Element} element
 * @param {Node[]} pieces
 */
function takeWords(element, pieces) {
  const before = [...element.childNodes];
  if (before.length === pieces.length && before.every((node, index) => isAlike(node, pieces[index])))
    before.forEach((node, index) => takeTexts(node, pieces[index]));
  else element.replaceChildren(...pieces);
}

/** Whether two pieces of words differ in their texts at most. @param {Node} a @param {Node} b @returns {boolean} */
function isAlike(a, b) {
  const [within, others] = [[...a.childNodes], b.childNodes];
  return (
    (a.nodeType === Node.TEXT_NODE ? b.nodeType === Node.TEXT_NODE : a.cloneNode().isEqualNode(b.cloneNode())) &&
    within.length === others.length &&
    within.every((node, index) => isAlike(node, others[index]))
  );
}

/** @param {Node} to @param {Node} from */
function takeTexts(to, from) {
  if (to.nodeType !== Node.TEXT_NODE) to.childNodes.forEach((node, index) => takeTexts(node, from.childNodes[index]));
  else if (to.nodeValue !== from.nodeValue) to.nodeValue = from.nodeValue;
}

/**
 * plotly's little markup as SVG: bold and coloured spans.
 * @param {string} text
 */
function tspans(text) {
  if (/&|<(?!\/?b>|\/?span[ >])/.test(text)) return null;
  const top = document.createElementNS(SVG, "g");
  /** @type {Element} */
  let place = top;
  for (const [, tag, style, plain] of text.matchAll(/<(\/?\w+)(?: style="([^"]*)")?>|([^<]+)/g)) {
    if (plain) place.append(plain);
    else if (tag.startsWith("/")) place = place.parentElement ?? top;
    else {
      const span = document.createElementNS(SVG, "tspan");
      span.setAttribute("style", tag === "b" ? "font-weight:bold" : (style ?? "").replace(/\bcolor:/, "fill:"));
      place.append(span);
      place = span;
    }
  }
  return [...top.childNodes];
}

/**
 * A rectangle whose sides move along its axes, or a path of points “x,y” in the units of its axes.
 * @param {Drawn} drawn
 * @param {number} index
 * @param {{x0?: Datum, x1?: Datum, y0?: Datum, y1?: Datum, path?: string}} values
 * @returns {Mover}
 */
function shape(drawn, index, values) {
  const layout = drawn._fullLayout.shapes[index];
  const element = drawn.querySelector(`path[data-index="${index}"]`);
  const { x0, x1, y0, y1, path, ...others } = values;
  if (!element || Object.keys(others).length) return null;
  if (layout.type === "path") {
    const d = path === undefined ? null : drawnPath(drawn, layout, path);
    return d === null || Object.keys(values).length > 1 ? null : () => element.setAttribute("d", d);
  }
  const sides = /^M([-\d.]+),([-\d.]+)H([-\d.]+)V([-\d.]+)H[-\d.]+Z$/.exec(element.getAttribute("d") ?? "");
  if (layout.type !== "rect" || !sides || path !== undefined) return null;
  const [, left, top, right, bottom] = sides;
  const across = sidesOf(drawn, layout.xref, [x0, x1], [layout.x0, layout.x1], [left, right]);
  const down = sidesOf(drawn, layout.yref, [y0, y1], [layout.y0, layout.y1], [top, bottom]);
  return (
    across &&
    down &&
    (() => element.setAttribute("d", `M${across[0]},${down[0]}H${across[1]}V${down[1]}H${across[0]}Z`))
  );
}

/**
 * Two sides on the canvas: where they are, or, for new values, where those lie on their axis; null without an axis.
 * @param {Drawn} drawn
 * @param {string} reference
 * @param {(Datum|undefined)[]} values
 * @param {Datum[]} before
 * @param {string[]} places
 */
function sidesOf(drawn, reference, values, before, places) {
  if (values.every((value) => value === undefined)) return places;
  const axis = axisOf(drawn, reference);
  // A number among categories is a position.
  return axis
    ? values.map((value, side) => short(axis._offset + axis.r2p(value === undefined ? before[side] : value)))
    : null;
}

/**
 * @param {Drawn} drawn
 * @param {FullShape} shape
 * @param {string} text
 */
function drawnPath(drawn, { xref, yref }, text) {
  const [xaxis, yaxis] = [axisOf(drawn, xref), axisOf(drawn, yref)];
  if (!xaxis || !yaxis) return null;
  return text.replace(
    /(-?[\d.]+),(-?[\d.]+)/g,
    (_, x, y) => `${short(xaxis._offset + xaxis.r2p(Number(x)))},${short(yaxis._offset + yaxis.r2p(Number(y)))}`,
  );
}

// --- Scenes ---------------------------------------------------------------------------------------------------------

/**
 * Names of the scenes, of three dimensions, in which a figure is drawn.
 * @param {HTMLElement} canvas
 */
export const scenesOf = (canvas) => SCENES.filter((name) => records(canvas)?._fullLayout[name]);

/**
 * False where a figure has a scene and the browser no WebGL: plotly leaves the scene empty then.
 * @param {HTMLElement} canvas
 */
export const drawsScenes = (canvas) => drawings(canvas).every((scene) => scene.glplot);

/** @param {HTMLElement} canvas */
const drawings = (canvas) => {
  const layout = records(canvas)?._fullLayout;
  return SCENES.map((name) => layout?.[name]?._scene).filter((scene) => scene !== undefined);
};

/**
 * Changes two habits of plotly's scenes that make a step of λ slow. To be called after each drawing.
 * @param {HTMLElement} canvas
 */
export function quickenScenes(canvas) {
  for (const scene of drawings(canvas)) {
    if (!scene.glplot) continue;
    drawGivenPoints(scene, scene.glplot);
    pickWhenPointed(scene.glplot);
  }
}

/**
 * Draws what scenes show once more, at once: a browser keeps their pictures for the screen only.
 * @param {HTMLElement} canvas
 */
export function redrawScenes(canvas) {
  for (const { glplot } of drawings(canvas)) glplot?.redraw();
}

/**
 * Draws surfaces with the points they have. plotly puts three new ones between each two, on the straight line between
 * them: the same surface from sixteen times as many triangles.
 * @param {Scene} scene
 * @param {SceneDrawing} drawing
 */
function drawGivenPoints(scene, drawing) {
  let changed = false;
  for (const trace of Object.values(scene.traces ?? {})) {
    if (trace.refineData !== true) continue;
    trace.refineData = false;
    trace.dataScaleX = trace.dataScaleY = 1;
    trace.update(trace.data);
    changed = true;
  }
  if (changed) drawing.redraw();
}

/**
 * Looks for what is under the pointer only after the pointer has moved over the scene. plotly draws each scene a second
 * time and reads that picture back after every change, which takes far longer than the drawing itself.
 * @param {SceneDrawing} drawing
 */
function pickWhenPointed(drawing) {
  const { gl, canvas } = drawing;
  if (!gl || canvas.dataset.picking) return;
  canvas.dataset.picking = "lazy";
  let asked = false; // the next picture is followed by a look
  let fresh = false; // the last look was at the picture that is shown
  const read = gl.readPixels;
  gl.readPixels = (...rest) => {
    if (!asked) return;
    asked = false;
    fresh = true;
    read.apply(gl, rest);
  };
  const { onrender } = drawing;
  drawing.onrender = () => {
    fresh = false;
    for (const object of drawing.objects) lazily(object, () => asked);
    onrender?.();
  };
  canvas.parentElement?.addEventListener(
    "mousemove",
    (event) => {
      if (fresh || event.buttons) return; // while it is turned there is nothing to read
      // What was read belongs to another picture: the answer comes with the next move.
      asked = true;
      for (const object of drawing.objects) object.dirty = true;
      event.stopPropagation();
    },
    true,
  );
}

/**
 * @param {SceneObject} object
 * @param {() => boolean} wanted
 */
function lazily(object, wanted) {
  const draw = object.drawPick;
  if (object.drawsWhenPointed || !draw) return;
  object.drawsWhenPointed = true;
  object.drawPick = function (...rest) {
    if (wanted()) draw.apply(this, rest);
  };
}

// --- Names in a drawing ---------------------------------------------------------------------------------------------

const REFERENCE = /url\((["']?)[^"')#]*#([^"')]+)\1\)/g;

/**
 * Clips and gradients are named by the page's whole address where the page has a base element, as Gradio's has. The
 * address changes with the state, and they would be lost: a name alone stays good.
 * @param {HTMLElement} canvas
 */
export function localReferences(canvas) {
  for (const element of canvas.querySelectorAll('[clip-path*="url("], [style*="url("]')) {
    for (const name of ["clip-path", "style"]) {
      const text = element.getAttribute(name);
      if (text?.includes("url(")) {
        const local = text.replace(REFERENCE, "url(#$2)");
        if (local !== text) element.setAttribute(name, local);
      }
    }
  }
}

/**
 * Names each mark that plotly has drawn by what it shows (`data-shows`, and a trace's quantity as `data-of`), for the styles.
 * @param {HTMLElement} canvas
 * @param {{traces: (string|null)[], annotations: (string|null)[], quantities: (string|null)[]}} marks in the figure's order
 */
export function nameMarks(canvas, { traces, annotations, quantities }) {
  const drawn = records(canvas);
  if (!drawn) return;
  /** @type {(element: Element|null, shows: string|null) => void} */
  const name = (element, shows) => {
    if (shows === null) element?.removeAttribute("data-shows");
    else element?.setAttribute("data-shows", shows);
  };
  drawn._fullData.forEach((trace) => {
    const element = canvas.querySelector(`.trace${trace.uid}`);
    name(element, traces[trace.index] ?? null);
    if (element instanceof SVGElement) element.dataset.of = quantities[trace.index] ?? "";
  });
  for (const element of canvas.querySelectorAll(".annotation[data-index]"))
    name(element, annotations[Number(element.getAttribute("data-index"))] ?? null);
}
