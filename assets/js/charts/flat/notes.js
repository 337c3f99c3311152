/**
 * Annotations: texts at a place of a figure, some on a ground of their own or at the end of a pole.
 * @module flat/notes
 */

/** @import { Plane } from "./axes.js" */
/** @import { Font, Note } from "./figure.d.ts" */

import { s } from "../svg.js";
import { INK, stroke } from "./marks.js";
import { ascent, heightOf, linesOf, short, textAt, widthOf } from "./text.js";

/** @type {Record<string, number>} share of a text's box before the place that it is anchored at */
const BEFORE = { left: 0, center: 0.5, right: 1, top: 0, middle: 0.5, bottom: 1 };
/** @type {Record<string, string>} */
const ANCHORS = { left: "start", center: "middle", right: "end" };

/**
 * @param {Note} note
 * @param {number} index
 * @param {Plane} plane
 * @param {Font} base font of the figure
 */
export function noteOf(note, index, plane, base) {
  if (note.visible === false || isBeyond(note, plane)) return null;
  const { text = "", showarrow = true, ax = -10, ay = -30, bgcolor, borderpad = 1, borderwidth = 1 } = note;
  const font = { ...base, ...note.font };
  const { size = 12, color = INK, family = "sans-serif" } = font;
  const head = {
    x: plane.place("x", note.xref, note.x, true) + (note.xshift ?? 0),
    y: plane.place("y", note.yref, note.y, true) - (note.yshift ?? 0),
  };
  const at = showarrow ? { x: head.x + ax, y: head.y + ay } : head;
  const xanchor = anchorOf(note, "x", ["left", "center", "right"]);
  const yanchor = anchorOf(note, "y", ["bottom", "middle", "top"]);
  const pad = borderpad + borderwidth;
  const height = heightOf(text, size) + 2 * pad;
  const top = at.y - BEFORE[yanchor] * height;
  // The width matters only for a background, or if the lines are aligned differently from the anchor.
  const align = linesOf(text).length > 1 ? (note.align ?? "center") : xanchor;
  const isMeasured = Boolean(bgcolor) || align !== xanchor;
  const width = isMeasured ? widthOf(text, size, family) + 2 * pad : 0;
  const left = at.x - BEFORE[xanchor] * width;
  const inset = pad * (1 - 2 * BEFORE[align]);
  const pole = { color: note.arrowcolor ?? color, width: note.arrowwidth ?? 1 };
  return s(
    "g",
    { class: "annotation", "data-index": index, opacity: note.opacity },
    note.hovertext ? s("title", {}, note.hovertext) : null,
    showarrow
      ? s("path", { d: `M${short(head.x)} ${short(head.y)}L${short(at.x)} ${short(at.y)}`, ...stroke(pole) })
      : null,
    bgcolor && text
      ? s("rect", {
          class: "ground",
          x: short(left + borderwidth / 2),
          y: short(top + borderwidth / 2),
          width: short(width - borderwidth),
          height: short(height - borderwidth),
          fill: bgcolor,
        })
      : null,
    textAt(text, {
      x: left + BEFORE[align] * width + inset,
      y: top + pad + ascent(size),
      size,
      color,
      anchor: ANCHORS[align],
    }),
  );
}

/**
 * Whether a note belongs to a value that is not on its axis.
 * @param {Note} note
 * @param {Plane} plane
 */
function isBeyond({ x, y, xref = "x", yref = "y" }, plane) {
  const [xaxis, yaxis] = [plane.axes.get(xref), plane.axes.get(yref)];
  return (xaxis && !xaxis.holds(xaxis.notedPosition(x))) || (yaxis && !yaxis.holds(yaxis.notedPosition(y)));
}

/**
 * The anchor of a note in one direction: its own, or that of the nearer side of the paper.
 * @param {Note} note
 * @param {"x"|"y"} letter
 * @param {[low: string, middle: string, high: string]} sides
 */
function anchorOf(note, letter, [low, middle, high]) {
  const anchor = note[`${letter}anchor`] ?? "auto";
  if (anchor !== "auto") return anchor;
  const reference = note[`${letter}ref`] ?? letter;
  if ((note.showarrow ?? true) || !/paper|domain/.test(reference)) return middle;
  const share = Number(note[letter]);
  return share < 1 / 3 ? low : share > 2 / 3 ? high : middle;
}
