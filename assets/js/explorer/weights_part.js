/**
 * What the explorer shows of the weights beyond one kind of surface: other ways to pool their changes, and one group
 * weight by weight. Older studies have neither; the choice and the card are then not there.
 * @module weight_views
 */

import { fill, h } from "../base/dom.js";
import { isLocked } from "../base/link.js";
import { Explorer, FIGURES } from "./explorer.js";
import { layerAt } from "./layer_choice.js";

const CARDS = ["inspector"]; // there only where the study holds a group
const ORDERS = [
  ["inputs as stored", false],
  ["inputs by saliency", true],
];

/**
 * The name of the figure that a card shows.
 * @param {Object<string, object|null>} figures of a view
 * @param {string} card "surfaces" or "surfaces_flat"
 * @param {string} drawing as the switch says it
 * @param {string} pool name of a pooling
 * @returns {string} a key of `figures`; where the wish is not there the nearest that is
 */
export function weightFigure(figures, card, drawing, pool) {
  const pooled = (name) => (figures[`${name}:${pool}`] ? `${name}:${pool}` : name);
  return pooled(
    card === "surfaces_flat" && drawing === "difference" && figures.surfaces_difference ? "surfaces_difference" : card,
  );
}

export class WeightsExplorer extends Explorer {
  /** As ``Explorer``; ``figures`` without those of this module, which are added. */
  constructor({ figures = FIGURES, ...options }) {
    super({ ...options, figures: [...figures, ...CARDS] });
    this.pool = "max";
  }

  wire() {
    super.wire();
    for (const select of this.poolSelects()) select.addEventListener("change", () => this.setPool(select.value));
  }

  poolSelects() {
    return document.querySelectorAll(`[data-pool][data-for="${this.prefix}"]`);
  }

  state() {
    return this.view ? { ...super.state(), pool: this.pool } : {};
  }

  async load(wanted) {
    this.pool = wanted.pool ?? this.pool;
    return super.load(wanted);
  }

  async showAll() {
    for (const name of CARDS) this.card(name)?.classList.toggle("is-off", !this.view.figures[name]);
    this.surfaceTitle();
    await super.showAll();
  }

  surfaceTitle() {
    const { view } = this;
    const name = layerAt(view, view.surface_layer)?.label ?? "";
    const shown = view.layer === null ? `${name}, largest drift` : name;
    const what = this.figureName("surfaces").endsWith(":signed") ? "Ŵ − W" : "|Ŵ − W|";
    for (const host of [this.hosts.surfaces, this.hosts.surfaces_flat]) {
      if (!host?.heading) continue;
      host.heading.title = shown;
      fill(host.heading, h("span", { class: "maths" }, what), h("span", { class: "card-note" }, `, ${shown}`));
    }
  }

  async setPool(name) {
    this.pool = name;
    if (!this.view) return;
    await this.drawSurfaces();
    this.onChange(this.state(), false);
  }

  /** Name of the array behind the drawing that is shown. */
  get shownArray() {
    const figure = this.view.figures[this.figureName(this.flat ? "surfaces_flat" : "surfaces")];
    return figure?.bindings.find((binding) => binding.array !== undefined)?.array;
  }

  async drawSurfaces() {
    const { poolings } = this.view;
    const options = (sorted) =>
      poolings
        .filter((one) => one.by_saliency === sorted)
        .map(({ name, title }) => h("option", { value: name }, title));
    for (const select of this.poolSelects()) {
      fill(
        select,
        ORDERS.map(([label, sorted]) => h("optgroup", { label }, options(sorted))),
      );
      select.value = poolings.some(({ name }) => name === this.pool) ? this.pool : "max";
      select.disabled = isLocked("pool");
      select.parentElement.hidden = poolings.length < 2;
    }
    this.surfaceTitle();
    await super.drawSurfaces();
  }

  figureName(card) {
    return card.startsWith("surfaces")
      ? weightFigure(this.view.figures, card, this.drawing, this.pool)
      : super.figureName(card);
  }
}
