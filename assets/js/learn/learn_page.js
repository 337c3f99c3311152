/**
 * The tour: which step is shown, what was set in it, and the address that remembers both. Each step is a module with
 * `state` (a table for the address, see view.js), `start` (first values) and `create(stage)`, which returns `draw()`,
 * `answer()`, `aria()` and `table()`. A guess has no first value: the ring stands somewhere, but nobody has said so.
 * @module learn
 */

import { LAB_VIEW, parse, serialise } from "../base/address.js";
import { remember } from "../base/address_bar.js";
import { fill, h } from "../base/dom.js";
import { isLocked, link } from "../base/link.js";
import { note } from "../base/link_note.js";
import { onTheme } from "../base/theme.js";
import { figureMenu } from "../charts/figure_menu.js";
import { Board } from "../charts/svg.js";
import { common, settle, unknownHere } from "./address.js";
import * as channels from "./channels.js";
import { wayOf } from "./keyboard.js";
import * as lattice from "./lattice.js";
import * as layer from "./layer.js";
import * as model from "./model.js";
import * as paper from "./paper.js";
import { pictureOf } from "./picture.js";
import * as tokens from "./tokens.js";
import * as weight from "./weight.js";

const MODULES = { weight, lattice, tokens, channels, layer, model, paper };
const COMMON = common(Object.keys(MODULES).length);

/** Called by the page's js_on_load with the element that holds the tour. */
export function mount(element) {
  const root = element.querySelector(".tour");
  const told = [];
  const tell = (sentences) => {
    told.push(...sentences);
    note(root.querySelector('[data-part="link-note"]'), told);
  };
  const stages = [...root.querySelectorAll(".step")].map((section) => new Stage(section, root, tell));
  let current = (parse(location.search, COMMON).state.step ?? 1) - 1;

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
    const last = index === stages.length - 1;
    root.querySelector('[data-part="lab"]').hidden = !last || isLocked("next");
    root.querySelector('[data-part="next"]').disabled = last;
    root.querySelector('[data-part="next"]').hidden = last && !isLocked("next");
    stages[index].open();
    if (!focus) return;
    told.length = 0; // what the address got wrong was said of the step that it opened
    tell([]);
    root.querySelector(`[data-step="${index + 1}"] .step-title`).focus({ preventScroll: true });
    window.scrollTo(0, 0);
  }

  root.querySelector('[data-part="back"]').addEventListener("click", () => go(current - 1));
  root.querySelector('[data-part="next"]').addEventListener("click", () => go(current + 1));
  for (const button of root.querySelectorAll("[data-go]"))
    button.addEventListener("click", () => go(Number(button.dataset.go) - 1));
  document.addEventListener("keydown", (event) => {
    const way = wayOf(event);
    if (!way) return;
    event.preventDefault();
    if (!isLocked(way > 0 ? "next" : "back")) go(current + way);
  });
  const { id, bits, saliency } = JSON.parse(root.dataset.study);
  root.querySelector('[data-part="lab"]').href =
    `/${serialise({ study: id, method: saliency, bits }, LAB_VIEW, { link: { embed: link.embed } })}`;
  onTheme(() => stages[current].update());
  stages[current].read(location.search);
  tell(unknownHere(link));
  go(current, false);
}

/** “λ = 0.1”, “1 ± 0.1” and “5 %” do not break over two lines. */
const unbroken = (text) =>
  text
    .replace(/([λγ]) = /g, "$1\u00a0=\u00a0")
    .replaceAll(" ± ", "\u00a0±\u00a0")
    .replaceAll(" %", "\u00a0%");
const together = (piece) => (typeof piece === "string" ? unbroken(piece) : { ...piece, text: unbroken(piece.text) });

/** One step: its words and its figure, and what was set in it. */
class Stage {
  constructor(section, root, tell) {
    this.section = section;
    this.tell = tell;
    this.number = Number(section.dataset.step);
    this.module = MODULES[section.dataset.name];
    this.table = { ...COMMON, ...this.module.state };
    this.state = { ...this.module.start };
    this.study = JSON.parse(root.dataset.study);
    this.published = JSON.parse(root.dataset.published);
    this.step = null;
    this.frame = 0;
  }

  /** Takes what an address says of this step, and says what of it can't be used. */
  read(search) {
    const { state, problems } = parse(search, this.table);
    this.state = { ...this.state, ...state };
    this.tell(problems);
    this.settle();
  }

  /** Once a study's values are known: those that the address may give to these names. */
  values(known) {
    for (const [name, values] of Object.entries(known)) this.table[name] = { ...this.table[name], values };
    this.settle();
  }

  settle() {
    const { state, problems } = settle(this.state, this.table);
    this.state = { ...this.module.start, ...state };
    this.tell(problems);
  }

  part(name) {
    return this.section.querySelector(`[data-part="${name}"]`);
  }

  /** True once the answer is shown. */
  get shown() {
    return this.state.shown === 1;
  }

  /** False once the answer is shown to somebody who has not guessed: there is no ring to show then. */
  get hasGuess() {
    return !this.shown || this.state.guess !== undefined;
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
      this.part("show").addEventListener("click", () => this.show());
      this.menu();
    }
    this.update();
  }

  /** Shows the answer; the button goes, so that the focus goes to what it brought. */
  show() {
    this.state.shown = 1;
    this.update();
    this.part("answer").focus({ preventScroll: true });
    this.bringFigure();
  }

  /** Where the figure is below the words and ends below the screen: the answer goes to the top, the figure follows. */
  bringFigure() {
    const [ask, figure] = [this.section.querySelector(".ask"), this.part("figure")].map((one) =>
      one.getBoundingClientRect(),
    );
    if (figure.top < ask.bottom || figure.bottom <= innerHeight || ask.top <= 0) return;
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    window.scrollBy({ top: ask.top - 8, behavior: still ? "instant" : "smooth" });
  }

  /** The figure's numbers and pictures. */
  menu() {
    const root = this.part("figure");
    const [heading, tools] = [root.querySelector(".card-title"), root.querySelector(".card-tools")];
    const name = `learn-${this.section.dataset.name}`;
    figureMenu(
      { name, root, heading, tools, canvas: this.part("canvas") },
      {
        file: () => name,
        table: () => this.step.table(),
        picture: (kind) =>
          pictureOf(kind, this.drawing.svg, {
            title: heading.textContent,
            figures: [...root.querySelectorAll("figure")],
          }),
      },
    );
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
      fill(
        this.part("answer"),
        answer.map((piece) => (piece.role ? h("strong", { class: `role-${piece.role}` }, piece.text) : piece)),
      );
    }
    remember(serialise({ ...this.state, step: this.number }, this.table, { link }));
  }
}
