/**
 * Memory for a model's numbers, and products of matrices with vectors in it: by a kernel in WebAssembly, or, where a browser
 * has none with vectors of four numbers, in plain JavaScript, to the same bits in several times the time.
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

/** Bytes that `take` needs for a count of numbers. @param {number} count */
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

/**
 * The kernel's sums in its order, of two vectors at a time: processors do independent sums beside each other.
 * @type {Products}
 */
function products(x, w, y, vectors, rows, width) {
  for (let row = 0; row < rows; row += 1)
    for (let vector = 0; vector < vectors; vector += 2) {
      const other = Math.min(vector + 1, vectors - 1); // of an odd number the last twice
      pair(x, w, row * width, vector * width, other * width, width);
      y[vector * rows + row] = sums[0];
      y[other * rows + row] = sums[1];
    }
}

const sums = new Float32Array(2);
const single = Math.fround;

/** @param {Float32Array} x @param {Float32Array} w @param {number} i @param {number} j @param {number} k @param {number} width */
function pair(x, w, i, j, k, width) {
  let s0 = 0;
  let s1 = 0;
  let s2 = 0;
  let s3 = 0;
  let t0 = 0;
  let t1 = 0;
  let t2 = 0;
  let t3 = 0;
  for (let n = 0; n < width; n += 4) {
    const w0 = w[i + n];
    const w1 = w[i + n + 1];
    const w2 = w[i + n + 2];
    const w3 = w[i + n + 3];
    s0 = single(s0 + single(x[j + n] * w0));
    s1 = single(s1 + single(x[j + n + 1] * w1));
    s2 = single(s2 + single(x[j + n + 2] * w2));
    s3 = single(s3 + single(x[j + n + 3] * w3));
    t0 = single(t0 + single(x[k + n] * w0));
    t1 = single(t1 + single(x[k + n + 1] * w1));
    t2 = single(t2 + single(x[k + n + 2] * w2));
    t3 = single(t3 + single(x[k + n + 3] * w3));
  }
  sums[0] = single(single(s0 + s1) + single(s2 + s3));
  sums[1] = single(single(t0 + t1) + single(t2 + t3));
}
