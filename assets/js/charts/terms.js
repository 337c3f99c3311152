/**
 * Which quantity and which term of the objective each mark of a figure shows, told by its colour: what is drawn in the
 * colour of a reconstruction error, or of drift or penalty, belongs to that term, quality to neither. A mark without such a colour belongs to all.
 * @module terms
 */

/** @import { Binding, Figure } from "./bind.js" */

/** @typedef {"recon"|"drift"} Term of the objective, by the colour that it has everywhere */
/** @typedef {Term|"quality"} Shown what a mark shows */

/** @type {Record<string, Shown>} */
const BY_COLOUR = { recon: "recon", "held-out": "recon", drift: "drift", penalty: "drift", quality: "quality" };
const COLOUR = /var\(--(recon|held-out|drift|penalty|quality)(?:-ink|-faint)?\)/;

/** The name of the first colour of a quantity in a part of a figure. @param {unknown} part */
const colourOf = (part) => COLOUR.exec(JSON.stringify(part) ?? "")?.[1] ?? null;

/** @param {unknown} part of a figure @returns {Shown|null} */
const shownBy = (part) => BY_COLOUR[colourOf(part) ?? ""] ?? null;

/**
 * What each trace and each annotation of a figure shows, and the quantity of each trace as the sentence names it; null for
 * what shows none alone.
 * @param {Figure} figure as it travels, with names of colours
 * @returns {{traces: (Shown|null)[], annotations: (Shown|null)[], quantities: (string|null)[]}}
 */
export function marksOf({ data, layout, bindings = [] }) {
  const texts = new Map(bindings.map((binding) => [binding.path, someText(binding)]));
  return {
    quantities: data.map(({ line, marker }) => colourOf([line, marker])?.replace("-", "_") ?? null),
    // The colours of maps and surfaces are values.
    traces: data.map(({ type, line, marker, fillcolor }) =>
      type === "heatmap" || type === "surface" ? null : shownBy([line, marker, fillcolor]),
    ),
    annotations: (layout.annotations ?? []).map(({ font, text }, at) =>
      shownBy([font, text, texts.get(`layout.annotations.${at}.text`)]),
    ),
  };
}

/** One of the texts that a binding has; all of them are coloured alike. @param {Binding} binding */
function someText(binding) {
  let text = binding.array === undefined ? binding.values : null;
  while (Array.isArray(text)) text = text[0];
  return text;
}

/**
 * The terms that a figure shows something of.
 * @param {Figure} figure
 * @returns {Term[]}
 */
export function termsOf(figure) {
  const { traces, annotations } = marksOf(figure);
  return /** @type {const} */ (["recon", "drift"]).filter((term) => [...traces, ...annotations].includes(term));
}
