/**
 * A place of a page in which a study's model runs: its predictions along a sentence at the shown λ and at λ = 0, beside the
 * float model's. Nothing is fetched before it is asked for; everything is computed in a worker, so that no slider waits.
 * @module model/trial
 */

import { modelFile } from "../base/client.js";
import { bytes, plain } from "../base/format.js";
import { nothing, render } from "../base/html.js";
import { Computing, takesLong } from "./computing.js";
import { RemoteModel } from "./remote.js";
import { comparedAt, firstFiles, INITIAL, lamAt, reduce } from "./try_state.js";
import { tryCard } from "./try_view.js";

/** @import { KeptCodes, KeptPoint, ModelFile } from "../base/types.d.ts" */
/** @import { Point } from "../charts/bind.js" */
/** @import { ComputedPoint } from "./computing.js" */
/** @import { CodedPoint, Compared, Kept, TryAction, TryState } from "./try_state.js" */

const MOST_LINES = 4; // that are named where codes are kept

/**
 * @typedef {object} Shown what the page shows, and what the card can change of it
 * @property {Kept & {study: {id: string}, lam_texts: string[], draws?: number[]}} view without draws: of several
 * @property {Point} at
 * @property {boolean} isLocked whether a link keeps λ as it is
 * @property {(lambda: number) => void} move to another position of λ
 * @property {() => void} show a line whose codes are kept
 * @property {(lambda: number) => Record<string, any>|null} recipeAt the recipe of the shown line at a position of λ; null
 *   where a run on this host can't give codes with which pages run the model
 */

export class Trial {
  /** @param {HTMLElement} place */
  constructor(place) {
    this.place = place;
    /** @type {TryState} */
    this.state = INITIAL;
    /** @type {RemoteModel|null} */
    this.remote = null;
    /** @type {Shown|null} */
    this.shown = null;
    this.frame = 0;
    /** @type {Computing|null} */
    this.computing = null;
    /** @type {ComputedPoint[]} */
    this.computed = []; // of the shown study
  }

  /** Follows what the page shows. @param {Shown} shown */
  follow(shown) {
    const before = this.shown;
    this.shown = shown;
    if (before?.view === shown.view && before.at.lambda === shown.at.lambda && before.at.gamma === shown.at.gamma)
      return;
    if (before && before.view.study.id !== shown.view.study.id) {
      this.remote?.close();
      this.remote = null;
      this.computing?.stop();
      this.computed = [];
      this.state = { ...INITIAL, text: this.state.text };
    }
    this.ask();
    this.draw();
  }

  /** @param {TryAction} action */
  dispatch(action) {
    this.state = reduce(this.state, action);
    this.frame ||= requestAnimationFrame(() => this.draw());
  }

  /** @param {import("./worker.js").Answer} answer */
  hear(answer) {
    this.dispatch({ type: "answered", answer });
    if (answer.kind === "failed" && answer.number === null) this.close();
    if (answer.kind === "opened" || answer.kind === "broken") this.ask();
  }

  /** @returns {Compared|null} */
  get compared() {
    return this.shown && comparedAt(this.shown.view, this.shown.at, this.computed);
  }

  get lam() {
    const { view, at } = this.shown ?? {};
    return view?.line.has_lam && at ? view.lam_texts[at.lambda] : "";
  }

  open() {
    const { shown, compared } = this;
    const kept = shown?.view.study.kept;
    if (!shown || !compared || !kept || this.remote) return;
    const { id } = shown.view.study;
    const places = [
      ...kept.files.map((file) => placeOf(file, id)),
      ...this.placesOf([...kept.points, ...this.computed]),
    ];
    const { files, size } = firstFiles(kept, compared);
    this.dispatch({ type: "opened", size });
    try {
      const first = places.filter(({ name }) => files.some((file) => file.name === name));
      const given = { places, first };
      this.remote = new RemoteModel(given, (answer) => this.hear(answer));
    } catch (error) {
      const said = error instanceof Error ? error.message : error;
      this.dispatch({ type: "failed", what: `The model can’t be started: ${said}.` });
    }
  }

  /** Where the codes of points are. @param {CodedPoint[]} points */
  placesOf(points) {
    const own = this.shown?.view.study.id ?? "";
    return points.map((point) => placeOf(point.file, "of" in point ? point.of : own));
  }

  /** Recipes of the shown point, and of that at λ = 0 where its codes are missing too; none where no run can give them. */
  get missing() {
    const { shown } = this;
    if (!shown) return [];
    const { view, at } = shown;
    const zero = view.line.has_lam ? view.lams.indexOf(0) : -1;
    const wanted = [at.lambda, ...(zero >= 0 && zero !== at.lambda ? [zero] : [])];
    return wanted
      .filter((lambda) => !comparedAt(view, { ...at, lambda }, this.computed))
      .flatMap((lambda) => {
        const recipe = shown.recipeAt(lambda);
        return recipe ? [{ lambda, recipe }] : [];
      });
  }

