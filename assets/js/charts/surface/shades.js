/**
 * The colours of a surface in a table: the colour of each height in each light. Colours are numbers 0xAABBGGRR, which is
 * how a canvas holds pixels.
 * @module surface/shades
 */

/** @import { Stops } from "../color_scale.js" */

import { shadesOf } from "../color_scale.js";

export const HEIGHTS = 256;
export const SHADES = 32;
const DARK = 0.55; // share of the colour where no light falls
const BRIGHT = 1.35; // and in full light
const SHINE = 0.16; // share of white in full light
const OPAQUE = 0xff000000;

/**
 * The table of a scale: the colour of height h in shade s, the brightest last, is at h · SHADES + s.
 * @param {Stops} scale
 */
export function shadesTable(scale) {
  const shades = shadesOf(scale);
  const table = new Uint32Array(HEIGHTS * SHADES);
  for (let height = 0; height < HEIGHTS; height += 1) {
    const colour = shades(height / (HEIGHTS - 1));
    for (let shade = 0; shade < SHADES; shade += 1) {
      const share = shade / (SHADES - 1);
      const [light, white] = [DARK + (BRIGHT - DARK) * share, SHINE * share];
      const [red, green, blue] = colour.map((value) =>
        Math.round((1 - white) * Math.min(255, value * light) + white * 255),
      );
      table[height * SHADES + shade] = (OPAQUE | (blue << 16) | (green << 8) | red) >>> 0;
    }
  }
  return table;
}

/** A colour of the table as styles write it. @param {number} colour */
export function cssOf(colour) {
  const [red, green, blue] = [colour & 255, (colour >> 8) & 255, (colour >> 16) & 255];
  return `#${((1 << 24) | (red << 16) | (green << 8) | blue).toString(16).slice(1)}`;
}
