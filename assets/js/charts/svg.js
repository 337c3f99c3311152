/**
 * Drawings of the tour: an SVG that is drawn again at each change, and handles on it that stay, so that a drag or the
 * keyboard's focus survives the drawing. Colours are the custom properties of base.css.
 * @module svg
 */

import { ROLES as QUANTITY_ROLES } from "../base/contract.js";
import { isLocked } from "../base/link.js";
import { growthOf } from "./type_size.js";

const NAMESPACE = "http://www.w3.org/2000/svg";

/**
 * @typedef {Object<string, string|number|boolean|null|undefined>} Attributes those that are null, undefined or false are
 * left out
 * @typedef {Node|string|null|undefined|false|Drawn[]} Drawn what a drawing is made of: nodes and texts in any nesting,
 * with holes where something is not drawn
 * @typedef {{width: number, height: number}} Size in pixels of the drawing
 * @typedef {"circle"|"square"|"diamond"} Shape
 * @typedef {{color: string, ink: string, dash: string|null, shape: Shape|null}} Role how a quantity is drawn: its colour,
 * the same dark enough for text, its line and its marker
 */

/**
 * @param {Drawn[]} drawn
 * @returns {(Node|string)[]} without nesting and holes
 */
const nodes = (drawn) =>
  drawn.flatMap((one) =>
    Array.isArray(one) ? nodes(one) : one === null || one === undefined || one === false ? [] : [one],
  );

/**
 * An SVG element.
 * @template {keyof SVGElementTagNameMap} T
 * @param {T} tag
 * @param {Attributes} [attributes]
 * @param {...Drawn} children
 * @returns {SVGElementTagNameMap[T]}
 */
export function s(tag, attributes = {}, ...children) {
  const element = document.createElementNS(NAMESPACE, tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) element.setAttribute(name, String(value));
  }
  element.append(...nodes(children));
  return element;
}

/**
 * A line of text at a place.
 * @param {number} x
 * @param {number} y
 * @param {string} text
 * @param {{at?: "start"|"middle"|"end", fill?: string, size?: number, weight?: number|null, halo?: boolean}} [look]
 */
export function label(
  x,
  y,
  text,
  { at = "start", fill = "var(--ink-2)", size = 12, weight = null, halo = false } = {},
) {
  const attributes = {
    x,
    y,
    "text-anchor": at,
    fill,
    "font-size": size,
    "font-weight": weight,
    "dominant-baseline": "central",
  };
  return s("text", halo ? { ...attributes, class: "halo" } : attributes, text);
}

/**
 * A straight line.
 * @param {number} x1
 * @param {number} y1
 * @param {number} x2
 * @param {number} y2
 * @param {Attributes} [attributes]
 */
export const segment = (x1, y1, x2, y2, attributes = {}) =>
  s("line", { x1, y1, x2, y2, stroke: "var(--line-2)", ...attributes });

/**
 * A path through points [x, y]; points that are null break it.
 * @param {(number[]|null)[]} points
 * @param {Attributes} [attributes]
 */
export function path(points, attributes = {}) {
  let open = false;
  let d = "";
  for (const point of points) {
    if (point === null) open = false;
    else {
      d += `${open ? "L" : "M"}${point[0].toFixed(2)} ${point[1].toFixed(2)}`;
      open = true;
    }
  }
  return s("path", { d, fill: "none", "stroke-linejoin": "round", ...attributes });
}

/**
 * A marker of a role, if it has one.
 * @param {Shape|null} shape
 * @param {number} x
 * @param {number} y
 * @param {number} size
 * @param {Attributes} [attributes]
 */
export function mark(shape, x, y, size, attributes = {}) {
  if (shape === null) return null;
  if (shape === "circle") return s("circle", { cx: x, cy: y, r: size, ...attributes });
  const turn = shape === "diamond" ? `rotate(45 ${x} ${y})` : null;
  const side = size * 1.7;
  return s("rect", { x: x - side / 2, y: y - side / 2, width: side, height: side, transform: turn, ...attributes });
}

/** plotly's words for dashes, as SVG has them. @type {Record<string, string|null>} */
const DASHES = { solid: null, dot: "1 5", dash: "8 5", dashdot: "9 4 2 4" };

/**
 * A quantity's colour, its ink for words, its dash and its marker.
 * @param {import("../base/types.d.ts").RoleName} name
 * @returns {Role}
 */
