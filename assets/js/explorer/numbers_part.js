/**
 * The numbers behind the curves, one row per point with every value at full precision in its data attribute; the same
 * as a file; and how they were measured.
 * @module numbers_part
 */

import { download } from "../base/dom.js";
import { csv, format } from "../base/format.js";
import { html, render } from "../base/html.js";
import { table } from "../base/table.js";
import { aboutOf, fileName, layerAt } from "./state.js";

/** @returns {import("./explorer.js").Part} */
export function numbersPart() {
  /** @type {import("./explorer.js").Follows} */
  const rows = { seen: false, near: false, step: () => true };

  return {
    cards: [],
    follows: [rows],

    wire(explorer) {
      const place = explorer.part("table");
      explorer.part("csv")?.addEventListener("click", () => save(explorer.state.view));
      if (!place) return;
      rows.step = (at) => mark(place, at);
      const look = new IntersectionObserver((entries) => {
        rows.seen = rows.near = entries.at(-1)?.isIntersecting ?? false;
      });
      look.observe(place);
    },

    render(explorer, { view, at }, before) {
      const place = explorer.part("table");
      if (place && view.table !== before.view?.table) {
        render(numbersTable(view.table, explorer), place);
        mark(place, at);
      }
      const measured = explorer.part("measured");
      if (measured && view.measured !== before.view?.measured)
        render(
          view.measured.map(({ name, text }) => html`<div><dt>${name}</dt><dd>${text}</dd></div>`),
          measured,
        );
    },
  };
}

/**
 * Marks the shown point's row; true like every step that could be made in place.
 * @param {HTMLElement} place
 * @param {import("../charts/bind.js").Point} at
 */
function mark(place, at) {
  for (const row of place.querySelectorAll("tbody tr"))
    if (row instanceof HTMLElement) row.toggleAttribute("aria-current", row.dataset.at === `${at.gamma},${at.lambda}`);
  return true;
}

/** @param {import("./state.js").View|null} view */
function save(view) {
  if (!view) return;
  const layer = view.layer === null ? "all-layers" : (layerAt(view, view.layer)?.name ?? "");
  download(`${fileName(view, layer)}.csv`, csv(view.table.columns, view.table.rows, aboutOf(view)));
}

/**
 * The table; a click on a row leads to its point.
 * @param {import("./state.js").Table} numbers
 * @param {import("./explorer.js").Explorer} explorer
 */
const numbersTable = ({ columns, rows }, explorer) =>
  table({
    name: "numbers",
    testid: "numbers",
    rows,
    columns: columns.map(({ key, title, kind }) => ({
      title,
      cell: (row) => html`<td data-key=${key} data-value=${String(row[key])}>${format(row[key], kind)}</td>`,
    })),
    line: (row, cells) =>
      html`<tr data-at=${row.at.join(",")} @click=${() => explorer.move({ gamma: row.at[0], lambda: row.at[1] })}>
        ${cells}
      </tr>`,
  });
