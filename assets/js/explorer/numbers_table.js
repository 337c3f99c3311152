/**
 * The table of the numbers behind the curves: one row per point, every value at full precision in its data attribute.
 * @module numbers
 */

import { h } from "../base/dom.js";
import { format } from "../base/format.js";

/**
 * @param {{columns: {key: string, title: string, kind: string}[], rows: object[]}} table
 * @param {(at: number[]) => void} onPick called with (γ, λ) positions of a row that is clicked
 */
export function numbersTable({ columns, rows }, onPick) {
  const cell = (row, { key, kind }) => h("td", { dataset: { key, value: String(row[key]) } }, format(row[key], kind));
  const line = (row) =>
    h(
      "tr",
      { dataset: { at: row.at.join(",") }, on: { click: () => onPick(row.at) } },
      columns.map((column) => cell(row, column)),
    );
  return h(
    "table",
    { class: "numbers", "data-testid": "numbers" },
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        columns.map((column) => h("th", { scope: "col" }, column.title)),
      ),
    ),
    h("tbody", {}, rows.map(line)),
  );
}
