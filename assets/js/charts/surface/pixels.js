/**
 * Faces as pixels: triangles filled in a typed array, since thousands of paths take a canvas several times as long. Faces
 * that share an edge share no pixel and leave none out, so that no seam shows.
 * @module surface/pixels
 */

/** @import { FaceSink } from "./field.js" */

/** @implements {FaceSink} */
export class Pixels {
  /** @param {Uint32Array} table of colours */
  constructor(table) {
    this.table = table;
    this.width = 0;
    this.height = 0;
    this.scale = 1; // pixels here for each of the page
    /** @type {Uint32Array} */
    this.data = new Uint32Array(0);
  }

  /**
   * Begins an empty picture.
   * @param {{width: number, height: number, data: Uint8ClampedArray}} image that is filled
   * @param {number} scale its pixels for each of the page
   */
  begin({ width, height, data }, scale) {
    if (this.data.buffer !== data.buffer) this.data = new Uint32Array(data.buffer);
    this.data.fill(0);
    [this.width, this.height, this.scale] = [width, height, scale];
  }

  /**
   * Fills a triangle: the pixels whose middle is inside.
   * @param {number} ax pixels of the page
   * @param {number} ay
   * @param {number} bx
   * @param {number} by
   * @param {number} cx
   * @param {number} cy
   * @param {number} colour position in the table
   */
  triangle(ax, ay, bx, by, cx, cy, colour) {
    const { data, width, scale } = this;
    const value = this.table[colour];
    // Corners from the highest to the lowest.
    let x0 = ax * scale;
    let y0 = ay * scale;
    let x1 = bx * scale;
    let y1 = by * scale;
    let x2 = cx * scale;
    let y2 = cy * scale;
    let spare = 0;
    if (y1 < y0) {
      spare = x0;
      x0 = x1;
      x1 = spare;
      spare = y0;
      y0 = y1;
      y1 = spare;
    }
    if (y2 < y0) {
      spare = x0;
      x0 = x2;
      x2 = spare;
      spare = y0;
      y0 = y2;
      y2 = spare;
    }
    if (y2 < y1) {
      spare = x1;
      x1 = x2;
      x2 = spare;
      spare = y1;
      y1 = y2;
      y2 = spare;
    }
    const top = Math.max(0, Math.ceil(y0 - 0.5));
    const bottom = Math.min(this.height, Math.ceil(y2 - 0.5));
    if (top >= bottom) return;
    const long = (x2 - x0) / (y2 - y0);
    const upper = y1 > y0 ? (x1 - x0) / (y1 - y0) : 0;
    const lower = y2 > y1 ? (x2 - x1) / (y2 - y1) : 0;
    for (let y = top; y < bottom; y += 1) {
      const middle = y + 0.5;
      const one = x0 + (middle - y0) * long;
      const other = middle < y1 ? x0 + (middle - y0) * upper : x1 + (middle - y1) * lower;
      const start = Math.max(0, Math.ceil(Math.min(one, other) - 0.5));
      const end = Math.min(width, Math.ceil(Math.max(one, other) - 0.5));
      for (let at = y * width + start, last = y * width + end; at < last; at += 1) data[at] = value;
    }
  }

  /**
   * Lays a translucent colour over a quadrilateral with two upright sides.
   * @param {number[]} points left, top of its corners, around it, the first two and the last two on an upright side each
   * @param {number[]} colour red, green and blue
   * @param {number} opacity
   */
  veil(points, [red, green, blue], opacity) {
    const { data, width, height, scale } = this;
    const [x0, above0, , below0, x1, below1, , above1] = points.map((value) => value * scale);
    const [first, last] = [Math.min(x0, x1), Math.max(x0, x1)].map((edge) => Math.ceil(edge - 0.5));
    const share = Math.round(256 * opacity);
    const alone = ((Math.round(255 * opacity) << 24) | (blue << 16) | (green << 8) | red) >>> 0;
    for (let x = Math.max(0, first); x < Math.min(width, last); x += 1) {
      const way = (x + 0.5 - x0) / (x1 - x0);
      const from = Math.max(0, Math.ceil(above0 + way * (above1 - above0) - 0.5));
      const to = Math.min(height, Math.ceil(below0 + way * (below1 - below0) - 0.5));
      for (let at = from * width + x, end = to * width + x; at < end; at += width) {
        const under = data[at];
        if (!under) {
          data[at] = alone;
          continue;
        }
        const r = under & 255;
        const g = (under >>> 8) & 255;
        const b = (under >>> 16) & 255;
        data[at] =
          (0xff000000 |
            ((b + (((blue - b) * share) >> 8)) << 16) |
            ((g + (((green - g) * share) >> 8)) << 8) |
            (r + (((red - r) * share) >> 8))) >>>
          0;
      }
    }
  }
}
