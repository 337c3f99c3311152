/**
 * The sliders of λ and γ with the sweet spot on their track, the arrow keys, and λ moving by itself.
 * @module sliders_part
 */

import { isTyping, say } from "../base/dom.js";
import { html, render } from "../base/html.js";
import { alignWithAxis } from "./axis_slider.js";
import { toldOf } from "./state.js";

const STEP_MS = 900;

/** @returns {import("./explorer.js").Part} */
export function slidersPart() {
  /** @type {ReturnType<typeof setInterval>|undefined} */
  let timer;

  return {
    cards: [],

    wire(explorer) {
      for (const axis of /** @type {const} */ (["lambda", "gamma"])) {
        const input = slider(explorer, axis);
        input?.addEventListener("input", () => explorer.move({ [axis]: Number(input.value) }));
      }
      explorer
        .part("play")
        ?.addEventListener("click", () => explorer.dispatch({ type: explorer.state.playing ? "stopped" : "played" }));
      document.addEventListener("keydown", (event) => key(explorer, event));
      const card = explorer.part("sliders");
      if (card) alignWithAxis(explorer, card);
    },

    render(explorer, state, before) {
      const { view, at, quality } = before;
      if (state.view !== view || state.at !== at || state.quality !== quality) controls(explorer, state);
      if (state.playing === before.playing) return;
      clearInterval(timer);
      if (state.playing) timer = setInterval(() => step(explorer), STEP_MS);
      const button = explorer.part("play");
      if (!button) return;
      button.textContent = state.playing ? "❚❚ pause" : "▶ play";
      button.setAttribute("aria-pressed", String(state.playing));
    },
  };
}

/** @param {import("./explorer.js").Explorer} explorer */
function step(explorer) {
  const { view, at } = explorer.state;
  if (view && at.lambda < view.lams.length - 1) explorer.move({ lambda: at.lambda + 1 });
  else explorer.stop();
}

/**
 * ← and → move λ anywhere on the page, unless the person is typing or a modifier is held.
 * @param {import("./explorer.js").Explorer} explorer
 * @param {KeyboardEvent} event
 */
function key(explorer, event) {
  if (!explorer.state.view || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
  if (explorer.root.offsetParent === null || (event.key !== "ArrowLeft" && event.key !== "ArrowRight")) return;
  if (isTyping(event.target) || event.target === explorer.part("gamma")) return;
  event.preventDefault();
  explorer.stop();
  explorer.move({ lambda: explorer.state.at.lambda + (event.key === "ArrowLeft" ? -1 : 1) });
}

/** @param {import("./explorer.js").Explorer} explorer @param {string} axis */
const slider = (explorer, axis) => /** @type {HTMLInputElement|null} */ (explorer.part(axis));

/**
 * @param {import("./explorer.js").Explorer} explorer
 * @param {import("./explorer.js").WithView} state
 */
function controls(explorer, state) {
  const { view, at } = state;
  place(explorer, "lambda", at.lambda, view.lam_texts, "λ", view.lam_flags[at.lambda]);
  place(explorer, "gamma", at.gamma, view.gamma_texts, "γ");
  const gammaBox = explorer.part("gamma-box");
  if (gammaBox) gammaBox.hidden = view.gammas.length < 2;
  const still = view.lams.length < 2 && view.gammas.length < 2; // a single point: nothing to move
  explorer.part("sliders")?.classList.toggle("is-off", still);
  const band = explorer.part("band");
  if (band) render(bandPieces(toldOf(state).band[at.gamma]), band);
}

/**
 * @param {import("./explorer.js").Explorer} explorer
 * @param {"lambda"|"gamma"} axis
 * @param {number} position
 * @param {string[]} texts of its positions
 * @param {string} sign
 * @param {string} [flag] what is flagged at the position
 */
function place(explorer, axis, position, texts, sign, flag = "") {
  const input = slider(explorer, axis);
  if (!input) return;
  const last = texts.length - 1;
  input.max = String(last);
  input.value = String(position);
  input.disabled = last < 1;
  input.style.setProperty("--filled", last < 1 ? "0%" : `${(100 * position) / last}%`);
  input.setAttribute("aria-valuetext", `${sign} = ${texts[position]}${flag && `, ${flag}`}`);
  say(explorer.part(`${axis}-value`), texts[position]);
}

/** The sweet spot drawn on the slider's track, as shares of its length. @param {boolean[]} band */
const bandPieces = (band) =>
  stretches(band).map(
    ([left, right]) => html`<span style=${`left:${100 * left}%;width:${100 * (right - left)}%`}></span>`,
  );

/**
 * Start and end of each run of true, from 0 to 1, reaching a little beyond its points; neighbours make one stretch.
 * @param {boolean[]} band
 * @returns {[left: number, right: number][]}
 */
export function stretches(band) {
  const last = band.length - 1;
  if (last < 1) return [];
  /** @type {[number, number][]} */
  const runs = [];
  band.forEach((inside, index) => {
    if (!inside) return;
    const right = Math.min(1, (index + 0.4) / last);
    if (index > 0 && band[index - 1]) runs[runs.length - 1][1] = right;
    else runs.push([Math.max(0, (index - 0.4) / last), right]);
  });
  return runs;
}
