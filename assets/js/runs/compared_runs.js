/**
 * The picked runs side by side: where their recipes differ, their numbers, layers and texts with the difference to the
 * first, and their curves overlaid.
 * @module runs/compared_runs
 */

import { format, percent, signed, significant } from "../base/format.js";
import { html, nothing, render } from "../base/html.js";
import { table } from "../base/table.js";
import { methodTitle } from "../calibrate/recipe_form.js";
import { drawnTable, figureMenu } from "../charts/figure_menu.js";
import { plot } from "../charts/plot_host.js";

/** @import { ComparedNumber, EvidenceDocument } from "../base/types.d.ts" */
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
          return html`${pair(value === null ? "–" : significant(value), more(i, value, kl[0]))}<small>${first}</small>`;
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
 * What a value has more than the first: empty where the digits that are shown do not differ.
 * @param {number} value
 * @param {number} first
 */
function relative(value, first) {
  if (!first) return signed(significant(value - first));
  const share = value / first - 1;
  return Math.abs(share) < 0.0005 ? "" : signed(percent(share, Math.abs(share) < 0.0995 ? 1 : 0));
}

/** @param {ComparedNumber} row */
const withDifferences = ({ title, kind, values, evidence }) => ({
  title,
  texts: values.map((value, i) => (evidence ? compared(value, kind, evidence[i]) : plain(value, kind, i, values[0]))),
});

/** A quality with its comparison. @param {number | null} value @param {string} kind @param {EvidenceDocument | null} evidence */
function compared(value, kind, evidence) {
  const text = kind === "change" ? (evidence?.size ?? "–") : format(value, kind);
  if (!evidence) return text;
  const { lead, size, bounds, words } = evidence;
  const beside = [lead, kind === "change" ? "" : size, bounds].filter(Boolean).join(", ");
  return html`${kind === "change" ? text : pair(text, nothing)}<small class="beside" title=${words}>${beside}</small>`;
}

/** @param {number | null} value @param {string} kind @param {number} i @param {number | null} first */
const plain = (value, kind, i, first) => html`${pair(format(value, kind), more(i, value, first))}`;

/** A value and its difference, each in a column of its own. @param {string} value @param {unknown} difference */
const pair = (value, difference) => html`<span class="pair"><span>${value}</span>${difference}</span>`;

/**
 * What a study has more than the first.
 * @param {number} place
 * @param {number | null} value
 * @param {number | null} first
 */
const more = (place, value, first) => {
  if (!place || value === null || first === null) return nothing;
  const words = value === first ? "equal" : relative(value, first) || "nearly equal";
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
