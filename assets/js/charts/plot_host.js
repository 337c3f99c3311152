/**
 * One persistent plot: an element that is made once and then only updated. Flat figures are drawn as SVG
 * (flat/flat_drawing.js), surfaces on a canvas (surface/surface_drawing.js). Figures come with bindings (see bind.js).
 * @module plot_host
 */

/** @import { Figure, Opened, Point } from "./bind.js" */
/** @import { PlotElement, PlotPoint } from "./figure.d.ts" */
/** @import { Look } from "./surface/frame.js" */

import { html, nothing, render } from "../base/html.js";
import { colour, onTheme } from "../base/theme.js";
import { boundValue, figureAt, lookUp, withColours } from "./bind.js";
import { FlatDrawing } from "./flat/flat_drawing.js";
import { keepSizes } from "./paper.js";
import { SurfaceDrawing } from "./surface/surface_drawing.js";
import { marksOf } from "./terms.js";
import { grown, growthOf } from "./type_size.js";

const NARROW = 520;
/** @type {Point} of a figure that has one alone */
const ONLY = { gamma: 0, lambda: 0 };
/** @type {Map<string, PlotHost>} */
const hosts = new Map();
/** @type {Map<string, PromiseWithResolvers<PlotHost>>} */
const waiting = new Map();

/**
 * The plot of a name, as soon as its element is on the page.
 * @param {string} name
 * @returns {Promise<PlotHost>}
 */
export function plot(name) {
  const host = hosts.get(name);
  if (host) return Promise.resolve(host);
  const expected = waiting.get(name) ?? /** @type {PromiseWithResolvers<PlotHost>} */ (Promise.withResolvers());
  waiting.set(name, expected);
  return expected.promise;
}

/**
 * Called by the component's js_on_load: takes the element under our care.
 * @param {HTMLElement} element
 */
export function mount(element) {
  const root = /** @type {HTMLElement|null} */ (element.querySelector("[data-plot]"));
  if (!root || root.dataset.mounted) return;
  root.dataset.mounted = "true";
  if (!hosts.size) keepSizes({ [Symbol.iterator]: () => hosts.values() });
  const host = new PlotHost(root);
  hosts.set(host.name, host);
  waiting.get(host.name)?.resolve(host);
}

onTheme(() => {
  for (const host of hosts.values()) host.recolour();
});

/** One plot of a page. */
export class PlotHost {
  /** @param {HTMLElement} root the card, as pages/plot.py writes it */
  constructor(root) {
    const part = (/** @type {string} */ name) => /** @type {HTMLElement} */ (root.querySelector(`.${name}`));
    this.root = root;
    this.name = root.dataset.plot ?? "";
    this.canvas = /** @type {PlotElement} */ (part("plot-canvas"));
    this.frame = part("plot-frame");
    this.heading = part("card-title");
    this.notice = part("plot-notice");
    this.tools = part("card-tools");
    /** @type {FlatDrawing|null} of a flat figure */
    this.flat = null;
    /** @type {SurfaceDrawing|null} of a surface */
    this.surface = null;
    /** @type {Figure|null} */
    this.figure = null;
    /** @type {Figure|null} with the colours of the theme, and as large as its place wants its type */
    this.themed = null;
    /** @type {ReturnType<typeof marksOf>|null} what each mark of the figure shows */
    this.marks = null;
    this.growth = 1;
    this.at = ONLY;
    /** @type {Record<string, Opened>} */
    this.arrays = {};
    this.width = 0;
    this.height = 0;
    this.narrow = false;
    this.entitled = false;
    this.asked = false; // to draw the figure that there is
    /** @type {(event: {points: PlotPoint[]}) => void} */
    this.clicked = () => {};
    /** @type {(points: PlotPoint[]) => void} */
    this.pointed = () => {};
    this.settled = () => {}; // hears when another point or figure is drawn
    this.seen = false; // on the screen
    this.near = false; // or about to come there
    new ResizeObserver(() => this.resized()).observe(this.canvas);
    new IntersectionObserver((entries) => (this.seen = isThere(entries))).observe(this.canvas);
    const around = { rootMargin: "200px" };
    new IntersectionObserver((entries) => (this.near = isThere(entries)), around).observe(root);
  }

  /**
   * A new figure, or null for none.
   * @param {Figure|null} figure
   */
  show(figure) {
    this.take(figure, ONLY);
    if (figure) this.draw();
  }

