/**
 * SHA-256 (FIPS 180-4) of a text in UTF-8. Browsers have it in secure contexts only, and a class may open the page by plain
 * HTTP.
 * @module base/sha256
 */

const BLOCK = 64; // bytes

/** The first `count` prime numbers. @param {number} count */
function primes(count) {
  /** @type {number[]} */
  const found = [];
  for (let candidate = 2; found.length < count; candidate += 1)
    if (found.every((prime) => candidate % prime)) found.push(candidate);
  return found;
}

/** The first 32 bits of the fraction of a number. @param {number} value */
const fraction = (value) => Math.floor((value - Math.floor(value)) * 2 ** 32) | 0;

const ROUNDS = primes(64).map((prime) => fraction(Math.cbrt(prime)));
const START = primes(8).map((prime) => fraction(Math.sqrt(prime)));

/** @param {number} word @param {number} by */
const turned = (word, by) => (word >>> by) | (word << (32 - by));

/**
 * The message with its end, to whole blocks: a bit, zeros, and its length in bits.
 * @param {Uint8Array} message
 */
function padded(message) {
  const bytes = new Uint8Array(BLOCK * Math.ceil((message.length + 9) / BLOCK));
  bytes.set(message);
  bytes[message.length] = 0x80;
  const end = new DataView(bytes.buffer, bytes.length - 8);
  end.setUint32(0, Math.floor(message.length / 2 ** 29));
  end.setUint32(4, (message.length * 8) >>> 0);
  return bytes;
}

/**
 * The 64 words of a block.
 * @param {DataView} view
 * @param {number} offset
 */
function schedule(view, offset) {
  const words = new Int32Array(64);
  for (let i = 0; i < 16; i += 1) words[i] = view.getInt32(offset + 4 * i);
  for (let i = 16; i < 64; i += 1) {
    const [early, late] = [words[i - 15], words[i - 2]];
    const first = turned(early, 7) ^ turned(early, 18) ^ (early >>> 3);
    const second = turned(late, 17) ^ turned(late, 19) ^ (late >>> 10);
    words[i] = (words[i - 16] + first + words[i - 7] + second) | 0;
  }
  return words;
}

/**
 * @param {string} text
 * @returns {string} 64 hexadecimal digits
 */
export function sha256(text) {
  const bytes = padded(new TextEncoder().encode(text));
  const view = new DataView(bytes.buffer);
  const state = Int32Array.from(START);
  for (let offset = 0; offset < bytes.length; offset += BLOCK) {
    const words = schedule(view, offset);
    let [a, b, c, d, e, f, g, h] = state;
    for (let i = 0; i < 64; i += 1) {
      const chosen = (e & f) ^ (~e & g);
      const first = (h + (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) + chosen + ROUNDS[i] + words[i]) | 0;
      const most = (a & b) ^ (a & c) ^ (b & c);
      const second = ((turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) + most) | 0;
      [h, g, f, e, d, c, b, a] = [g, f, e, (d + first) | 0, c, b, a, (first + second) | 0];
    }
    [a, b, c, d, e, f, g, h].forEach((word, i) => {
      state[i] += word;
    });
  }
  return [...state].map((word) => (word >>> 0).toString(16).padStart(8, "0")).join("");
}
