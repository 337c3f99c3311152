/**
 * Weights of a model from its files: stored numbers of 16 bits, and codes with scales and zero points as the format
 * `pack-quantized` of compressed-tensors has them.
 * @module model/weights
 */

import { tensorOf } from "./container.js";
import { NAMES, shapesOf } from "./llama.js";

/** @import { Stored } from "./container.js" */
/** @import { Common, Linears, Sizes } from "./llama.js" */
/** @typedef {(count: number) => Float32Array} Take */

const LINEARS = /** @type {(keyof Linears)[]} */ (Object.keys(NAMES));

/**
 * Memory for the linears of every block.
 * @param {Sizes} sizes
 * @param {Take} take
 * @returns {Linears[]}
 */
export function emptyLinears(sizes, take) {
  const shapes = shapesOf(sizes);
  return Array.from(
    { length: sizes.blocks },
    () =>
      /** @type {Linears} */ (
        Object.fromEntries(LINEARS.map((name) => [name, take(shapes[name][0] * shapes[name][1])]))
      ),
  );
}

/**
 * Norms and embedding of a checkpoint.
 * @param {Map<string, Stored>} tensors
 * @param {Sizes} sizes
 * @param {Take} take
 * @returns {Common}
 */
export function commonOf(tensors, sizes, take) {
  const read = (/** @type {string} */ name, /** @type {number} */ count) => {
    const into = take(count);
    readHalves(tensorOf(tensors, name, "F16", count), into);
    return into;
  };
  const ofBlocks = Array.from({ length: sizes.blocks }, (_, i) =>
    ["input_layernorm", "post_attention_layernorm"].map((name) => `model.layers.${i}.${name}.weight`),
  );
  return {
    norms: [...ofBlocks.flat(), "model.norm.weight"].map((name) => read(name, sizes.width)),
    embedding: read("model.embed_tokens.weight", sizes.words * sizes.width),
  };
}

/**
 * Reads the float linears of a checkpoint.
 * @param {Map<string, Stored>} tensors
 * @param {Linears[]} blocks
 */
export function readLinears(tensors, blocks) {
  eachLinear(blocks, (name, into) => readHalves(tensorOf(tensors, `${name}.weight`, "F16", into.length), into));
}

/**
 * Numbers of 16 bits (IEEE binary16) in single precision, in the place given.
 * @param {DataView} bytes
 * @param {Float32Array} into
 */
function readHalves(bytes, into) {
  for (let i = 0; i < into.length; i += 1) into[i] = bytes.getFloat16(2 * i, true);
}

/**
 * Reads quantized linears: (code − zero point) · scale / channel scale, rounded to 16 bits as the study's weights were. Only
 * a scale search has channel scales.
 * @param {Map<string, Stored>} tensors
 * @param {Sizes} sizes
 * @param {number} bits of a code
 * @param {Linears[]} blocks
 */
export function readCodes(tensors, sizes, bits, blocks) {
  const shapes = shapesOf(sizes);
  eachLinear(blocks, (name, into, kind) => {
    const [rows, width] = shapes[kind];
    const groups = (tensors.get(`${name}.weight_scale`)?.shape ?? [0, 0])[1];
    const words = wordsOf(tensorOf(tensors, `${name}.weight_packed`, "I32", rows * Math.ceil((width * bits) / 32)));
    const scales = tensorOf(tensors, `${name}.weight_scale`, "F16", rows * groups);
    const zeros = wordsOf(
      tensorOf(tensors, `${name}.weight_zero_point`, "I32", Math.ceil((rows * bits) / 32) * groups),
    );
    const own = `${name}.channel_scale`;
    const channels = tensors.has(own) ? tensorOf(tensors, own, "F16", width) : null;
    unpack({ rows, width, groups, bits }, words, scales, zeros, channels, into);
  });
}

/** @param {Linears[]} blocks @param {(name: string, into: Float32Array, kind: keyof Linears) => void} read */
function eachLinear(blocks, read) {
  blocks.forEach((block, i) => {
    for (const kind of LINEARS) read(`model.layers.${i}.${NAMES[kind]}`, block[kind], kind);
  });
}

/** @param {DataView} bytes */
function wordsOf(bytes) {
  const words = new Uint32Array(bytes.byteLength / 4);
  for (let i = 0; i < words.length; i += 1) words[i] = bytes.getUint32(4 * i, true);
  return words;
}

/**
 * The number at a place of a string of bits, lowest first; it may lie across two words.
 * @param {Uint32Array} words
 * @param {number} first word of the string
 * @param {number} step from one word of the string to the next
 * @param {number} place of the number's lowest bit
 * @param {number} bits
 */
export function bitsAt(words, first, step, place, bits) {
  const at = first + (place >>> 5) * step;
  const low = place & 31;
  const above = low + bits > 32 ? words[at + step] << (32 - low) : 0;
  return ((words[at] >>> low) | above) & ((1 << bits) - 1);
}

/**
 * @param {{rows: number, width: number, groups: number, bits: number}} layout
 * @param {Uint32Array} words of the codes, each row a string of bits
 * @param {DataView} scales (rows × groups)
 * @param {Uint32Array} zeros each group a string of bits down the rows
 * @param {DataView|null} channels (width), by which columns are divided; null for 1
 * @param {Float32Array} into
 */
function unpack({ rows, width, groups, bits }, words, scales, zeros, channels, into) {
  const [perRow, size] = [words.length / rows, width / groups];
  const scale = new Float32Array(rows * groups);
  readHalves(scales, scale);
  const levels = new Float32Array(1 << bits);
  const channel = channels && new Float32Array(width);
  const rounded = channel ? Math.fround : Math.f16round;
  if (channel) readHalves(/** @type {DataView} */ (channels), channel);
  for (let row = 0; row < rows; row += 1)
    for (let group = 0; group < groups; group += 1) {
      const zero = bitsAt(zeros, group, groups, row * bits, bits);
      for (let code = 0; code < levels.length; code += 1)
        levels[code] = rounded((code - zero) * scale[row * groups + group]);
      for (let i = group * size; i < (group + 1) * size; i += 1) {
        const level = levels[bitsAt(words, row * perRow, 1, i * bits, bits)];
        into[row * width + i] = channel ? Math.f16round(Math.fround(level / channel[i])) : level;
      }
    }
}
