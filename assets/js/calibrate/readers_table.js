/**
 * Who can load the model, by the format that it is saved in: rows of sarqc/export/readers.py.
 * @module readers_table
 */

import { html, nothing } from "../base/html.js";
import { table } from "../base/table.js";

/** @import { Carrier } from "../base/types.d.ts" */

/** @type {["transformers" | "vllm", string][]} */
const READERS = [
  ["transformers", "transformers"],
  ["vllm", "vLLM"],
];

/**
 * The answer of a reader as a mark and a word; null: nobody has tried.
 * @param {boolean | null | undefined} loads
 */
export function answer(loads) {
  if (loads === null || loads === undefined) return { mark: "", word: "not tried", kind: "open" };
  return loads ? { mark: "✓", word: "yes", kind: "yes" } : { mark: "✗", word: "no", kind: "no" };
}

/**
 * True when nobody reads the format, because it can't carry the run: the note says why.
 * @param {Carrier} format
 */
export const isImpossible = (format) => READERS.every(([key]) => format[key] === false);

/**
 * A small table: a format, its readers, and below what it needs or why not.
 * @param {Carrier[]} formats
 */
export function formatTable(formats) {
  const columns = [{ title: "Saved as" }, ...READERS.map(([, title]) => ({ title }))];
  const body = formats.map(
    (format) =>
      html`<tbody data-format=${format.format}>
        <tr><th scope="row">${format.format}</th>${READERS.map(([key]) => cell(format[key]))}</tr>
        <tr class="formats-note"><td colspan=${columns.length}>${format.note}.</td></tr>
      </tbody>`,
  );
  return table({ columns, name: "formats", testid: "formats", body });
}

/** @param {boolean | null} loads */
function cell(loads) {
  const { mark, word, kind } = answer(loads);
  return html`<td class=${`loads loads-${kind}`}>${mark ? html`<span aria-hidden="true">${mark} </span>` : nothing}${word}</td>`;
}

/** @typedef {{isOpen: boolean, toggled: (isOpen: boolean) => void}} Fold whether it is open, and what hears that it was opened or closed */

/**
 * The table behind its title.
 * @param {Carrier[]} formats
 * @param {Fold} fold
 */
export function formatsFold(formats, { isOpen, toggled }) {
  if (!formats.length) return nothing;
  /** @param {Event & {currentTarget: HTMLDetailsElement}} event */
  const hear = ({ currentTarget }) => toggled(currentTarget.open);
  return html`<details class="formats-fold" ?open=${isOpen} @toggle=${hear}>
    <summary>Who can load it</summary>${formatTable(formats)}</details>`;
}
