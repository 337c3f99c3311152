/**
 * Memory for a model's numbers, and products of matrices with vectors in it: by a kernel in WebAssembly, or, where a browser
 * has none with vectors of four numbers, in plain JavaScript, to the same bits in some four times the time.
 * @module model/arithmetic
 */

import { KERNEL } from "./kernel.js";

/** @typedef {(x: Float32Array, w: Float32Array, y: Float32Array, vectors: number, rows: number, width: number) => void} Products */
/**
 * @typedef {object} Arithmetic
 * @property {(count: number) => Float32Array} take numbers of its memory, all zero
 * @property {Products} products y (vectors × rows) of x (vectors × width) and w (rows × width), all from `take`; width is a
 *   multiple of 4
 * @property {boolean} isFast whether the kernel computes
 */

const PAGE = 1 << 16; // bytes
const ALIGNED = 16;

/** Bytes of `take` for so many numbers. @param {number} count */
export const bytesOf = (count) => Math.ceil((4 * count) / ALIGNED) * ALIGNED;

/**
 * Arithmetic with the kernel.
 * @param {number} bytes of all that will be taken
 * @returns {Arithmetic}
 */
export function withKernel(bytes) {
  const memory = new WebAssembly.Memory({ initial: Math.ceil(bytes / PAGE) });
  const binary = Uint8Array.from(atob(KERNEL), (letter) => letter.charCodeAt(0));
  const { exports } = new WebAssembly.Instance(new WebAssembly.Module(binary), { room: { memory } });
  const kernel = /** @type {(...places: number[]) => void} */ (exports.products);
  return {
    take: taker(/** @type {ArrayBuffer} */ (memory.buffer)),
    products: (x, w, y, vectors, rows, width) => kernel(x.byteOffset, w.byteOffset, y.byteOffset, vectors, rows, width),
    isFast: true,
  };
}

/**
 * Arithmetic in JavaScript alone.
 * @param {number} bytes
 * @returns {Arithmetic}
 */
export function inScript(bytes) {
  return { take: taker(new ArrayBuffer(bytes)), products, isFast: false };
}

/** @param {ArrayBuffer} buffer */
function taker(buffer) {
  let free = 0;
  return (/** @type {number} */ count) => {
    const taken = new Float32Array(buffer, free, count);
    free += bytesOf(count);
    return taken;
  };
}

/** The kernel's sums in its order. @type {Products} */
function products(x, w, y, vectors, rows, width) {
  const single = Math.fround;
  for (let row = 0; row < rows; row += 1)
    for (let vector = 0; vector < vectors; vector += 1) {
      let [s0, s1, s2, s3] = [0, 0, 0, 0];
      for (let i = row * width, j = vector * width, end = i + width; i < end; i += 4, j += 4) {
        s0 = single(s0 + single(x[j] * w[i]));
        s1 = single(s1 + single(x[j + 1] * w[i + 1]));
        s2 = single(s2 + single(x[j + 2] * w[i + 2]));
        s3 = single(s3 + single(x[j + 3] * w[i + 3]));
      }
      y[vector * rows + row] = single(single(s0 + s1) + single(s2 + s3));
    }
}
