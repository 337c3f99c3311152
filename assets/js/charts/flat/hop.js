/**
 * Marks of a figure on their way from a former drawing to the new one: a mark that has moved hops to its place, and an
 * interval grows or shrinks. Marks are known by keys (plotly's `ids`); those without one, and all under reduced motion,
 * are at their new places at once.
 * @module flat/hop
 */

import { isStill } from "../../base/motion.js";

/** @typedef {{element: SVGElement, x: number, top: number, bottom: number}} Mark where it lies in pixels; top is bottom but for an interval */

const TIMING = { duration: 300, easing: "ease-out" };
const SEEN = 0.5; // pixels; less than that is not a move

/**
 * The transform that puts a mark where it was before; null where it has not moved.
 * @param {Mark} before
 * @param {Mark} now
 */
function transformFrom(before, now) {
  const [was, is] = [before.bottom - before.top, now.bottom - now.top];
  const scale = is ? was / is : 1;
  const moves = [before.x - now.x, before.top - now.top, before.bottom - now.bottom];
  if (moves.every((pixels) => Math.abs(pixels) < SEEN)) return null;
  return `matrix(1, 0, 0, ${scale}, ${moves[0]}, ${before.top - scale * now.top})`;
}

/**
 * Lets the marks of a new drawing come from the places of a former one; those that are new appear.
 * @param {Map<string, Mark>} before
 * @param {Map<string, Mark>} now
 */
export function hop(before, now) {
  if (!before.size || !now.size || isStill()) return;
  for (const [key, mark] of now) {
    const was = before.get(key);
    const transform = was && transformFrom(was, mark);
    if (transform) mark.element.animate([{ transform }, { transform: "none" }], TIMING);
    else if (!was) mark.element.animate([{ opacity: 0 }, { opacity: 1 }], TIMING);
  }
}
