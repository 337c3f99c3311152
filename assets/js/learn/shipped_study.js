/**
 * Numbers of the study that ships with the app, for the tour's last steps: the same views that the Lab draws, read as
 * rows by γ and λ. Fetched once for the page.
 * @module learn/study
 */

import { asProblem, request } from "../base/client.js";
import { fill, h, problem } from "../base/dom.js";

const asked = new Map();

/**
 * A view of a study's line: see sarqc/figures/lab.py.
 * @param {string} study
 * @param {{method: string, bits: number, layer?: number}} line
 * @returns {Promise<object>}
 */
export function viewOf(study, line) {
  const query = new URLSearchParams(Object.entries(line).filter(([, value]) => value !== undefined));
  const path = `/studies/${encodeURIComponent(study)}/view?${query}`;
  if (!asked.has(path)) {
    const answer = request(path);
    answer.catch(() => asked.delete(path));
    asked.set(path, answer);
  }
  return asked.get(path);
}

/** The values of one column of a view's table over λ, at one γ; what was not measured is null. */
export function column(view, key, gamma = 0) {
  const found = new Array(view.lams.length).fill(null);
  for (const row of view.table.rows) if (row.at[0] === gamma) found[row.at[1]] = row[key] ?? null;
  return found;
}

/** Position of the smallest (or, with sign −1, largest) of values that are there. */
export function bestOf(values, sign = 1) {
  let best = -1;
  values.forEach((value, i) => {
    if (Number.isFinite(value) && (best < 0 || sign * value < sign * values[best])) best = i;
  });
  return best;
}

/** Says in a step's extra place that its numbers are on their way, or why they are not there. */
export async function whileLoading(stage, work) {
  const place = stage.part("extra");
  fill(place, h("p", { class: "loading", role: "status" }, "Fetching the study"));
  try {
    await work();
    fill(place);
    stage.update();
  } catch (error) {
    fill(place, problem(asProblem(error, `study ${stage.study.id}`)));
  }
}
