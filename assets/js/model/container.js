/**
 * Safetensors: eight bytes with the length of a header, the header (JSON: dtype, shape and place of each tensor), the numbers.
 * @module model/container
 */

/** @typedef {{dtype: string, shape: number[], bytes: DataView<ArrayBuffer>}} Stored a tensor as it is stored, little-endian */

const MOST_HEADER = 1 << 24; // bytes

/**
 * The tensors of a file by name.
 * @param {ArrayBuffer} buffer
 * @param {string} name of the file, for errors
 * @returns {Map<string, Stored>}
 */
export function tensorsOf(buffer, name) {
  const length = buffer.byteLength < 8 ? -1 : Number(new DataView(buffer).getBigUint64(0, true));
  const begin = 8 + length;
  if (length < 2 || length > MOST_HEADER || begin > buffer.byteLength)
    throw new Error(`${name} can’t be read: its header is cut off.`);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 8, length)));
  const tensors = new Map();
  for (const [tensor, { dtype, shape, data_offsets: ends }] of Object.entries(header)) {
    if (tensor === "__metadata__") continue;
    const [from, to] = ends;
    if (!(from >= 0 && from <= to && begin + to <= buffer.byteLength))
      throw new Error(`${name} can’t be read: ${tensor} is cut off.`);
    tensors.set(tensor, { dtype, shape, bytes: new DataView(buffer, begin + from, to - from) });
  }
  return tensors;
}

/**
 * A tensor that has to be there with a dtype and a number of elements.
 * @param {Map<string, Stored>} tensors
 * @param {string} name
 * @param {"F16"|"I32"|"I64"} dtype
 * @param {number} count
 */
export function tensorOf(tensors, name, dtype, count) {
  const stored = tensors.get(name);
  const size = { F16: 2, I32: 4, I64: 8 }[dtype];
  if (!stored) throw new Error(`${name} can’t be read: it is missing.`);
  if (stored.dtype !== dtype || stored.bytes.byteLength !== size * count)
    throw new Error(`${name} can’t be read: it is ${stored.dtype} [${stored.shape}] in place of ${count} × ${dtype}.`);
  return stored.bytes;
}
