/**
 * A step of the tour on its page. What is set in it stands in the address; facts follow from that, and words, controls,
 * drawing and table from the facts. A step is prepared when it is first opened, and waits while another is shown.
 * @module learn/stage
 */

import { parse, serialise } from "../base/address.js";
import { remember } from "../base/address_bar.js";
import { asProblem } from "../base/client.js";
import { html, nothing, render } from "../base/html.js";
import { link } from "../base/link.js";
import { isStill } from "../base/motion.js";
import { problemBlock } from "../base/problem.js";
import { figureMenu } from "../charts/figure_menu.js";
import { Board } from "../charts/svg.js";
import { settle } from "./address.js";
import { pictureOf } from "./picture.js";

export const DRAWN = "step-drawn"; // an event of the section

/**
 * @template {import("./types.d.ts").Settings} S
 * @template D
 * @template F
 */
export class Stage {
  /**
   * @param {HTMLElement} section the step's markup, see pages/learn.py
   * @param {import("./types.d.ts").StepModule<S, D, F>} module
   * @param {import("./types.d.ts").AddressTable} common what the address of every step has
   * @param {import("./types.d.ts").Given} given
   * @param {(sentences: string[]) => void} tell says what of the address can't be used
   */
  constructor(section, module, common, given, tell) {
    this.section = section;
    this.module = module;
    this.given = given;
    this.tell = tell;
    this.number = Number(section.dataset.step);
    this.table = { ...common, ...module.state };
    /** @type {S & import("./types.d.ts").Asking} */
    this.state = { ...module.start };
    /** @type {D|null} */
    this.data = null;
    /** @type {F|null} */
    this.facts = null;
    this.waiting = false; // for data
    /** @type {import("../base/client.js").Problem|null} */
    this.trouble = null; // why there are no data
    /** @type {import("./types.d.ts").StepView<F>|null} */
    this.view = null;
    this.frame = 0;
    /** @type {number[]|null} how many phones of a lecture have guessed each λ */
    this.counts = null;
    const draw = (/** @type {import("../charts/svg.js").Size} */ size) =>
      this.view && this.facts ? this.view.draw(size, this.facts) : [];
    this.board = new Board(this.part("canvas"), draw, { grows: true });
  }

  /**
   * Takes what an address says of this step, in the place of what is set, and says what of it can't be used.
   * @param {string} search
   */
  read(search) {
    const { state, problems } = parse(search, this.table);
    this.state = { ...this.module.start, ...state };
    this.tell(problems);
    this.settle();
  }

  /**
   * The query string that shows this step as it is.
   * @param {import("../base/address.js").Link} given what the link hides and locks
   */
  query(given) {
    return serialise({ ...this.state, step: this.number }, this.table, { link: given });
  }

  /** Brings what is set to the values that the figure has. */
  settle() {
    const known = this.module.values?.(this.given, this.data) ?? {};
    for (const [name, values] of Object.entries(known)) this.table[name] = { ...this.table[name], values };
    const { state, problems } = settle(this.state, this.table);
    this.state = { ...this.module.start, ...state };
    this.tell(problems);
  }

  /**
   * A place of the step's markup.
   * @param {string} name
   * @returns {HTMLElement}
   */
  part(name) {
    return within(this.section, `[data-part="${name}"]`, HTMLElement);
  }

  /** True once the answer is shown. */
  get answered() {
    return this.state.shown === 1;
  }

  /**
   * Sets something in this step: drawn in the next frame, remembered in the address.
   * @param {Partial<S>} change
   */
  set(change) {
    Object.assign(this.state, change);
    this.frame ||= requestAnimationFrame(() => this.render());
  }

  /**
   * Sets what the question was about. With the answer shown the guess was one about something else, and goes.
   * @param {Partial<S>} change
   */
  change(change) {
    this.set(this.answered ? { ...change, guess: undefined } : change);
  }

  open() {
    if (!this.view) {
      this.view = this.module.create(this);
      this.part("show").addEventListener("click", () => this.answer());
      this.menu();
      this.prepare();
    }
    this.render();
  }

  /** Gets what the step needs beside what is set: at once, or when it has been fetched. */
  prepare() {
    const made = this.module.prepare?.(this.given) ?? null;
    if (!(made instanceof Promise)) {
      this.data = made;
      this.settle();
      return;
    }
    this.waiting = true;
    made
      .then((data) => {
        this.data = data;
        this.settle();
      })
      .catch((error) => {
        this.trouble = asProblem(error, `study ${this.given.study.id}`);
      })
      .finally(() => {
        this.waiting = false;
        this.render();
      });
  }

