/**
 * Random numbers that a link can repeat.
 * @module learn/random
 */

/**
 * A generator of numbers in [0, 1), the same for the same seed.
 * @param {number} seed a whole number
 */
function uniforms(seed) {
  let state = (Math.imul(seed + 1, 2654435761) ^ 0x9e3779b9) >>> 0;
  return () => {
    // xorshift with a multiplication at the end, 32 bits
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    state >>>= 0;
    return (Math.imul(state, 1597334677) >>> 0) / 2 ** 32;
  };
}

/**
 * A generator of normal numbers, mean 0 and variance 1, the same for the same seed.
 * @param {number} seed a whole number
 */
export function normals(seed) {
  const uniform = uniforms(seed);
  for (let i = 0; i < 8; i += 1) uniform(); // neighbouring seeds part ways
  return () => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());
}
