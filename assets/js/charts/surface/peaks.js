/**
 * The peaks of a surface that are worth a label. A peak is clearly above the rest where it exceeds the median of all cells
 * by more than six times their median absolute deviation, and no neighbour is higher.
 * @module surface/peaks
 */

const DEVIATIONS = 6;
const MOST = 3;
const APART = 2; // columns between two peaks that have labels, which name columns

/** @typedef {{row: number, column: number, value: number}} Peak */

/**
 * The highest peaks, at most three, the highest first.
 * @param {Float32Array} values by rows
 * @param {number} columns
 * @returns {Peak[]}
 */
export function peaksOf(values, columns) {
  const middle = median(values);
  const least = middle + DEVIATIONS * median(values.map((value) => Math.abs(value - middle)));
  const rows = values.length / columns;
  /** @type {Peak[]} */
  const peaks = [];
  for (let at = 0; at < values.length; at += 1) {
    const [row, column, value] = [Math.floor(at / columns), at % columns, values[at]];
    if (value > least && isHighest(values, row, column, rows, columns)) peaks.push({ row, column, value });
  }
  peaks.sort((one, other) => other.value - one.value);
  /** @type {Peak[]} */
  const chosen = [];
  for (const peak of peaks) {
    if (chosen.length === MOST) break;
    if (chosen.every(({ column }) => Math.abs(column - peak.column) > APART)) chosen.push(peak);
  }
  return chosen;
}

/** @param {Float32Array} values @param {number} row @param {number} column @param {number} rows @param {number} columns */
function isHighest(values, row, column, rows, columns) {
  const own = values[row * columns + column];
  for (let r = Math.max(0, row - 1); r <= Math.min(rows - 1, row + 1); r += 1)
    for (let c = Math.max(0, column - 1); c <= Math.min(columns - 1, column + 1); c += 1)
      if (values[r * columns + c] > own) return false;
  return true;
}

/** @param {Float32Array} values */
function median(values) {
  const sorted = values.slice().sort();
  const half = sorted.length >> 1;
  return sorted.length % 2 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}
