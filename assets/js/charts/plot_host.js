/**
 * One persistent plot: an element that is made once and then only updated with Plotly.react, so that the camera stays,
 * no second WebGL context is made and nothing jumps. Figures come with bindings (see bind.js).
 * @module plot_host
 */

import { fill, h } from "../base/dom.js";
import { colour, onTheme } from "../base/theme.js";
import { figureAt, lookUp, withColours } from "./bind.js";
import { drawGivenPoints, pickWhenPointed } from "./scenes.js";
import { movingBindings, prepare, stepInPlace } from "./step.js";

const NARROW = 520;
const CONFIG = { displayModeBar: false, responsive: false, scrollZoom: false, doubleClick: false, showTips: false };
const SCENES = ["scene", "scene2"];
const hosts = new Map();
const waiting = new Map();
let plotly = null;

/** plotly itself, from our own server, loaded once. */
function library() {
  plotly ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    const version = document.querySelector('meta[name="plotly"]')?.content;
    script.src = version ? `/assets/plotly.min.js?v=${encodeURIComponent(version)}` : "/assets/plotly.min.js";
    script.onload = () => resolve(window.Plotly);
    script.onerror = () => reject(new Error("plotly.min.js can't be loaded"));
    document.head.append(script);
  });
  return plotly;
}

/**
 * The plot of a name, as soon as its element is on the page.
 * @param {string} name
 * @returns {Promise<PlotHost>}
 */
export function plot(name) {
  if (hosts.has(name)) return Promise.resolve(hosts.get(name));
  if (!waiting.has(name)) {
    let release;
    const promise = new Promise((resolve) => (release = resolve));
    waiting.set(name, { promise, release });
  }
  return waiting.get(name).promise;
}

/** Called by the component's js_on_load: takes the element under our care. */
export function mount(element) {
  const root = element.querySelector("[data-plot]");
  if (!root || root.dataset.mounted) return;
  root.dataset.mounted = "true";
  const host = new PlotHost(root);
  hosts.set(host.name, host);
  waiting.get(host.name)?.release(host);
  library().catch(() => host.fail("The drawing library can't be loaded. Reload the page."));
}

onTheme(() => {
  for (const host of hosts.values()) host.recolour();
});

class PlotHost {
  constructor(root) {
    this.root = root;
    this.name = root.dataset.plot;
    this.canvas = root.querySelector(".plot-canvas");
    this.frame = root.querySelector(".plot-frame");
    this.heading = root.querySelector(".card-title");
    this.notice = root.querySelector(".plot-notice");
    this.tools = root.querySelector(".card-tools");
    this.figure = null;
    this.at = { gamma: 0, lambda: 0 };
    this.arrays = {};
    this.camera = null;
    this.drawn = false;
    this.busy = false;
    this.again = false;
    this.handlers = { click: null, scrub: null };
    this.seen = false; // on the screen
    this.near = false; // or about to come there
    new ResizeObserver(() => this.resized()).observe(this.canvas);
    new IntersectionObserver((entries) => (this.seen = entries.at(-1).isIntersecting)).observe(this.canvas);
    new IntersectionObserver((entries) => (this.near = entries.at(-1).isIntersecting), { rootMargin: "200px" }).observe(
      root,
    );
  }

  /**
   * A new figure, or null for none.
   * @param {object|null} figure
   * @param {{gamma: number, lambda: number}} at
   * @param {Object<string, object>} [arrays] opened arrays by name
   * @param {string} [missing] what to say where there is no figure
   */
  async show(figure, at, arrays = {}, missing = "") {
    this.take(figure, at, arrays, missing);
    if (figure) await this.draw();
  }

  /** Takes a figure as `show` does, with all that is said about it; it is drawn by `draw`. */
  take(figure, at, arrays = {}, missing = "") {
    this.figure = figure;
    this.at = at;
    this.arrays = arrays;
    this.themed = null;
    this.moving = null;
    this.frame.classList.toggle("is-empty", !figure);
    if (this.heading && figure?.title)
      fill(this.heading, figure.title, figure.subtitle ? h("span", { class: "card-subtitle" }, figure.subtitle) : null);
    this.say(figure ? "" : missing);
    this.describe(
      figure?.bindings?.find((binding) => binding.path === "aria"),
      at,
    );
  }

  describe(aria, at) {
    const text = aria ? lookUp(aria, at) : this.figure?.aria;
    if (text) this.frame.setAttribute("aria-label", text);
  }

  /** The same figure at another point, as soon as plotly can. */
  move(at) {
    this.at = at;
    return this.figure ? this.draw() : undefined;
  }

  /**
   * The same figure at another point, now, in the frame that is being made.
   * @returns {boolean} false where that can't be done: `move` then takes plotly's time
   */
  step(at) {
    if (!this.figure) return true;
    if (this.busy || !this.moving || !this.shown) return false;
    if (!stepInPlace(this.canvas, this.moving, this.shown, at, this.arrays)) return false;
    this.describe(
      this.moving.find((binding) => binding.path === "aria"),
      at,
    );
    this.at = at;
    this.isAt(at);
    return true;
  }

  /** Remembers, and says to whoever looks at the page, which point is drawn. */
  isAt(at) {
    this.shown = { ...at };
    this.root.dataset.drawn = `${at.gamma},${at.lambda}`;
  }

  say(text) {
    if (this.notice && this.notice.textContent !== text) this.notice.textContent = text;
  }

  fail(text) {
    this.frame.classList.add("is-empty");
    this.say(text);
  }