  /** Computes the missing codes of what is shown by runs on this host. */
  compute() {
    const { shown, missing } = this;
    if (!shown || this.computing || !missing.length) return;
    const { view, at } = shown;
    this.dispatch({ type: "computing", progress: { done: 0, of: 0 } });
    this.computing = new Computing(
      missing.map(({ recipe }) => recipe),
      {
        progress: (progress) => this.dispatch({ type: "computing", progress }),
        done: (points) => {
          // Under the names of the study's line: a run has a line of its own.
          const [method, bits, gamma] = [view.line.name, view.line.bits, view.gammas[at.gamma]];
          const named = points.map((point, i) => ({
            ...point,
            method,
            bits,
            gamma,
            lam: lamAt(view, missing[i].lambda),
          }));
          this.computing = null;
          this.computed.push(...named);
          this.remote?.add(this.placesOf(named));
          this.dispatch({ type: "computed" });
          this.ask();
        },
        failed: (what) => {
          this.computing = null;
          this.dispatch({ type: "halted", what });
        },
      },
    );
  }

  /** Ends the runs that compute codes. */
  halt() {
    this.computing?.stop();
    this.computing = null;
    this.dispatch({ type: "computed" });
  }

  close() {
    this.remote?.close();
    this.remote = null;
  }

  /** Asks about a text at the shown λ. */
  ask(text = this.state.text) {
    const { compared, remote, lam } = this;
    if (this.state.phase !== "open" || !remote || !compared) return;
    this.dispatch({ type: "asked", number: remote.ask(text, filesOf(compared)), text, lam });
  }

  search() {
    const { compared, remote, lam } = this;
    if (this.state.phase !== "open" || !remote || !compared) return;
    this.dispatch({ type: "searched", number: remote.search(filesOf(compared)), lam });
  }

  draw() {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    const { shown, compared, state } = this;
    const kept = shown?.view.study.kept;
    if (!shown || !kept) {
      render(nothing, this.place);
      return;
    }
    const { view, at, isLocked, move, show } = shown;
    const card = tryCard(state, {
      model: kept.model,
      draw: kept.draw,
      isMean: view.draws?.length !== 1,
      size: compared ? bytes(firstFiles(kept, compared).size) : "",
      further: compared?.zero && !("of" in compared.shown) ? bytes(compared.shown.file.bytes) : "",
      lams: view.lam_texts,
      at: at.lambda,
      isLocked,
      isKept: compared !== null,
      canCompute: this.missing.length > 0,
      isLong: this.missing.some(({ recipe }) => takesLong(recipe)),
      isZero: compared !== null && compared.shown === compared.zero,
      hasZero: compared !== null && compared.zero !== null,
      hasLam: view.line.has_lam,
      where: keptAt(kept),
      open: () => this.open(),
      stop: () => {
        this.close();
        this.dispatch({ type: "closed" });
      },
      ask: (text) => this.ask(text),
      search: () => this.search(),
      move,
      show,
      compute: () => this.compute(),
      halt: () => this.halt(),
    });
    render(card, this.place);
  }
}

/** @param {ModelFile} file @param {string} study */
const placeOf = (file, study) => ({ name: file.name, bytes: file.bytes, address: modelFile(study, file) });

/** @param {Compared} points */
const filesOf = ({ shown, zero }) => ({ shown: shown.file.name, zero: zero?.file.name ?? null, bits: shown.bits });

/** Which points are kept, in words. @param {KeptCodes} kept */
function keptAt({ points }) {
  const lineOf = (/** @type {KeptPoint} */ { method, bits, gamma }) => JSON.stringify([method, bits, gamma]);
  const lines = [...new Set(points.map(lineOf))];
  const shown = lines.length > MOST_LINES ? lines.slice(0, MOST_LINES - 1) : lines;
  const words = shown.map((line) => ofLine(points.filter((point) => lineOf(point) === line)));
  const further = lines.length - shown.length;
  return [...words, ...(further ? [`${further} further lines`] : [])].join("; ");
}

/** Kept points of one line, in words. @param {KeptPoint[]} points */
function ofLine(points) {
  const [{ method, bits, gamma, lam }] = points;
  const line = gamma === null ? `${method} at ${bits} bits` : `${method} at ${bits} bits, γ = ${plain(gamma)}`;
  if (lam === null) return line;
  return points.length === 1 ? `${line}, λ = ${plain(lam)}` : `${line}, at ${points.length} values of λ`;
}
