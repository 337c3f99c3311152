/**
 * The slider of λ on the axis of the main figure, with the sweet spot on its track, the arrow keys, and λ moving by
 * itself.
 * @module sliders_part
 */

import { isTyping } from "../base/dom.js";
import { html, render } from "../base/html.js";
import { closeMenu } from "../base/popover.js";
import { boundValue } from "../charts/bind.js";
import { alignWithAxis } from "./axis_slider.js";
import { BAND } from "./band.js";

/** @import { Explorer } from "./explorer.js" */

const STEP_MS = 900;

/** @returns {import("./explorer.js").Part} */
export function slidersPart() {
  /** @type {ReturnType<typeof setInterval>|undefined} */
  let timer;

  return {
    cards: [],

    wire(explorer) {
      const input = slider(explorer);
      input?.addEventListener("input", () => {
        explorer.stop();
        explorer.move({ lambda: Number(input.value) });
      });
      const play = explorer.part("play");
      play?.addEventListener("click", () => {
        explorer.togglePlay();
        closeMenu(play);
      });
      document.addEventListener("keydown", (event) => key(explorer, event));
      const axis = explorer.part("sliders");
      if (axis) alignWithAxis(explorer, axis);
    },

    render(explorer, state, before) {
      const { view, at, shown } = before;
      if (state.view !== view || state.at !== at || state.shown !== shown) controls(explorer, state);
      if (state.playing === before.playing) return;
      clearInterval(timer);
      const isPlaying = state.playing !== null;
      if (isPlaying) timer = setInterval(() => step(explorer), STEP_MS);
      const button = explorer.part("play");
      if (!button) return;
      button.textContent = isPlaying ? "❚❚ pause" : "▶ play";
      button.setAttribute("aria-pressed", String(isPlaying));
    },
  };
}

/** The next λ; after the last one that at which it began. @param {Explorer} explorer */
function step(explorer) {
  const { view, at, playing } = explorer.state;
  if (view && at.lambda < view.lams.length - 1) {
    explorer.move({ lambda: at.lambda + 1 });
    return;
  }
  explorer.stop();
  explorer.move({ lambda: playing ?? at.lambda });
}

/**
 * ← and → move λ anywhere on the page, unless the person is typing or a modifier is held.
 * @param {Explorer} explorer
 * @param {KeyboardEvent} event
 */
function key(explorer, event) {
  if (!explorer.state.view || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
  if (explorer.root.offsetParent === null || (event.key !== "ArrowLeft" && event.key !== "ArrowRight")) return;
  if (isTyping(event.target)) return;
  event.preventDefault();
  explorer.stop();
  explorer.move({ lambda: explorer.state.at.lambda + (event.key === "ArrowLeft" ? -1 : 1) });
}

/** @param {Explorer} explorer */
const slider = (explorer) => /** @type {HTMLInputElement|null} */ (explorer.part("lambda"));

/**
 * @param {Explorer} explorer
 * @param {import("./explorer.js").WithView} state
 */
function controls(explorer, state) {
  const { view, at, shown } = state;
  const [input, last] = [slider(explorer), view.lam_texts.length - 1];
  if (!input) return;
  input.max = String(last);
  input.value = String(at.lambda);
  input.disabled = last < 1;
  input.style.setProperty("--filled", last < 1 ? "0%" : `${(100 * at.lambda) / last}%`);
  const flag = view.lam_flags[at.lambda];
  input.setAttribute("aria-valuetext", `λ = ${view.lam_texts[at.lambda]}${flag && `, ${flag}`}`);
  explorer.part("sliders")?.classList.toggle("is-off", last < 1); // a single point: nothing to move
  const band = explorer.part("band");
  if (!band) return;
  band.dataset.of = shown;
  const figure = view.figures[`hero_${shown}`] ?? view.figures.hero;
  render(figure && bandPieces(stretches(figure, at.gamma, last)), band);
}

/** The band of the main figure on the slider's track, as shares of its length. @param {[left: number, right: number][]} runs */
const bandPieces = (runs) =>
  runs.map(([left, right]) => html`<span style=${`left:${100 * left}%;width:${100 * (right - left)}%`}></span>`);

/**
 * Start and end of each run of the band of a figure, from 0 to 1.
 * @param {import("./state.js").Figure} figure
 * @param {number} gamma
 * @param {number} last position of the last λ
 * @returns {[left: number, right: number][]}
 */
export function stretches({ layout, bindings = [] }, gamma, last) {
  const shapes = /** @type {{name?: string}[]} */ (layout.shapes ?? []);
  return shapes.flatMap(({ name }, at) => {
    const bound = (/** @type {string} */ end) => bindings.find(({ path }) => path === `layout.shapes.${at}.${end}`);
    const [left, right] = ["x0", "x1"]
      .map((end) => bound(end))
      .map((one) => one && boundValue(one, { gamma, lambda: 0 }));
    return name === BAND && typeof left === "number" && typeof right === "number" && right > left
      ? [[Math.max(0, left / last), Math.min(1, right / last)]]
      : [];
  });
}
