/**
 * One persistent plot: an element that is made once and then only updated. Flat figures are drawn as SVG (flat/flat_drawing.js),
 * surfaces with Plotly.react, so that the camera stays and no second WebGL context is made. Figures come with bindings
 * (see bind.js).
 * @module plot_host
 */

/** @import { Binding, Figure, Opened, Point } from "./bind.js" */
/** @import { Camera, Layout, Library, PlotElement, PlotPoint } from "./plotly.d.ts" */

import { html, nothing, render } from "../base/html.js";
import { at } from "../base/site.js";
import { colour, onTheme } from "../base/theme.js";
import { boundValue, figureAt, withColours } from "./bind.js";
import { FlatDrawing } from "./flat/flat_drawing.js";
import { keepSizes } from "./paper.js";
import { drawsScenes, quickenScenes, scenesOf } from "./plotly_internals.js";
import { movingBindings, stepInPlace } from "./step.js";
import { marksOf } from "./terms.js";
import { grown, growthOf } from "./type_size.js";

const NARROW = 520;
const CONFIG = { displayModeBar: false, responsive: false, scrollZoom: false, doubleClick: false, showTips: false };
/** @type {Map<string, PlotHost>} */
const hosts = new Map();
/** @type {Map<string, PromiseWithResolvers<PlotHost>>} */
const waiting = new Map();
const plotly = /** @type {PromiseWithResolvers<Library>} */ (Promise.withResolvers());
/** @type {HTMLScriptElement|null} */
let script = null;

/**
 * plotly itself, from our own server, started once. Nothing else happens on the page for as long as that takes: what can
 * be asked of the server is best asked before.
 */
