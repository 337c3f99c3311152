/**
 * A heatmap's picture for other values: the cells stay where plotly put them, their colours are new.
 * @module step_heatmap
 */

/**
 * @param {HTMLElement} canvas
 * @param {object} trace plotly's full trace
 * @param {object[]} found plotly's calculated data of the trace, which is kept true for its hover
 * @param {{z?: any[][], text?: string[][]}} values
 * @returns {(() => void)|null} what draws it, or null where plotly has to
 */
export function moveHeatmap(canvas, trace, [cells], values) {
  const { z = trace.z, text = trace.text, ...others } = values;
  const layout = canvas._fullLayout;
  const [xaxis, yaxis] = [trace.xaxis, trace.yaxis].map((name) => layout[`${name[0]}axis${name.slice(1)}`]);
  const image = canvas.querySelectorAll(".hm image")[heatmapsBefore(canvas, trace)];
  const plain = !trace.zsmooth && !trace.texttemplate && !trace.transpose && !trace.connectgaps && !trace.reversescale;
  if (!image || !plain || Object.keys(others).length) return null;
  if (z.length !== cells.y.length - 1 || z.some((row) => row.length !== cells.x.length - 1)) return null;
  const stops = trace.colorscale.map(([share, colour]) => [share, channels(colour)]);
  if (stops.some(([, colour]) => !colour)) return null;
  return () => {
    const whole = trace._islinear && !trace.xgap && !trace.ygap; // one pixel for each cell, made larger by the image
    const size = whole
      ? [cells.x.length - 1, z.length]
      : ["width", "height"].map((name) => Number(image.getAttribute(name)));
    const [lefts, tops] = whole
      ? [steps(size[0], xaxis), steps(size[1], yaxis)]
      : edges(image, cells, [xaxis, yaxis], size);
    const how = JSON.stringify([size, lefts, tops, trace.zmin, trace.zmax, trace.colorscale]);
    const drawing = known(z, how, () => picture(size, lefts, tops, z, trace, stops));
    image.setAttributeNS("http://www.w3.org/1999/xlink", "xlink:href", drawing);
    cells.z = z.map((row) => Array.from(row, (value) => value ?? undefined));
    cells.text = text;
  };
}

/** Pictures of values that were shown before: λ goes to and fro over the same few. */
const made = new WeakMap(); // values → { how, picture }

function known(z, how, draw) {
  if (made.get(z)?.how !== how) made.set(z, { how, picture: draw() });
  return made.get(z).picture;
}

/** How many heatmaps are drawn before a trace. */
function heatmapsBefore(canvas, trace) {
  return canvas._fullData.filter((one) => one.type === "heatmap" && one.visible === true && one.index < trace.index)
    .length;
}

/** Edges of so many cells, one pixel each, in the direction of an axis. */
function steps(count, axis) {
  const falling = axis.c2p(1) < axis.c2p(0);
  return Array.from({ length: count + 1 }, (_, index) => (falling ? count - index : index));
}

/** Edges of the cells in pixels of the image, which begins at its own x and y. */
function edges(image, cells, axes, size) {
  return ["x", "y"].map((name, which) => {
    const ends = cells[name].map((value) => axes[which].c2p(value));
    const start = Number(image.getAttribute(name));
    return ends.map((end) => Math.min(Math.max(Math.round(end - start), 0), size[which]));
  });
}

function picture([width, height], lefts, tops, z, { xgap = 0, ygap = 0, zmin, zmax }, stops) {
  const made = document.createElement("canvas");
  [made.width, made.height] = [width, height];
  const brush = made.getContext("2d", { willReadFrequently: true });
  z.forEach((row, down) => {
    const [top, bottom] = [tops[down], tops[down + 1]].sort((a, b) => a - b);
    row.forEach((value, across) => {
      if (value === null || value === undefined) return;
      const [left, right] = [lefts[across], lefts[across + 1]].sort((a, b) => a - b);
      brush.fillStyle = shade((value - zmin) / (zmax - zmin), stops);
      brush.fillRect(left + Math.floor(xgap / 2), top + Math.floor(ygap / 2), right - left - xgap, bottom - top - ygap);
    });
  });
  return made.toDataURL("image/png");
}

/** Colour of a share of the scale; what lies outside has the colour of the nearer end. */
function shade(share, stops) {
  const next = stops.findIndex(([place]) => place >= share);
  const [to, after] = stops[next < 0 ? stops.length - 1 : next];
  const [from, before] = stops[next < 0 ? stops.length - 1 : Math.max(next - 1, 0)];
  const way = to === from ? 0 : (share - from) / (to - from);
  return `rgb(${before.map((value, index) => Math.round(value + way * (after[index] - value))).join(",")})`;
}

/** Red, green and blue of “rgb(…)” or “#rrggbb”; null for other ways to write a colour. */
function channels(text) {
  const hex = /^#([\da-f]{6})$/i.exec(text);
  if (hex) return [0, 2, 4].map((at) => Number.parseInt(hex[1].slice(at, at + 2), 16));
  return /^rgb\((\d+), ?(\d+), ?(\d+)\)$/.exec(text)?.slice(1).map(Number) ?? null;
}
