/**
 * What of a figure changes between two points (γ, λ), and the step from one to the other. plotly would lay out
 * everything anew; here only what changes is touched.
 * @module step
 */

/** @import { Binding, Figure, Opened, Point } from "./bind.js" */

import { boundValue } from "./bind.js";
import { moveInPlace } from "./plotly_internals.js";

/**
 * The bindings of a figure that change with λ or γ, in the order in which they are applied.
 * @param {Figure} figure
 * @param {boolean} narrow
 */
export function movingBindings(figure, narrow) {
  const all = [...(figure.bindings ?? []), ...((narrow && figure.narrow_bindings) || [])];
  return all.filter((binding) => binding.array !== undefined || binding.over.length);
}

/**
 * Moves what `moving` binds to its values at a point.
 * @param {HTMLElement} canvas where plotly has drawn the figure
 * @param {Binding[]} moving
 * @param {Point} from the drawn point
 * @param {Point} to
 * @param {Record<string, Opened>} arrays
 * @returns {boolean} false where `Plotly.react` has to do it; nothing has been touched then
 */
export function stepInPlace(canvas, moving, from, to, arrays) {
  const changes = changesBetween(moving, from, to, arrays);
  return changes !== null && moveInPlace(canvas, changes);
}

/**
 * What differs between two points, as moveInPlace takes it; null where an array is not here.
 * @param {Binding[]} moving
 * @param {Point} from
 * @param {Point} to
 * @param {Record<string, Opened>} arrays
 */
export function changesBetween(moving, from, to, arrays) {
  /** @type {Map<string, Record<string, unknown>>} */
  const changes = new Map(); // what is changed → its new values by name
  for (const binding of moving) {
    if (binding.path === "aria" || !follows(binding, from, to)) continue;
    const keys = binding.path.split(".");
    const depth = keys[0] === "data" ? 2 : 3; // data.3 and layout.annotations.2 are what plotly moves as a whole
    const [key, name] = [keys.slice(0, depth).join("."), keys.slice(depth).join(".")];
    const value = boundValue(binding, to, arrays);
    if (value === undefined) return null;
    if (same(value, boundValue(binding, from, arrays))) continue; // e.g. at λ = 0 every γ
    changes.set(key, { ...changes.get(key), [name]: value });
  }
  return changes;
}

/**
 * Whether what a binding says may differ between two points.
 * @param {Binding} binding
 * @param {Point} from
 * @param {Point} to
 */
function follows(binding, from, to) {
  const bound = binding.array === undefined;
  if (from.gamma !== to.gamma && (!bound || binding.over.includes("gamma"))) return true;
  return from.lambda !== to.lambda && (bound ? binding.over.includes("lambda") : binding.lambda === undefined);
}

/**
 * Equality of what figures hold: texts, numbers, lists and typed arrays of them.
 * @param {unknown} one
 * @param {unknown} other
 * @returns {boolean}
 */
function same(one, other) {
  if (one === other || !isList(one) || !isList(other) || one.length !== other.length) return one === other;
  for (let index = 0; index < one.length; index += 1) if (!same(one[index], other[index])) return false;
  return true;
}

/**
 * @param {unknown} value
 * @returns {value is ArrayLike<unknown>}
 */
const isList = (value) => Array.isArray(value) || ArrayBuffer.isView(value);