  /** The step as a lecture knows it. @returns {import("../lecture/lecture.js").Stop} */
  get stop() {
    return {
      name: this.section.dataset.name ?? "",
      number: this.number,
      answered: this.answered,
      question: (this.facts && this.module.asked?.(this.facts)) ?? null,
      answer: this.part("answer").textContent ?? "",
      heap: (counts) => {
        if (String(counts) === String(this.counts)) return;
        this.counts = counts;
        this.board.redraw();
      },
    };
  }

  /** Shows the answer; the button goes, so that the focus goes to what it brought. */
  answer() {
    this.state.shown = 1;
    this.render();
    this.part("answer").focus({ preventScroll: true });
    this.bringFigure();
  }

  /** Where the figure is below the words and ends below the screen: the answer goes to the top, the figure follows. */
  bringFigure() {
    const ask = within(this.section, ".ask", HTMLElement).getBoundingClientRect();
    const figure = this.part("figure").getBoundingClientRect();
    if (figure.top < ask.bottom || figure.bottom <= innerHeight || ask.top <= 0) return;
    window.scrollBy({ top: ask.top - 8, behavior: isStill() ? "instant" : "smooth" });
  }

  /** The figure's numbers and pictures. */
  menu() {
    const root = this.part("figure");
    const [heading, tools] = [".card-title", ".card-tools"].map((selector) => within(root, selector, HTMLElement));
    const name = `learn-${this.section.dataset.name}`;
    figureMenu(
      { name, root, heading, tools, canvas: this.part("canvas") },
      {
        file: () => name,
        table: () => (this.facts ? this.module.table(this.facts) : { columns: [], rows: [] }),
        picture: (kind) =>
          pictureOf(kind, this.board.svg, {
            title: heading.textContent ?? "",
            figures: [...root.querySelectorAll("figure")],
          }),
      },
    );
  }

  /** Brings words, figure and address to what is set; a step that is not shown waits until it is opened. */
  render() {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    if (this.section.hidden || !this.view) return;
    const { module, view, answered } = this;
    const facts = module.facts(this.state, this.data, this.given);
    this.facts = facts;
    this.section.classList.toggle("is-shown", answered);
    if (view.ask) render(view.ask(facts), this.part("ask"));
    if (view.controls) render(view.controls(facts), this.part("controls"));
    view.paint?.(facts);
    this.board.redraw();
    this.board.describe(facts ? module.aria(facts) : "The study is being fetched.");
    this.part("show").hidden = answered;
    render(answered && facts ? module.answer(facts).map(coloured) : nothing, this.part("answer"));
    render(this.below(), this.part("extra"));
    remember(this.query(link), String(this.number));
    this.section.dispatchEvent(new CustomEvent(DRAWN, { bubbles: true }));
  }

  /** What stands below the figure: that its numbers are on their way, why they are not there, or more of them. */
  below() {
    if (this.waiting) return html`<p class="loading" role="status">Fetching the study</p>`;
    if (this.trouble) return problemBlock(this.trouble);
    return (this.facts && this.view?.extra?.(this.facts)) ?? nothing;
  }
}

/**
 * Something that the page's markup has.
 * @template {Element} E
 * @param {Element} root
 * @param {string} selector
 * @param {new () => E} kind
 * @returns {E}
 */
export function within(root, selector, kind) {
  const inside = root.querySelector(selector);
  if (!(inside instanceof kind)) throw new Error(`the tour has no ${kind.name} ${selector}`);
  return inside;
}

/**
 * “λ = 0.1”, “1 ± 0.1” and “5 %” do not break over two lines.
 * @param {string} text
 */
export const unbroken = (text) =>
  text
    .replace(/([λγ]) = /g, "$1\u00a0=\u00a0")
    .replaceAll(" ± ", "\u00a0±\u00a0")
    .replaceAll(" %", "\u00a0%");

/** @param {import("./types.d.ts").Piece} piece */
const coloured = (piece) =>
  typeof piece === "string"
    ? unbroken(piece)
    : html`<strong class="role-${piece.role}">${unbroken(piece.text)}</strong>`;
