/**
 * The Lab in a lecture: its main figure fills the window, and while phones guess at the best λ an axis with their guesses
 * stands in its place. The keys of a remote show the guesses, then the figure.
 * @module lab/lab_lecture
 */

import { axis, heaps, panel } from "../charts/chart.js";
import { Board, label, s } from "../charts/svg.js";
import { lecture } from "../lecture/lecture.js";
import { fill, presenter } from "../lecture/present.js";
import { meaningOf } from "../lecture/remote_keys.js";

/** @import { PlotHost } from "../charts/plot_host.js" */
/** @import { View } from "../explorer/state.js" */
/** @import { Question } from "../lecture/state.js" */

const STOP = "lab"; // its words are in sarqc/extras/classroom/join.py
const DRAWN = "lab-drawn";

/**
 * The λ of a line at one γ, the best, and the band of those as good; null for a line without a perplexity over several λ.
 * @param {Pick<View, "lams"|"lam_texts"|"table">} view
 * @param {number} gamma position
 * @returns {Question|null}
 */
export function questionOf({ lams, lam_texts: names, table }, gamma) {
  const rows = table.rows.filter(({ at }) => at[0] === gamma).sort((a, b) => a.at[1] - b.at[1]);
  const perplexities = rows.map(({ perplexity }) => perplexity);
  if (rows.length < 2 || perplexities.some((value) => !Number.isFinite(value))) return null;
  const best = perplexities.indexOf(Math.min(...perplexities));
  const band = rows.map(({ sweet_spot }, i) => sweet_spot === true || i === best);
  return { lams, names, best, band: [band.indexOf(true), band.lastIndexOf(true)] };
}

/**
 * @param {HTMLElement} root
 * @param {PlotHost} hero the main figure, which has been drawn
 */
export function labLecture(root, hero) {
  const card = hero.root;
  const [cover, tools, black] = ["lecture-cover", "lecture-bar", "tour-black"].map((name) => {
    const element = document.createElement(name === "tour-black" ? "button" : "div");
    element.className = name;
    return element;
  });
  black.hidden = true;
  black.setAttribute("aria-label", "The screen is black. Any key, or a click, brings the figure back");
  card.append(cover, tools, black);
  card.classList.add("is-enlarged");
  document.documentElement.dataset.enlarged = "";
  const full = document.createElement("button");
  Object.assign(full, { type: "button", className: "quiet", textContent: "Full screen" });
  tools.append(full);
  const screen = presenter(black, full);
  const shown = {
    /** @type {View|null} */ view: null,
    gamma: 0,
    answered: false,
    /** @type {number[]|null} */ counts: null,
  };

  const question = () => shown.view && questionOf(shown.view, shown.gamma);

  const board = new Board(cover, (size) => drawn(size), { grows: true });

  /** @param {import("../charts/svg.js").Size} size @returns {import("../charts/svg.js").Drawn[]} */
  function drawn({ width, height }) {
    const asked = question();
    if (!asked) return [];
    const ends = shown.answered ? endsOfAxis(asked.lams.length, width) : null;
    const [left, right] = ends ?? [56, width - 32];
    const box = { left, right, top: shown.answered ? 16 : 72, bottom: height - 44 };
    const at = panel(box, asked.lams.length, [0, 1]);
    const half = (at.x(1) - at.x(0)) / 2;
    const [first, last] = asked.band;
    const x = at.x(first) - half;
    return [
      shown.answered
        ? s("rect", { x, y: at.top, width: at.x(last) + half - x, height: at.bottom - at.top, fill: "var(--band)" })
        : label(at.left - 6, 32, "Which λ gives the lowest perplexity?", {
            size: 20,
            weight: 650,
            fill: "var(--ink)",
          }),
      s("line", { x1: at.left - 8, x2: at.right + 8, y1: at.bottom, y2: at.bottom, stroke: "var(--line-2)" }),
      axis(at, asked.names),
      heaps(at, shown.counts),
    ];
  }

  /**
   * Where the first and the last λ of the figure above are, so that guesses stand under them.
   * @param {number} count of λ
   * @param {number} width of the drawing, in its own unit
   */
  function endsOfAxis(count, width) {
    const { area } = hero;
    const [figure, own] = [hero.canvas, cover].map((element) => element.getBoundingClientRect());
    if (!area || !figure.width || count < 2) return null;
    return [0, count - 1].map((at) => ((area.pixelOf(at) + figure.left - own.left) * width) / own.width);
  }

  /** Whether phones guess, or have guessed. */
  const isAsking = () => hall?.isBegun() === true && question() !== null;

  function redraw() {
    card.dataset.cover = !isAsking() ? "" : shown.answered ? "below" : "whole";
    board.redraw();
    board.describe(shown.answered ? "Guesses of the phones over λ, and the best λ" : "Guesses of the phones over λ");
  }

  /** @type {ReturnType<typeof lecture>|null} */
  let hall = null;
  hall = lecture(root, {
    stop: () => ({
      name: STOP,
      number: 1,
      answered: shown.answered,
      question: question(),
      answer: "",
      heap: (counts) => {
        shown.counts = counts;
      },
    }),
    act: () => {}, // without a window of notes
    event: DRAWN,
    tools,
    card,
    hasNotes: false,
    drawn: () => redraw(),
  });
  const tell = () => root.dispatchEvent(new CustomEvent(DRAWN));

  /** @param {boolean} answered */
  function answer(answered) {
    shown.answered = answered;
    tell();
  }

  /** @type {Partial<Record<import("../lecture/remote_keys.js").Meaning, () => void>>} */
  const acts = {
    on: () => {
      if (isAsking() && !hall?.showsGuesses()) answer(true);
    },
    back: () => answer(false),
    fill: () => fill(),
    black: () => screen.blacken(true),
    code: () => hall?.toggleCode(),
  };
  document.addEventListener("keydown", (event) => {
    if (event.key.startsWith("Arrow")) return; // λ
    const meaning = meaningOf(event);
    if (screen.isBlack()) {
      event.preventDefault();
      screen.blacken(false);
    } else if (meaning && acts[meaning]) {
      event.preventDefault();
      if (!event.repeat) acts[meaning]?.();
    }
  });
  screen.fillSoon();
  new MutationObserver(() => board.redraw()).observe(card, { attributes: true, attributeFilter: ["data-drawn"] });

  return {
    /** @param {View} view @param {number} gamma position */
    show(view, gamma) {
      if (view === shown.view && gamma === shown.gamma) return;
      Object.assign(shown, { view, gamma });
      tell();
    },
  };
}
