/**
 * From a figure with bindings to a figure for one (γ, λ). Pure: decoding and indexing only, no DOM.
 *
 * Python writes figures (sarqc/figures/drawing.py); tests/golden/bind.json is read by the tests of both halves.
 * @module bind
 */

/** @import { Layout, MadeFigure, Trace } from "./figure.d.ts" */

/**
 * Positions on the axes of γ and λ.
 * @typedef {{gamma: number, lambda: number}} Point
 */
/**
 * What belongs at a path of a figure: `values` is nested by the axes in `over`.
 * @typedef {{path: string, over: (keyof Point)[], values: unknown, array?: undefined}} Table
 */
/**
 * A decoded array of the study that belongs at a path: at the shown λ or at that of `lambda`.
 * @typedef {{path: string, array: string, lambda?: number}} FromArray
 */
/** @typedef {Table | FromArray} Binding */
/**
 * A figure as it travels. `narrow` is what belongs at its paths on a screen narrower than `narrow_below`; `finding` is
 * what it shows at a point, in words.
 * @typedef {{data: Trace[], layout: Layout, aria?: string, finding?: Pick<Table, "over"|"values">, title?: string,
 *   subtitle?: string,
 *   bindings?: Binding[], narrow?: Record<string, unknown>, narrow_bindings?: Binding[], narrow_below?: number}} Figure
 */
/**
 * An array of a study: rows of numbers in its own unit for each (γ, λ).
 * @typedef {{matrix: (gamma: number, lambda: number) => Float32Array[]}} Opened
 */

/**
 * The entry of a binding at a point.
 * @param {Pick<Table, "over"|"values">} binding
 * @param {Point} at
 * @returns {unknown}
 */
export function lookUp({ over, values }, at) {
  return over.reduce((nested, axis) => /** @type {unknown[]|undefined} */ (nested)?.[at[axis]], values);
}

/**
 * What a binding says at a point; undefined where its array is not here.
 * @param {Binding} binding
 * @param {Point} at
 * @param {Record<string, Opened>} [arrays]
 * @returns {unknown}
 */
export function boundValue(binding, at, arrays = {}) {
  if (binding.array === undefined) return lookUp(binding, at);
  const array = arrays[binding.array];
  return array?.matrix(at.gamma, binding.lambda ?? at.lambda);
}

/**
 * Sets `target.a.b[3].c` for the path "a.b.3.c", making plain objects on the way where there is nothing.
 * @param {object} target
 * @param {string} path
 * @param {unknown} value
 */
export function setPath(target, path, value) {
  const keys = path.split(".");
  const last = /** @type {string} */ (keys.pop());
  let place = /** @type {Record<string, any>} */ (target);
  for (const key of keys) {
    place[key] ??= {};
    place = place[key];
  }
  place[last] = value;
}

/**
 * A study's array, opened.
 * @param {ArrayBuffer} buffer bytes of one layer
 * @param {{dtype: string, shape: number[], scale: number, zero?: number}} info shape is (γ, λ, rows, columns); of uint8 255
 *   is worth `scale` and `zero` nothing
 * @returns {Opened}
 */
export function openArray(buffer, info) {
  const flat = info.dtype === "uint8" ? new Uint8Array(buffer) : new Float32Array(buffer);
  const [, nLambda, rows, columns] = info.shape;
  const zero = info.zero ?? 0;
  const unit = info.dtype === "uint8" ? info.scale / (255 - zero) : 1;
  if (flat.length !== info.shape.reduce((a, b) => a * b, 1)) throw new Error("the array does not have its shape");
  /** @type {Map<number, Float32Array[]>} */
  const made = new Map();
  return {
    matrix(gamma, lambda) {
      const which = gamma * nLambda + lambda;
      const before = made.get(which);
      if (before) return before;
      const [start, cells] = [which * rows * columns, new Float32Array(rows * columns)];
      for (let cell = 0; cell < cells.length; cell += 1) cells[cell] = (flat[start + cell] - zero) * unit;
      const matrix = Array.from({ length: rows }, (_, row) => cells.subarray(row * columns, (row + 1) * columns));
      made.set(which, matrix);
      return matrix;
    },
  };
}

/**
 * The figure at a point. The given figure is not changed.
 * @param {Figure} figure
 * @param {Point} at
 * @param {Record<string, Opened>} [arrays]
 * @param {boolean} [narrow] with what the figure says for a narrow screen
 * @returns {MadeFigure}
 */
export function figureAt(figure, at, arrays = {}, narrow = false) {
  const { data, layout, aria = "" } = figure;
  const made = structuredClone({ data, layout, aria });
  const bindings = [...(figure.bindings ?? []), ...((narrow && figure.narrow_bindings) || [])];
  for (const binding of bindings) {
    const value = boundValue(binding, at, arrays);
    if (value !== undefined || binding.array === undefined) setPath(made, binding.path, value);
  }
  if (narrow) for (const [path, value] of Object.entries(figure.narrow ?? {})) setPath(made, path, value);
  return made;
}

/**
 * The same figure with every `var(--name)` replaced by that colour.
 * @template T
 * @param {T} figure
 * @param {(name: string) => string} colour
 * @returns {T}
 */
export function withColours(figure, colour) {
  return JSON.parse(JSON.stringify(figure).replace(/var\((--[\w-]+)\)/g, (_, name) => colour(name)));
}
