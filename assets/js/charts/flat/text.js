/**
 * Text with plotly's little markup, as SVG and as HTML: bold and coloured parts, lines and entities. All else is text,
 * whatever it looks like: nothing here becomes an element but what is made below.
 * @module flat/text
 */

import { s } from "../svg.js";

/** @typedef {{text: string, bold: boolean, color: string|null}} Run */
/** @typedef {{x: number, y: number, size: number, color: string, anchor?: string, turn?: number}} Look */

export const LINE = 1.3; // height of a line, in the size of the text
export const MIDDLE = 0.35; // from the middle of digits and capitals down to the baseline
const ASCENT = 0.9; // from the top of a line to its baseline
const WEIGHT = 600;
const MARKUP = /<(b|\/b|\/span|span style="color: ?((?!url)[#\w(),.%/ -]+);?")>/g;
const ENTITY = /&(?:#(\d+)|#x([\da-f]+)|(amp|lt|gt|quot|apos|nbsp));/gi;
/** @type {Record<string, string>} */
const NAMED = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: "\u00a0" };

/**
 * The lines of a text, each in runs of one look.
 * @param {string} text
 * @returns {Run[][]}
 */
export function linesOf(text) {
  let bold = 0;
  /** @type {string[]} */
  const colors = [];
  return text.split(/<br ?\/?>/).map((line) => {
    /** @type {Run[]} */
    const runs = [];
    const add = (/** @type {string} */ part) => {
      if (part) runs.push({ text: unescaped(part), bold: bold > 0, color: colors.at(-1) ?? null });
    };
    let from = 0;
    for (const mark of line.matchAll(MARKUP)) {
      const [whole, tag, color] = mark;
      add(line.slice(from, mark.index));
      from = mark.index + whole.length;
      if (tag === "b") bold += 1;
      else if (tag === "/b") bold -= 1;
      else if (tag === "/span") colors.pop();
      else colors.push(color);
    }
    add(line.slice(from));
    return runs;
  });
}

/** @param {string} text */
const unescaped = (text) =>
  text.replace(ENTITY, (_, decimal, hex, name) =>
    name ? NAMED[name.toLowerCase()] : String.fromCodePoint(decimal ? Number(decimal) : Number.parseInt(hex, 16)),
  );

/** @param {Run} run */
const svgRun = ({ text, bold, color }) =>
  bold || color ? s("tspan", { "font-weight": bold ? WEIGHT : null, fill: color }, text) : text;

/**
 * A text whose first baseline is at a place.
 * @param {string} text
 * @param {Look} look `turn`: degrees around its place
 */
export function textAt(text, { x, y, size, color, anchor = "start", turn = 0 }) {
  const lines = linesOf(text);
  const look = {
    x: short(x),
    y: short(y),
    "font-size": size,
    fill: color,
    "text-anchor": anchor,
    transform: turn ? `rotate(${turn} ${short(x)} ${short(y)})` : null,
  };
  if (lines.length === 1) return s("text", look, lines[0].map(svgRun));
  const rows = lines.map((runs, row) => s("tspan", { x: short(x), y: short(y + row * LINE * size) }, runs.map(svgRun)));
  return s("text", look, rows);
}

/** From the top of a box of text to its first baseline. @param {number} size */
export const ascent = (size) => ASCENT * size;

/** Height of a box of text. @param {string} text @param {number} size */
export const heightOf = (text, size) => linesOf(text).length * LINE * size;

/** @type {CanvasRenderingContext2D|null|undefined} */
let ruler;

/**
 * Width of the longest line of a text in pixels.
 * @param {string} text
 * @param {number} size
 * @param {string} family
 */
export function widthOf(text, size, family) {
  if (ruler === undefined) ruler = document.createElement("canvas").getContext?.("2d") ?? null;
  const widths = linesOf(text).map((runs) =>
    runs.reduce((sum, run) => {
      if (!ruler?.measureText) return sum + 0.55 * size * run.text.length;
      ruler.font = `${run.bold ? WEIGHT : 400} ${size}px ${family}`;
      return sum + ruler.measureText(run.text).width;
    }, 0),
  );
  return Math.max(...widths);
}

/**
 * A text as nodes of HTML.
 * @param {string} text
 * @returns {Node[]}
 */
export function htmlOf(text) {
  return linesOf(text).flatMap((runs, row) => [
    ...(row ? [document.createElement("br")] : []),
    ...runs.map(({ text: part, bold, color }) => {
      const span = document.createElement(bold ? "b" : "span");
      if (color) span.style.color = color;
      span.textContent = part;
      return span;
    }),
  ]);
}

/** A length in pixels as it stands in a drawing. @param {number} pixels */
export const short = (pixels) => Math.round(pixels * 100) / 100;
