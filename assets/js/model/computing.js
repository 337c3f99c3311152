/**
 * Codes of points that a study does not keep, computed by runs on this host: each run's own study keeps those of its point.
 * @module model/computing
 */

import { asProblem, listen, Problem, request } from "../base/client.js";
import { ENDS } from "../base/contract.js";
import { METHODS, RECIPE_FIELDS } from "../base/recipe_contract.js";

/** @import { KeptPoint, Run, RunEvent, View, ViewLine } from "../base/types.d.ts" */

/** @typedef {KeptPoint & {of: string}} ComputedPoint with the study that has its file */
/** @typedef {{done: number, of: number}} Progress layers solved */

// What measures a model, beside the settings that make its codes.
const MEASURING = Object.values(RECIPE_FIELDS).flatMap(({ section, key }) => (section === "measure" ? [key] : []));

/**
 * Whether a run of a line's recipe has codes with which pages run the model: what a recipe turns or tunes beside the linears
 * is not in their codes.
 * @param {Pick<ViewLine, "grid">} line
 * @param {Record<string, any>} recipe
 */
export const givesCodes = ({ grid }, recipe) =>
  grid === "asymmetric" &&
  !Object.values(recipe).includes("auto") &&
  [recipe.rotate ?? "none", recipe.distill_norms ?? false].every((value) => value === "none" || value === false);

/** Whether a run takes half an hour of a processor, by learned rounding. @param {Record<string, any>} recipe */
export const takesLong = ({ method }) => METHODS[method]?.unit === "block";

/**
 * The recipe of a point without what only measures it, and with the inputs of the study's layers.
 * @param {Record<string, any>} recipe
 * @param {string} prefix of the study
 */
export const codesAlone = (recipe, prefix) => ({
  ...Object.fromEntries(Object.entries(recipe).filter(([name]) => !MEASURING.includes(name))),
  baseline: false,
  inputs_from: prefix,
});

/** Runs whose codes are waited for. */
export class Computing {
  /**
   * @param {Record<string, any>[]} recipes of the points
   * @param {{progress: (progress: Progress) => void, done: (points: ComputedPoint[]) => void,
   *   failed: (what: string) => void}} hear
   */
  constructor(recipes, hear) {
    this.hear = hear;
    this.isOver = false;
    /** @type {Set<string>} */
    this.runs = new Set(); // that have not ended
    /** @type {{close: () => void}[]} */
    this.streams = [];
    /** @type {Progress[]} */
    this.layers = recipes.map(() => ({ done: 0, of: 0 }));
    this.ended = this.compute(recipes);
  }

  /** @param {Record<string, any>[]} recipes */
  async compute(recipes) {
    try {
      const points = await Promise.all(recipes.map((recipe, number) => this.point(recipe, number)));
      if (!this.isOver) this.hear.done(points);
    } catch (error) {
      const { what, where, remedy } = asProblem(error);
      if (!this.isOver) this.hear.failed([where ? `${where}: ${what}` : what, remedy].filter(Boolean).join(". "));
      this.stop();
    }
  }

  /** @param {Record<string, any>} recipe @param {number} number @returns {Promise<ComputedPoint>} */
  async point(recipe, number) {
    /** @type {Run} */
    const made = await request(takesLong(recipe) ? "/runs" : "/runs?lane=preview", { method: "POST", body: recipe });
    this.runs.add(made.id);
    if (this.isOver) this.stop();
    await this.finished(made.id, number);
    /** @type {Run} */
    const run = await request(`/runs/${encodeURIComponent(made.id)}`);
    const study = run.study_id ?? "";
    /** @type {View} */
    const view = await request(`/studies/${encodeURIComponent(study)}/view`);
    const point = view.study.kept?.points[0];
    if (!point)
      throw new Problem({
        what: "The run has no codes with which pages can run the model",
        where: made.id,
        remedy: "Choose another line.",
      });
    return { ...point, of: study };
  }

  /** Resolves when a run has finished. @param {string} run @param {number} number */
  finished(run, number) {
    return new Promise((resolve, reject) => {
      const stream = listen(`/runs/${encodeURIComponent(run)}/events`, {
        message: (/** @type {RunEvent} */ event) => {
          if (event.type === "started") this.count(number, { done: event.finished_layers, of: event.layers.length });
          if (event.type === "layer_done") this.count(number, { done: event.index + 1, of: event.total });
          if (!ENDS.includes(event.type)) return;
          stream.close();
          this.runs.delete(run);
          if (event.type === "finished") resolve(undefined);
          else reject(new Problem({ what: "The run did not finish.", where: run, ...reasonOf(event) }));
        },
      });
      this.streams.push(stream);
    });
  }

  /** @param {number} number @param {Progress} layers */
  count(number, layers) {
    this.layers[number] = layers;
    const sum = (/** @type {keyof Progress} */ name) => this.layers.reduce((all, each) => all + each[name], 0);
    this.hear.progress({ done: sum("done"), of: Math.max(...this.layers.map(({ of }) => of)) * this.layers.length });
  }

  /** Ends the runs. */
  stop() {
    this.isOver = true;
    for (const stream of this.streams) stream.close();
    for (const run of this.runs) request(`/runs/${encodeURIComponent(run)}/cancel`, { method: "POST" }).catch(() => {}); // it ends by itself
    this.runs.clear();
  }
}

/** @param {RunEvent} event the last */
const reasonOf = (event) =>
  event.type === "failed" ? { what: event.what, where: event.where, remedy: event.remedy } : {};
