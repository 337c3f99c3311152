/**
 * The parts of a canvas that marks are cut to: what is drawn on an axis ends with it.
 * @module flat/clips
 */

/** @import { Plane } from "./axes.js" */

import { s } from "../svg.js";
import { short } from "./text.js";

let drawings = 0;

export class Clips {
  /** @param {Plane} plane */
  constructor(plane) {
    this.plane = plane;
    drawings += 1;
    this.prefix = `flat-${drawings}`; // names are of the whole page
    /** @type {Map<string, SVGClipPathElement>} */
    this.made = new Map();
  }

  /**
   * What cuts to an axis in each direction in which there is one; null where nothing is cut.
   * @param {string} xref e.g. “x”, “x2 domain” or “paper”: only an axis cuts
   * @param {string} yref
   * @returns {string|null} value of clip-path
   */
  to(xref, yref) {
    const [xaxis, yaxis] = [xref, yref].map((reference) => this.plane.axes.get(reference));
    if (!xaxis && !yaxis) return null;
    const name = `${this.prefix}-${xaxis?.name ?? ""}${yaxis?.name ?? ""}`;
    if (!this.made.has(name)) {
      const [left, right] = xaxis ? [xaxis.start, xaxis.end] : [0, this.plane.width];
      const [bottom, top] = yaxis ? [yaxis.start, yaxis.end] : [this.plane.height, 0];
      const box = { x: short(left), y: short(top), width: short(right - left), height: short(bottom - top) };
      this.made.set(name, s("clipPath", { id: name }, s("rect", box)));
    }
    return `url(#${name})`;
  }
}
