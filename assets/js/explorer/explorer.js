/**
 * The explorer: one study's line with its sentence, curves, surfaces and table, and the λ and γ that move through all
 * of it. Used by the Lab and by a finished run. Everything for a line is fetched once; moving λ asks nobody.
 * @module explorer
 */

import { nearest, viewPath } from "../base/address_bar.js";
import { arrayBytes, asProblem, request } from "../base/client.js";
import { copy, download, fill, h, isTyping, problem, refill, say } from "../base/dom.js";
import { csv } from "../base/format.js";
import { isLocked } from "../base/link.js";
import { openArray } from "../charts/bind.js";
import { figureMenus } from "../charts/figure_menu.js";
import { Follower, painted, whenIdle } from "../charts/follow.js";
import { plot } from "../charts/plot_host.js";
import { bandPieces } from "./band.js";
import { layerAt } from "./layer_choice.js";
import { numbersTable } from "./numbers_table.js";

export const FIGURES = [
  "hero",
  "surfaces",
  "surfaces_flat",
  "deciles",
  "map",
  "plane",
  "gamma_grid",
  "methods",
  "selection",
  "gap",
];
const OPTIONAL = ["gamma_grid", "methods", "selection", "gap"]; // their cards are there only where there is something to show
const MISSING = {
  hero: "Nothing was measured for this line.",
  surfaces: "Surfaces of the weights are kept of a study’s first draw, if at all.",
  surfaces_flat: "Surfaces of the weights are kept of a study’s first draw, if at all.",
  deciles: "Drift by saliency is kept of a study’s first draw, if at all.",
  map: "No layer was measured.",
  plane: "Needs reconstruction error and drift.",
};
const NO_WEBGL = "This browser draws no three-dimensional figures";
const STEP_MS = 900;
const EXPLORE = "Inputs of each layer come from the float model; a final run, on quantized layers, differs slightly.";

/** @returns {string} the pieces of a sentence as text */
export const plainText = (pieces) => pieces.map((piece) => piece.text).join("");

export class Explorer {
  /**
   * @param {{root: HTMLElement, prefix: string, figures?: string[], onChange?: Function}} options `prefix` is put before
   * the names of the plots; `root` holds the parts marked data-part; `onChange` hears every new point or line
   */
  constructor({ root, prefix, figures = FIGURES, onChange = () => {} }) {
    this.root = root;
    this.prefix = prefix;
    this.names = figures;
    this.onChange = onChange;
    this.view = null;
    this.arrays = {};
    this.at = { gamma: 0, lambda: 0 };
    this.quality = "perplexity";
    this.drawing = matchMedia("(max-width: 760px)").matches ? "flat" : "surface";
    this.wishes = {}; // what was chosen here and not by the page
    this.playing = null;
    this.request = 0;
    this.hosts = {};
    this.rows = { seen: false, near: false, step: () => this.markRow() }; // the table follows as figures do
    this.ready = Promise.all(
      figures.map(async (name) => {
        this.hosts[name] = await plot(`${prefix}${name}`);
      }),
    ).then(() => this.wire());
  }

  /** True where the weights are drawn flat: as maps, or as their difference. */
  get flat() {
    return this.drawing !== "surface";
  }

  part(name) {
    return this.root.querySelector(`[data-part="${name}"]`);
  }

  card(name) {
    return this.hosts[name]?.root;
  }

