/**
 * Compute here: one layer of the shown model is solved at many λ by a preview run. Its points are drawn as they arrive,
 * then its study takes the page.
 * @module compute
 */

import { asProblem, listen, request } from "../base/client.js";
import { METHODS } from "../base/recipe_contract.js";
import { layerAt } from "../explorer/state.js";
import { lamsOf } from "./preview.js";

/** @typedef {import("../base/types.d.ts").Recipe} Recipe */
/** @typedef {import("./state.js").State} State */
/** @typedef {import("./state.js").Action} Action */

/** λ at which the layer is solved, denser than most studies. */
export const LAMS = [0, 0.005, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3];
const HELD_OUT = 8; // sequences on which unseen text is judged
/** What is taken over from the recipe of the study's model. @type {(keyof Recipe)[]} */
const KEPT = ["revision", "calibration", "samples", "length", "sampling", "seed", "indivisible"];

/**
 * The recipe of the preview, or null where there is nothing to compute: no layer chosen, a line without λ, a method
 * that works on several linears at once, or a model whose calibration text is not known.
 * @param {import("../explorer/state.js").View} view
 * @param {import("../explorer/state.js").Point} at the point shown
 * @param {Partial<Recipe>|undefined} suggested the recipe to begin with of GET /models, for the study's model
 * @param {{unit: string, tunes: string[]}|undefined} method what METHODS says of it
 */
export function recipeFor(view, at, suggested, method) {
  const layer = view.layer === null ? null : layerAt(view, view.layer);
  const base = view.study.recipe ?? suggested;
  if (!layer || !base?.calibration || !view.line.has_lam || method?.unit !== "layer") return null;
  const { line } = view;
  const gamma = view.gammas[at.gamma];
  const lambda = view.lams[at.lambda];
  return /** @type {Partial<Recipe>} */ ({
    ...Object.fromEntries(KEPT.filter((name) => base[name] !== undefined).map((name) => [name, base[name]])),
    model: view.study.model.name,
    bits: line.bits,
    grid: line.grid,
    group_size: line.group_size ?? "per_channel",
    method: line.method,
    ...line.fitting,
    ...(Number.isFinite(lambda) ? { lambda } : {}),
    ...(Number.isFinite(gamma) && method.tunes.includes("gamma") ? { gamma } : {}),
    held_out_samples: Math.max(HELD_OUT, base.held_out_samples ?? 0),
    inputs_from: "float",
    sweep: LAMS,
    only: layer.name,
  });
}

/**
 * The preview of the point that the Lab shows, or null where nothing can be computed.
 * @param {Pick<State, "explored"|"models">} state
 */
export function offered({ explored: { view, at }, models }) {
  if (!view || view.layer === null || !models) return null;
  const model = models.find(({ name }) => name === view.study.model.name);
  const recipe = recipeFor(view, at, model?.suggested, METHODS[view.line.method]);
  return recipe && { recipe, title: layerAt(view, view.layer)?.label ?? "", from: view.study };
}

/**
 * What a preview does beside the page: it asks the server for a run, listens to it, and opens its study.
 * @param {object} page
 * @param {() => State} page.state
 * @param {(action: Action) => void} page.dispatch
 * @param {(study: string) => Promise<void>} page.open opens a study
 * @param {() => void} page.cancelled is called once the person's wish to stop has come true
 * @returns {{start: () => void, cancel: () => void}}
 */
export function compute({ state, dispatch, open, cancelled }) {
  /** @type {{close: () => void}|undefined} */
  let stream;

  /** @param {import("./state.js").Aside|null} aside what comes in the place of the card */
  function over(aside) {
    stream?.close();
    dispatch({ type: "over", aside });
  }

  /** @param {string} run */
  const stop = (run) => request(`/runs/${encodeURIComponent(run)}/cancel`, { method: "POST" });

  async function start() {
    const offer = offered(state());
    if (!offer || state().preview) return;
    dispatch({ type: "begun", title: offer.title, lams: lamsOf(offer.recipe) });
    try {
      const run = await request("/runs?lane=preview", { method: "POST", body: offer.recipe });
      dispatch({ type: "made", run: run.id, lams: lamsOf(run.recipe) });
      stream = listen(`/runs/${encodeURIComponent(run.id)}/events`, {
        // A stream that breaks comes back by itself and may tell again what it told.
        message: (event) => {
          dispatch({ type: "event", event });
          if (state().preview?.ended) end(event, run.id, offer.from);
        },
        state: (word) => dispatch({ type: "heard", lost: word === "lost" }),
      });
      if (state().preview?.stopping) await stop(run.id); // the wish came before there was a run
    } catch (error) {
      over({ problem: asProblem(error) });
    }
  }

  async function cancel() {
    dispatch({ type: "stopping" });
    const { run } = state();
    if (run !== null) await stop(run).catch((error) => over({ problem: asProblem(error) }));
  }

  /**
   * The card stays until the study that it drew is there.
   * @param {import("../base/types.d.ts").RunEvent} event the last
   * @param {string} run
   * @param {{id: string, title: string}} from the study that was shown
   */
  async function end(event, run, from) {
    stream?.close();
    if (event.type === "cancelled" && state().preview?.stopping) {
      over(null);
      cancelled();
      return;
    }
    if (event.type === "finished") {
      try {
        await open(run);
        over({ study: run, from });
      } catch (error) {
        over({ problem: asProblem(error) });
      }
      return;
    }
    over({ problem: { what: `The preview was ${event.type}.`, where: "", remedy: "", ...partsOf(event) } });
  }

  return { start, cancel };
}

/**
 * What the end of a run says of its reason.
 * @param {import("../base/types.d.ts").RunEvent} event
 */
function partsOf(event) {
  if (event.type === "interrupted") return { what: event.what };
  return event.type === "failed" ? { what: event.what, where: event.where, remedy: event.remedy } : {};
}
