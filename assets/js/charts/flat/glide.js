/**
 * A flat figure on its way from one point to another: points of curves slide, bands widen or narrow, the value beside the
 * shown point goes with it. Only places move; words, colours and marks are the new ones at once.
 * @module flat/glide
 */

/** @typedef {Record<string, any>} Words of plotly */
/** @typedef {{data: Words[], layout: Words}} Drawn */

export const DURATION = 200; // milliseconds
const MOST = 2000; // points of a figure that is drawn anew in each frame

const SHAPE = ["x0", "x1", "y0", "y1"];
const NOTE = ["x", "y"];

/**
 * True for figures of curves and bars alone that show the same things at two points.
 * @param {Drawn} from
 * @param {Drawn} to
 */
export function canGlide(from, to) {
  const points = to.data.reduce((sum, { x }) => sum + (x?.length ?? 0), 0);
  const isAlike = from.data.length === to.data.length && to.data.every((trace, at) => isSame(from.data[at], trace));
  const [before, after] = [from, to].map(({ layout }) => [layout.shapes?.length, layout.annotations?.length]);
  return points <= MOST && isAlike && before.every((length, at) => length === after[at]);
}

/** @param {Words} from @param {Words} to */
const isSame = (from, to) =>
  (to.type ?? "scatter") === "scatter" && from.name === to.name && (from.y?.length ?? 0) === (to.y?.length ?? 0);

/**
 * A figure between two.
 * @param {Drawn} from
 * @param {Drawn} to
 * @param {number} share of the way, 0 to 1
 * @param {(value: unknown, axis: string) => number} placeOf the position of a value on the axis of a name
 * @returns {Drawn}
 */
export function between(from, to, share, placeOf) {
  if (share >= 1) return to;
  const mixed = (/** @type {any} */ was, /** @type {any} */ is) => mix(was, is, share);
  return {
    data: to.data.map((trace, at) => traceBetween(from.data[at], trace, mixed, placeOf)),
    layout: {
      ...to.layout,
      ...axesBetween(from.layout, to.layout, mixed),
      shapes: listBetween(from.layout.shapes, to.layout.shapes, SHAPE, mixed),
      annotations: listBetween(from.layout.annotations, to.layout.annotations, NOTE, mixed),
    },
  };
}

/** @param {any} was @param {any} is @param {number} share @returns {any} */
function mix(was, is, share) {
  if (Number.isFinite(was) && Number.isFinite(is)) return was + share * (is - was);
  if (Array.isArray(was) && Array.isArray(is) && was.length === is.length)
    return is.map((value, at) => mix(was[at], value, share));
  return is;
}

/**
 * @param {Words} from
 * @param {Words} to
 * @param {(was: any, is: any) => any} mixed
 * @param {(value: unknown, axis: string) => number} placeOf
 */
function traceBetween(from, to, mixed, placeOf) {
  /** @type {Words} */
  const now = { ...to, y: mixed(from.y, to.y) };
  // The mark of the shown point goes along an axis of names; the points of a curve stay at theirs.
  if (to.x?.length === 1 && from.x?.length === 1) {
    const axis = to.xaxis ?? "x";
    now.x = [mixed(placeOf(from.x[0], axis), placeOf(to.x[0], axis))];
  }
  if (from.error_y && to.error_y) {
    const { array, arrayminus } = to.error_y;
    now.error_y = { ...to.error_y, array: mixed(from.error_y.array, array) };
    if (arrayminus) now.error_y.arrayminus = mixed(from.error_y.arrayminus, arrayminus);
  }
  return now;
}

/** The ranges of axes. @param {Words} from @param {Words} to @param {(was: any, is: any) => any} mixed */
function axesBetween(from, to, mixed) {
  const names = Object.keys(to).filter((name) => name.includes("axis") && from[name]?.range && to[name]?.range);
  return Object.fromEntries(
    names.map((name) => [name, { ...to[name], range: mixed(from[name].range, to[name].range) }]),
  );
}

/**
 * @param {Words[] | undefined} from
 * @param {Words[] | undefined} to
 * @param {string[]} places names of what moves
 * @param {(was: any, is: any) => any} mixed
 */
const listBetween = (from, to, places, mixed) =>
  to?.map((is, at) => {
    const was = from?.[at] ?? is;
    const known = places.filter((name) => name in is && is.visible !== false && was.visible !== false);
    return { ...is, ...Object.fromEntries(known.map((name) => [name, mixed(was[name], is[name])])) };
  });
