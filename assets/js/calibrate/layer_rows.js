/**
 * The layers' reports as rows of tables, and what “auto” chose in them. Pure.
 * @module layer_rows
 */

import { SIGNS } from "../base/contract.js";
import { count, format, plain } from "../base/format.js";

/** @typedef {{name: string, report: Record<string, any>}} LayerReport */
/** @typedef {{name: string, short: string, flags: string | null} & Record<string, any>} LayerRow */
/** @typedef {{key: string, title?: string, show?: (row: any) => string}} LayerColumn */

const NO_SCALES = "none"; // in files, where a search has kept the weights as they are

/** @param {any} value */
const known = (value) => value ?? null;
/** @param {number} value */
const rounded = (value) => plain(Number(Number(value).toPrecision(3)));
/** @param {string} key @returns {(row: LayerRow) => string} */
const significant = (key) => (row) => format(row[key], "significant");
/** @param {string} key @returns {(row: LayerRow) => string} */
const asIs = (key) => (row) => format(row[key], "plain");

/**
 * Columns of the table of layers; those without a title are only in the file.
 * @type {LayerColumn[]}
 */
export const LAYER_COLUMNS = [
  { key: "layer" },
  { key: "relative_recon", title: "Reconstruction error", show: significant("relative_recon") },
  { key: "relative_held_out", title: "Held out", show: significant("relative_held_out") },
  { key: "relative_drift", title: "Drift", show: significant("relative_drift") },
  { key: "lam", title: "λ", show: asIs("lam") },
  { key: "gamma", title: "γ", show: asIs("gamma") },
  { key: "shift_strength", title: "α of the shift", show: asIs("shift_strength") },
  { key: "validation" },
  { key: "alpha", title: "α", show: asIs("alpha") },
  { key: "lam_low", title: "Same choice for λ", show: interval },
  { key: "lam_high" },
  {
    key: "best_epoch",
    title: "Epoch",
    show: (row) => (row.best_epoch === null ? "–" : `${row.best_epoch} of ${row.epochs}`),
  },
  { key: "epochs" },
  {
    key: "best_step",
    title: "Step",
    show: (row) => (row.best_step === null ? "–" : `${row.best_step} of ${row.steps_made}`),
  },
  { key: "steps_made" },
  { key: "initial_objective" },
  {
    key: "objective",
    title: "Objective",
    show: (row) =>
      `${row.initial_objective === null ? "" : `${format(row.initial_objective, "significant")} → `}${format(row.objective, "significant")}`,
  },
  { key: "n_tokens", title: "Tokens", show: (row) => (row.n_tokens === null ? "–" : count(row.n_tokens)) },
  { key: "flags" },
];

/** @param {LayerRow} row */
function interval({ lam_low: low, lam_high: high }) {
  if (low === null) return "–";
  return high === null ? `${rounded(low)} and more` : `${rounded(low)} to ${rounded(high)}`;
}

/**
 * One row for each layer, in the order given. λ and γ stand in it only where the layer chose them.
 * @param {LayerReport[]} layers
 * @returns {LayerRow[]}
 */
export function layerRows(layers) {
  const short = shortNames(layers.map((layer) => layer.name));
  const all = layers.reduce((most, { report }) => Math.max(most, report.n_tokens ?? 0), 0);
  const uneven = layers.some(({ report }) => (report.n_tokens ?? all) < all); // as with experts
  return layers.map(({ name, report }, index) => {
    const chosen = report.chosen ?? {};
    const auto = Boolean(report.candidates?.length);
    const [low, high] = chosen.lam_interval ?? [null, null];
    return {
      name,
      layer: name,
      short: short[index],
      relative_recon: known(report.relative_recon),
      relative_held_out: known(report.relative_held_out),
      relative_drift: known(report.relative_drift),
      lam: auto ? known(chosen.lam) : null,
      gamma: auto ? known(chosen.gamma) : null,
      shift_strength: auto ? known(chosen.shift_strength) : null,
      validation: known(winner(report)?.validation),
      alpha: "alpha" in chosen ? (chosen.alpha ?? NO_SCALES) : null,
      lam_low: known(low),
      lam_high: known(high),
      epochs: "best_epoch" in chosen ? known(chosen.epochs) : null,
      best_epoch: known(chosen.best_epoch),
      best_step: known(chosen.best_step),
      steps_made: known(chosen.steps_made),
      objective: known(chosen.objective),
      initial_objective: known(chosen.initial_objective),
      n_tokens: uneven ? known(report.n_tokens) : null,
      flags: report.flags?.length
        ? report.flags.map((/** @type {string} */ flag) => flag.replaceAll("_", " ")).join(", ")
        : null,
    };
  });
}

