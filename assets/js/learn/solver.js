/**
 * The solver on layers small enough for a browser: the same Gram, saliency, factor and columns as sarqc/quantization,
 * in double precision, so that a page can solve a layer again while somebody drags it. tests/js/test_solver.py compares
 * both on a thousand layers. Matrices are arrays of rows. Nothing here changes its arguments.
 * @module learn/solver
 */

const FLOOR = 1e-8; // of a channel's share, as in sarqc/quantization/objective.py
const FIRST_FLOOR = 1e-6; // of the Gram's largest diagonal entry, as in sarqc/quantization/column_solver.py
const LAST_FLOOR = 1e2;

/**
 * @typedef {{bits: number, groupSize: (number|null), kind: ("symmetric"|"asymmetric")}} Grid
 * groupSize: input channels that share a scale, null for the whole row. The full-range grid is left out: it puts a
 * group's extreme weight exactly between two levels, where the last bit chooses, and two programs need not agree
 * @typedef {{gram: number[][], absMean: number[], nTokens: number}} Statistics
 * gram: Σ x xᵀ over tokens, (I, I); absMean: mean |x| of each channel, (I)
 * @typedef {{scale: number, zeroPoint: number}} Levels of a group: the level of a code is (code − zeroPoint) · scale
 * @typedef {{codes: number[], levels: number[], recon: number, sar: number}} Pair of codes with its levels and its losses
 */

/**
 * To the nearest whole number, ties to the even one.
 * @param {number} value
 */
export function roundEven(value) {
  const rounded = Math.round(value);
  return Math.abs(value % 1) === 0.5 && rounded % 2 !== 0 ? rounded - 1 : rounded;
}

/** @type {(value: number, low: number, high: number) => number} */
const clamp = (value, low, high) => Math.min(Math.max(value, low), high);

/** @type {(values: number[]) => number} */
const sum = (values) => values.reduce((a, b) => a + b, 0);

/** @type {(rows: number, columns: number) => number[][]} */
const zeros = (rows, columns) => Array.from({ length: rows }, () => new Array(columns).fill(0));

/**
 * Sums over tokens.
 * @param {number[][]} inputs (N, I), one row for each token
 * @returns {Statistics}
 */
export function statisticsOf(inputs) {
  const width = inputs[0].length;
  const gram = zeros(width, width);
  const absMean = new Array(width).fill(0);
  for (const token of inputs) {
    for (let i = 0; i < width; i += 1) {
      absMean[i] += Math.abs(token[i]);
      for (let j = 0; j <= i; j += 1) gram[i][j] += token[i] * token[j];
    }
  }
  for (let i = 0; i < width; i += 1) {
    absMean[i] /= inputs.length;
    for (let j = 0; j < i; j += 1) gram[j][i] = gram[i][j];
  }
  return { gram, absMean, nTokens: inputs.length };
}

/** @param {number[]} values */
function floored(values) {
  const mean = sum(values) / values.length;
  return mean > 0 ? values.map((value) => Math.max(value, FLOOR * mean)) : values.map(() => 1);
}

/**
 * mean |W| of each channel: weight (O, I) -> (I).
 * @param {number[][]} weight
 */
export function columnMeans(weight) {
  return weight[0].map((_, column) => sum(weight.map((row) => Math.abs(row[column]))) / weight.length);
}

/**
 * s(γ) = mean|x|^γ / mean|W|^(1−γ) of each channel, positive and finite.
 * @param {number[]} absMean (I)
 * @param {number[][]} weight (O, I)
 * @param {number} gamma 0 to 1
 * @returns {number[]} (I)
 */
export function saliency(absMean, weight, gamma) {
  const means = floored(columnMeans(weight));
  return floored(absMean).map((value, channel) => value ** gamma / means[channel] ** (1 - gamma));
}

/**
 * h̄, the mean of the Gram's diagonal.
 * @param {number[][]} gram (I, I)
 */
export function meanDiagonal(gram) {
  return sum(gram.map((row, i) => row[i])) / gram.length;
}

/**
 * S² = h̄ · s²/mean(s²), the weight of each channel in the drift penalty.
 * @param {number[][]} gram (I, I)
 * @param {number[]|null} s saliency (I), null for 1 everywhere
 * @returns {number[]} (I)
 */
