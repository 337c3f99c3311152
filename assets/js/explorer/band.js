/**
 * The sweet spot on a slider's track. Pure but for its pieces.
 * @module band
 */

import { h } from "../base/dom.js";

/** The sweet spot drawn on the slider's track, as shares of its length; neighbours make one stretch. */
export function bandPieces(band) {
  return stretches(band).map(([left, right]) =>
    h("span", { style: `left:${100 * left}%;width:${100 * (right - left)}%` }),
  );
}

/** Start and end of each run of true, from 0 to 1, reaching a little beyond its points. */
export function stretches(band) {
  const last = band.length - 1;
  if (last < 1) return [];
  const found = [];
  band.forEach((inside, index) => {
    if (!inside) return;
    const right = Math.min(1, (index + 0.4) / last);
    if (index > 0 && band[index - 1]) found[found.length - 1][1] = right;
    else found.push([Math.max(0, (index - 0.4) / last), right]);
  });
  return found;
}
