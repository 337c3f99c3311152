/**
 * The label beside what the pointer is at.
 * @module flat/hover
 */

/** @import { FlatLayout } from "./figure.d.ts" */
/** @import { Saying } from "./points.js" */

import { htmlOf } from "./text.js";

const AWAY = 12; // pixels from a point to its label

/** @param {Partial<CSSStyleDeclaration>} style @param {...(Node|string)} children */
function div(style, ...children) {
  const element = document.createElement("div");
  Object.assign(element.style, style);
  element.append(...children);
  return element;
}

export class HoverLabel {
  /** @param {HTMLElement} canvas which it stays inside */
  constructor(canvas) {
    this.canvas = canvas;
    const free = { position: "absolute", pointerEvents: "none" };
    this.line = div({ ...free, width: "0" });
    this.line.className = "flat-spike";
    this.box = div({ ...free, padding: "4px 8px", borderRadius: "4px", whiteSpace: "pre", maxWidth: "100%" });
    this.box.className = "flat-hover";
    for (const element of [this.line, this.box]) {
      element.setAttribute("aria-hidden", "true");
      element.hidden = true;
      canvas.append(element);
    }
  }

  hide() {
    this.line.hidden = this.box.hidden = true;
  }

  /**
   * What one point says, and the name of its trace.
   * @param {Saying} saying
   * @param {{x: number, y: number}} spot
   * @param {FlatLayout} layout
   */
  showPoint({ text, name, color }, spot, layout) {
    const words = div({}, ...htmlOf(text));
    const beside = name ? [div({ color, marginLeft: "10px" }, ...htmlOf(name))] : [];
    this.line.hidden = true;
    this.put([div({ display: "flex" }, words, ...beside)], spot, layout);
  }

  /**
   * What all points at one place of an axis say, a row for each under the place's name.
   * @param {string} title
   * @param {Saying[]} sayings
   * @param {{x: number, y: number}} spot
   * @param {{top: number, height: number}} area through which a line shows the place
   * @param {FlatLayout} layout
   */
  showPlace(title, sayings, spot, area, layout) {
    const rows = sayings.map(({ text, name, color }) => {
      const swatch = div({ width: "10px", height: "10px", borderRadius: "2px", flex: "none", background: color });
      const words = div({}, ...htmlOf(name ? `${name}: ${text}` : text));
      const row = div({ display: "flex", gap: "6px", alignItems: "center" }, swatch, words);
      row.className = "flat-hover-row";
      return row;
    });
    const head = div({ fontWeight: "600" }, ...htmlOf(title));
    head.className = "flat-hover-title";
    Object.assign(this.line.style, {
      left: `${spot.x}px`,
      top: `${area.top}px`,
      height: `${area.height}px`,
      borderLeft: `1px dotted ${layout.font?.color ?? "currentColor"}`,
    });
    this.line.hidden = false;
    this.put([head, ...rows], spot, layout);
  }

  /**
   * @param {Node[]} content
   * @param {{x: number, y: number}} spot
   * @param {FlatLayout} layout
   */
  put(content, { x, y }, { hoverlabel: { bgcolor = "#fff", bordercolor = "#444", font = {} } = {} }) {
    const { box, canvas } = this;
    Object.assign(box.style, {
      background: bgcolor,
      border: `1px solid ${bordercolor}`,
      color: font.color ?? "",
      font: `${font.size ?? 12}px ${font.family ?? "sans-serif"}`,
    });
    box.replaceChildren(...content);
    box.hidden = false;
    const { offsetWidth: width, offsetHeight: height } = box;
    const fits = x + AWAY + width <= canvas.clientWidth;
    const left = fits ? x + AWAY : x - AWAY - width;
    const within = (/** @type {number} */ wanted, /** @type {number} */ room) => Math.max(0, Math.min(wanted, room));
    box.style.left = `${within(left, canvas.clientWidth - width)}px`;
    box.style.top = `${within(y - height / 2, canvas.clientHeight - height)}px`;
  }
}