  /** Listeners that live as long as the page. */
  wire() {
    const { hero, map, plane, methods, gamma_grid: grid } = this.hosts;
    hero?.onScrub((position) => this.move({ lambda: position }));
    map?.onClick((event) => {
      const layer = event.points[0]?.customdata?.[0];
      if (Number.isInteger(layer) && layer >= 0) this.pick({ layer });
    });
    plane?.onClick((event) => {
      const [point] = event.points;
      if (typeof point?.customdata === "string") this.pickLine(point.customdata);
      else this.move({ lambda: point?.pointNumber });
    });
    grid?.onClick((event) => {
      const [gamma, lambda] = event.points[0]?.pointNumber ?? [];
      if (Number.isInteger(lambda)) this.move({ gamma, lambda });
    });
    for (const host of [hero, methods]) host?.onClick((event) => this.pickLine(event.points[0]?.customdata));
    this.part("lambda")?.addEventListener("input", (event) => this.move({ lambda: Number(event.target.value) }));
    this.part("gamma")?.addEventListener("input", (event) => this.move({ gamma: Number(event.target.value) }));
    this.part("play")?.addEventListener("click", () => (this.playing ? this.stop() : this.play()));
    this.part("copy")?.addEventListener("click", async (event) => {
      const button = event.currentTarget;
      await copy(this.copyText());
      button.textContent = "Copied";
      setTimeout(() => (button.textContent = "Copy as text"), 1500);
    });
    this.part("csv")?.addEventListener("click", () => this.saveTable());
    if (this.part("table")) {
      const look = new IntersectionObserver(
        (entries) => (this.rows.seen = this.rows.near = entries.at(-1).isIntersecting),
      );
      look.observe(this.part("table"));
    }
    for (const button of document.querySelectorAll(`[data-drawing][data-for="${this.prefix}"]`)) {
      button.addEventListener("click", () => this.setDrawing(button.dataset.drawing));
    }
    for (const button of document.querySelectorAll(`[data-quality][data-for="${this.prefix}"]`)) {
      button.addEventListener("click", () => this.setQuality(button.dataset.quality));
    }
    document.addEventListener("keydown", (event) => this.key(event));
    figureMenus(this);
  }