  /** Calls back with plotly's points when something in the figure is clicked. */
  onClick(handler) {
    this.handlers.click = handler;
  }

  /** Calls back with a position on the λ axis while the pointer is held down on the figure. */
  onScrub(handler) {
    this.handlers.scrub = handler;
    this.canvas.classList.add("is-scrub");
    const follow = (event) => {
      const axis = this.canvas._fullLayout?.xaxis;
      if (!axis) return;
      const x = event.clientX - this.canvas.getBoundingClientRect().left - axis._offset;
      if (x < -12 || x > axis._length + 12) return;
      handler(Math.round(axis.p2l(x)));
    };
    this.canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      follow(event);
      whileDragging(follow);
    });
  }

  recolour() {
    this.themed = null;
    if (this.figure) this.draw();
  }

  resized() {
    const width = this.canvas.clientWidth;
    const height = this.canvas.clientHeight;
    if (!width || !height || (width === this.width && height === this.height)) return;
    if (this.figure) this.draw();
  }

  /** Draws what is current; while one drawing is under way, only the newest request is remembered. */
  async draw() {
    if (this.busy) {
      this.again = true;
      return;
    }
    this.busy = true;
    try {
      const Plotly = await library();
      do {
        this.again = false;
        await this.react(Plotly);
      } while (this.again);
    } finally {
      this.busy = false;
    }
  }

  async react(Plotly) {
    const width = this.canvas.clientWidth;
    const height = this.canvas.clientHeight;
    // A hidden card has no size; it is drawn when it gets one.
    if (!width || !height || !this.figure) return;
    this.themed ??= withColours(this.figure, colour);
    const { at } = this;
    const narrow = width < (this.figure.narrow_below ?? NARROW);
    const made = figureAt(this.themed, at, this.arrays, narrow);
    const moving = movingBindings(this.themed, narrow);
    prepare(made, moving);
    made.layout.width = width;
    made.layout.height = height;
    made.layout.autosize = false;
    this.keepCamera(made.layout);
    [this.width, this.height, this.narrow] = [width, height, narrow];
    await Plotly.react(this.canvas, made.data, made.layout, CONFIG);
    localReferences(this.canvas);
    this.frame.setAttribute("aria-label", made.aria);
    if (!this.drawn) this.listen(Plotly);
    for (const name of SCENES) {
      const scene = this.canvas._fullLayout[name]?._scene;
      if (!scene?.glplot) continue;
      drawGivenPoints(scene);
      pickWhenPointed(scene);
    }
    this.moving = moving;
    this.isAt(at);
  }

  /** Both scenes look from where the person last looked. */
  keepCamera(layout) {
    for (const name of SCENES) {
      if (layout[name]) {
        layout[name].camera = structuredClone(this.camera ?? this.figure.camera);
      }
    }
  }

  listen(Plotly) {
    this.drawn = true;
    if (this.canvas._fullLayout?.scene) this.turnBy(Plotly);
    this.canvas.on("plotly_click", (event) => this.handlers.click?.(event));
    // Without WebGL plotly leaves the scene empty; the page then asks for the flat drawing.
    const scene = this.canvas._fullLayout?.scene?._scene;
    this.webgl = !scene || Boolean(scene.glplot);
  }

  /**
   * Dragging turns all scenes of the figure together. Ours instead of plotly's: its own turns a small scene by half a
   * circle for a short drag, goes below the ground, and tells the other scene too late.
   */
  turnBy(Plotly) {
    if (this.turning) return;
    this.turning = true;
    this.canvas.classList.add("is-turn");
    let _frame = 0;
    const apply = () => {
      _frame = 0;
      const change = {};
      for (const name of SCENES) {
        if (this.canvas._fullLayout?.[name]) change[`${name}.camera`] = structuredClone(this.camera);
      }
      Plotly.relayout(this.canvas, change);
    };
    const turn = (camera) => {
      this.camera = camera;
      _frame ||= requestAnimationFrame(apply);
    };
    this.canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      let last = [event.clientX, event.clientY];
      const follow = (moved) => {
        const [dx, dy] = [moved.clientX - last[0], moved.clientY - last[1]];
        last = [moved.clientX, moved.clientY];
        turn(turned(this.camera ?? this.figure.camera, dx, dy));
      };
      whileDragging(follow);
    });
    this.canvas.addEventListener("dblclick", () => turn(structuredClone(this.figure.camera)));
  }

  /** False when a three-dimensional figure was asked for and the browser can't draw it. */
  hasWebgl() {
    return this.webgl !== false;
  }
}

const REFERENCE = /url\((["']?)[^"')#]*#([^"')]+)\1\)/g;

/**
 * Clips and gradients are named by the page's whole address where the page has a base element, as Gradio's has. The
 * address changes with the state, and they would be lost: a name alone stays good.
 */
function localReferences(canvas) {
  for (const element of canvas.querySelectorAll('[clip-path*="url("], [style*="url("]')) {
    for (const name of ["clip-path", "style"]) {
      const text = element.getAttribute(name);
      if (text?.includes("url(")) {
        const local = text.replace(REFERENCE, "url(#$2)");
        if (local !== text) element.setAttribute(name, local);
      }
    }
  }
}

const PER_PIXEL = 0.008;

/**
 * A camera turned by a drag of so many pixels: around the upright axis, and up or down between flat and steep.
 * @param {{eye: {x: number, y: number, z: number}}} camera
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

/** Calls ``follow`` for every move of the pointer until it is let go. */
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
