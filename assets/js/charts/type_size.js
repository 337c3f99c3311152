/**
 * The size of a figure's type: that of its place on the page (`font-size` of base.css), so that a figure grows as a whole,
 * type, marks and margins alike, when it fills the window. Figures are written for type of 12 pixels.
 * @module type_size
 */

/** @import { Figure } from "./bind.js" */

export const WRITTEN = 12; // pixels

/**
 * How many times larger than it is written a figure is drawn.
 * @param {HTMLElement} place
 */
export const growthOf = (place) => (Number.parseFloat(getComputedStyle(place).fontSize) || WRITTEN) / WRITTEN;

// Lengths in pixels by the name of what they are a part of. There are others of the same names that are none, such as
// the width of a bar, in the unit of its axis.
/** @type {[parent: RegExp, names: RegExp][]} */
const LENGTHS = [
  [/font$/, /^size$/],
  [/^marker$/, /^size$/],
  [/^(line|error_[xy])$/, /^(width|thickness)$/],
  [/^margin$/, /^[lrtb]$|^pad$/],
  [/^colorbar$/, /^(thickness|[xy]pad|outlinewidth|ticklen)$/],
  [/^title$/, /^standoff$/],
  [/axis\d*$/, /^(ticklen|ticklabelstandoff)$/],
  [/^(annotations|data)$/, /^([xy]shift|a[xy]|arrowwidth|borderpad|[xy]gap)$/],
];

/**
 * The same figure with all that is measured in pixels so many times as large. Its bindings are places and words, no lengths.
 * @param {Figure} figure which is not changed
 * @param {number} growth
 * @returns {Figure}
 */
export function grown(figure, growth) {
  if (growth === 1) return figure;
  /** @type {(value: unknown, parent: string, name: string) => any} */
  const grow = (value, parent, name) => {
    if (Array.isArray(value)) {
      // What is in a list of objects belongs to the list: annotations.3.xshift is a part of annotations.
      return value.map((one) =>
        typeof one === "object" && one !== null ? grow(one, parent, name) : number(one, parent, name),
      );
    }
    if (typeof value !== "object" || value === null) return number(value, parent, name);
    return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, grow(one, name, key)]));
  };
  /** @type {(value: unknown, parent: string, name: string) => unknown} */
  const number = (value, parent, name) =>
    typeof value === "number" && LENGTHS.some(([of, names]) => of.test(parent) && names.test(name))
      ? value * growth
      : value;
  const { data, layout, narrow } = figure;
  const paths = Object.entries(narrow ?? {}).map(([path, value]) => {
    const [name, ...above] = path.split(".").reverse();
    return [path, grow(value, above.find((key) => !/^\d+$/.test(key)) ?? "", name)];
  });
  return {
    ...figure,
    data: grow(data, "", "data"),
    layout: grow(layout, "", "layout"),
    ...(narrow ? { narrow: Object.fromEntries(paths) } : {}),
  };
}