/**
 * The rows with the largest error on unseen text, or where there is none on calibration text; the largest first.
 * @template {Record<string, any>} Row
 * @param {Row[]} rows
 * @param {number} most
 */
export function worstRows(rows, most) {
  const key = rows.some((row) => row.relative_held_out !== null) ? "relative_held_out" : "relative_recon";
  return [...rows].sort((a, b) => (b[key] ?? -1) - (a[key] ?? -1)).slice(0, most);
}

/**
 * Names without what all of them begin with: “0.self_attn.q_proj” instead of “model.layers.0.self_attn.q_proj”.
 * @param {string[]} names
 */
export function shortNames(names) {
  const parts = names.map((name) => name.split("."));
  let same = 0;
  while (parts.length > 1 && parts.every((part) => part.length > same + 1 && part[same] === parts[0][same])) same += 1;
  return parts.map((part) => part.slice(same).join("."));
}

/**
 * The candidate that a layer settled on, or undefined.
 * @param {Record<string, any>} report
 */
function winner({ candidates, chosen }) {
  return candidates?.find(
    (/** @type {any} */ one) =>
      one.lam === chosen?.lam &&
      known(one.gamma) === known(chosen?.gamma) &&
      known(one.shift_strength) === known(chosen?.shift_strength),
  );
}

/**
 * For each layer that chose: its pair, the error by which it was judged, and how much less that is than the median's
 * and the worst candidate's, as shares of those.
 * @param {LayerReport[]} layers
 */
export function judgements(layers) {
  const short = shortNames(layers.map((layer) => layer.name));
  return layers.flatMap(({ name, report }, index) => {
    const best = winner(report);
    if (!best) return [];
    const errors = report.candidates
      .map((/** @type {any} */ one) => one.validation)
      .filter((/** @type {unknown} */ value) => typeof value === "number");
    errors.sort((/** @type {number} */ a, /** @type {number} */ b) => a - b);
    /** @param {number} other @returns {number | null} */
    const less = (other) => (other > 0 && best.validation !== null ? (other - best.validation) / other : null);
    return {
      name,
      short: short[index],
      lam: best.lam,
      gamma: known(best.gamma),
      shift_strength: known(best.shift_strength),
      validation: best.validation,
      overMedian: less(median(errors)),
      overWorst: less(errors.at(-1)),
    };
  });
}

/** @param {number[]} sorted */
function median(sorted) {
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/** @typedef {{key: string, sign: string, values: number[]}} Axis of what was compared */

/**
 * How many layers chose each pair, over the first two of λ, γ and α that had several candidates: the first along the
 * columns, the second along the rows.
 * @param {LayerReport[]} layers
 * @returns {{across: Axis, down: Axis|null, counts: number[][]}}
 */
export function pairCounts(layers) {
  const every = layers.flatMap(({ report }) => report.candidates ?? []);
  const all = Object.entries(SIGNS).map(([key, sign]) => ({
    key,
    sign,
    values: [...new Set(every.map((one) => known(one[key])))].sort((a, b) => a - b),
  }));
  const [across = all[0], down = null] = all.filter(({ values }) => values.length > 1);
  const counts = (down?.values ?? [null]).map(() => across.values.map(() => 0));
  for (const { report } of layers) {
    const best = winner(report);
    const row = down && best ? down.values.indexOf(known(best[down.key])) : 0;
    if (best) counts[row][across.values.indexOf(known(best[across.key]))] += 1;
  }
  return { across, down, counts };
}
