/**
 * The line R in the plane of error against drift: a bound on drift that one drags. The point of least error among those
 * that drift no more than R is the one that is shown, so R and λ are one choice seen from two sides (Corollary 1).
 * @module radius
 */

import { h, say } from "../base/dom.js";
import { number } from "../base/format.js";
import { isLocked } from "../base/link.js";
import { plotArea } from "../charts/plotly_internals.js";

/**
 * Position of the point of least error with drift ≤ radius; null where there is none. Of equal errors the smaller drift.
 * @param {(number|null)[]} drift
 * @param {(number|null)[]} error same length; null was not measured
 * @param {number} radius in the unit of drift
 */
export function boundedBest(drift, error, radius) {
  let best = null;
  drift.forEach((value, index) => {
    if (value === null || error[index] === null || value > radius) return;
    if (best === null || error[index] < error[best] || (error[index] === error[best] && value < drift[best]))
      best = index;
  });
  return best;
}

/** Puts the line on an explorer's plane. */
export function radiusLine(explorer) {
  const host = explorer.hosts.plane;
  if (!host) return;
  const label = h("span", { class: "radius-label", "aria-hidden": "true", "data-testid": "radius-label" });
  const line = h(
    "div",
    {
      class: "radius",
      role: "slider",
      tabindex: 0,
      "aria-label": "R, largest drift allowed",
      "data-testid": "radius",
      hidden: true,
    },
    h("span", { class: "radius-name", "aria-hidden": "true" }, "R"),
  );
  host.frame.after(line);
  host.tools.prepend(label);
  let radius = null;
  let place = null; // of the canvas in its card; asked for when it changes, because asking lays out the page
  let chosen = null; // the λ position that this R selected; another one means that λ was moved elsewhere

  const facts = () => {
    const known = explorer.view?.figures.plane?.radius;
    const g = explorer.at.gamma;
    return known ? { drift: known.drift[g], error: known.error[g], names: known.names, on: known.on } : null;
  };

  function show() {
    const known = facts();
    const area = plotArea(host.canvas);
    line.hidden = !known || !area || !place;
    if (line.hidden) return say(label, "");
    const at = explorer.at.lambda;
    if (radius === null || chosen !== at) {
      [radius, chosen] = [known.drift[at], at];
    }
    if (radius === null) {
      line.hidden = true; // the drift of this point was not measured
      return say(label, "");
    }
    const best = boundedBest(known.drift, known.error, radius);
    const left = Math.min(Math.max(area.pixelOf(radius), area.left), area.left + area.width);
    line.style.left = `${place.x + left}px`;
    line.style.top = `${place.y + area.top}px`;
    line.style.height = `${area.height}px`;
    const words = best === null ? `R = ${number(radius, 2)}` : `R = ${number(radius, 2)}: ${known.names[best]}`;
    say(label, words);
    line.setAttribute("aria-valuenow", number(radius, 3));
    line.setAttribute("aria-valuemin", number(Math.min(...measured(known.drift)), 3));
    line.setAttribute("aria-valuemax", number(Math.max(...measured(known.drift)), 3));
    line.setAttribute(
      "aria-valuetext",
      best === null ? words : `drift up to ${number(radius, 2)}: least error on ${known.on} at ${known.names[best]}`,
    );
    line.setAttribute("aria-disabled", String(isLocked("lambda")));
  }

  function set(value) {
    const known = facts();
    if (!known || isLocked("lambda")) return;
    const drifts = measured(known.drift);
    radius = Math.min(Math.max(value, Math.min(...drifts)), Math.max(...drifts));
    chosen = boundedBest(known.drift, known.error, radius) ?? explorer.at.lambda;
    explorer.stop();
    explorer.move({ lambda: chosen });
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
    const area = plotArea(host.canvas);
    if (area) set(area.valueAt(event.clientX - host.canvas.getBoundingClientRect().left));
  });
  line.addEventListener("keydown", (event) => {
    const way = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1 }[event.key];
    const known = facts();
    if (!way || !known) return;
    event.preventDefault();
    event.stopPropagation(); // here the arrows are R's, elsewhere on the page λ's
    const steps = measured(known.drift).sort((a, b) => way * (a - b));
    set(steps.find((value) => way * (value - radius) > 1e-9) ?? radius);
  });
  new MutationObserver(show).observe(host.root, { attributes: true, attributeFilter: ["data-drawn"] });
  new ResizeObserver(() => {
    const { offsetParent, offsetLeft: x, offsetTop: y } = host.canvas;
    place = offsetParent && { x, y };
    requestAnimationFrame(show);
  }).observe(host.canvas);
}

const measured = (values) => values.filter((value) => value !== null);
