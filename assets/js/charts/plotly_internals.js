/**
 * All that is known here of plotly's inside: its records of a figure (`_fullLayout`, `_fullData`, scenes) and the elements
 * that it draws. None of it is a promise of plotly's; tests/js/plotly_internals.test.js checks it against the plotly that
 * is installed, and no other file touches it.
 *
 * It is for surfaces that follow a slider, for which plotly is too slow by itself. Flat figures are not plotly's.
 * @module plotly_internals
 */

import { setPath } from "./bind.js";

/** @import { Drawn, FullTrace, Matrix, Scene, SceneDrawing, SceneObject } from "./plotly.d.ts" */

/**
 * New values of a trace or an annotation by name, e.g. “z” or “text”.
 * @typedef {Record<string, unknown>} Values
 */
/**
 * What draws a change; null where plotly has to.
 * @typedef {(() => void)|null} Mover
 */

const SCENES = /** @type {const} */ (["scene", "scene2"]);

/**
 * plotly's records of an element; null before plotly has drawn in it.
 * @param {HTMLElement} canvas
 */
function records(canvas) {
  const drawn = /** @type {Drawn} */ (canvas);
  return drawn._fullLayout ? drawn : null;
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
 * @param {Map<string, Values>} changes what changes, as “data.1” or “layout.annotations.2”
 * @returns {boolean} false, and nothing has been touched, where plotly has to do it
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
  if (where === "layout") return second === "annotations" ? annotation(drawn, Number(third), values) : null;
  const trace = drawn._fullData[Number(second)];
  return trace?.type === "surface" ? surface(drawn, trace, values) : null;
}

/**
 * The words of an annotation, which stays where it is; null for words with markup.
 * @param {Drawn} drawn
 * @param {number} index
 * @param {{text?: string}} values
 * @returns {Mover}
 */
function annotation(drawn, index, { text, ...others }) {
  const element = drawn.querySelector(`.annotation[data-index="${index}"] .annotation-text-g text`);
  if (!element || text === undefined || /[<&]/.test(text) || Object.keys(others).length) return null;
  return () => {
    element.textContent = text;
    element.setAttribute("data-unformatted", text);
  };
}

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