  /**
   * Takes a figure with all that is said about it; it is drawn by `draw`.
   * @param {Figure|null} figure
   * @param {Point} at
   * @param {Record<string, Opened>} [arrays] opened arrays by name
   * @param {string} [missing] what to say where there is no figure
   */
  take(figure, at, arrays = {}, missing = "") {
    this.figure = figure;
    this.at = at;
    this.arrays = arrays;
    this.themed = null;
    this.marks = null;
    this.asked = false;
    if (!figure || this.isFlat) this.surface?.clear();
    if (!figure || !this.isFlat) this.flat?.clear();
    this.frame.classList.toggle("is-empty", !figure);
    this.head(at);
    this.say(figure ? "" : missing);
    this.describe(at);
  }

  /**
   * Gives the card another title than the one that it came with.
   * @param {unknown} content
   */
  entitle(content) {
    if (!this.entitled) this.heading.replaceChildren();
    this.entitled = true;
    render(content, this.heading);
  }

  /**
   * Heads the card with the finding of the figure at a point, above its name.
   * @param {Point} at
   */
  head(at) {
    const { title, subtitle, finding } = this.figure ?? {};
    if (!title) return;
    const name = html`${title}${
      subtitle ? html`<span class="card-joint"> · </span><span class="card-subtitle">${subtitle}</span>` : nothing
    }`;
    if (!finding) this.entitle(name);
    else {
      const found = String(lookUp(finding, at) ?? "");
      const joint = found && html`<span class="card-joint"> · </span>`;
      this.entitle(html`<span class="card-finding">${found}</span>${joint}<span class="card-name">${name}</span>`);
    }
  }

  /**
   * Says what the figure shows at a point.
   * @param {Point} at
   */
  describe(at) {
    const aria = this.figure?.bindings?.find((binding) => binding.path === "aria");
    const text = aria ? boundValue(aria, at) : this.figure?.aria;
    if (text) this.frame.setAttribute("aria-label", String(text));
  }

  /**
   * The same figure at another point.
   * @param {Point} at
   */
  move(at) {
    this.at = at;
    if (this.figure) this.draw();
  }

  /**
   * The same figure at another point, in the frame that is being made. The heights of a surface begin to go there.
   * @param {Point} at
   * @returns {boolean} false for a figure that has not been drawn yet
   */
  step(at) {
    if (!this.figure) return true;
    this.at = at;
    if (!this.asked) return false;
    this.paint(true);
    return true;
  }

  /**
   * Says on the page which point is drawn.
   * @param {Point} at
   */
  isAt(at) {
    this.root.dataset.drawn = `${at.gamma},${at.lambda}`;
    if (this.figure?.finding) this.head(at);
    this.settled();
  }

  /**
   * A word in the figure's place.
   * @param {string} text
   */
  say(text) {
    if (this.notice.textContent !== text) this.notice.textContent = text;
  }

  /**
   * Calls back with the points at a click.
   * @param {(event: {points: PlotPoint[]}) => void} handler
   */
  onClick(handler) {
    this.clicked = handler;
  }

  /**
   * Calls back with the points that the mouse is at; with none when it leaves.
   * @param {(points: PlotPoint[]) => void} handler
   */
  onPoint(handler) {
    this.pointed = handler;
  }

