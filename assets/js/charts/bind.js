/**
 * From a figure with bindings to a figure for one (γ, λ). Pure: decoding and indexing only, no DOM, no plotly.
 *
 * A binding is `{path, over, values}` where `values` is nested by the axes in `over`, or `{path, array, lambda?, minus?}` for a
 * decoded array of the study, at the shown λ or at a given one, less that at the λ of `minus`. Python writes them (sarqc/figures/drawing.py); tests/golden/bind.json is read by both tests.
 * @module bind
 */

/**
 * The entry of a binding at a point.
 * @param {{over: string[], values: any}} binding
 * @param {{gamma: number, lambda: number}} at positions on the axes
 */
export function lookUp(binding, at) {
  return binding.over.reduce((values, axis) => values?.[at[axis]], binding.values);
}

/**
 * What a binding says at a point; undefined where its array is not here.
 * @param {object} binding
 * @param {{gamma: number, lambda: number}} at
 * @param {Object<string, {matrix: Function}>} [arrays]
 */
export function boundValue(binding, at, arrays = {}) {
  if (binding.array === undefined) return lookUp(binding, at);
  const array = arrays[binding.array];
  const shown = array?.matrix(at.gamma, binding.lambda ?? at.lambda);
  if (!shown || binding.minus === undefined) return shown;
  const other = array.matrix(at.gamma, binding.minus);
  return shown.map((row, i) => row.map((value, j) => value - other[i][j]));
}

/** Sets `target.a.b[3].c` for the path "a.b.3.c", making plain objects on the way where there is nothing. */
export function setPath(target, path, value) {
  const keys = path.split(".");
  const last = keys.pop();
  let place = target;
  for (const key of keys) {
    if (place[key] === null || place[key] === undefined) place[key] = {};
    place = place[key];
  }
  place[last] = value;
}

/**
 * A study's array, opened: `matrix(gamma, lambda)` gives rows of numbers in the array's own unit.
 * @param {ArrayBuffer} buffer bytes of one layer
 * @param {{dtype: string, shape: number[], scale: number, zero?: number}} info shape is (γ, λ, rows, columns); of uint8 255
 *   is worth `scale` and `zero` nothing
 */
export function openArray(buffer, info) {
  const flat = info.dtype === "uint8" ? new Uint8Array(buffer) : new Float32Array(buffer);
  const [, nLambda, rows, columns] = info.shape;
  const zero = info.zero ?? 0;
  const unit = info.dtype === "uint8" ? info.scale / (255 - zero) : 1;
  if (flat.length !== info.shape.reduce((a, b) => a * b, 1)) throw new Error("the array does not have its shape");
  const made = new Map();
  return {
    matrix(gamma, lambda) {
      const which = gamma * nLambda + lambda;
      if (!made.has(which)) {
        const [start, cells] = [which * rows * columns, new Float32Array(rows * columns)];
        for (let cell = 0; cell < cells.length; cell += 1) cells[cell] = (flat[start + cell] - zero) * unit;
        made.set(
          which,
          Array.from({ length: rows }, (_, row) => cells.subarray(row * columns, (row + 1) * columns)),
        );
      }
      return made.get(which);
    },
  };
}

/**
 * The figure at a point. The given figure is not changed.
 * @param {object} figure data, layout, bindings (and aria)
 * @param {{gamma: number, lambda: number}} at
 * @param {Object<string, {matrix: Function}>} [arrays]
 * @param {boolean} [narrow] with what the figure says for a narrow screen
 * @returns {{data: object[], layout: object, aria: string}}
 */
export function figureAt(figure, at, arrays = {}, narrow = false) {
  const made = structuredClone({ data: figure.data, layout: figure.layout, aria: figure.aria ?? "" });
  const bindings = [...(figure.bindings ?? []), ...((narrow && figure.narrow_bindings) || [])];
  for (const binding of bindings) {
    const value = boundValue(binding, at, arrays);
    if (value !== undefined || binding.array === undefined) setPath(made, binding.path, value);
  }
  if (narrow) for (const [path, value] of Object.entries(figure.narrow ?? {})) setPath(made, path, value);
  return made;
}

/** The same figure with every `var(--name)` replaced by that colour. */
export function withColours(figure, colour) {
  return JSON.parse(JSON.stringify(figure).replace(/var\((--[\w-]+)\)/g, (_, name) => colour(name)));
}
