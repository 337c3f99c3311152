/**
 * A scatter trace for other values: its line, markers and error bars move, and what its points say in a hover changes.
 * @module step_scatter
 */

/** The axis of a trace or a reference, e.g. “x” or “y2”; undefined for what is not an axis. */
export function axisOf(canvas, reference) {
  const [, letter, number] = /^([xy])(\d*)$/.exec(reference) ?? [];
  return letter && canvas._fullLayout[`${letter}axis${number}`];
}

const places = (axis, values) => values.map((value) => axis.c2p(axis.d2c(value)));
/** A length in pixels as it stands in a path. */
export const short = (pixels) => String(Math.round(pixels * 100) / 100);

/**
 * @param {HTMLElement} canvas
 * @param {object} trace plotly's full trace
 * @param {object[]} points plotly's calculated points of the trace, which are kept true for its hover
 * @param {Object<string, any>} values by name
 * @returns {(() => void)|null} what draws it, or null where plotly has to
 */
export function moveScatter(canvas, trace, points, values) {
  const { x = trace.x, y = trace.y, text = null, name: _unseen, ...others } = values; // no legends
  const { "marker.symbol": symbols = null, "error_y.array": errors = trace.error_y?.array, ...unknown } = others;
  const bare = trace.mode === "lines" && trace.hoverinfo === "skip"; // may have another number of points
  if (Object.keys(unknown).length || x.length !== y.length || !x.length || (points.length !== x.length && !bare))
    return null;
  if (text && (trace.mode.includes("text") || text.length !== x.length)) return null;
  const [xaxis, yaxis] = [axisOf(canvas, trace.xaxis), axisOf(canvas, trace.yaxis)];
  const [across, down] = [places(xaxis, x), places(yaxis, y)];
  if (![...across, ...down].every(Number.isFinite)) return null;
  const group = canvas.querySelector(`.trace${trace.uid}`);
  const line = group?.querySelector(".js-line");
  const dots = group?.querySelectorAll(".point") ?? [];
  if (!group || (trace.mode.includes("markers") && dots.length !== x.length)) return null;
  if (trace.mode.includes("lines") && (!line || group.querySelectorAll(".js-line").length > 1)) return null;
  const shapes = symbols && symbolsOf(trace, symbols);
  const bars = trace.error_y?.visible ? errorBars(group, trace.error_y, errors, { across, y, yaxis }) : [];
  if ((symbols && !shapes) || !bars) return null;
  return () => {
    line?.setAttribute("d", `M${across.map((left, index) => `${short(left)},${short(down[index])}`).join("L")}`);
    dots.forEach((dot, index) => {
      dot.setAttribute("transform", `translate(${short(across[index])},${short(down[index])})`);
      if (shapes) Object.assign(dot.style, shapes[index]);
    });
    for (const bar of bars) bar.path.setAttribute("d", bar.d);
    points.length = Math.min(points.length, x.length);
    while (points.length < x.length) points.push({ i: points.length });
    trace._length = x.length;
    points.forEach((point, index) => {
      point.x = xaxis.d2c(x[index]);
      point.y = yaxis.d2c(y[index]);
      if (text) point.tx = text[index];
      if (bars.length) [point.ys, point.yh] = [y[index] - errors[index], y[index] + errors[index]];
    });
  };
}

/** The paths of symmetric error bars on a linear axis, or null where there is another kind or one comes or goes. */
function errorBars(group, { type, symmetric, width }, errors, { across, y, yaxis }) {
  const paths = [...group.querySelectorAll("path.yerror")];
  const known = type === "data" && symmetric !== false && yaxis.type === "linear" && errors?.every(Number.isFinite);
  if (!known || paths.length !== across.length || errors.length !== across.length) return null;
  return paths.map((path, index) => {
    const [x, top, bottom] = [across[index], yaxis.c2p(y[index] + errors[index]), yaxis.c2p(y[index] - errors[index])];
    return { path, d: `M${x - width},${top}h${2 * width}m-${width},0V${bottom}m-${width},0h${2 * width}` };
  });
}

/** How each marker is filled, where its shape stays and only hollow and full change places; else null. */
function symbolsOf(trace, symbols) {
  const { color, line, symbol: before } = trace.marker;
  const plain = (name) => name.replace("-open", "");
  const same = symbols.every((name, index) => plain(name) === plain(Array.isArray(before) ? before[index] : before));
  if (!same || typeof color !== "string" || typeof line.color !== "string") return null;
  return symbols.map((name) =>
    name.endsWith("-open") ? { fill: "none", stroke: color } : { fill: color, stroke: line.color },
  );
}
