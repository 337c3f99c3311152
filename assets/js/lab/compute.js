/**
 * Compute here: one layer of the shown model is solved at many λ by a preview run. Its points are drawn as they arrive,
 * then its study takes the page.
 * @module compute
 */

import { asProblem, listen, request } from "../base/client.js";
import { fill, h, problem } from "../base/dom.js";
import { layerAt } from "../explorer/layer_choice.js";
import { initial, lamsOf, reduce } from "./preview.js";
import { PreviewCard } from "./preview_card.js";

/** λ at which the layer is solved, denser than most studies. */
export const LAMS = [0, 0.005, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3];
const HELD_OUT = 8; // sequences on which unseen text is judged

/**
 * The recipe of the preview, or null where there is nothing to compute: no layer chosen, a line without λ, a method
 * that works on several linears at once, or a model whose calibration text is not known.
 * @param {object} view GET /studies/{id}/view
 * @param {{gamma: number, lambda: number}} at positions of the point shown
 * @param {object|undefined} suggested the recipe to begin with of GET /models, for the study's model
 * @param {{unit: string, tunes: string[]}|undefined} method the entry of GET /methods
 */
export function recipeFor(view, at, suggested, method) {
  const layer = view.layer === null ? null : layerAt(view, view.layer);
  const base = view.study.recipe ?? suggested;
  if (!layer || !base?.calibration || !view.line.has_lam || method?.unit !== "layer") return null;
  const { line } = view;
  const kept = ["revision", "calibration", "samples", "length", "sampling", "seed", "indivisible"];
  const gamma = view.gammas[at.gamma];
  const lambda = view.lams[at.lambda];
  return {
    ...Object.fromEntries(kept.filter((name) => base[name] !== undefined).map((name) => [name, base[name]])),
    model: view.study.model.name,
    bits: line.bits,
    grid: line.grid,
    group_size: line.group_size ?? "per_channel",
    method: line.method,
    ...(Number.isFinite(lambda) ? { lambda } : {}),
    ...(Number.isFinite(gamma) && method.tunes.includes("gamma") ? { gamma } : {}),
    held_out_samples: Math.max(HELD_OUT, base.held_out_samples ?? 0),
    inputs_from: "float",
    sweep: LAMS,
    only: layer.name,
  };
}

export class Compute {
  /**
   * @param {{button: HTMLButtonElement, place: HTMLElement, show: (study: string) => Promise}} options `place` is for the
   * preview's card, for errors and for the way back; `show` opens a study
   */
  constructor({ button, place, show }) {
    Object.assign(this, { button, place, show, recipe: null, card: null });
    this.known = Promise.all([request("/models"), request("/methods")]).catch(() => null);
    button.addEventListener("click", () => this.start());
  }

  /** To be told whenever the line, the layer or the point changes. */
  async offer(view, at) {
    const known = await this.known;
    const model = known?.[0].models.find((one) => one.name === view?.study.model.name);
    const method = known?.[1].methods.find((one) => one.name === view?.line.method);
    this.recipe = view ? recipeFor(view, at, model?.suggested, method) : null;
    this.title = this.recipe && layerAt(view, view.layer).label;
    this.shown = view?.study;
    if (!this.card && this.made !== this.shown?.id) fill(this.place);
    this.button.hidden = this.recipe === null && this.card === null;
    this.button.disabled = this.card !== null;
  }

  async start() {
    if (!this.recipe || this.card) return;
    this.button.disabled = true;
    Object.assign(this, { from: this.shown, id: null, stops: false });
    this.card = new PreviewCard({ place: this.place, cancel: () => this.cancel() });
    this.tell(initial(this.title, lamsOf(this.recipe)));
    try {
      const run = await request("/runs?lane=preview", { method: "POST", body: this.recipe });
      this.id = run.id;
      this.tell(initial(this.state.title, lamsOf(run.recipe)));
      this.listen();
      if (this.stops) await this.stop();
    } catch (error) {
      this.failed(asProblem(error));
    }
  }

  /** A stream that breaks comes back by itself and may tell again what it told. */
  listen() {
    this.stream = listen(`/runs/${encodeURIComponent(this.id)}/events`, {
      message: (event) => {
        this.tell(reduce(this.state, event));
        if (this.state.ended) this.ended(event);
      },
      state: (word) => this.tell({ ...this.state, lost: word === "lost" }),
    });
  }

  tell(state) {
    this.state = state;
    this.card.show(state);
    if (this.stops) this.card.stopping();
  }

  /** Asks for the end; a run that was not made yet is stopped when it is. */
  async cancel() {
    this.stops = true;
    this.card.stopping();
    if (this.id !== null) await this.stop().catch((error) => this.failed(asProblem(error)));
  }

  stop() {
    return request(`/runs/${encodeURIComponent(this.id)}/cancel`, { method: "POST" });
  }

  /** The card stays until the study that it drew is there. */
  async ended(event) {
    this.stream.close();
    if (event.type === "cancelled" && this.stops) {
      this.close();
      this.button.focus();
      return;
    }
    if (event.type !== "finished") {
      this.failed({
        what: event.what ?? `The preview was ${event.type}.`,
        where: event.where ?? "",
        remedy: event.remedy ?? "",
      });
      return;
    }
    const { from, id } = this;
    this.made = id;
    try {
      await this.show(id);
    } catch (error) {
      this.failed(asProblem(error));
      return;
    }
    const back = h("button", {
      type: "button",
      class: "quiet",
      "data-testid": "compute-back",
      on: { click: () => this.show(from.id) },
    });
    back.textContent = `Back to ${from.title}`;
    this.close(h("p", { class: "computing", role: "status" }, "This layer alone, computed here. ", back));
  }

  failed(error) {
    this.close(problem(error, { "data-testid": "compute-problem" }));
  }

  /** Takes the card away; something may come in its place. */
  close(instead = null) {
    this.stream?.close();
    this.card = null;
    this.button.disabled = false;
    this.button.hidden = this.recipe === null;
    fill(this.place, instead);
  }
}
