/**
 * The address bar follows the page. What moves under a finger is written over the entry that is there; what a person
 * would want to go back from is an entry of its own in the browser's history.
 * @module address_bar
 */

const ASKED = ["method", "bits", "layer", "draw", "quantity", "steps"]; // the server makes another view for another of these
/** @type {ReturnType<typeof setTimeout> | undefined} */
let pending;
/** @type {string | undefined} what is to be written then */
let due;
/** @type {string | undefined} the step that the entry of the moment stands for; undefined while that is to be learned */
let here;
let written = globalThis.location?.search; // or read

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
 * Puts a query string into the address bar: over the entry that is there, once things stand still, because browsers count
 * and limit such changes; another step than the last one at once, as a new entry. What is told first, after the page was
 * opened and after the person went back, belongs to the entry that is there.
 * @param {string} search
 * @param {string} [step] names what a person goes back from; none on a page without steps
 */
export function remember(search, step) {
  const isNew = here !== undefined && step !== here;
  here = step;
  if (isNew) {
    flush();
    write(search, "pushState");
    return;
  }
  clearTimeout(pending);
  due = search;
  pending = setTimeout(flush, 200);
}

/**
 * Calls back with the query string of the entry that the person went back or forward to.
 * @param {(search: string) => void} show
 */
export function onReturn(show) {
  addEventListener("popstate", () => {
    if (location.search === written) return; // a place on this page, such as #numbers
    written = location.search;
    clearTimeout(pending); // it was meant for the entry that was left
    due = undefined;
    here = undefined;
    show(location.search);
  });
}

function flush() {
  clearTimeout(pending);
  if (due !== undefined) write(due, "replaceState");
  due = undefined;
}

/** @param {string} search @param {"pushState"|"replaceState"} how */
function write(search, how) {
  if (search === location.search) return;
  history[how](history.state, "", `${location.pathname}${search}${location.hash}`);
  written = location.search;
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
