/**
 * The menu of each figure of an explorer: what its files are called, and the numbers behind it. Those of the weights are
 * the arrays that the page holds; all others the server makes from the facts, at full precision.
 * @module figure_tables
 */

import { request } from "../base/client.js";
import { figureMenu } from "../charts/figure_menu.js";
import { withoutColumn } from "./band.js";
import { aboutOf, fileName } from "./state.js";
import { shownWeights } from "./weights_part.js";

const FROM_SCREEN = ["surfaces", "surfaces_flat"];

/** @param {import("./explorer.js").Explorer} explorer */
export function figureMenus(explorer) {
  for (const [card, host] of Object.entries(explorer.hosts)) {
    const current = () => {
      if (!explorer.seen) throw new Error("there is no study yet");
      return explorer.seen;
    };
    figureMenu(host, {
      file: () => fileName(current().view, card.replace("_flat", "")),
      about: () => aboutOf(current().view),
      table: async (offset, limit) => {
        if (FROM_SCREEN.includes(card)) return cells(current());
        const numbers = await request(`${tablePath(current().view, card)}&offset=${offset}&limit=${limit}`);
        return explorer.state.banded ? numbers : withoutColumn(numbers);
      },
    });
  }
}

/**
 * Where the table of a figure is, below /api.
 * @param {import("./state.js").View} view
 * @param {string} card
 */
export function tablePath({ study, line, layer, draw, ladder }, card) {
  const query = new URLSearchParams({ method: line.name, bits: String(line.bits) });
  if (layer !== null) query.set("layer", String(layer));
  if (draw !== null) query.set("draw", String(draw));
  if (card === "ladder" && ladder) query.set("steps", ladder.steps.map(({ name }) => name).join());
  return `/studies/${encodeURIComponent(study.id)}/tables/${card}?${query}`;
}

/**
 * The cells of Ŵ − W at the smallest and at the shown λ, pooled as they are drawn.
 * @param {import("./explorer.js").WithView} state
 */
export function cells(state) {
  const { arrays, at, view } = state;
  const figure = view.figures[shownWeights(state)];
  const array = figure?.bindings?.find((binding) => binding.array !== undefined)?.array ?? "surface";
  const first = arrays[array].matrix(at.gamma, 0);
  const rows = arrays[array]
    .matrix(at.gamma, at.lambda)
    .flatMap((line, row) =>
      Array.from(line, (value, column) => ({ row, column, first: first[row][column], shown: value })),
    );
  const what = array === "surface_signed" ? "Ŵ − W" : "|Ŵ − W|";
  const columns = [
    { key: "row", title: "Output cell", kind: "plain" },
    { key: "column", title: "Input cell", kind: "plain" },
    { key: "first", title: `${what}, λ = ${view.lam_texts[0] ?? ""}`, kind: "significant" },
    { key: "shown", title: `${what}, λ = ${view.lam_texts[at.lambda] ?? ""}`, kind: "significant" },
  ];
  return { columns, rows };
}
