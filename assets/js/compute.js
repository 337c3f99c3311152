/**
 * Compute here: one layer of the shown model is solved at many λ by a preview run, whose study then takes the page.
 * @module compute
 */

import { asProblem, listen, request } from "./api.js";
import { fill, h, problem } from "./dom.js";
import { layerAt } from "./layer_choice.js";

/** λ at which the layer is solved, denser than most studies. */
export const LAMS = [0, 0.005, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3];
const HELD_OUT = 8; // sequences on which unseen text is judged
const ENDED = ["finished", "failed", "cancelled", "interrupted"];

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

/** What a run that goes on says in a word or two; null for what changes nothing. */
export function said(event) {
  if (event.type === "stage") return event.name;
  if (event.type === "layer_done") return "solved";
  return null;
}

const OFFER = "Compute here";

export class Compute {
  /**
   * @param {{button: HTMLButtonElement, place: HTMLElement, show: (study: string) => void}} options the button tells how
   * it goes, so that nothing moves; `place` is for errors and the way back; `show` opens a study
   */
  constructor({ button, place, show }) {
    Object.assign(this, { button, place, show, recipe: null, running: null });
    this.known = Promise.all([request("/models"), request("/methods")]).catch(() => null);
    button.addEventListener("click", () => this.start());
  }

  /** To be told whenever the line, the layer or the point changes. */
  async offer(view, at) {
    const known = await this.known;
    const model = known?.[0].models.find((one) => one.name === view?.study.model.name);
    const method = known?.[1].methods.find((one) => one.name === view?.line.method);
    this.recipe = view ? recipeFor(view, at, model?.suggested, method) : null;
    this.shown = view?.study;
    if (this.made !== this.shown?.id) fill(this.place);
    this.button.hidden = this.recipe === null && this.running === null;
    this.button.disabled = this.running !== null;
  }

  async start() {
    if (!this.recipe || this.running) return;
    this.button.disabled = true;
    this.from = this.shown;
    this.tell("waiting");
    try {
      const run = await request("/runs?lane=preview", { method: "POST", body: this.recipe });
      this.running = run.id;
      const stream = listen(`/runs/${encodeURIComponent(run.id)}/events`, {
        message: (event) => {
          const words = said(event);
          if (words) this.tell(words);
          if (ENDED.includes(event.type)) {
            stream.close();
            this.ended(event);
          }
        },
      });
    } catch (error) {
      this.failed(asProblem(error));
    }
  }

  ended(event) {
    const id = this.running;
    this.running = null;
    this.button.disabled = false;
    this.button.textContent = OFFER;
    if (event.type !== "finished") {
      this.failed({ what: event.what ?? `The preview was ${event.type}.`, where: event.where ?? "", remedy: event.remedy ?? "" });
      return;
    }
    this.made = id;
    const back = h("button", { type: "button", class: "quiet", "data-testid": "compute-back", on: { click: () => this.show(this.from.id) } });
    back.textContent = `Back to ${this.from.title}`;
    fill(this.place, h("p", { class: "computing", role: "status" }, "This layer alone, computed here. ", back));
    this.show(id);
  }

  failed(error) {
    this.running = null;
    this.button.disabled = false;
    this.button.textContent = OFFER;
    fill(this.place, problem(error, { "data-testid": "compute-problem" }));
  }

  tell(text) {
    this.button.textContent = `Computing: ${text}`;
  }
}
