/**
 * Who can load the model, by the format that it is saved in: rows of sarqc/export/formats.py.
 * @module formats
 */

import { h } from "../base/dom.js";

const READERS = [
  ["transformers", "transformers"],
  ["vllm", "vLLM"],
];

/** The answer of a reader as a mark and a word; null: nobody has tried. */
export function answer(loads) {
  if (loads === null || loads === undefined) return { mark: "", word: "not tried", kind: "open" };
  return loads ? { mark: "✓", word: "yes", kind: "yes" } : { mark: "✗", word: "no", kind: "no" };
}

/** True when nobody reads the format, because it can't carry the run: the note says why. */
export const isImpossible = (format) => READERS.every(([key]) => format[key] === false);

/** A small table: a format, its readers, and below what it needs or why not. */
export function formatTable(formats) {
  const cell = (loads) => {
    const { mark, word, kind } = answer(loads);
    return h(
      "td",
      { class: `loads loads-${kind}` },
      mark ? h("span", { "aria-hidden": "true" }, `${mark} `) : null,
      word,
    );
  };
  return h(
    "table",
    { class: "formats", "data-testid": "formats" },
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        h("th", { scope: "col" }, "Saved as"),
        READERS.map(([, name]) => h("th", { scope: "col" }, name)),
      ),
    ),
    formats.map((format) =>
      h(
        "tbody",
        { dataset: { format: format.format } },
        h(
          "tr",
          {},
          h("th", { scope: "row" }, format.format),
          READERS.map(([key]) => cell(format[key])),
        ),
        h("tr", { class: "formats-note" }, h("td", { colspan: READERS.length + 1 }, `${format.note}.`)),
      ),
    ),
  );
}

let open = null; // as the reader left it, while the plan is made again and again

/** The table behind its title: open where there is room for it. */
export function formatsFold(formats) {
  if (!formats?.length) return null;
  open ??= matchMedia("(min-width: 481px)").matches;
  return h(
    "details",
    { class: "formats-fold", open, on: { toggle: (event) => (open = event.currentTarget.open) } },
    h("summary", {}, "Who can load it"),
    formatTable(formats),
  );
}
