/**
 * Compute here: one layer of the shown line is solved at many λ by a run of its own, whose points are drawn over the
 * curves of the study as they arrive. The run's id stands in the page's address, so that a reload goes on with it.
 * @module compute
 */

import { asProblem, listen, request } from "../base/client.js";
import { ENDS } from "../base/contract.js";
import { when } from "../base/format.js";
import { labelOf } from "./preview.js";
import { offered } from "./preview_recipe.js";

/** @import { RunEvent } from "../base/types.d.ts" */
/** @import { Action, State } from "./state.js" */

const STOPPED = ENDS.filter((end) => end !== "finished");

/**
 * What a preview does beside the page: it asks the server for a run and listens to it, keeps it, and takes it away.
 * @param {object} page
 * @param {() => State} page.state
 * @param {(action: Action) => void} page.dispatch
 * @param {() => void} page.gone is called once the person's wish to have no preview has come true
 */
export function compute({ state, dispatch, gone }) {
  /** @type {{close: () => void}|undefined} */
  let stream;

  /** @param {string} run @param {string} [way] @param {string} [method] @param {unknown} [body] */
  const ask = (run, way = "", method = "GET", body = undefined) =>
    request(`/runs/${encodeURIComponent(run)}${way}`, { method, body });

  /** The preview leaves the page; of what went wrong a word stays. @param {import("../base/problem.js").Trouble|null} problem */
  function over(problem) {
    stream?.close();
    dispatch({ type: "over", problem });
  }

  async function start() {
    const recipe = offered(state());
    const { preview } = state();
    if (!recipe || (preview && !preview.ended)) return;
    if (preview) await remove();
    dispatch({ type: "begun", recipe });
    try {
      follow(await request("/runs?lane=preview", { method: "POST", body: recipe }));
    } catch (error) {
      over(asProblem(error));
    }
  }

  /** Goes on with the preview that the page's address names. @param {string} run */
  async function resume(run) {
    try {
      const found = await ask(run);
      if (!found.recipe.layer) throw new Error("it is not a preview");
      if (STOPPED.includes(found.state)) throw new Error("it came to no end");
      follow(found);
    } catch {
      dispatch({ type: "remarked", remarks: [`The preview “${run}” is not here any more.`] });
    }
  }

  /** @param {import("../base/types.d.ts").Run} made */
  function follow(made) {
    dispatch({ type: "made", run: made });
    stream = listen(`/runs/${encodeURIComponent(made.id)}/events`, {
      // A stream that breaks comes back by itself and may tell again what it told.
      message: (event) => {
        dispatch({ type: "event", event });
        if (state().preview?.ended) end(event, made.id);
      },
      state: (word) => dispatch({ type: "heard", lost: word === "lost" }),
    });
    if (state().preview?.stopping) stop(made.id); // the wish came before there was a run
  }

  /** @param {string} run */
  const stop = (run) => ask(run, "/cancel", "POST").catch((error) => over(asProblem(error)));

  /**
   * @param {RunEvent} event the last
   * @param {string} run
   */
  function end(event, run) {
    stream?.close();
    if (event.type === "finished") return;
    const wished = event.type === "cancelled" && state().preview?.stopping;
    over(wished ? null : { what: "The preview was cancelled.", where: "", remedy: "", ...partsOf(event) });
    if (wished) gone();
    ask(run, "", "DELETE").catch(() => {}); // the server itself forgets it after a day
  }

  /** Stops a preview that goes, and takes one that is done from the page and from this host, unless it was kept. */
  async function remove() {
    const { preview } = state();
    if (!preview) return;
    if (!preview.ended) {
      dispatch({ type: "stopping" });
      if (preview.run) await stop(preview.run);
      return;
    }
    over(null);
    gone();
    if (preview.run && !preview.kept) await ask(preview.run, "", "DELETE").catch(() => {});
  }

  /** Gives the preview a name: from then on Runs lists it, and its study can be chosen. */
  async function keep() {
    const { preview, explored } = state();
    if (!preview?.run || !preview.ended) return;
    const name = `${labelOf(preview, explored.view)}, computed ${when(preview.endedAt)}`;
    try {
      await ask(preview.run, "", "PATCH", { name });
      dispatch({ type: "kept" });
    } catch (error) {
      dispatch({ type: "troubled", problem: asProblem(error) });
    }
  }

  return { start, resume, remove, keep };
}

/**
 * What the end of a run says of its reason.
 * @param {RunEvent} event
 */
function partsOf(event) {
  if (event.type === "interrupted") return { what: event.what };
  return event.type === "failed" ? { what: event.what, where: event.where, remedy: event.remedy } : {};
}