export function driftWeights(gram, s = null) {
  const mean = meanDiagonal(gram);
  if (s === null) return gram.map(() => mean);
  const squares = s.map((value) => value * value);
  const middle = sum(squares) / squares.length;
  return squares.map((value) => (mean * value) / middle);
}

/**
 * G = gram + λ · diag(S²).
 * @param {number[][]} gram (I, I)
 * @param {number[]} weights S² (I)
 * @param {number} lam
 * @returns {number[][]} (I, I)
 */
export function regularisedGram(gram, weights, lam) {
  return gram.map((row, i) => row.map((value, j) => (i === j ? value + lam * weights[i] : value)));
}

/**
 * The lower Cholesky factor of a symmetric matrix, or null where it is not positive definite.
 * @param {number[][]} matrix (I, I)
 */
export function cholesky(matrix) {
  const size = matrix.length;
  const lower = zeros(size, size);
  for (let j = 0; j < size; j += 1) {
    let pivot = matrix[j][j];
    for (let k = 0; k < j; k += 1) pivot -= lower[j][k] * lower[j][k];
    if (!(pivot > 0)) return null;
    lower[j][j] = Math.sqrt(pivot);
    for (let i = j + 1; i < size; i += 1) {
      let value = matrix[i][j];
      for (let k = 0; k < j; k += 1) value -= lower[i][k] * lower[j][k];
      lower[i][j] = value / lower[j][j];
    }
  }
  return lower;
}

/**
 * F, unit upper, of G = R Rᵀ with F = R · diag(R)⁻¹. A diagonal of 0 counts as 1; where G has no factor, the smallest
 * of 1e-6, 1e-5, … times its largest diagonal entry that works is added.
 * @param {number[][]} gram the regularised Gram (I, I)
 * @returns {{unitUpper: number[][], diagonalFloor: number}}
 * @throws {RangeError} when no such number works
 */
export function factorise(gram) {
  const size = gram.length;
  const largest = Math.max(...gram.map((row, i) => row[i]));
  const flipped = zeros(size, size);
  for (let i = 0; i < size; i += 1) {
    for (let j = 0; j < size; j += 1) flipped[i][j] = gram[size - 1 - i][size - 1 - j];
    if (flipped[i][i] === 0) flipped[i][i] = 1;
  }
  let diagonalFloor = 0;
  let lower = cholesky(flipped);
  for (let relative = FIRST_FLOOR; lower === null; relative *= 10) {
    if (!(relative <= LAST_FLOOR)) throw new RangeError("the regularised Gram has no Cholesky factor");
    diagonalFloor = relative * largest;
    lower = cholesky(flipped.map((row, i) => row.map((value, j) => (i === j ? value + diagonalFloor : value))));
  }
  const unitUpper = zeros(size, size);
  for (let i = 0; i < size; i += 1) {
    for (let j = i; j < size; j += 1) {
      unitUpper[i][j] = lower[size - 1 - i][size - 1 - j] / lower[size - 1 - j][size - 1 - j];
    }
  }
  return { unitUpper, diagonalFloor };
}

/**
 * Smallest and largest code of a grid.
 * @param {Pick<Grid, "bits"|"kind">} grid
 * @returns {[number, number]}
 */
export function codeRange({ bits, kind }) {
  const lowest = kind === "asymmetric" ? 0 : -(2 ** (bits - 1));
  return [lowest, lowest + 2 ** bits - 1];
}

/**
 * Scale and zero point of a group of weights, from its extremes.
 * @param {number[]} group (K)
 * @param {Grid} grid
 * @returns {Levels}
 */
export function gridOf(group, { bits, kind }) {
  const levels = 2 ** bits - 1;
  const low = Math.min(...group);
  const high = Math.max(...group);
  const asymmetric = kind === "asymmetric";
  const span = asymmetric ? Math.max(high, 0) - Math.min(low, 0) : Math.max(Math.abs(low), Math.abs(high));
  const steps = asymmetric ? levels : (levels - 1) / 2;
  const scale = span === 0 ? 1 : Math.max(span / steps, Number.MIN_VALUE);
  return { scale, zeroPoint: asymmetric ? clamp(roundEven(-Math.min(low, 0) / scale), 0, levels) : 0 };
}

/**
 * Code of the level nearest to a value, ties to even.
 * @param {number} value
 * @param {Levels} levels
 * @param {[number, number]} range of the codes
 */
