/**
 * The line R in the plane of error against drift: a bound on drift that one drags. The point of least error among those
 * that drift no more than R is the one that is shown, so R and λ are one choice seen from two sides (Corollary 1).
 * @module radius
 */

import { say } from "../base/dom.js";
import { number } from "../base/format.js";
import { html, made } from "../base/html.js";

/** @typedef {(number|null)[]} Values null was not measured */

/**
 * Position of the point of least error with drift ≤ radius; null where there is none. Of equal errors the smaller drift.
 * @param {Values} drift
 * @param {Values} error same length
 * @param {number} radius in the unit of drift
 */
export function boundedBest(drift, error, radius) {
  /** @type {{position: number, error: number, drift: number}|null} */
  let best = null;
  for (const [position, drifted] of drift.entries()) {
    const off = error[position];
    if (drifted === null || off === null || drifted > radius) continue;
    if (best === null || off < best.error || (off === best.error && drifted < best.drift))
      best = { position, error: off, drift: drifted };
  }
  return best === null ? null : best.position;
}

/**
 * R as a person chose it, with what it was chosen among and the λ position that it selected.
 * @typedef {{radius: number|null, plane: unknown, gamma: number, lambda: number}} Bound
 */

/**
 * R for what is shown: the chosen one while its plane, γ and λ are shown; for anything else the drift of the shown point.
 * @param {Bound|null} bound the last one
 * @param {{drift: Values[]}} plane the facts of the shown line and layer
 * @param {{gamma: number, lambda: number}} at the point shown
 * @returns {Bound} the same one where it still holds
 */
export function boundAt(bound, plane, { gamma, lambda }) {
  if (bound && bound.plane === plane && bound.gamma === gamma && bound.lambda === lambda) return bound;
  return { radius: plane.drift[gamma][lambda], plane, gamma, lambda };
}

/** @returns {import("./explorer.js").Part} */
export const radiusPart = () => ({ cards: [], wire: radiusLine });

/** @param {import("./explorer.js").Explorer} explorer */
function radiusLine(explorer) {
  const host = explorer.hosts.plane;
  const label = made(html`<span class="radius-label" aria-hidden="true" data-testid="radius-label"></span>`);
  const line = made(html`<div class="radius" role="slider" tabindex="0" aria-label="Limit of drift"
    data-testid="radius" hidden><span class="radius-name" aria-hidden="true">↔</span></div>`);
  host.frame.after(line);
  host.tools.prepend(label);
  /** @type {Bound|null} */
  let bound = null;
  /** Of the canvas in its card; asked for when it changes, because asking lays out the page. @type {{x: number, y: number}|null} */
  let place = null;

  /** The values over λ at the shown γ; null where the line has no such plane. */
  const facts = () => {
    const { view, at } = explorer.state;
    const all = view?.figures.plane?.radius;
    return all ? { all, drift: all.drift[at.gamma], error: all.error[at.gamma], names: all.names, on: all.on } : null;
  };
  const isLocked = () => explorer.state.locked.includes("lambda");

  function show() {
    const curve = facts();
    const { area } = host;
    bound = curve && boundAt(bound, curve.all, explorer.state.at);
    const radius = bound?.radius ?? null;
    line.hidden = !curve || !area || !place || radius === null; // the drift of a point may not have been measured
    if (!curve || !area || !place || radius === null) return say(label, "");
    const best = boundedBest(curve.drift, curve.error, radius);
    const left = Math.min(Math.max(area.pixelOf(radius), area.left), area.left + area.width);
    line.style.left = `${place.x + left}px`;
    line.style.top = `${place.y + area.top}px`;
    line.style.height = `${area.height}px`;
    const limit = number(radius, 2);
    const words = best === null ? `drift ≤ ${limit}` : `least error with drift ≤ ${limit}: ${curve.names[best]}`;
    say(label, words);
    line.setAttribute("aria-valuenow", radius.toFixed(3));
    line.setAttribute("aria-valuemin", Math.min(...measured(curve.drift)).toFixed(3));
    line.setAttribute("aria-valuemax", Math.max(...measured(curve.drift)).toFixed(3));
    line.setAttribute(
      "aria-valuetext",
      best === null ? words : `drift up to ${limit}: least error on ${curve.on} at ${curve.names[best]}`,
    );
    line.setAttribute("aria-disabled", String(isLocked()));
  }

  /** @param {number} value */
  function set(value) {
    const curve = facts();
    if (!curve || isLocked()) return;
    const drifts = measured(curve.drift);
    const radius = Math.min(Math.max(value, Math.min(...drifts)), Math.max(...drifts));
    const { gamma, lambda: shown } = explorer.state.at;
    const lambda = boundedBest(curve.drift, curve.error, radius) ?? shown;
    bound = { radius, plane: curve.all, gamma, lambda };
    explorer.stop();
    explorer.move({ lambda });
    show();
  }

  line.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    event.preventDefault();
    line.focus({ preventScroll: true });
    line.setPointerCapture(event.pointerId);
  });
  line.addEventListener("pointermove", (event) => {
    if (!line.hasPointerCapture(event.pointerId)) return;
    const { area } = host;
    if (area) set(area.valueAt(event.clientX - host.canvas.getBoundingClientRect().left));
  });
  line.addEventListener("keydown", (event) => {
    const way = WAYS[event.key];
    const curve = facts();
    const from = bound?.radius ?? null;
    if (!way || !curve || from === null) return;
    event.preventDefault();
    event.stopPropagation(); // here the arrows are R's, elsewhere on the page λ's
    const steps = measured(curve.drift).sort((a, b) => way * (a - b));
    set(steps.find((value) => way * (value - from) > 1e-9) ?? from);
  });
  new MutationObserver(show).observe(host.root, { attributes: true, attributeFilter: ["data-drawn"] });
  new ResizeObserver(() => {
    const { offsetParent, offsetLeft: x, offsetTop: y } = host.canvas;
    place = offsetParent && { x, y };
    requestAnimationFrame(show);
  }).observe(host.canvas);
}

/** @type {Object<string, 1|-1>} */
const WAYS = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1 };

/** @param {Values} values */
const measured = (values) => values.filter((value) => value !== null);
