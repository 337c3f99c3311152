/**
 * Curves that were computed later, drawn over the main figure in the colours of its own: hollow marks on thin lines, at
 * any λ between the ends of its axis. Pure: a figure in, a figure out.
 * @module overlay
 */

import { ROLES } from "../base/contract.js";
import { format } from "../base/format.js";

/** @import { Trace } from "../charts/figure.d.ts" */
/** @import { Figure, Overlay } from "./state.js" */

/** @typedef {Trace & {x: string[], line: {color: string}, marker: {color: string, symbol: string}}} Drawn a curve of the figure */

/** The curve of the figure in whose panel each lies is known by its colour: that of the quantity. */
const BESIDE = { recon: ROLES.recon, heldOut: ROLES.held_out, sar: ROLES.penalty };
const INSET = 0.07; // of a panel's range: where what is off the scale is drawn, as clamp in sarqc/figures/drawing.py does

/**
 * Where a λ lies on the ordinal axis: between two ticks in proportion, as position in sarqc/figures/drawing.py says; null
 * beyond the ends.
 * @param {number} lam
 * @param {number[]} lams of the ticks, rising
 */
export function place(lam, lams) {
  const after = lams.findIndex((tick) => tick >= lam - 1e-12);
  if (after < 0 || lam < lams[0] - 1e-12) return null;
  if (after === 0) return 0;
  return after - 1 + Math.min(1, (lam - lams[after - 1]) / (lams[after] - lams[after - 1]));
}

/**
 * A figure with an overlay. What it has not measured, and λ beyond the axis, are left out.
 * @param {Figure} figure the main figure, which is not changed
 * @param {Overlay} overlay
 * @param {number[]} lams of the figure's axis
 * @returns {Figure}
 */
export function drawnOver(figure, overlay, lams) {
  const names = Object.keys(BESIDE).filter((name) => beside(figure, name));
  if (!names.length) return figure;
  const traces = names.flatMap((name) => curve(figure, overlay, name, lams));
  const layout = /** @type {Record<string, any>} */ (figure.layout);
  const top = layout[axisOf(beside(figure, names[0]))].domain[1];
  // A second axis over the first, on which a place between two names is a number.
  const axis = { type: "linear", overlaying: "x", range: layout.xaxis.range, visible: false, fixedrange: true };
  const key = {
    text: `○ ${overlay.words}`,
    showarrow: false,
    font: { size: 12, color: "var(--ink-2)" },
    xref: "paper",
    yref: "paper",
    x: 1,
    y: top,
    xanchor: "right",
    yanchor: "bottom",
    yshift: 2,
  };
  const annotations = [...(figure.layout.annotations ?? []), key];
  return {
    ...figure,
    data: [...figure.data, ...traces],
    layout: { ...figure.layout, xaxis2: axis, annotations },
    narrow: { ...figure.narrow, [`layout.annotations.${annotations.length - 1}.visible`]: false },
  };
}

/** @param {Figure} figure @param {string} name */
const beside = ({ data }, name) =>
  data.find(
    ({ mode, line }) =>
      mode === "lines+markers" && line?.color === BESIDE[/** @type {keyof typeof BESIDE} */ (name)].color,
  );

/** The name in a layout of the axis on which a trace is drawn. @param {Trace|undefined} trace */
const axisOf = (trace) => `yaxis${(trace?.yaxis ?? "y").slice(1)}`;

/**
 * A curve: the line with its marks on the second axis, and on the first, where both have a λ, what a hover says.
 * @param {Figure} figure
 * @param {Overlay} overlay
 * @param {string} name
 * @param {number[]} lams
 * @returns {Trace[]}
 */
function curve(figure, overlay, name, lams) {
  const near = /** @type {Drawn} */ (beside(figure, name));
  const [low, high] = /** @type {Record<string, any>} */ (figure.layout)[axisOf(near)].range;
  const inset = INSET * (high - low);
  const values = overlay[/** @type {"recon"|"heldOut"|"sar"} */ (name)];
  const points = overlay.lams.flatMap((lam, index) => {
    const [x, value] = [place(lam, lams), values[index]];
    if (x === null || value === null) return [];
    const side = value > high ? "triangle-up-open" : value < low ? "triangle-down-open" : `${near.marker.symbol}-open`;
    return [{ x, y: value > high ? high - inset : value < low ? low + inset : value, value, side }];
  });
  const shared = {
    type: "scatter",
    yaxis: near.yaxis,
    cliponaxis: false,
    name: `${near.name ?? ""}, computed`,
  };
  const named = points.filter(({ x }) => Number.isInteger(x));
  return [
    {
      ...shared,
      mode: "lines+markers",
      xaxis: "x2",
      x: points.map(({ x }) => x),
      y: points.map(({ y }) => y),
      hoverinfo: "skip",
      line: { color: near.line.color, width: 1 },
      marker: { color: near.marker.color, size: 7, symbol: points.map(({ side }) => side) },
    },
    {
      ...shared,
      mode: "markers",
      x: named.map(({ x }) => near.x[x]),
      y: named.map(({ y }) => y),
      text: named.map(({ value }) => format(value, "significant")),
      hovertemplate: "%{text}",
      marker: { color: near.marker.color, opacity: 0, size: 7 },
    },
  ];
}
