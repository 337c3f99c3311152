/**
 * The picked runs side by side: where their recipes differ, their numbers, layers and texts with the difference to the
 * first, and their curves overlaid.
 * @module runs/compared_runs
 */

import { decimalsFor, format, number, percent, signed, significant } from "../base/format.js";
import { html, nothing, render } from "../base/html.js";
import { table } from "../base/table.js";
import { methodTitle } from "../calibrate/recipe_form.js";
import { drawnTable, figureMenu } from "../charts/figure_menu.js";
import { plot } from "../charts/plot_host.js";

/** @import { ComparedNumber } from "../base/types.d.ts" */
/** @import { Comparison } from "./types.d.ts" */

/**
 * Shows a comparison in its cards.
 * @param {Comparison} comparison
 * @param {string[]} names of the runs; empty ones are called as their studies are
 */
export async function showComparison(comparison, names) {
  const { differences, numbers, layers, layers_on: on, texts, figure } = comparison;
  const letters = comparison.studies.map(({ name }) => name.slice(0, 1));
  const studies = comparison.studies.map(({ name }, i) => (names[i] ? `${letters[i]}: ${names[i]}` : name));
  const section = /** @type {HTMLElement} */ (document.querySelector(".compare"));
  const place = (/** @type {string} */ name) =>
    /** @type {HTMLElement} */ (section.querySelector(`[data-part="${name}"]`));
  section.classList.add("is-shown");
  render(
    differences.length
      ? beside(
          studies,
          differences.map(({ field, title, values }) => ({
            title,
            texts: values.map(field === "method" ? (name) => methodTitle(valueText(name)) : valueText),
          })),
        )
      : html`<p class="empty">The recipes are equal.</p>`,
    place("differences"),
  );
  render(beside(letters, numbers.map(withDifferences)), place("compared"));
  const layersCard = /** @type {HTMLElement} */ (place("layers").closest("section"));
  layersCard.hidden = !layers.length;
  render(on ? `Relative error of each layer, ${on}` : nothing, place("layers-title"));
  render(
    layers.length
      ? beside(
          letters,
          layers.map(withDifferences).map((row) => ({ ...row, title: breakable(row.title) })),
        )
      : nothing,
    place("layers"),
  );
  const textsCard = /** @type {HTMLElement} */ (place("texts").closest("section"));
  textsCard.hidden = !texts.length;
  render(
    beside(
      letters,
      texts.map(({ prompt, kl, divergence }) => ({
        title: prompt,
        texts: kl.map((value, i) => {
          const at = divergence[i];
          const first = at === null ? "the same words" : `differs from token ${at + 1} on`;
          return html`${pair(value === null ? "–" : significant(value), more(i, value, kl[0], relative))}<small>${first}</small>`;
        }),
      })),
    ),
    place("texts"),
  );
  await showCurves(figure);
}

/** A layer's name that may go on in a further line after each of its parts. @param {string} name */
const breakable = (name) => name.split(".").map((part, i, { length }) => (i < length - 1 ? html`${part}.<wbr>` : part));

/**
 * One column for each study, the first being what the others are compared with.
 * @param {string[]} heads
 * @param {{title: unknown, texts: unknown[]}[]} rows
 */
const beside = (heads, rows) =>
  table({
    name: "compare-table",
    columns: [
      { isHead: true, show: (/** @type {typeof rows[number]} */ { title }) => title },
      ...heads.map((head, i) => ({
        title: head,
        kind: `series-${(i % 4) + 1}`,
        show: (/** @type {typeof rows[number]} */ { texts }) => texts[i],
      })),
    ],
    rows,
  });

/**
 * What a value has more than the first, as its kind is compared: empty where the digits that are shown do not differ.
 * @typedef {(value: number, first: number) => string} Difference
 */

/** @type {Difference} */
function relative(value, first) {
  if (!first) return signed(significant(value - first));
  const share = value / first - 1;
  return Math.abs(share) < 0.0005 ? "" : signed(percent(share, Math.abs(share) < 0.0995 ? 1 : 0));
}

/** @type {Difference} */
function inPoints(value, first) {
  const points = 100 * (value - first);
  return Math.abs(points) < 0.05 ? "" : `${signed(number(points, 1))} points`;
}

/** @type {Object<string, Difference>} */
const DIFFERENCES = {
  perplexity(value, first) {
    const decimals = Math.min(decimalsFor(first) + 1, decimalsFor(value - first));
    return Number((value - first).toFixed(decimals)) === 0 ? "" : signed(number(value - first, decimals));
  },
  share: inPoints,
  change: inPoints,
};

/** @param {ComparedNumber} row */
const withDifferences = ({ title, kind, values, notes = [] }) => ({
  title,
  texts: values.map((value, i) => {
    const text = value !== null && kind === "change" ? signed(percent(value, 1)) : format(value, kind);
    return html`${pair(text, more(i, value, values[0], DIFFERENCES[kind] ?? relative))}${notes[i] ? html`<small>${notes[i]}</small>` : nothing}`;
  }),
});

/** A value and its difference, each in a column of its own. @param {string} value @param {unknown} difference */
const pair = (value, difference) => html`<span class="pair"><span>${value}</span>${difference}</span>`;

/**
 * What a study has more than the first.
 * @param {number} place
 * @param {number | null} value
 * @param {number | null} first
 * @param {Difference} write
 */
const more = (place, value, first, write) => {
  if (!place || value === null || first === null) return nothing;
  const words = value === first ? "equal" : write(value, first) || "nearly equal";
  return html`<span class="more" title="Against the first">${words}</span>`;
};

/** @param {Comparison["figure"]} figure */
async function showCurves(figure) {
  const host = await plot("compare");
  if (!host.figure) figureMenu(host, { file: () => "compared", table: () => drawnTable(host.canvas.data) });
  host.show(figure);
}

/** @param {unknown} value */
function valueText(value) {
  if (Array.isArray(value)) return value.join(", ") || "none";
  if (typeof value === "boolean") return value ? "yes" : "no";
  return String(value ?? "none");
}
