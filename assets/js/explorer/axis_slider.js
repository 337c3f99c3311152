/**
 * The λ slider as the λ axis of the main figure: its track lies on the axis, its ends under the first and the last tick,
 * so that its thumb is under the shown λ to the pixel.
 * @module axis_slider
 */

const THUMB = 22; // pixels, as in lab.css: its middle stops half of that before the track's ends

/** @typedef {{left: number, top: number, width: number}} Track pixels in the card */

/**
 * Where the track lies in its card.
 * @param {{first: number, last: number, top: number}} axis of the figure: places of the first and the last tick, and its
 *   height, in the figure's element
 * @param {{left: number, top: number}} shift of the figure's element in the card
 * @returns {Track}
 */
export function trackOn({ first, last, top }, shift) {
  return { left: first + shift.left - THUMB / 2, top: top + shift.top - THUMB / 2, width: last - first + THUMB };
}

/**
 * Keeps the slider on the axis, whenever the figure gets another size or another axis. It asks for places only then,
 * because asking lays out the page.
 * @param {import("./explorer.js").Explorer} explorer
 * @param {HTMLElement} slider
 */
export function alignWithAxis(explorer, slider) {
  const { hero } = explorer.hosts;
  let known = "";

  /** @param {boolean} moved whether the elements themselves may be elsewhere */
  function align(moved) {
    const { view } = explorer.state;
    const { area } = hero;
    const axis = view &&
      area &&
      view.lams.length > 1 && {
        first: area.pixelOf(0),
        last: area.pixelOf(view.lams.length - 1),
        top: area.top + area.height,
      };
    const now = JSON.stringify(axis);
    if (now === known && !moved) return;
    known = now;
    slider.classList.toggle("is-axis", Boolean(axis));
    if (!axis) return;
    const [figure, card] = [hero.canvas.getBoundingClientRect(), hero.root.getBoundingClientRect()];
    const { left, top, width } = trackOn(axis, {
      left: figure.left - card.left - hero.root.clientLeft,
      top: figure.top - card.top - hero.root.clientTop,
    });
    for (const [name, value] of Object.entries({ left, top, width }))
      slider.style.setProperty(`--track-${name}`, `${value}px`);
  }

  new ResizeObserver(() => requestAnimationFrame(() => align(true))).observe(hero.canvas);
  new MutationObserver(() => align(false)).observe(hero.root, { attributes: true, attributeFilter: ["data-drawn"] });
}