export function nearestCode(value, { scale, zeroPoint }, [lowest, highest]) {
  return clamp(roundEven(value / scale) + zeroPoint, lowest, highest);
}

/**
 * The column solver: columns in order, each compensating for the errors of those before it.
 * @param {number[][]} weight (O, I)
 * @param {number[][]} unitUpper F (I, I)
 * @param {Grid} grid
 * @param {Levels[][]|null} [fixed] (O, G), grids to use instead of those of the working copy
 * @returns {{codes: number[][], grids: Levels[][], dequantized: number[][],
 *   values: number[][]}} values: each weight as it was just before it was rounded
 */
export function solveColumns(weight, unitUpper, grid, fixed = null) {
  const width = unitUpper.length;
  const size = grid.groupSize ?? width;
  if (width % size) throw new RangeError(`groups of ${size} do not divide ${width} channels`);
  const range = codeRange(grid);
  const rows = weight.map((row, output) => {
    /** @type {number[]} */
    const delta = new Array(width).fill(0);
    /** @type {{codes: number[], grids: Levels[], dequantized: number[], values: number[]}} */
    const solved = { codes: [], grids: [], dequantized: [], values: [] };
    for (let first = 0; first < width; first += size) {
      const own = fixed ? fixed[output][first / size] : gridOf(workingCopy(row, delta, unitUpper, first, size), grid);
      solved.grids.push(own);
      for (let column = first; column < first + size; column += 1) {
        let gained = 0;
        for (let i = 0; i < column; i += 1) gained += delta[i] * unitUpper[i][column];
        const value = row[column] + gained;
        const code = nearestCode(value, own, range);
        const level = (code - own.zeroPoint) * own.scale;
        delta[column] = row[column] - level;
        solved.codes.push(code);
        solved.dequantized.push(level);
        solved.values.push(value);
      }
    }
    return solved;
  });
  return {
    codes: rows.map((row) => row.codes),
    grids: rows.map((row) => row.grids),
    dequantized: rows.map((row) => row.dequantized),
    values: rows.map((row) => row.values),
  };
}

/**
 * Columns as they stand when the first of them is reached: W_g + c T⁻¹, see sarqc/quantization/column_solver.py.
 * @param {number[]} row (I) of the weight
 * @param {number[]} delta row − levels of the columns before them
 * @param {number[][]} unitUpper F (I, I)
 * @param {number} first column of them
 * @param {number} size how many they are, K
 * @returns {number[]} (K)
 */
function workingCopy(row, delta, unitUpper, first, size) {
  /** @type {number[]} */
  const share = [];
  for (let k = 0; k < size; k += 1) {
    let carried = 0;
    for (let i = 0; i < first; i += 1) carried += delta[i] * unitUpper[i][first + k];
    for (let i = 0; i < k; i += 1) carried -= share[i] * unitUpper[first + i][first + k];
    share.push(carried);
  }
  return share.map((value, k) => row[first + k] + value);
}

/**
 * The column solver's way through one row: each column is rounded, and those to its right move so that the regularised
 * error of the row is the least that they can make it. All columns share one grid, that of the row.
 * @param {number[]} row (I)
 * @param {number[][]} unitUpper F (I, I)
 * @param {Grid} grid
 * @returns {{working: number[][], codes: number[], own: Levels}} working: the row with 0, 1, … I columns rounded, (I + 1, I)
 */
export function columnByColumn(row, unitUpper, grid) {
  const own = gridOf(row, grid);
  const range = codeRange(grid);
  /** @type {number[]} */
  const codes = [];
  /** @type {number[]} */
  const levels = [];
  const working = [[...row]];
  for (let column = 0; column < row.length; column += 1) {
    codes.push(nearestCode(working[column][column], own, range));
    levels.push((codes[column] - own.zeroPoint) * own.scale);
    const delta = levels.map((level, i) => row[i] - level);
    const rest = row.length - levels.length;
    working.push([...levels, ...workingCopy(row, delta, unitUpper, levels.length, rest)]);
  }
  return { working, codes, own };
}

/**
 * ΔW = Ŵ − W, (O, I).
 * @param {number[][]} dequantized
 * @param {number[][]} weight
 */
export function difference(dequantized, weight) {
  return dequantized.map((row, o) => row.map((value, i) => value - weight[o][i]));
}