export function library() {
  if (!script) {
    script = document.createElement("script");
    const version = /** @type {HTMLMetaElement|null} */ (document.querySelector('meta[name="plotly"]'))?.content;
    script.src = at(`/assets/plotly.min.js${version ? `?v=${encodeURIComponent(version)}` : ""}`);
    script.onload = () => plotly.resolve(window.Plotly);
    script.onerror = () => plotly.reject(new Error("plotly.min.js can't be loaded"));
    document.head.append(script);
  }
  return plotly.promise;
}

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
    /** @type {Figure|null} */
    this.figure = null;
    /** @type {Figure|null} with the colours of the theme, and as large as its place wants its type */
    this.themed = null;
    /** @type {ReturnType<typeof marksOf>|null} what each mark of the figure shows */
    this.marks = null;
    this.growth = 1;
    /** @type {Point} */
    this.at = { gamma: 0, lambda: 0 };
    /** @type {Record<string, Opened>} */
    this.arrays = {};
    /** @type {Camera|null} from where the person last looked */
    this.camera = null;
    this.aspect = ROOMY; // of a scene
    /** @type {Binding[]|null} of the figure as it is drawn */
    this.moving = null;
    /** @type {Point|null} the point that is drawn */
    this.shown = null;
    this.width = 0;
    this.height = 0;
    this.narrow = false;
    this.entitled = false;
    this.drawn = false;
    this.turning = false;
    this.webgl = true;
    this.busy = false;
    this.again = false;
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
   * @param {Point} at
   * @param {Record<string, Opened>} [arrays] opened arrays by name
   * @param {string} [missing] what to say where there is no figure
   */
  async show(figure, at, arrays = {}, missing = "") {
    this.take(figure, at, arrays, missing);
    if (figure) await this.draw();
  }

  /**
   * Takes a figure as `show` does, with all that is said about it; it is drawn by `draw`.
   * @param {Figure|null} figure
   * @param {Point} at
   * @param {Record<string, Opened>} [arrays]
   * @param {string} [missing]
   */
  take(figure, at, arrays = {}, missing = "") {
    this.figure = figure;
    this.at = at;
    this.arrays = arrays;
    this.themed = null;
    this.marks = null;
    this.moving = null;
    this.asked = false;
    this.frame.classList.toggle("is-empty", !figure);
    if (figure?.title) {
      const { title, subtitle } = figure;
      this.entitle(html`${title}${subtitle ? html`<span class="card-subtitle">${subtitle}</span>` : nothing}`);
    }
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
   * Says what the figure shows at a point.
   * @param {Point} at
   */
  describe(at) {
    const aria = this.figure?.bindings?.find((binding) => binding.path === "aria");
    const text = aria ? boundValue(aria, at) : this.figure?.aria;
    if (text) this.frame.setAttribute("aria-label", String(text));
  }

  /**
   * The same figure at another point, as soon as it can be drawn.
   * @param {Point} at
   */
  move(at) {
    this.at = at;
    return this.figure ? this.draw() : undefined;
  }

  /**
   * The same figure at another point, now, in the frame that is being made.
   * @param {Point} at
   * @returns {boolean} false where that can't be done: `move` then takes plotly's time
   */
  step(at) {
    if (!this.figure) return true;
    if (this.isFlat) {
      this.at = at;
      if (!this.asked) return false;
      this.drawFlat();
      return true;
    }
    if (this.busy || !this.moving || !this.shown) return false;
    if (!stepInPlace(this.canvas, this.moving, this.shown, at, this.arrays)) return false;
    this.describe(at);
    this.at = at;
    this.isAt(at);
    return true;
  }

  /**
   * Remembers, and says on the page, which point is drawn.
   * @param {Point} at
   */
  isAt(at) {
    this.shown = { ...at };
    this.root.dataset.drawn = `${at.gamma},${at.lambda}`;
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
   * A word instead of the figure.
   * @param {string} text
   */
  fail(text) {
    this.frame.classList.add("is-empty");
    this.say(text);
  }

  /**
   * Calls back with the points at a click, in plotly's words.
   * @param {(event: {points: PlotPoint[]}) => void} handler
   */
  onClick(handler) {
    this.clicked = handler;
  }

  /**
   * Calls back with the points that the mouse is at, in plotly's words; with none when it leaves.
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

  /** False for a figure that is drawn in three dimensions. */
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

  /** Draws what is current; while one drawing is under way, only the newest request is remembered. */
  async draw() {
    this.asked = this.figure !== null;
    if (this.isFlat) {
      this.drawFlat();
      return;
    }
    if (this.busy) {
      this.again = true;
      return;
    }
    this.busy = true;
    try {
      const Plotly = await library().catch(() => null);
      if (!Plotly) {
        this.fail("The drawing library can't be loaded. Reload the page.");
        return;
      }
      do {
        this.again = false;
        await this.react(Plotly);
      } while (this.again);
    } finally {
      this.busy = false;
    }
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

  drawFlat() {
    const made = this.made();
    if (!made || !this.figure) return;
    this.flat ??= this.begun();
    this.flat.draw(made, { width: this.width, height: this.height });
    Object.assign(this.canvas, { data: made.data, layout: made.layout });
    this.nameMarks(this.figure);
    this.frame.setAttribute("aria-label", made.aria);
    this.isAt(this.at);
  }

  /** A drawing of flat figures that tells what is clicked and pointed at. */
  begun() {
    const flat = new FlatDrawing(this.canvas);
    flat.onClick((points) => this.clicked({ points }));
    flat.onHover((points) => this.pointed(points));
    return flat;
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

  /** @param {Library} Plotly */
  async react(Plotly) {
    const { at } = this;
    const made = this.made();
    if (!made || !this.themed) return;
    const moving = movingBindings(this.themed, this.narrow);
    Object.assign(made.layout, { width: this.width, height: this.height, autosize: false });
    this.keepCamera(made.layout, this.width, this.height);
    await Plotly.react(this.canvas, made.data, made.layout, { ...CONFIG, plotGlPixelRatio: scenePixels() });
    this.frame.setAttribute("aria-label", made.aria);
    if (!this.drawn) this.listen(Plotly);
    quickenScenes(this.canvas);
    this.moving = moving;
    this.isAt(at);
  }

  /**
   * Both scenes look from where the person last looked, and from so far away that all is seen.
   * @param {Layout} layout
   * @param {number} width of the drawing
   * @param {number} height
   */
  keepCamera({ scene, scene2, margin = {} }, width, height) {
    const { l = 0, r = 0, t = 0, b = 0 } = margin;
    for (const one of [scene, scene2]) {
      if (!one) continue;
      const [{ x: [left, right] = [0, 1], y: [bottom, top] = [0, 1] } = {}] = [one.domain];
      this.aspect = ((right - left) * (width - l - r)) / ((top - bottom) * (height - t - b));
      const camera = this.camera ?? this.figure?.camera;
      if (camera) one.camera = fitted(camera, this.aspect);
      if (one.aspectratio) one.aspectratio = { ...one.aspectratio, z: one.aspectratio.z * stretched(this.aspect) };
    }
  }

  /** @param {Library} Plotly */
  listen(Plotly) {
    this.drawn = true;
    if (scenesOf(this.canvas).length) this.turnBy(Plotly);
    this.canvas.on("plotly_click", (event) => this.clicked(event));
    this.canvas.on("plotly_hover", ({ points }) => this.pointed(points));
    this.canvas.on("plotly_unhover", () => this.pointed([]));
    this.webgl = drawsScenes(this.canvas);
  }

  /**
   * Dragging turns all scenes of the figure together, and so do Shift and an arrow where a cell of it has the focus. Ours instead of plotly's: its own turns a small scene by half a
   * circle for a short drag, goes below the ground, and tells the other scene too late.
   * @param {Library} Plotly
   */
  turnBy(Plotly) {
    if (this.turning) return;
    this.turning = true;
    this.canvas.classList.add("is-turn");
    let frame = 0;
    const apply = () => {
      frame = 0;
      const { camera } = this;
      const cameras = scenesOf(this.canvas).map((name) => [`${name}.camera`, camera && fitted(camera, this.aspect)]);
      Plotly.relayout(this.canvas, Object.fromEntries(cameras)).then(() => requestAnimationFrame(() => this.settled()));
    };
    const turn = (/** @type {Camera} */ camera) => {
      this.camera = camera;
      if (!frame) frame = requestAnimationFrame(apply);
    };
    const by = (/** @type {number} */ dx, /** @type {number} */ dy) => {
      const camera = this.camera ?? this.figure?.camera;
      if (camera) turn(turned(camera, dx, dy));
    };
    const asAtFirst = () => {
      if (this.figure?.camera) turn(structuredClone(this.figure.camera));
    };
    this.canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      let last = [event.clientX, event.clientY];
      whileDragging((moved) => {
        const [dx, dy] = [moved.clientX - last[0], moved.clientY - last[1]];
        last = [moved.clientX, moved.clientY];
        by(dx, dy);
      });
    });
    this.root.addEventListener("keydown", (event) => {
      const isHeld = event.target instanceof Element && event.target.matches(".cells");
      if (!isHeld || !event.shiftKey || event.altKey || event.ctrlKey || event.metaKey) return;
      const way = TURNS[event.key];
      if (way) by(...way);
      else if (event.key === "Home") asAtFirst();
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
    // plotly keeps the wheel from scrolling the page even where it does nothing with it.
    this.canvas.addEventListener("wheel", (event) => event.stopPropagation(), { capture: true, passive: true });
    this.canvas.addEventListener("dblclick", asAtFirst);
  }

  /** False when a three-dimensional figure was asked for and the browser can't draw it: the page then draws it flat. */
  hasWebgl() {
    return this.webgl;
  }
}

/** @param {IntersectionObserverEntry[]} entries the newest last */
const isThere = (entries) => entries[entries.length - 1].isIntersecting;

const PER_PIXEL = 0.008;
/** @type {Record<string, [dx: number, dy: number]>} turns by keys, as drags of so many pixels */
const TURNS = { ArrowLeft: [-24, 0], ArrowRight: [24, 0], ArrowUp: [0, -24], ArrowDown: [0, 24] };
const ROOMY = 1.45; // a scene so many times as wide as high holds what a figure's camera looks at

/**
 * A camera for a scene of an aspect: plotly keeps the height of what is seen, so that a narrow scene needs more distance.
 * @param {Camera} camera
 * @param {number} aspect width / height
 * @returns {Camera}
 */
export function fitted(camera, aspect) {
  const away = Math.max(1, ROOMY / aspect);
  const { x, y, z } = camera.eye;
  return { ...structuredClone(camera), eye: { x: x * away, y: y * away, z: z * away } };
}

const MOST_STRETCHED = 1.7;

/**
 * How many times as high a surface is drawn in a scene of an aspect, which would leave the height above and below it empty.
 * @param {number} aspect width / height
 */
export const stretched = (aspect) => Math.min(MOST_STRETCHED, Math.max(1, ROOMY / aspect));

/**
 * A camera turned by a drag of so many pixels: around the upright axis, and up or down between flat and steep.
 * @param {Camera} camera
 * @param {number} dx
 * @param {number} dy
 * @returns {Camera}
 */
export function turned(camera, dx, dy) {
  const { x, y, z } = camera.eye;
  const radius = Math.hypot(x, y, z);
  const around = Math.atan2(y, x) - dx * PER_PIXEL;
  const up = Math.min(1.45, Math.max(0.08, Math.asin(z / radius) + dy * PER_PIXEL));
  const flat = radius * Math.cos(up);
  return {
    ...structuredClone(camera),
    eye: { x: flat * Math.cos(around), y: flat * Math.sin(around), z: radius * Math.sin(up) },
  };
}

/** Pixels of a scene for each of the page: those of the screen, between what still looks smooth and what nobody sees. */
function scenePixels() {
  return Math.min(2, Math.max(1.5, devicePixelRatio));
}

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
