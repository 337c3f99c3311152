/**
 * What the explorer shows of a mixture beyond a dense model: the tokens of its experts, the error by tokens, and in the
 * map of all layers a second level with the experts of the chosen layer's block. And what that map is coloured by.
 * @module expert_views
 */

import { viewPath } from "../base/address_bar.js";
import { asProblem, request } from "../base/client.js";
import { download, fill, h, say } from "../base/dom.js";
import { count, csv } from "../base/format.js";
import { isLocked } from "../base/link.js";
import { FIGURES } from "./explorer.js";
import { WeightsExplorer } from "./weights_part.js";

const CARDS = ["tokens", "tokens_error"]; // there only for studies with experts
const NAMES = { blocks: "blocks", experts: "experts" };

export class MixtureExplorer extends WeightsExplorer {
  /** As ``Explorer``; ``figures`` without those of experts, which are added. */
  constructor({ figures = FIGURES, ...options }) {
    super({ ...options, figures: [...figures, ...CARDS] });
    this.level = "experts"; // of the map, where the chosen layer belongs to one
  }

  wire() {
    super.wire();
    const { map, tokens, tokens_error: error } = this.hosts;
    for (const host of [tokens, error]) host?.onClick((event) => this.pickPoint(event));
    if (map) this.switch = this.levelSwitch(map.tools);
    this.part("tokens-table")?.addEventListener("toggle", () => this.tokenTable());
    this.part("tokens-csv")?.addEventListener("click", () => {
      const { columns, rows } = tokenRows(this.view.tokens);
      download(`${this.view.study.id}-${this.view.line.name}-${this.view.line.bits}bit-tokens.csv`, csv(columns, rows));
    });
  }

  /** The layer that a point of a figure leads to; the level stays as the person left it. */
  pickPoint(event) {
    const layer = event.points[0]?.customdata?.[0];
    if (Number.isInteger(layer) && layer >= 0) this.pick({ layer });
  }

  /** Colours the map by another quantity of the shown line; nothing else is drawn anew. */
  async setQuantity(quantity) {
    const { view } = this;
    if (!view || isLocked("quantity")) return;
    const mine = {};
    this.colouring = mine;
    try {
      const { figures, ...answer } = await request(viewPath({ ...this.state(), quantity }));
      if (mine !== this.colouring || view !== this.view) return; // something newer is on its way
      view.quantity = answer.quantity;
      Object.assign(view.figures, { map: figures.map, map_experts: figures.map_experts });
      this.failed(null);
      await this.draw("map");
      this.onChange(this.state(), false);
    } catch (error) {
      this.failed(asProblem(error, "the map of layers"));
    }
  }

  levelSwitch(place) {
    const buttons = Object.entries(NAMES).map(([level, text]) =>
      h("button", { type: "button", dataset: { level }, on: { click: () => this.setLevel(level) } }, text),
    );
    const element = h(
      "div",
      { class: "switch", role: "group", "aria-label": "Level of the map", "data-testid": "level", hidden: true },
      buttons,
    );
    const menu = place?.querySelector(".figure-button");
    if (menu) menu.before(element);
    else place?.append(element);
    return element;
  }

  setLevel(level) {
    this.level = level;
    this.markLevel();
    return this.draw("map");
  }

  markLevel() {
    if (!this.switch) return;
    this.switch.hidden = !this.view.figures.map_experts;
    for (const button of this.switch.children)
      button.setAttribute("aria-pressed", String(button.dataset.level === this.level));
  }

  async showAll() {
    for (const name of CARDS) this.card(name)?.classList.toggle("is-off", !this.view.figures[name]);
    const fold = this.part("tokens-table");
    if (fold) {
      fold.closest(".tokens-numbers").classList.toggle("is-off", !this.view.tokens);
      say(this.part("tokens-words"), this.view.tokens?.words ?? "");
      this.tokenTable();
    }
    this.markLevel();
    await super.showAll();
  }

  take(name) {
    const inner = this.view.figures.map_experts;
    if (name !== "map" || !inner || this.level !== "experts") super.take(name);
    else this.hosts.map?.take(inner, this.at, this.arrays, "");
  }

  /** The numbers behind the map of tokens; made when they are unfolded, because there may be thousands. */
  tokenTable() {
    const fold = this.part("tokens-table");
    const place = this.part("tokens-numbers");
    if (!this.view?.tokens || !fold.open) return fill(place);
    const { blocks, experts, tokens, channels } = this.view.tokens;
    const kind = (value) => (value === 0 ? "is-none" : value < channels ? "is-few" : null);
    return fill(
      place,
      h(
        "table",
        { class: "numbers tokens" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            h("th", { scope: "col" }, "Block"),
            experts.map((expert) => h("th", { scope: "col" }, expert)),
          ),
        ),
        h(
          "tbody",
          {},
          blocks.map((block, row) =>
            h(
              "tr",
              {},
              h("th", { scope: "row" }, block),
              tokens[row].map((value) =>
                value === null ? h("td", {}, "–") : h("td", { class: kind(value) }, count(value)),
              ),
            ),
          ),
        ),
      ),
    );
  }
}

/**
 * Token counts as rows of a file: one for each expert.
 * @param {{blocks: number[], experts: number[], tokens: (number|null)[][]}} table mean over the draws; null: no such expert
 */
export function tokenRows({ blocks, experts, tokens }) {
  const rows = blocks.flatMap((block, row) =>
    experts.map((expert, column) => ({ block, expert, tokens: tokens[row][column] })),
  );
  return {
    columns: [{ key: "block" }, { key: "expert" }, { key: "tokens" }],
    rows: rows.filter((one) => one.tokens !== null),
  };
}