/**
 * L_recon = tr(ΔW · gram · ΔWᵀ). Also the energy of a weight: reconLoss(weight, gram).
 * @param {number[][]} delta (O, I)
 * @param {number[][]} gram (I, I)
 */
export function reconLoss(delta, gram) {
  let total = 0;
  for (const row of delta) {
    for (let i = 0; i < row.length; i += 1) {
      let product = 0;
      for (let j = 0; j < row.length; j += 1) product += row[j] * gram[j][i];
      total += product * row[i];
    }
  }
  return total;
}

/**
 * L_sar = ‖ΔW · diag(S)‖².
 * @param {number[][]} delta (O, I)
 * @param {number[]} weights S² (I)
 */
export function sarLoss(delta, weights) {
  return sum(delta.map((row) => sum(row.map((value, i) => value * value * weights[i]))));
}

/**
 * One layer quantized at one λ, with its losses.
 * @param {number[][]} weight (O, I)
 * @param {Statistics} statistics of the calibration tokens
 * @param {Grid} grid
 * @param {{lam: number, gamma?: (number|null), staticGroups?: boolean}} method gamma null: identity, s = 1
 * @returns {{codes: number[][], scales: number[][], zeroPoints: number[][], dequantized: number[][], values: number[][],
 *   reconLoss: number, sarLoss: number, diagonalFloor: number}}
 */
export function quantizeLayer(weight, statistics, grid, { lam, gamma = null, staticGroups = false }) {
  const { gram, absMean } = statistics;
  const weights = driftWeights(gram, gamma === null ? null : saliency(absMean, weight, gamma));
  const { unitUpper, diagonalFloor } = factorise(regularisedGram(gram, weights, lam));
  const size = grid.groupSize ?? gram.length;
  const starts = gram.map((_, i) => i).filter((i) => i % size === 0);
  const fixed = staticGroups
    ? weight.map((row) => starts.map((first) => gridOf(row.slice(first, first + size), grid)))
    : null;
  const { codes, grids, dequantized, values } = solveColumns(weight, unitUpper, grid, fixed);
  const delta = difference(dequantized, weight);
  return {
    codes,
    scales: grids.map((row) => row.map((one) => one.scale)),
    zeroPoints: grids.map((row) => row.map((one) => one.zeroPoint)),
    dequantized,
    values,
    reconLoss: reconLoss(delta, gram),
    sarLoss: sarLoss(delta, weights),
    diagonalFloor,
  };
}

/**
 * Every pair of levels that two weights may take, with both losses: what can still be searched without missing any.
 * @param {number[]} weight (2)
 * @param {number[][]} gram (2, 2)
 * @param {Levels} own
 * @param {Grid} grid
 * @returns {Pair[]}
 */
export function everyPair(weight, gram, own, grid) {
  const [lowest, highest] = codeRange(grid);
  const weights = driftWeights(gram);
  const pairs = [];
  for (let a = lowest; a <= highest; a += 1) {
    for (let b = lowest; b <= highest; b += 1) {
      const levels = [a, b].map((code) => (code - own.zeroPoint) * own.scale);
      const delta = [levels.map((level, i) => level - weight[i])];
      pairs.push({ codes: [a, b], levels, recon: reconLoss(delta, gram), sar: sarLoss(delta, weights) });
    }
  }
  return pairs;
}

/**
 * The winners as λ grows from 0, each with the λ from which it wins: the lower convex hull of (sar, recon), exactly.
 * @template {{recon: number, sar: number}} C
 * @param {C[]} candidates at least one
 * @returns {{from: number, candidate: C}[]} first at λ = 0; of several that are equally good there, the nearest one
 */
export function winners(candidates) {
  let current = candidates.reduce((best, one) =>
    one.recon < best.recon || (one.recon === best.recon && one.sar < best.sar) ? one : best,
  );
  const path = [{ from: 0, candidate: current }];
  for (;;) {
    let [next, from] = [current, Infinity];
    for (const one of candidates) {
      if (one.sar >= current.sar) continue;
      const crossing = (one.recon - current.recon) / (current.sar - one.sar);
      if (crossing < from || (crossing === from && one.sar < next.sar)) [next, from] = [one, crossing];
    }
    if (next === current) return path;
    path.push({ from, candidate: next });
    current = next;
  }
}