  /** ← and → move λ anywhere on the page, unless the person is typing or a modifier is held. */
  key(event) {
    if (!this.view || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    if (this.root.offsetParent === null || (event.key !== "ArrowLeft" && event.key !== "ArrowRight")) return;
    if (isTyping(event.target) || event.target === this.part("gamma")) return;
    event.preventDefault();
    this.stop();
    this.move({ lambda: this.at.lambda + (event.key === "ArrowLeft" ? -1 : 1) });
  }

  /** Asks for another line or layer; what the page does about it is `load` with its own state. */
  pick(change) {
    if (Object.keys(change).some(isLocked)) return;
    this.onChange({ ...this.state(), ...change }, true);
  }

  /** Another line of the same width, where there is one of that name. */
  pickLine(name) {
    const { line, choices } = this.view ?? {};
    if (name !== line?.name && choices?.some((one) => one.name === name && one.bits === line.bits))
      this.pick({ method: name });
  }

  /** What the URL remembers. */
  state() {
    const { view } = this;
    if (!view) return {};
    return {
      study: view.study.id,
      method: view.line.name,
      bits: view.line.bits,
      layer: view.layer === null ? "all" : view.layer,
      lambda: view.line.has_lam ? view.lams[this.at.lambda] : undefined, // nothing to carry over to another line
      gamma: view.gammas[this.at.gamma] ?? undefined,
      scale: view.scale,
      quantity: view.quantity,
      draw: view.draw ?? "all",
      show: this.quality,
      drawing: this.wishes.drawing,
    };
  }

  /**
   * Shows a line. The old picture stays, dimmed, until the new one is there.
   * @param {{study: string, method?: string, bits?: number, layer?: string|number, lambda?: number, gamma?: number}} wanted
   */
  async load(wanted) {
    const mine = ++this.request;
    await this.ready;
    this.root.classList.toggle("is-loading", this.view !== null); // the first time there is nothing to dim
    try {
      const view = await request(viewPath(wanted));
      const opened = Object.entries(view.arrays).map(async ([name, info]) => [
        name,
        openArray(await arrayBytes(view.study.id, info), info),
      ]);
      const arrays = Object.fromEntries(await Promise.all(opened));
      if (mine !== this.request) return;
      this.view = view;
      this.arrays = arrays;
      this.at = {
        gamma: nearest(view.gammas, wanted.gamma) ?? view.start.gamma,
        lambda: nearest(view.lams, wanted.lambda) ?? view.start.lambda,
      };
      this.quality = wanted.show === "accuracy" && view.figures.hero_accuracy ? "accuracy" : "perplexity";
      if (wanted.drawing) this.drawing = this.wishes.drawing = wanted.drawing;
      await this.showAll();
      this.failed(null);
      this.onChange(this.state(), false);
    } catch (error) {
      if (mine === this.request) this.failed(asProblem(error, `study ${wanted.study}`));
      throw error;
    } finally {
      if (mine === this.request) this.root.classList.remove("is-loading");
    }
  }

  failed(error) {
    const place = this.part("problem");
    if (place) fill(place, error ? problem(error) : null);
  }

  async showAll() {
    const { view } = this;
    this.controls();
    this.hosts.hero?.canvas.classList.toggle("is-scrub", view.lams.length > 1);
    for (const name of OPTIONAL) this.card(name)?.classList.toggle("is-off", !view.figures[name]);
    this.table();
    this.measured();
    this.words();
    const names = this.names.filter((name) => !name.startsWith("surfaces"));
    for (const name of names) this.take(name);
    await this.hosts.hero?.draw();
    await painted(); // the first picture is seen before the others are made
    const [near, away] = [[], []];
    for (const name of names) if (name !== "hero") (this.hosts[name].near ? near : away).push(this.hosts[name]);
    for (const host of near) await host.draw();
    await this.drawSurfaces();
    whenIdle(away.map((host) => () => host.draw()));
  }

  /** The name of the figure that a card shows. */
  figureName(card) {
    return card === "hero" && this.quality === "accuracy" ? "hero_accuracy" : card;
  }

  take(name) {
    this.hosts[name]?.take(this.view.figures[this.figureName(name)] ?? null, this.at, this.arrays, MISSING[name] ?? "");
  }

  draw(name) {
    this.take(name);
    return this.hosts[name]?.draw();
  }

  /** Surfaces in three dimensions, or flat where the person or the browser prefers; never both alive. */
  async drawSurfaces() {
    const { surfaces, surfaces_flat: flat } = this.hosts;
    if (!surfaces) return;
    surfaces.root.classList.toggle("is-off", this.flat);
    flat.root.classList.toggle("is-off", !this.flat);
    for (const button of document.querySelectorAll(`[data-drawing][data-for="${this.prefix}"]`)) {
      button.setAttribute("aria-pressed", String(button.dataset.drawing === this.drawing));
      if (button.dataset.drawing === "difference") button.hidden = !this.view.figures.surfaces_difference;
      if (button.dataset.drawing === "surface" && this.noWebgl)
        Object.assign(button, { disabled: true, title: NO_WEBGL });
    }
    await this.draw(this.flat ? "surfaces_flat" : "surfaces");
    if (!this.flat && !surfaces.hasWebgl()) {
      this.noWebgl = true;
      this.drawing = "flat";
      await this.drawSurfaces();
    } else if (this.noWebgl) flat.say(`${NO_WEBGL}: the same numbers are shown flat.`);
  }

  async setDrawing(name) {
    this.drawing = this.noWebgl && name === "surface" ? "flat" : name;
    this.wishes.drawing = this.drawing;
    if (!this.view) return;
    await this.drawSurfaces();
    this.onChange(this.state(), false);
  }

  async setQuality(name) {
    this.quality = name;
    this.controls();
    await this.draw("hero");
    this.onChange(this.state(), false);
  }

  /** Moves to another λ or γ of the shown line: in the browser, from what is already here. */
  move({ gamma = this.at.gamma, lambda = this.at.lambda }) {
    const { view } = this;
    if (!view) return;
    const next = {
      gamma: isLocked("gamma") ? this.at.gamma : Math.min(Math.max(gamma, 0), view.gammas.length - 1),
      lambda: isLocked("lambda") ? this.at.lambda : Math.min(Math.max(lambda, 0), view.lams.length - 1),
    };
    if (next.gamma === this.at.gamma && next.lambda === this.at.lambda) return;
    this.at = next;
    this.controls();
    this.words();
    this.redraw();
    this.onChange(this.state(), false);
  }

  /** Brings every figure to the shown point, see follow.js. */
  redraw() {
    this.follower ??= new Follower(() => this.at);
    const off = this.flat ? "surfaces" : "surfaces_flat";
    const shown = this.names.filter((name) => name !== off && this.hosts[name]);
    shown.sort((a, b) => (a === "surfaces") - (b === "surfaces")); // last: scenes ask for their size, which lays out what has moved
    this.follower.follow([this.rows, ...shown.map((name) => this.hosts[name])]);
  }

  play() {
    if (!this.view || this.view.lams.length < 2 || isLocked("lambda")) return;
    if (this.at.lambda === this.view.lams.length - 1) this.move({ lambda: 0 });
    this.playing = setInterval(() => {
      if (this.at.lambda >= this.view.lams.length - 1) this.stop();
      else this.move({ lambda: this.at.lambda + 1 });
    }, STEP_MS);
    this.playLabel();
  }

  stop() {
    clearInterval(this.playing);
    this.playing = null;
    this.playLabel();
  }

  playLabel() {
    const button = this.part("play");
    if (button) {
      button.textContent = this.playing ? "❚❚ pause" : "▶ play";
      button.setAttribute("aria-pressed", String(Boolean(this.playing)));
    }
  }

  controls() {
    const { view } = this;
    this.slider("lambda", view.lams.length, this.at.lambda, view.lam_texts, "λ");
    this.slider("gamma", view.gammas.length, this.at.gamma, view.gamma_texts, "γ");
    const gammaBox = this.part("gamma-box");
    if (gammaBox) gammaBox.hidden = view.gammas.length < 2;
    const still = view.lams.length < 2 && view.gammas.length < 2; // a single point: nothing to move
    this.part("sliders")?.classList.toggle("is-off", still);
    const band = this.part("band");
    if (band) refill(band, bandPieces(view.band[this.at.gamma]));
    for (const button of document.querySelectorAll(`[data-quality][data-for="${this.prefix}"]`)) {
      button.parentElement.hidden = !view.figures.hero_accuracy;
      button.setAttribute("aria-pressed", String(button.dataset.quality === this.quality));
    }
  }

  slider(name, count, position, texts, sign) {
    const input = this.part(name);
    if (!input) return;
    input.max = String(count - 1);
    input.value = String(position);
    input.disabled = count < 2;
    input.style.setProperty("--filled", count < 2 ? "0%" : `${(100 * position) / (count - 1)}%`);
    input.setAttribute("aria-valuetext", `${sign} = ${texts[position]}`);
    say(this.part(`${name}-value`), texts[position]);
  }

  words() {
    const { view, at } = this;
    const pieces = view.sentences[at.gamma][at.lambda];
    const place = this.part("sentence");
    if (place && place.textContent !== plainText(pieces)) {
      refill(
        place,
        pieces.map((piece) => (piece.role ? h("strong", { class: `role-${piece.role}` }, piece.text) : piece.text)),
      );
    }
    const small = this.part("small-print");
    if (small) {
      const lines = view.small_print[at.gamma][at.lambda];
      refill(
        small,
        view.explore ? h("span", { class: "tag", "data-testid": "explore", title: EXPLORE }, "explore") : null,
        lines.join(" "),
      );
    }
  }

  copyText() {
    const { view, at } = this;
    const lines = [plainText(view.sentences[at.gamma][at.lambda]), ...view.small_print[at.gamma][at.lambda]];
    const { model } = view.study;
    lines.push(`${model.name}, ${view.line.title}, ${view.line.bits} bits, ${view.line.grid_text}. ${location.href}`);
    return lines.join("\n");
  }

  table() {
    const place = this.part("table");
    if (!place) return;
    fill(
      place,
      numbersTable(this.view.table, ([gamma, lambda]) => this.move({ gamma, lambda })),
    );
    this.markRow();
  }

  /** Marks the shown point's row; true like every step that could be made in place. */
  markRow() {
    const here = `${this.at.gamma},${this.at.lambda}`;
    for (const row of this.part("table")?.querySelectorAll("tbody tr") ?? []) {
      row.toggleAttribute("aria-current", row.dataset.at === here);
    }
    return true;
  }

  measured() {
    const place = this.part("measured");
    if (place)
      fill(
        place,
        this.view.measured.map(({ name, text }) => h("div", {}, h("dt", {}, name), h("dd", {}, text))),
      );
  }

  saveTable() {
    const { view } = this;
    if (!view) return;
    const layer = view.layer === null ? "all-layers" : layerAt(view, view.layer).name;
    download(
      `${view.study.id}-${view.line.name}-${view.line.bits}bit-${layer}.csv`,
      csv(view.table.columns, view.table.rows),
    );
  }
}
