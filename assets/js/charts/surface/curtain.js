/**
 * The handle of the curtain: a native slider along the near lower edge of the surface, so that a mouse, a finger, the
 * keyboard and a screen reader move it alike. Only its thumb is seen and takes the pointer.
 * @module surface/curtain
 */

import { html, made } from "../../base/html.js";

const THUMB = 24; // pixels, as in styles

export class Curtain {
  /**
   * @param {HTMLElement} card in which it lies
   * @param {HTMLElement} place of the drawing, beyond whose edges it is not seen
   * @param {string} name of the figure
   * @param {(position: number) => void} moved hears the column at which the curtain stands
   */
  constructor(card, place, name, moved) {
    this.card = card;
    this.place = place;
    this.root = made(html`<div class="curtain" hidden
      ><input type="range" min="0" step="1" data-testid=${`curtain-${name}`}
    /></div>`);
    this.input = /** @type {HTMLInputElement} */ (this.root.firstElementChild);
    this.input.addEventListener("input", () => moved(this.input.valueAsNumber));
    // Arrows and Home belong to the slider here, and not to λ or the camera.
    this.input.addEventListener("keydown", (event) => event.stopPropagation());
    card.append(this.root);
  }

  /**
   * Lays the slider along an edge.
   * @param {{from: [left: number, top: number], to: [left: number, top: number]}} edge pixels of the drawing
   * @param {{last: number, position: number, label: string, words: string}} state the last column, the curtain's, the
   *   slider's name and what its position means
   */
  put({ from, to }, { last, position, label, words }) {
    const { root, input } = this;
    const [card, place] = [this.card, this.place].map((element) => element.getBoundingClientRect());
    Object.assign(root.style, {
      left: `${place.left - card.left - this.card.clientLeft}px`,
      top: `${place.top - card.top - this.card.clientTop}px`,
      width: `${place.width}px`,
      height: `${place.height}px`,
    });
    root.hidden = false;
    input.max = String(last);
    input.value = String(position);
    input.setAttribute("aria-label", label);
    input.setAttribute("aria-valuetext", words);
    const length = Math.hypot(to[0] - from[0], to[1] - from[1]);
    const left = (from[0] + to[0] - length - THUMB) / 2;
    const top = (from[1] + to[1] - THUMB) / 2;
    Object.assign(input.style, {
      width: `${length + THUMB}px`,
      transform: `translate(${left}px, ${top}px) rotate(${Math.atan2(to[1] - from[1], to[0] - from[0])}rad)`,
    });
  }

  hide() {
    this.root.hidden = true;
  }
}