function role(name) {
  const { color, dash, symbol } = QUANTITY_ROLES[name];
  return { color, ink: color.replace(")", "-ink)"), dash: DASHES[dash], shape: /** @type {Shape} */ (symbol) };
}

/** Colour, dash and marker of each quantity, the same as everywhere in the app. */
export const ROLES = {
  recon: role("recon"),
  heldOut: role("held_out"),
  drift: role("drift"),
  quality: role("quality"),
  /** @type {Role} */
  grey: { color: "var(--ink-3)", ink: "var(--ink-2)", dash: "3 4", shape: "circle" },
};

/** @type {Object<string, number[]>} */
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };

/**
 * One drawing with its handles, as wide and as high as its place. One that grows has type as large as its place's, and
 * all else in it is larger by as much: for screens that are looked at from far away.
 */
export class Board {
  /**
   * @param {HTMLElement} place
   * @param {(size: Size) => Drawn[]} draw what lies under the handles
   * @param {{grows?: boolean}} [options]
   */
  constructor(place, draw, { grows = false } = {}) {
    this.grows = grows;
    this.draw = draw;
    this.layer = s("g");
    this.top = s("g");
    this.svg = s("svg", { role: "group", "font-family": "var(--sans)" }, this.layer, this.top);
    place.append(this.svg);
    this.place = place;
    new ResizeObserver(() => this.redraw()).observe(place);
  }

  /** Pixels of the screen for each pixel of the drawing. */
  get scale() {
    return this.grows ? Math.max(1, growthOf(this.place)) : 1;
  }

  /** What the drawing fills, in its own pixels: all that turns a place on it into a value follows from this. */
  get size() {
    const { scale } = this;
    return { width: this.place.clientWidth / scale, height: this.place.clientHeight / scale };
  }

  /** Draws again, at once. A place without a size is drawn when it gets one. */
  redraw() {
    const { width, height } = this.size;
    if (!width || !height) return;
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.layer.replaceChildren(...nodes(this.draw({ width, height })));
  }

  /**
   * What a screen reader says of the whole drawing.
   * @param {string} text
   */
  describe(text) {
    if (this.svg.getAttribute("aria-label") !== text) this.svg.setAttribute("aria-label", text);
  }

  /**
   * Something to drag, with pointer, finger or arrow keys.
   * @param {{control: string, label: string, glyph: Drawn, drag: (x: number, y: number) => void,
   *   step: (dx: number, dy: number) => void}} options drag gets a place on the drawing in pixels, step the arrow key
   */
  handle({ control, label: name, glyph, drag, step }) {
    const group = s(
      "g",
      {
        class: "handle",
        tabindex: 0,
        role: "slider",
        "aria-label": name,
        "aria-valuenow": 0,
        "data-control": control,
        "data-testid": control,
      },
      s("circle", { r: 22, fill: "transparent" }),
      glyph,
    );
    const follow = (/** @type {PointerEvent} */ event) => {
      const box = this.svg.getBoundingClientRect();
      const { scale } = this;
      drag((event.clientX - box.left) / scale, (event.clientY - box.top) / scale);
    };
    group.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 || group.getAttribute("aria-disabled")) return;
      event.preventDefault();
      group.focus({ preventScroll: true });
      group.setPointerCapture(event.pointerId);
      const stop = () => group.removeEventListener("pointermove", follow);
      group.addEventListener("pointermove", follow);
      group.addEventListener("lostpointercapture", stop, { once: true });
    });
    group.addEventListener("keydown", (event) => {
      const way = ARROWS[event.key];
      if (!way || event.altKey || event.ctrlKey || event.metaKey || group.getAttribute("aria-disabled")) return;
      event.preventDefault();
      step(way[0], way[1]);
    });
    this.top.append(group);
    if (isLocked(control)) group.setAttribute("aria-disabled", "true");
    return {
      element: group,
      /**
       * Puts the handle somewhere; value and text are what a screen reader says.
       * @param {number} x
       * @param {number} y
       * @param {number} value
       * @param {string} text
       */
      at(x, y, value, text) {
        group.setAttribute("transform", `translate(${x.toFixed(2)} ${y.toFixed(2)})`);
        group.setAttribute("aria-valuenow", String(value));
        group.setAttribute("aria-valuetext", text);
      },
      /** @param {boolean} visible */
      show(visible) {
        group.style.display = visible ? "" : "none";
      },
      /** @param {boolean} fixed */
      still(fixed) {
        if (fixed || isLocked(control)) group.setAttribute("aria-disabled", "true");
        else group.removeAttribute("aria-disabled");
      },
    };
  }
}
