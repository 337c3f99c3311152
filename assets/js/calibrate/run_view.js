/**
 * One run, drawn from its events: the matrix of layers filling up, where it stands, its log, and at the end the report
 * card with the study's own figures.
 * @module run_view
 */

import { asProblem, listen, request } from "../base/client.js";
import { AT_REST } from "../base/contract.js";
import { fill, h, problem, say } from "../base/dom.js";
import { duration, when } from "../base/format.js";
import { METHODS } from "../base/recipe_contract.js";
import { curvesPart } from "../explorer/curves_part.js";
import { expertsPart } from "../explorer/experts_part.js";
import { Explorer } from "../explorer/explorer.js";
import { numbersPart } from "../explorer/numbers_part.js";
import { slidersPart } from "../explorer/sliders_part.js";
import { weightsPart } from "../explorer/weights_part.js";
import { wordsPart } from "../explorer/words_part.js";
import { stateChip } from "./chip.js";
import { Exports } from "./exports_card.js";
import { describe } from "./recipe_form.js";
import { candidateStrip, recipeCard, reportCard } from "./report.js";
import { RunMatrix } from "./run_matrix.js";
import * as State from "./run_state.js";

const POLL_MS = 1500;
export class RunView {
  /**
   * @param {{card: HTMLElement, recipeCard: HTMLElement, measured: Function, study: HTMLElement, names: string[],
   *   leave: Function}} options
   * `names` are the fields of a recipe in the order of the form; `leave` goes back to the plan; `measured` hears the summary of a finished run, or null
   */
  constructor({ card, recipeCard, measured, study, names, leave }) {
    this.card = card;
    this.measured = measured;
    this.recipeCard = recipeCard;
    this.names = names;
    this.study = study;
    this.leave = leave;
    this.id = null;
    this.stream = null;
    this.timer = null;
    this.explorer = null;
  }

  /** Shows a run and follows it. `known` hears the run once it is there. */
  async open(id, known = () => {}) {
    this.close();
    this.id = id;
    this.state = State.initial();
    this.run = null;
    this.skeleton();
    try {
      this.run = await request(`/runs/${encodeURIComponent(id)}`);
    } catch (error) {
      if (this.id !== id) return;
      fill(
        this.card,
        h(
          "div",
          { class: "run-body" },
          problem(asProblem(error)),
          this.button("Plan a run", "leave", () => this.leave()),
        ),
      );
      return;
    }
    if (this.id !== id) return;
    known(this.run);
    recipeCard(this.recipeCard, this.run.recipe, this.names);
    this.draw();
    this.follow();
  }

  close() {
    this.id = null;
    this.stream?.close();
    this.stream = null;
    clearTimeout(this.timer);
    this.files?.close();
    this.study.classList.remove("is-shown");
    this.explorer?.stop();
    this.measured(null);
  }

  /** Events arrive by stream; the run's own state, which also changes while it waits, by asking now and then. */
  follow() {
    const { id } = this;
    this.stream?.close();
    this.stream = listen(`/runs/${encodeURIComponent(id)}/events`, {
      message: (event) => {
        this.state = State.reduce(this.state, event);
        this.soon();
        if (AT_REST.includes(event.type)) this.refresh();
      },
      state: (word) => {
        const over = AT_REST.includes(this.run?.state) || AT_REST.includes(this.state.ended);
        this.lost = word === "lost" && !over; // a stream that has said its last word is closed by the server
        this.soon();
      },
    });
    this.poll();
  }

  poll() {
    clearTimeout(this.timer);
    this.timer = setTimeout(async () => {
      if (!this.id || AT_REST.includes(this.run?.state)) return;
      if (!document.hidden) await this.refresh();
      this.poll();
    }, POLL_MS);
  }

  async refresh() {
    const { id } = this;
    try {
      const run = await request(`/runs/${encodeURIComponent(id)}`);
      if (this.id !== id) return;
      this.run = run;
      this.lost = false;
      this.waiting = run.state === "queued" ? await this.position(run) : null;
      this.draw();
      if (AT_REST.includes(run.state) && AT_REST.includes(this.state.ended)) this.stream?.close();
    } catch (error) {
      if (this.id === id) this.trouble(asProblem(error));
    }
  }

  async position(run) {
    const answer = await request("/runs?limit=200");
    const before = (answer.runs ?? answer).filter(
      (one) => one.state === "queued" && (one.queued ?? "") < (run.queued ?? ""),
    );
    return before.length + 1;
  }

