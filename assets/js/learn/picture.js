/**
 * A drawing of the tour as a file of its own, which looks as it does on the page: what the style sheets say is written
 * out, controls leave no trace, and the figure's title stands above it.
 * @module learn/picture
 */

import { colour } from "../base/theme.js";
import { s } from "../charts/svg.js";
import { svgPicture } from "../charts/svg_picture.js";

const SCALE = 2; // pixels of a PNG for each pixel of the screen
const TITLE = 32; // pixels above the drawing
const BESIDE = 12; // pixels around maps below it
const NAMESPACE = "http://www.w3.org/2000/svg";
const INHERITED = [
  "fill",
  "stroke",
  "stroke-width",
  "stroke-dasharray",
  "stroke-linecap",
  "stroke-linejoin",
  "font-family",
  "font-size",
  "font-weight",
  "font-variant-numeric",
  "text-anchor",
  "paint-order",
];
const OWN = { opacity: "1", "dominant-baseline": "auto" }; // not handed down, with what they are without a word
const KEPT = [
  "x",
  "y",
  "x1",
  "y1",
  "x2",
  "y2",
  "cx",
  "cy",
  "r",
  "rx",
  "width",
  "height",
  "d",
  "transform",
  "id",
  "clip-path",
  "viewBox",
];

/**
 * An element as it is drawn, with its children, or null for what is not seen.
 * @param {Element} element
 * @param {CSSStyleDeclaration|null} above the style of its parent: what is handed down need not be written twice
 */
function drawn(element, above) {
  const style = getComputedStyle(element);
  const shape = ["circle", "rect", "path", "line"].includes(element.tagName);
  const clear = (/** @type {string} */ paint) =>
    paint === "none" || paint === "transparent" || paint === "rgba(0, 0, 0, 0)";
  const clips = Boolean(element.closest("clipPath"));
  if (!clips && (style.display === "none" || (shape && clear(style.fill) && clear(style.stroke)))) return null;
  const copy = document.createElementNS(NAMESPACE, element.tagName);
  for (const name of KEPT) {
    const value = element.getAttribute(name);
    if (value !== null) copy.setAttribute(name, value);
  }
  for (const name of INHERITED) {
    const value = style.getPropertyValue(name);
    if (value !== above?.getPropertyValue(name)) copy.setAttribute(name, value.replaceAll('"', "'"));
  }
  for (const [name, usual] of Object.entries(OWN)) {
    const value = style.getPropertyValue(name);
    if (value !== usual) copy.setAttribute(name, value);
  }
  for (const child of element.childNodes) {
    const seen = child instanceof Element ? drawn(child, style) : child.cloneNode();
    if (seen) copy.append(seen);
  }
  return copy;
}

/**
 * Maps beside each other with their captions; their pixels stay sharp.
 * @param {HTMLElement[]} figures
 * @param {number} width of the place
 * @param {number} top of the place
 */
function maps(figures, width, top) {
  const seen = figures.filter((figure) => getComputedStyle(figure).visibility === "visible" && figure.offsetWidth);
  const gap = 2 * BESIDE;
  const whole = seen.reduce((total, figure) => total + figure.offsetWidth, gap * (seen.length - 1));
  let x = (width - whole) / 2;
  return seen.map((figure) => {
    const [left, map] = [x, figure.querySelector("canvas")];
    x += figure.offsetWidth + gap;
    if (!map) return null;
    const [wide, high] = [map.offsetWidth, map.offsetHeight];
    const style = "image-rendering:pixelated";
    return [
      s("image", { x: left, y: top, width: wide, height: high, href: map.toDataURL(), style }),
      s(
        "text",
        { x: left + wide / 2, y: top + high + 18, "text-anchor": "middle", "font-size": 12, fill: colour("--ink-2") },
        figure.querySelector("figcaption")?.textContent,
      ),
    ];
  });
}

/**
 * The file's text.
 * @param {SVGSVGElement} svg as it is on the page
 * @param {{title: string, figures?: HTMLElement[]}} more the title, and figures with a map in a canvas each
 */
export function asSvg(svg, { title, figures = [] }) {
  const { clientWidth: width, clientHeight: tall } = svg;
  const below = Math.max(0, ...figures.map((figure) => figure.offsetHeight + BESIDE));
  const height = TITLE + tall + below;
  const family = getComputedStyle(svg).fontFamily.replaceAll('"', "'");
  const body = drawn(svg, null);
  for (const [name, value] of Object.entries({ y: TITLE, width, height: tall }))
    body?.setAttribute(name, String(value));
  const root = s(
    "svg",
    { xmlns: NAMESPACE, width, height, viewBox: `0 0 ${width} ${height}`, "font-family": family },
    s("rect", { width, height, fill: colour("--surface") }),
    s("text", { x: 12, y: 22, "font-size": 14, "font-weight": 600, fill: colour("--ink") }, title),
    body,
    maps(figures, width, TITLE + tall),
  );
  return new XMLSerializer().serializeToString(root);
}

/**
 * The address of a picture of a drawing, for a link to save.
 * @param {"png"|"svg"} kind
 * @param {SVGSVGElement} svg
 * @param {{title: string, figures?: HTMLElement[]}} more as for `asSvg`
 * @returns {Promise<string>}
 */
export const pictureOf = (kind, svg, more) => svgPicture(kind, asSvg(svg, more), SCALE);
