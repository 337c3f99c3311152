/**
 * The page's state is its URL: one table says what there is, and parsing and writing follow from it.
 * @module state
 */

/** Name in the URL → how it is read. Everything is text until the page knows what the study offers. */
export const LAB_STATE = { study: String, method: String, bits: Number, layer: String, lambda: Number, gamma: Number, show: String };

/**
 * @param {string} search the part of the URL from “?”
 * @param {Object<string, Function>} table
 * @returns {Object<string, any>} only what is given and readable
 */
export function parse(search, table) {
  const given = new URLSearchParams(search);
  const state = {};
  for (const [name, read] of Object.entries(table)) {
    const text = given.get(name);
    if (text === null || text === "") continue;
    const value = read(text);
    if (!Number.isNaN(value)) state[name] = value;
  }
  return state;
}

/** The query string of a state; names in the order of the table, empty values left out. */
export function serialise(state, table) {
  const query = new URLSearchParams();
  for (const name of Object.keys(table)) {
    const value = state[name];
    if (value !== undefined && value !== null && value !== "") query.set(name, String(value));
  }
  const text = query.toString();
  return text ? `?${text}` : "";
}

let pending = null;

/** Writes the state into the address bar without a new history entry; many calls in a row become one. */
export function remember(state, table) {
  const search = serialise(state, table);
  clearTimeout(pending);
  pending = setTimeout(() => {
    if (search !== location.search) history.replaceState(history.state, "", `${location.pathname}${search}${location.hash}`);
  }, 60);
}

/** Position of the value nearest to a wanted one, or null where nothing is wanted. */
export function nearest(values, wanted) {
  if (wanted === undefined || wanted === null || !values.length) return null;
  let best = 0;
  values.forEach((value, index) => {
    if (value !== null && Math.abs(value - wanted) < Math.abs((values[best] ?? Infinity) - wanted)) best = index;
  });
  return best;
}