  /** Many events at once become one drawing. */
  soon() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      if (this.run) this.draw();
    });
  }

  part(name) {
    return this.card.querySelector(`[data-part="${name}"]`);
  }

  button(text, name, handler, kind = "quiet") {
    return h("button", { type: "button", class: kind, "data-testid": name, on: { click: handler } }, text);
  }

  skeleton() {
    fill(
      this.card,
      h(
        "header",
        { class: "card-head run-head" },
        h("h2", { class: "run-title", id: "run-title", "data-part": "title" }, "Run"),
        h("span", { "data-part": "chip" }),
      ),
      h(
        "div",
        { class: "run-body" },
        h("div", { "data-part": "trouble" }),
        h("div", { "data-part": "report" }),
        h("div", { "data-part": "files" }),
        h(
          "div",
          { class: "run-progress" },
          h("div", { class: "meter", role: "progressbar", "aria-valuemin": 0, "data-part": "meter" }, h("span", {})),
          h("p", { class: "run-now", "data-part": "now", "data-testid": "progress" }),
        ),
        h(
          "div",
          { class: "run-epochs", "data-part": "epochs", hidden: true },
          h("p", { class: "run-now", "data-part": "learning", "data-testid": "learning" }),
          h("div", { class: "meter meter-small" }, h("span", { "data-part": "epoch" })),
        ),
        h("div", { "data-part": "candidates", "data-testid": "candidates" }),
        h("div", { class: "matrix", role: "img", "data-part": "matrix", "data-testid": "matrix" }),
        h("div", { "data-part": "matrix-experts", "data-testid": "matrix-experts", hidden: true }),
        h(
          "p",
          { class: "legend" },
          "Reconstruction error, calibration text: 0.001 ",
          h("span", { class: "ramp" }),
          " 1",
        ),
        h("dl", { class: "facts", "data-part": "facts" }),
        h("div", { class: "run-buttons", "data-part": "buttons" }),
        h(
          "details",
          { class: "run-log", open: true },
          h("summary", {}, "Log"),
          h("ol", { "data-part": "log", "data-testid": "log" }),
        ),
      ),
    );
    this.drawn = {};
    this.matrix = null;
  }

  /** Builds a part anew only when what it shows has changed, so that buttons keep their focus. */
  once(name, key, build) {
    const text = JSON.stringify(key);
    if (this.drawn[name] === text) return;
    this.drawn[name] = text;
    fill(this.part(name), build());
  }

  trouble(error) {
    this.once("trouble", error && [error.what, error.where], () => (error ? problem(error) : null));
  }

  draw() {
    const { run, state } = this;
    say(this.part("title"), describe(run.recipe));
    this.once("chip", run.state, () => stateChip(run.state));
    this.drawTrouble();
    this.drawProgress();
    this.drawLearning();
    this.drawMatrix();
    this.drawFacts();
    this.once("buttons", [run.state, run.id], () => this.buttons());
    this.once("log", [state.log.length, state.seq], () => this.logLines());
    if (run.state === "finished") this.drawReport();
    else this.once("report", null, () => null);
    this.once("files", run.state === "finished" && run.formats ? run.id : null, () => this.drawFiles());
  }

  drawTrouble() {
    const { run, state } = this;
    if (this.lost) {
      this.trouble({
        what: "The server does not answer just now.",
        where: "",
        remedy: "The run goes on without this page; it will be shown again here.",
      });
    } else if (run.state === "failed") {
      this.trouble(run.error ?? state.failure ?? { what: "The run failed.", where: "", remedy: "The log has more." });
    } else if (run.state === "interrupted") {
      this.trouble({
        what: run.error?.what ?? "The process that did the work is gone.",
        where: run.error?.where ?? "",
        remedy:
          run.error?.remedy || "Finished layers are kept: Continue goes on from them and ends with the same weights.",
      });
    } else this.trouble(null);
  }

  drawProgress() {
    const { run, state } = this;
    const known = State.progress(state);
    const total = known.total || run.progress?.total || 0;
    const done = known.total ? known.done : (run.progress?.done ?? 0);
    const meter = this.part("meter");
    const share = Math.round(1000 * State.workDone(state, { done, total })) / 10;
    meter.setAttribute("aria-valuemax", "100");
    meter.setAttribute("aria-valuenow", String(share));
    meter.firstElementChild.style.width = `${share}%`;
    meter.classList.toggle("is-done", run.state === "finished");
    say(this.part("now"), this.nowText(done, total));
  }

  nowText(done, total) {
    const { run, state } = this;
    const layers = `${done} of ${total} layers`;
    switch (run.state) {
      case "queued":
        return this.waiting > 1
          ? `Waiting for a device, number ${this.waiting} in the queue`
          : "Waiting for a device, next in the queue";
      case "running": {
        if (!total)
          return state.stage ? `${state.stage}${state.detail ? `: ${state.detail}` : ""}` : "Starting the worker";
        if (State.choosing(state)) {
          const judged = state.candidates.length;
          return `Choosing λ for the whole model: ${judged ? `${judged} of ${state.candidates[0].total} values judged` : "none judged yet"}`;
        }
        const current = State.currentLayer(state);
        if (done >= total) return `${layers}, ${state.stage}${state.detail ? `: ${state.detail}` : ""}`;
        return current && done > 0 && !state.learning
          ? `${layers}, now ${current.replace(/^model\./, "")}`
          : `${layers}, ${state.stage || "starting"}`;
      }
      case "cancelling":
        return `${layers}, stopping after the current step`;
      case "cancelled":
        return `Cancelled at ${layers}; finished layers are kept`;
      case "interrupted":
        return `Interrupted at ${layers}`;
      case "failed":
        return total ? `Failed at ${layers}` : "Failed";
      default:
        return `All ${layers.replace(/^\d+ of /, "")} in ${duration(state.took ?? seconds(run))}`;
    }
  }

  /** Where the learning of a block stands, and λ being chosen for the whole model; the report has what came of it. */
  drawLearning() {
    const { run, state } = this;
    const { done, total } = State.progress(state);
    const learns = (state.learning || METHODS[run.recipe.method]?.unit === "block") && total > 0 && done < total;
    this.part("epochs").hidden = !(run.state === "running" && learns); // one height while blocks come and go
    say(this.part("learning"), State.learningWords(state));
    this.part("epoch").style.width = state.learning ? `${(100 * state.learning.epoch) / state.learning.epochs}%` : "0%";
    const shown = run.state === "finished" ? [] : state.candidates;
    this.once("candidates", shown, () =>
      shown.length ? candidateStrip(shown, State.bestCandidate(shown)?.lam) : null,
    );
  }

  drawMatrix() {
    this.matrix ??= new RunMatrix(this.part("matrix"), this.part("matrix-experts"));
    this.matrix.draw(this.state, this.run.state === "running");
  }

  drawFacts() {
    const { run, state } = this;
    const live = run.state === "running" || run.state === "cancelling";
    const pace = State.pace(state);
    const left = State.remaining(state);
    const rows = [
      ["Device", state.device || run.device],
      ["Speed", live && pace !== null ? `${duration(pace)} a layer` : null],
      ["Left", live && left !== null && left > 0 ? `about ${duration(left)}, then measuring` : null],
      ["Begun", when(run.started)],
    ].filter(([, text]) => text);
    this.once("facts", rows, () => rows.map(([name, text]) => [h("dt", {}, name), h("dd", {}, text)]));
  }

  buttons() {
    const { run } = this;
    const act = (verb) => async () => {
      try {
        this.run = await request(`/runs/${encodeURIComponent(run.id)}/${verb}`, { method: "POST" });
        this.draw();
        if (verb === "continue") this.follow();
      } catch (error) {
        this.trouble(asProblem(error));
      }
    };
    const live = ["queued", "running"].includes(run.state);
    const again = ["cancelled", "interrupted", "failed"].includes(run.state);
    return [
      live ? this.button("Cancel", "cancel", act("cancel"), "act-quiet") : null,
      again ? this.button("Continue", "continue", act("continue"), "act") : null,
      run.state === "finished" && run.study_id
        ? h(
            "a",
            { class: "act", href: `/?study=${encodeURIComponent(run.study_id)}`, "data-testid": "open-lab" },
            "Open in Lab",
          )
        : null,
      run.study_id
        ? h("a", { class: "quiet", href: `/api/studies/${run.study_id}/download`, download: "" }, "Download the study")
        : null,
      this.button(live ? "Plan another run" : "Change and run again", "leave", () => this.leave()),
    ];
  }

  logLines() {
    return this.state.log
      .slice(-200)
      .reverse()
      .map((line) =>
        h(
          "li",
          { class: line.tone ? `log-${line.tone}` : null },
          h("time", {}, when(line.at)),
          h("span", {}, line.text),
        ),
      );
  }

  drawReport() {
    const { run } = this;
    const summary = run.summary ?? this.state.summary;
    if (!summary) return;
    this.once("report", [run.id, summary.perplexity, this.state.results.size], () =>
      reportCard(run, summary, State.layerReports(this.state)),
    );
    // Texts are in the events only: the run's own summary is kept short.
    if (this.state.summary && this.drawn.measured !== run.id) {
      this.drawn.measured = run.id;
      this.measured(this.state.summary);
    }
    if (run.study_id && this.shownStudy !== run.study_id) {
      this.shownStudy = run.study_id;
      this.showStudy(run.study_id);
    } else if (run.study_id) this.study.classList.add("is-shown");
  }

  drawFiles() {
    this.files?.close();
    this.files = this.run.state === "finished" && this.run.formats ? new Exports(this.run) : null;
    return this.files?.element;
  }

  async showStudy(id) {
    this.study.classList.add("is-shown");
    this.explorer ??= new Explorer({
      root: this.study,
      prefix: "run-",
      parts: [
        curvesPart(["hero", "deciles", "selection", "gap", "inspector"]),
        expertsPart(),
        wordsPart(),
        slidersPart(),
        numbersPart(),
        weightsPart(),
      ],
    });
    await this.explorer.load({ study: id });
  }
}

function seconds(run) {
  return run.started && run.ended ? (new Date(run.ended) - new Date(run.started)) / 1000 : null;
}