  /**
   * Calls back with a position on the λ axis while the pointer is held down on the figure.
   * @param {(position: number) => void} handler
   */
  onScrub(handler) {
    this.canvas.classList.add("is-scrub");
    const follow = (/** @type {PointerEvent} */ event) => {
      const { area } = this;
      if (!area) return;
      const x = event.clientX - this.canvas.getBoundingClientRect().left;
      if (x < area.left - 12 || x > area.left + area.width + 12) return;
      handler(Math.round(area.valueAt(x)));
    };
    this.canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      follow(event);
      whileDragging(follow);
    });
  }

  recolour() {
    this.themed = null;
    if (this.asked) this.draw();
  }

  /** A figure that nobody has asked to draw yet is drawn in its turn, however large its place has become. */
  resized() {
    const width = this.canvas.clientWidth;
    const height = this.canvas.clientHeight;
    if (!width || !height || (width === this.width && height === this.height)) return;
    if (this.asked) this.draw();
  }

  /** False for a surface. */
  get isFlat() {
    return !this.figure?.data.some(({ type }) => type === "surface");
  }

  /** Where the first horizontal axis of a flat figure lies; null before it is drawn. */
  get area() {
    return this.flat?.area ?? null;
  }

  /**
   * Where a cell of a heatmap is drawn; null where there is none.
   * @param {number} trace its position in the figure
   * @param {[row: number, column: number]} cell
   */
  cellBox(trace, cell) {
    return this.flat?.cellBox(trace, cell) ?? null;
  }

  /**
   * The row of a point over the whole width; null where there is none.
   * @param {number} trace its position in the figure
   * @param {number} point
   */
  rowBox(trace, point) {
    return this.flat?.rowBox(trace, point) ?? null;
  }

  /** Draws what is current, once its place has a size. */
  draw() {
    this.asked = this.figure !== null;
    this.paint(false);
  }

  /**
   * The figure at the point that is to be drawn, as wide and as high as its place; null where there is none: a hidden card
   * has no size, and is drawn when it gets one.
   */
  made() {
    const width = this.canvas.clientWidth;
    const height = this.canvas.clientHeight;
    if (!width || !height || !this.figure) return null;
    const growth = growthOf(this.frame);
    if (growth !== this.growth) this.themed = null;
    this.growth = growth;
    this.themed ??= grown(withColours(this.figure, colour), growth);
    const narrow = width / growth < (this.figure.narrow_below ?? NARROW);
    [this.width, this.height, this.narrow] = [width, height, narrow];
    return figureAt(this.themed, this.at, this.arrays, narrow);
  }

  /** @param {boolean} isStep whether the same figure is drawn at another point */
  paint(isStep) {
    const made = this.made();
    if (!made || !this.figure) return;
    const size = { width: this.width, height: this.height };
    Object.assign(this.canvas, { data: made.data, layout: made.layout });
    if (this.isFlat) {
      this.flat ??= this.telling(new FlatDrawing(this.canvas));
      const { figure } = this;
      const painted = () => this.nameMarks(figure);
      if (isStep && this.seen) this.flat.glide(made, size, painted);
      else {
        this.flat.draw(made, size);
        painted();
      }
    } else {
      this.surface ??= this.telling(new SurfaceDrawing(this.canvas, this.root, this.name));
      this.surface.painted = () => this.settled();
      this.surface.draw(made, size, lookOf(), isStep);
    }
    this.frame.setAttribute("aria-label", made.aria);
    this.isAt(this.at);
  }

  /**
   * Lets a new drawing tell what is clicked and pointed at.
   * @template {FlatDrawing | SurfaceDrawing} Drawing
   * @param {Drawing} drawing
   */
  telling(drawing) {
    drawing.clicked = (/** @type {PlotPoint[]} */ points) => this.clicked({ points });
    drawing.hovered = (/** @type {PlotPoint[]} */ points) => this.pointed(points);
    return drawing;
  }

  /**
   * Names each mark by what it shows (`data-shows`, and a trace's quantity as `data-of`), for the styles.
   * @param {Figure} figure
   */
  nameMarks(figure) {
    this.marks ??= marksOf(figure);
    const { traces, annotations, quantities } = this.marks;
    for (const element of this.canvas.querySelectorAll("[data-trace]")) {
      const at = Number(element.getAttribute("data-trace"));
      if (traces[at]) element.setAttribute("data-shows", traces[at]);
      element.setAttribute("data-of", quantities[at] ?? "");
    }
    for (const element of this.canvas.querySelectorAll(".annotation[data-index]")) {
      const shows = annotations[Number(element.getAttribute("data-index"))];
      if (shows) element.setAttribute("data-shows", shows);
    }
  }
}

/** @param {IntersectionObserverEntry[]} entries the newest last */
const isThere = (entries) => entries[entries.length - 1].isIntersecting;

/** The colours of the page that surfaces are drawn with. @returns {Look} */
const lookOf = () => ({
  ink: colour("--ink"),
  ink2: colour("--ink-2"),
  ink3: colour("--ink-3"),
  line: colour("--line"),
  accent: colour("--accent"),
  drift: colour("--drift"),
  surface: colour("--surface"),
  ground: colour("--ground"),
});

/**
 * Calls `follow` for every move of the pointer until it is let go.
 * @param {(event: PointerEvent) => void} follow
 */
function whileDragging(follow) {
  const stop = () => {
    window.removeEventListener("pointermove", follow);
    window.removeEventListener("pointerup", stop);
    window.removeEventListener("pointercancel", stop);
  };
  window.addEventListener("pointermove", follow);
  window.addEventListener("pointerup", stop);
  window.addEventListener("pointercancel", stop);
}
