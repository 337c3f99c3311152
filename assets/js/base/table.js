/**
 * Every table of the pages: its head follows from the columns, its rows are kept by their keys while it is drawn again.
 * @module table
 */

import { html, nothing, repeat } from "./html.js";

/**
 * @template Row
 * @typedef {object} Column
 * @property {unknown} [title] the column's heading; without one its place in the head is empty
 * @property {string} [kind] class of the heading
 * @property {boolean} [isHead] whether its cells are the headings of their rows
 * @property {(row: Row, index: number) => unknown} [show] what a cell holds
 * @property {(row: Row, index: number) => unknown} [cell] instead of `show`, the whole cell: a template of one td or th
 */

/**
 * @template Row
 * @param {object} options
 * @param {Column<Row>[]} options.columns
 * @param {Iterable<Row>} [options.rows]
 * @param {string} [options.name] the table's class
 * @param {string} [options.testid]
 * @param {unknown} [options.caption]
 * @param {(row: Row, index: number) => unknown} [options.key] what a row is known by; its place where nothing is given
 * @param {(row: Row, cells: unknown) => unknown} [options.line] the row with its attributes around the cells
 * @param {unknown} [options.head] rows of the head, where they are not those of the columns
 * @param {unknown} [options.body] all of the table's bodies, instead of rows
 */
export function table({ columns, rows = [], name, testid, caption, key, line = plainLine, head, body }) {
  /** @param {Row} row @param {number} index */
  const drawn = (row, index) =>
    line(
      row,
      columns.map((column) => cellOf(column, row, index)),
    );
  const lines = key ? repeat(rows, key, drawn) : [...rows].map(drawn);
  return html`<table class=${name ?? nothing} data-testid=${testid ?? nothing}>
    ${caption ? html`<caption>${caption}</caption>` : nothing}
    <thead>${head ?? headLine(columns)}</thead>
    ${body ?? html`<tbody>${lines}</tbody>`}
  </table>`;
}

/** @param {unknown} _row @param {unknown} cells */
const plainLine = (_row, cells) => html`<tr>${cells}</tr>`;

/**
 * @template Row
 * @param {Column<Row>[]} columns
 */
const headLine = (columns) =>
  html`<tr>${columns.map(({ title, kind }) =>
    title || title === 0 ? html`<th scope="col" class=${kind || nothing}>${title}</th>` : html`<td></td>`,
  )}</tr>`;

/**
 * @template Row
 * @param {Column<Row>} column
 * @param {Row} row
 * @param {number} index
 */
function cellOf({ isHead, show, cell }, row, index) {
  if (cell) return cell(row, index);
  const content = show?.(row, index);
  return isHead ? html`<th scope="row">${content}</th>` : html`<td>${content}</td>`;
}

/**
 * A part that is scrolled by itself, by keyboard too, such as a wide table.
 * @param {string} label what is in it, for screen readers
 * @param {unknown} content
 * @param {string} [more] further classes
 */
export const scrolling = (label, content, more = "") =>
  html`<div class=${`table-scroll ${more}`.trim()} tabindex="0" role="region" aria-label=${label}>${content}</div>`;
