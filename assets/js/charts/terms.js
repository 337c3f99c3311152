/**
 * Which term of the objective each mark of a figure shows, told by its colour: what is drawn in the colour of the
 * reconstruction error or of the drift belongs to that, quality to neither. A mark without such a colour belongs to all.
 * @module terms
 */

/** @import { Binding, Figure } from "./bind.js" */

/** @typedef {"recon"|"drift"} Term of the objective, by the colour that it has everywhere */
/** @typedef {Term|"quality"} Shown what a mark shows */

/** @type {Record<string, Shown>} */
const BY_COLOUR = { recon: "recon", "held-out": "recon", drift: "drift", quality: "quality" };
const COLOUR = /var\(--(recon|held-out|drift|quality)(?:-ink|-faint)?\)/;

/** @param {unknown} part of a figure @returns {Shown|null} */
function shownBy(part) {
  const [, name] = COLOUR.exec(JSON.stringify(part) ?? "") ?? [];
  return name ? BY_COLOUR[name] : null;
}

/**
 * What each trace and each annotation of a figure shows; null for what shows none alone.
 * @param {Figure} figure as it travels, with names of colours
 * @returns {{traces: (Shown|null)[], annotations: (Shown|null)[]}}
 */
export function marksOf({ data, layout, bindings = [] }) {
  const texts = new Map(bindings.map((binding) => [binding.path, someText(binding)]));
  return {
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
