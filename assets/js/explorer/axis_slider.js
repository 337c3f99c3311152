/**
 * The λ slider as the λ axis of the main figure: it stands below the axis, its ends under the first and the last tick, so
 * that its thumb is under the shown λ to the pixel.
 * @module axis_slider
 */

import { plotArea } from "../charts/plotly_internals.js";

const THUMB = 18; // pixels, as in lab.css: its middle stops half of that before the track's ends
const GUTTER = 48; // at least, before the track, for the sign and the value

/**
 * Where the track lies in its card, so that the thumb stands under the ticks; null where that is not inside the card.
 * @param {{first: number, last: number}} ticks the places of the first and the last in the figure's element
 * @param {number} shift of the figure's element to the right of the card
 * @param {number} width of the card
 * @returns {{left: number, width: number}|null}
 */
export function trackUnder({ first, last }, shift, width) {
  const [left, right] = [first + shift - THUMB / 2, last + shift + THUMB / 2];
  return last <= first || left < GUTTER || right > width ? null : { left, width: right - left };
}

/**
 * Keeps the slider under the axis, whenever one of them gets another size and when the figure has another axis. It asks
 * for places only then, because asking lays out the page.
 * @param {import("./explorer.js").Explorer} explorer
 * @param {HTMLElement} card of the sliders
 */
export function alignWithAxis(explorer, card) {
  const { hero } = explorer.hosts;
  let known = "";

  /** @param {boolean} moved whether the elements themselves may be elsewhere */
  function align(moved) {
    const { view } = explorer.state;
    const area = hero.root.classList.contains("is-enlarged") ? null : plotArea(hero.canvas);
    const hasAxis = view && area && view.lams.length > 1 && !hero.root.classList.contains("is-off");
    const ticks = hasAxis ? { first: area.pixelOf(0), last: area.pixelOf(view.lams.length - 1) } : null;
    const now = JSON.stringify(ticks);
    if (now === known && !moved) return;
    known = now;
    const [figure, box] = [hero.canvas.getBoundingClientRect(), card.getBoundingClientRect()];
    const track =
      ticks && figure.width && trackUnder(ticks, figure.left - box.left - card.clientLeft, card.clientWidth);
    card.classList.toggle("is-axis", Boolean(track));
    if (!track) return;
    card.style.setProperty("--track-left", `${track.left}px`);
    card.style.setProperty("--track-width", `${track.width}px`);
  }

  const observer = new ResizeObserver(() => requestAnimationFrame(() => align(true)));
  observer.observe(hero.canvas);
  observer.observe(card);
  new MutationObserver(() => align(false)).observe(hero.root, { attributes: true, attributeFilter: ["data-drawn"] });
}
