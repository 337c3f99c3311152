/**
 * Numbers of the study that ships with the app, for the tour's last steps: the same views that the Lab draws, read as
 * rows by γ and λ. Fetched once for the page.
 * @module learn/shipped_study
 */

import { request } from "../base/client.js";
import { isMeasured } from "../charts/chart.js";

/** @typedef {import("./types.d.ts").View} View */

/** @type {Map<string, Promise<View>>} */
const views = new Map();

/**
 * A view of a study's line: see sarqc/figures/view.py.
 * @param {string} study
 * @param {{method: string, bits: number, layer?: number}} line
 * @returns {Promise<View>}
 */
export function viewOf(study, { method, bits, layer }) {
  const query = new URLSearchParams({ method, bits: String(bits) });
  if (layer !== undefined) query.set("layer", String(layer));
  const path = `/studies/${encodeURIComponent(study)}/view?${query}`;
  const before = views.get(path);
  if (before) return before;
  /** @type {Promise<View>} */
  const view = request(path);
  views.set(path, view);
  view.catch(() => views.delete(path));
  return view;
}

/**
 * The views of both penalties, for the whole model.
 * @param {import("./types.d.ts").Given["pretrained"]} study
 */
export async function bothPenalties({ id, bits, ...lines }) {
  const [identity, saliency] = await Promise.all(
    [lines.identity, lines.saliency].map((method) => viewOf(id, { method, bits })),
  );
  return { identity, saliency };
}

/**
 * The λ at which each layer of a line has the least error on unseen text, over draws, at the first γ.
 * @param {string} study
 * @param {{method: string, bits: number}} line
 * @returns {Promise<Map<string, number>>} by the layer's name; layers without such errors are left out
 */
export async function bestByLayer(study, { method, bits }) {
  const query = new URLSearchParams({ method, bits: String(bits) });
  const { rows } = await request(`/studies/${encodeURIComponent(study)}/tables/map?${query}`);
  return leastByLayer(rows);
}

/**
 * @param {{layer: string, lambda: number, gamma: number|null, held_out?: number|null}[]} rows of the table of layers
 * @returns {Map<string, number>}
 */
export function leastByLayer(rows) {
  const gamma = rows[0]?.gamma;
  /** @type {Map<string, {lambda: number, error: number}>} */
  const least = new Map();
  for (const { layer, lambda, gamma: own, held_out: error } of rows) {
    if (own !== gamma || !isMeasured(error)) continue;
    if (error < (least.get(layer)?.error ?? Infinity)) least.set(layer, { lambda, error });
  }
  return new Map([...least].map(([layer, { lambda }]) => [layer, lambda]));
}

/**
 * The values of one column of a view's table over λ, at one γ; what was not measured is null.
 * @param {Pick<View, "lams"|"table">} view
 * @param {string} key
 */
export function column(view, key, gamma = 0) {
  /** @type {(number|null)[]} */
  const values = new Array(view.lams.length).fill(null);
  for (const row of view.table.rows) {
    const value = row[key];
    if (row.at[0] === gamma) values[row.at[1]] = typeof value === "number" ? value : null;
  }
  return values;
}

/**
 * The values of a quality over λ, each with the 95 % interval of its difference to the baseline put around it; null where
 * one draw can't say.
 * @param {Pick<View, "lams"|"table">} view
 * @param {"perplexity" | "accuracy"} quality
 * @returns {([low: number, high: number] | null)[]}
 */
export function endsOf(view, quality, gamma = 0) {
  const [values, differences, lows, highs] = ["", "_difference", "_low", "_high"].map((part) =>
    column(view, `${quality}${part}`, gamma),
  );
  return values.map((value, i) => {
    const [difference, low, high] = [differences[i], lows[i], highs[i]];
    if (value === null || difference === null || low === null) return null;
    // Of perplexities shares of the baseline's, of accuracies differences.
    const unit = quality === "perplexity" ? value / (1 + difference) : 1;
    return [value + unit * (low - difference), high === null ? Infinity : value + unit * (high - difference)];
  });
}

/**
 * Position of the smallest (or, with sign −1, largest) of values that are there, −1 where none is.
 * @param {(number|null)[]} values
 */
export function bestOf(values, sign = 1) {
  let [best, least] = [-1, Infinity];
  values.forEach((value, i) => {
    if (isMeasured(value) && sign * value < least) [best, least] = [i, sign * value];
  });
  return best;
}
