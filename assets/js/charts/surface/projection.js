/**
 * From the box of a surface to the screen. The projection is parallel: equal heights are equally many pixels everywhere, so
 * that both parts can be compared. Axes of the box: x inputs, y outputs, z upwards, its floor centred on 0.
 * @module surface/projection
 */

/** @typedef {{azimuth: number, elevation: number, zoom: number}} Camera angles in radians: where the viewer stands */
/** @typedef {{width: number, depth: number, height: number}} Box in units of the box's depth */
/** @typedef {{left: number, top: number, width: number, height: number}} Area in pixels */

/** @type {Readonly<Camera>} */
export const FIRST = Object.freeze({ azimuth: -1.18, elevation: 0.5, zoom: 1 });

const PER_PIXEL = 0.008; // radians
const LOWEST = 0.14;
const STEEPEST = 1.35;
const ZOOMS = /** @type {const} */ ([0.7, 3]);
const WIDTHS = /** @type {const} */ ([1.15, 2.2]);
const HEIGHTS = /** @type {const} */ ([0.6, 1.1]);

/** @param {number} value @param {readonly [number, number]} range */
const within = (value, [low, high]) => Math.min(high, Math.max(low, value));

/**
 * A camera turned by a drag: around the vertical axis, and in elevation within bounds.
 * @param {Camera} camera
 * @param {number} dx
 * @param {number} dy
 * @returns {Camera}
 */
export function turned(camera, dx, dy) {
  const elevation = within(camera.elevation + dy * PER_PIXEL, [LOWEST, STEEPEST]);
  return { ...camera, azimuth: camera.azimuth - dx * PER_PIXEL, elevation };
}

/**
 * A camera zoomed by a factor, within bounds.
 * @param {Camera} camera
 * @param {number} times
 * @returns {Camera}
 */
export const zoomed = (camera, times) => ({ ...camera, zoom: within(camera.zoom * times, ZOOMS) });

/**
 * How wide and how high a box is seen, in units of its depth.
 * @param {Box} box
 * @param {Camera} camera
 */
export function extent({ width, depth, height }, { azimuth, elevation }) {
  const [across, along] = [Math.abs(Math.sin(azimuth)), Math.abs(Math.cos(azimuth))];
  return {
    across: width * across + depth * along,
    up: (width * along + depth * across) * Math.sin(elevation) + height * Math.cos(elevation),
  };
}

/**
 * The box that fills an area best as it is seen at first: a wide area has a wide box, a high one a high box.
 * @param {Area} area
 * @returns {Box}
 */
export function boxFor({ width, height }) {
  let best = { scale: 0, floor: 0, width: WIDTHS[0] };
  for (let wide = WIDTHS[0]; wide <= WIDTHS[1]; wide += 0.05) {
    const { across, up } = extent({ width: wide, depth: 1, height: HEIGHTS[0] }, FIRST);
    const scale = Math.min(width / across, height / up);
    if (scale * scale * wide > best.floor) best = { scale, floor: scale * scale * wide, width: wide };
  }
  const { up } = extent({ width: best.width, depth: 1, height: 0 }, FIRST);
  const high = within((height / best.scale - up) / Math.cos(FIRST.elevation), HEIGHTS);
  return { width: best.width, depth: 1, height: high };
}

/**
 * Pixels for each unit of the box: as many as at first, fewer where a turned box would leave the area.
 * @param {Box} box
 * @param {Camera} camera
 * @param {Area} area
 */
function scaleFor(box, camera, { width, height }) {
  const fits = [FIRST, camera].map((one) => {
    const { across, up } = extent(box, one);
    return Math.min(width / across, height / up);
  });
  return Math.max(1, Math.min(...fits)) * camera.zoom;
}

/** Coefficients of the map from the box to pixels: left = x0 + xx·x + xy·y, top = y0 + yx·x + yy·y + yz·z. */
export class Projection {
  /**
   * @param {Camera} camera
   * @param {Box} box
   * @param {Area} area in whose middle the box stands
   */
  constructor(camera, box, area) {
    const [sin, cos] = [Math.sin(camera.azimuth), Math.cos(camera.azimuth)];
    const [up, flat] = [Math.sin(camera.elevation), Math.cos(camera.elevation)];
    const scale = scaleFor(box, camera, area);
    this.xx = -sin * scale;
    this.xy = cos * scale;
    this.yx = cos * up * scale;
    this.yy = sin * up * scale;
    this.yz = -flat * scale;
    this.x0 = area.left + area.width / 2;
    this.y0 = area.top + area.height / 2 - (this.yz * box.height) / 2;
    /** Towards the viewer, a vector of length 1. */
    this.towards = { x: cos * flat, y: sin * flat, z: up };
  }

  /** @param {number} x @param {number} y */
  left(x, y) {
    return this.x0 + this.xx * x + this.xy * y;
  }

  /** @param {number} x @param {number} y @param {number} z */
  top(x, y, z) {
    return this.y0 + this.yx * x + this.yy * y + this.yz * z;
  }
}
