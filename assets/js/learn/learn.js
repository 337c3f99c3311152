/**
 * The tour: which step is shown, what was set in it, and the address that remembers both. Each step is a module with
 * `state` (names in the address and how they are read), `start` (their first values) and `create(stage)`, which returns
 * `draw()`, `answer()`, `aria()` and `table()`.
 * @module learn
 */

import { download, fill, h } from "../dom.js";
import { csv, format } from "../format.js";
import { link } from "../link.js";
import { remember } from "../state.js";
import { colour, onTheme } from "../theme.js";
import { parse, serialise } from "../view.js";
import * as channels from "./channels.js";
import { wayOf } from "./keys.js";
import * as lattice from "./lattice.js";
import * as layer from "./layer.js";
import * as model from "./model.js";
import * as paper from "./paper.js";
import { Board, standalone } from "./svg.js";
import * as tokens from "./tokens.js";
import * as weight from "./weight.js";

const MODULES = { weight, lattice, tokens, channels, layer, model, paper };
const COMMON = viewOf({ step: Number, shown: Number });

/** A table for the address of names and how they are read; what can't be read is left out. */
function viewOf(reads) {
  const entry = ([name, read]) => {
    const wants = read === Number ? "a number" : "a text";
    return [name, { title: name, wants, read: (text) => (Number.isNaN(read(text)) ? undefined : read(text)) }];
  };
  return Object.fromEntries(Object.entries(reads).map(entry));
}

/** Called by the page's js_on_load with the element that holds the tour. */
export function mount(element) {
  const root = element.querySelector(".tour");
  const stages = [...root.querySelectorAll(".step")].map((section) => new Stage(section, root));
  const wanted = parse(location.search, COMMON).state.step;
  let current = Math.min(stages.length, Math.max(1, Math.round(wanted ?? 1))) - 1;

  function go(index, focus = true) {
    if (index < 0 || index >= stages.length) return;
    current = index;
    stages.forEach((stage, i) => (stage.section.hidden = i !== index));
    for (const button of root.querySelectorAll("[data-go]")) {
      const number = Number(button.dataset.go);
      button.parentElement.classList.toggle("is-done", number <= index + 1);
      if (number === index + 1) button.setAttribute("aria-current", "step");
      else button.removeAttribute("aria-current");
    }
    root.querySelector('[data-part="back"]').disabled = index === 0;
    root.querySelector('[data-part="next"]').disabled = index === stages.length - 1;
    stages[index].open();
    if (!focus) return;
    root.querySelector(`[data-step="${index + 1}"] .step-title`).focus({ preventScroll: true });
    window.scrollTo(0, 0);
  }

  root.querySelector('[data-part="back"]').addEventListener("click", () => go(current - 1));
  root.querySelector('[data-part="next"]').addEventListener("click", () => go(current + 1));
  for (const button of root.querySelectorAll("[data-go]")) button.addEventListener("click", () => go(Number(button.dataset.go) - 1));
  document.addEventListener("keydown", (event) => {
    const way = wayOf(event);
    if (!way) return;
    event.preventDefault();
    go(current + way);
  });
  onTheme(() => stages[current].update());
  stages[current].state = { ...stages[current].state, ...parse(location.search, stages[current].table).state };
  go(current, false);
}

/** “λ = 0.1” does not break over two lines. */
const together = (piece) => (typeof piece === "string" ? piece.replace(/([λγ]) = /g, "$1\u00a0=\u00a0") : piece);

/** One step: its words and its figure, and what was set in it. */
class Stage {
  constructor(section, root) {
    this.section = section;
    this.number = Number(section.dataset.step);
    this.module = MODULES[section.dataset.name];
    this.table = { ...COMMON, ...viewOf(this.module.state) };
    this.state = { ...this.module.start };
    this.study = JSON.parse(root.dataset.study);
    this.published = JSON.parse(root.dataset.published);
    this.step = null;
    this.frame = 0;
  }

  part(name) {
    return this.section.querySelector(`[data-part="${name}"]`);
  }

  /** True once the answer is shown. */
  get shown() {
    return this.state.shown === 1;
  }

  /** The step's drawing; `draw` gets its size and returns nodes. */
  board(draw) {
    this.drawing = new Board(this.part("canvas"), draw);
    return this.drawing;
  }

  /** Sets something in this step: drawn in the next frame, remembered in the address. */
  set(change) {
    Object.assign(this.state, change);
    this.frame ||= requestAnimationFrame(() => this.update());
  }

  open() {
    if (!this.step) {
      this.step = this.module.create(this);
      this.part("show").addEventListener("click", () => this.set({ shown: 1 }));
      this.part("csv").addEventListener("click", () => {
        const { columns, rows } = this.step.table();
        download(`learn-${this.section.dataset.name}.csv`, csv(columns, rows));
      });
      this.part("svg").addEventListener("click", () =>
        download(`learn-${this.section.dataset.name}.svg`, standalone(this.drawing.svg, colour), "image/svg+xml"),
      );
      this.part("numbers").addEventListener("toggle", () => this.numbers());
    }
    this.update();
  }

  /** Brings words, figure and address to the state; a step that is not shown waits until it is opened. */
  update() {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    if (this.section.hidden || !this.step) return;
    this.section.classList.toggle("is-shown", this.shown);
    this.step.draw();
    this.drawing.redraw();
    this.drawing.describe(this.step.aria());
    this.part("show").hidden = this.shown;
    const answer = this.shown ? this.step.answer().map(together) : [];
    const text = answer.map((piece) => piece.text ?? piece).join("");
    if (this.part("answer").textContent !== text) {
      fill(this.part("answer"), answer.map((piece) => (piece.role ? h("strong", { class: `role-${piece.role}` }, piece.text) : piece)));
    }
    this.numbers();
    remember(serialise({ ...this.state, step: this.number, shown: this.shown ? 1 : undefined }, this.table, { link }));
  }

  /** The table behind the figure, made only while somebody looks at it. */
  numbers() {
    if (!this.part("numbers").open) return;
    const { columns, rows } = this.step.table();
    fill(
      this.part("table"),
      h(
        "table",
        { class: "numbers" },
        h("thead", {}, h("tr", {}, columns.map((column) => h("th", { scope: "col" }, column.title)))),
        h("tbody", {}, rows.map((row) => h("tr", {}, columns.map((column) => h("td", {}, format(row[column.key], column.kind)))))),
      ),
    );
  }
}
