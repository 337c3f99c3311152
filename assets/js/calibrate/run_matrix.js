/**
 * The layers of a run as a matrix that fills while they are solved: blocks × kinds of linear. The experts of a block share
 * a cell; below stand those of one block by themselves, of the one that is worked on or of a chosen one.
 * @module run_matrix
 */

import { fill, h } from "../base/dom.js";
import { count, duration, format } from "../base/format.js";
import * as State from "./run_state.js";

export class RunMatrix {
  /** @param {HTMLElement} place of the matrix @param {HTMLElement} inner of the experts of one block */
  constructor(place, inner) {
    this.place = place;
    this.inner = inner;
    this.layers = null;
    this.chosen = null; // row of the block whose experts the person wants to see
    this.shown = null; // row of the block whose experts are shown
  }

  /** @param {object} state @param {boolean} running whether a layer is worked on now */
  draw(state, running) {
    if (this.layers !== state.layers) this.build(state);
    this.draws(this.cells, state, running);
    this.place.setAttribute("aria-label", State.describeMatrix(state));
    this.follow(state);
    this.draws(this.experts ?? [], state, running);
  }

  /** The empty matrix. A cell of several layers is a button. */
  build(state) {
    this.layers = state.layers;
    this.map = State.matrix(state.layers);
    this.chosen = this.shown = this.experts = null;
    const { rows, columns, cells } = this.map;
    this.pooled = cells.some((row) => row.some((members) => members?.length > 1));
    this.cells = [];
    this.place.setAttribute("role", this.pooled ? "group" : "img");
    this.place.style.setProperty("--columns", String(columns.length));
    this.place.classList.toggle("is-wide", columns.length > 14);
    this.inner.hidden = !this.pooled;
    fill(
      this.place,
      columns.length > 14 || !columns.length
        ? null
        : [h("span", {}), columns.map((name) => h("span", { class: "matrix-name" }, nameOf(name)))],
      rows.map((block, row) => [
        columns.length ? h("span", { class: "matrix-block" }, block) : null,
        cells[row].map((members, column) => {
          if (!members) return h("span", { class: "cell is-none" });
          const many = members.length > 1;
          const choose = () => {
            this.chosen = row;
            this.draw(this.state, this.running);
          };
          const element = h(
            many ? "button" : "span",
            many ? { class: "cell", type: "button", on: { click: choose } } : { class: "cell" },
          );
          this.cells.push({ element, members, kind: many ? `block ${block} ${columns[column]}` : null });
          return element;
        }),
      ]),
    );
    if (!this.pooled) fill(this.inner);
  }

  draws(cells, state, running) {
    [this.state, this.running] = [state, running];
    for (const cell of cells) {
      const { element, members } = cell;
      const facts = State.cellFacts(state, members);
      const share = Math.round((100 * facts.done) / members.length);
      const colour = facts.mean === null ? "" : State.shade(State.heat(facts.mean));
      const background =
        !facts.done || !colour
          ? ""
          : share === 100
            ? colour
            : `linear-gradient(to right, ${colour} ${share}%, var(--grid) ${share}%)`;
      if (cell.background !== background) element.style.background = cell.background = background;
      element.classList.toggle("is-starved", facts.done > 0 && facts.mean === null);
      element.classList.toggle("is-now", running && members.some((index) => State.isCurrent(state, index)));
      const title = cell.kind ? pooledTitle(cell.kind, facts, members.length, state) : titleOf(state, members[0]);
      if (cell.title !== title) {
        element.title = cell.title = title;
        if (cell.kind) element.setAttribute("aria-label", title);
      }
    }
  }

  /** Shows the experts of the chosen block, or of the block that is worked on. */
  follow(state) {
    if (!this.pooled) return;
    const at = state.layers[Math.min(state.results.size, state.layers.length - 1)];
    const row = this.chosen ?? this.rowWithExperts(at.block);
    if (row === this.shown) return;
    this.shown = row;
    const block = this.map.rows[row];
    const { experts, modules, cells } = State.expertMatrix(state.layers, block);
    this.experts = [];
    const grid = h(
      "div",
      {
        class: `matrix matrix-experts${experts.length > 40 ? " is-wide" : ""}`,
        style: `--columns: ${experts.length}`,
        role: "img",
      },
      experts.length > 16
        ? null
        : [h("span", {}), experts.map((expert) => h("span", { class: "matrix-name" }, expert))],
      modules.map((module, line) => [
        h("span", { class: "matrix-block" }, nameOf(module)),
        cells[line].map((index) => {
          const element = h("span", { class: index === null ? "cell is-none" : "cell" });
          if (index !== null) this.experts.push({ element, members: [index], kind: null });
          return element;
        }),
      ]),
    );
    grid.setAttribute("aria-label", `${experts.length} experts of block ${block}`);
    fill(
      this.inner,
      h("p", { class: "legend" }, `Experts of block ${block}${experts.length > 16 ? `, 0 to ${experts.at(-1)}` : ""}`),
      grid,
    );
  }

  /** The row of a block, or of the next one that has experts. */
  rowWithExperts(block) {
    const has = (row) => this.map.cells[row].some((members) => members?.length > 1);
    const start = this.map.rows.indexOf(block);
    for (let row = start; row < this.map.rows.length; row += 1) if (has(row)) return row;
    return this.map.rows.findIndex((_, row) => has(row));
  }
}

const nameOf = (module) =>
  module
    .split(".")
    .at(-1)
    .replace(/_proj$/, "");

function titleOf(state, index) {
  const result = state.results.get(index);
  if (!result) return `${state.layers[index].name}: not yet`;
  if (result.tokens === 0) return `${result.name}: no calibration token reached it`;
  const from = result.cached ? ", from disk" : `, ${duration(result.seconds)}`;
  return `${result.name}: reconstruction error ${format(result.recon, "error")}${from}`;
}

function pooledTitle(kind, { done, mean, worst, at, starved }, total, state) {
  if (!done) return `${kind}, ${total} experts: not yet`;
  const none = starved ? `, ${count(starved)} without tokens` : "";
  const errors =
    mean === null
      ? ""
      : `, mean error ${format(mean, "error")}, largest ${format(worst, "error")} in expert ${state.layers[at].expert}`;
  return `${kind}: ${done} of ${total} experts solved${errors}${none}`;
}
