/**
 * Numbers of 16 bits (IEEE binary16), which checkpoints store: read, and rounded to.
 * @module model/half
 */

/**
 * Value of a number by its bits.
 * @param {number} bits
 */
export function halfValue(bits) {
  const [sign, exponent, fraction] = [bits & 0x8000 ? -1 : 1, (bits >> 10) & 31, bits & 1023];
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (exponent ? 2 ** (exponent - 25) * (1024 + fraction) : 2 ** -24 * fraction);
}

/** Values by bits. */
const VALUES = new Float32Array(1 << 16);
for (let bits = 0; bits < VALUES.length; bits += 1) VALUES[bits] = halfValue(bits);

/**
 * Stored numbers as single precision, in the place given.
 * @param {DataView} bytes
 * @param {Float32Array} into
 */
export function readHalves(bytes, into) {
  for (let i = 0; i < into.length; i += 1) into[i] = VALUES[bytes.getUint16(2 * i, true)];
}

/**
 * The nearest number of 16 bits, a tie to the even one.
 * @param {number} value of at most 6e4 in size
 */
export function nearestHalf(value) {
  const size = Math.abs(value);
  const step = 2 ** Math.max(Math.floor(Math.log2(size)) - 10, -24); // 0: the smallest step, since log2 is −Infinity
  const steps = size / step;
  const below = Math.floor(steps);
  const isUp = steps - below > 0.5 || (steps - below === 0.5 && below % 2 === 1);
  return Math.sign(value) * (below + (isUp ? 1 : 0)) * step;
}
