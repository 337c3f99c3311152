/**
 * The address bar follows the page: written without a new history entry, however often something moves.
 * @module address_bar
 */

const ASKED = ["method", "bits", "layer", "scale", "draw", "quantity", "steps"]; // the server makes another view for another of these
/** @type {ReturnType<typeof setTimeout> | undefined} */
let pending;

/**
 * Where the view of a state is, below /api.
 * @param {Record<string, any>} wanted
 */
export function viewPath(wanted) {
  const query = new URLSearchParams();
  for (const name of ASKED) if (wanted[name] !== undefined && wanted[name] !== null) query.set(name, wanted[name]);
  return `/studies/${encodeURIComponent(wanted.study)}/view?${query}`;
}

/**
 * Puts a query string into the address bar, once things stand still: browsers count and limit such changes.
 * @param {string} search
 */
export function remember(search) {
  clearTimeout(pending);
  pending = setTimeout(() => {
    if (search !== location.search)
      history.replaceState(history.state, "", `${location.pathname}${search}${location.hash}`);
  }, 200);
}

/**
 * Position of the value nearest to a wanted one, or null where nothing is wanted.
 * @param {readonly (number | null)[]} values
 * @param {number | null | undefined} wanted
 */
export function nearest(values, wanted) {
  if (wanted === undefined || wanted === null || !values.length) return null;
  let best = 0;
  values.forEach((value, index) => {
    if (value !== null && Math.abs(value - wanted) < Math.abs((values[best] ?? Infinity) - wanted)) best = index;
  });
  return best;
}
