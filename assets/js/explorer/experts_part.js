/**
 * The experts of a mixture: the calibration tokens of each as a map, as words and as a table, and the error by tokens.
 * A dense model has none of it.
 * @module experts_part
 */

import { download, say } from "../base/dom.js";
import { count, csv } from "../base/format.js";
import { html, nothing, render } from "../base/html.js";
import { table } from "../base/table.js";
import { CellPointer } from "../charts/cells.js";
import { layerCells } from "./layer_cells.js";
import { fileName } from "./state.js";

/** @import { Tokens } from "./state.js" */

/** @returns {import("./explorer.js").Part} */
export function expertsPart() {
  return {
    cards: ["tokens", "tokens_error"],
    figure: ({ view }, card) => (view.figures[card] ? card : null),

    wire(explorer) {
      const { tokens, tokens_error: error } = explorer.hosts;
      for (const host of [tokens, error]) host.onClick((event) => explorer.pickLayer(event));
      new CellPointer(tokens, layerCells(explorer, tokens));
      explorer.part("tokens-table")?.addEventListener("toggle", () => unfold(explorer, explorer.state.view?.tokens));
      explorer.part("tokens-csv")?.addEventListener("click", () => {
        const { view } = explorer.state;
        if (!view?.tokens) return;
        const { columns, rows } = tokenRows(view.tokens);
        download(`${fileName(view, "tokens")}.csv`, csv(columns, rows));
      });
    },

    render(explorer, { view }, before) {
      const fold = explorer.part("tokens-table");
      if (!fold || view.tokens === before.view?.tokens) return;
      fold.closest(".tokens-numbers")?.classList.toggle("is-off", !view.tokens);
      say(explorer.part("tokens-words"), view.tokens?.words ?? "");
      unfold(explorer, view.tokens);
    },
  };
}

/**
 * The numbers behind the map of tokens; made when they are unfolded, because there may be thousands.
 * @param {import("./explorer.js").Explorer} explorer
 * @param {Tokens|null|undefined} tokens
 */
function unfold(explorer, tokens) {
  const [fold, place] = [explorer.part("tokens-table"), explorer.part("tokens-numbers")];
  if (place) render(tokens && fold?.hasAttribute("open") ? tokenTable(tokens) : nothing, place);
}

/** @param {Tokens} tokens */
function tokenTable({ blocks, experts, tokens, channels }) {
  /** @param {number|null} value */
  const cell = (value) => {
    if (value === null) return html`<td>–</td>`;
    const kind = value === 0 ? "is-none" : value < channels ? "is-few" : nothing;
    return html`<td class=${kind}>${count(value)}</td>`;
  };
  return table({
    name: "numbers tokens",
    rows: blocks,
    columns: [
      { title: "Block", isHead: true, show: (block) => block },
      ...experts.map((expert, column) => ({
        title: expert,
        /** @param {number} _ @param {number} row */
        cell: (_, row) => cell(tokens[row][column]),
      })),
    ],
  });
}

/**
 * Token counts as rows of a file: one for each expert.
 * @param {Pick<Tokens, "blocks"|"experts"|"tokens">} table mean over the draws; null: no such expert
 */
export function tokenRows({ blocks, experts, tokens }) {
  const rows = blocks.flatMap((block, row) =>
    experts.map((expert, column) => ({ block, expert, tokens: tokens[row][column] })),
  );
  return {
    columns: [{ key: "block" }, { key: "expert" }, { key: "tokens" }],
    rows: rows.filter((row) => row.tokens !== null),
  };
}
