/**
 * The card “Speed”: tokens per second as measured in this run, and the published table beside them.
 * @module speed_card
 */

import { count, number, percent } from "../base/format.js";
import { html, nothing, render } from "../base/html.js";
import { scrolling, table } from "../base/table.js";

/** @typedef {"prefill" | "decode"} Kind */
/** @typedef {Record<Kind, number> & Record<`${Kind}_spread`, [number, number]>} Rates tokens per second, and the smallest and the largest */
/** @typedef {{float: Rates | null, quantized: Rates | null, kernel: string | null, reason: string, protocol: Record<string, any>}} Speed */
/** @typedef {{source: string, caption: string, models: string[], rows: ({method: string} & Record<Kind, number[]>)[]}} Published */

/** @type {[Kind, string][]} */
const KINDS = [
  ["prefill", "Prefill"],
  ["decode", "Decoding"],
];

/**
 * Fills and shows the card, or hides it where nothing was measured.
 * @param {HTMLElement} place with the published figures in its data
 * @param {Speed | null} speed as sarqc/events.py, SpeedMeasured, says it
 */
export function speedCard(place, speed) {
  place.hidden = !speed;
  render(speed ? card(speed, JSON.parse(place.dataset.published ?? "")) : nothing, place);
}

/** @param {Speed} speed @param {Published} figures */
const card = (speed, figures) =>
  html`<header class="card-head"><h2 class="card-title" id="speed-title">Speed</h2></header>
    <div class="run-body">${speed.float ? ours(speed, speed.float) : nothing}${speed.reason ? html`<p class="warning" data-testid="speed-reason">${reasonWords(speed)}</p>` : nothing}${speed.float ? html`<p class="protocol" data-testid="speed-protocol">${protocolWords(speed)}</p>` : nothing}${published(figures)}</div>`;

/**
 * What the reader can't expect here, in a sentence.
 * @param {Pick<Speed, "float" | "reason">} speed
 */
export const reasonWords = ({ float, reason }) =>
  `${float ? "Only the float model" : "Nothing"} was measured: ${reason}.`;

/**
 * How it was measured.
 * @param {Pick<Speed, "kernel" | "protocol">} speed
 */
export function protocolWords({ kernel, protocol }) {
  const { repeats, dtype, device, threads, torch, largest_relative_difference: difference } = protocol;
  const [length, prompt, decoded] = ["sequence_length", "prompt_tokens", "decoded_tokens"].map((name) =>
    count(protocol[name]),
  );
  const host = `on ${device}${threads ? ` with ${threads} threads` : ""}, torch ${torch}`;
  const said = [
    `One sequence of ${length} tokens: ${prompt} read at once, then ${decoded} made one by one.`,
    `Median of ${repeats} repeats, with the smallest and the largest; both models in turn, in ${dtype}, ${host}.`,
    `The float model: ${protocol.float_model}.`,
  ];
  if (kernel)
    said.push(
      `The kernel, ${kernel}, was fed ${protocol.fed}; its outputs differ from those of the evaluated weights by at most ${percent(difference, 2)} in any layer.`,
    );
  return said.join(" ");
}

/**
 * How many times faster the quantized model is, as text; a dash where it was not measured.
 * @param {Pick<Speed, "float" | "quantized">} speed
 * @param {Kind} kind
 */
export function speedUp(speed, kind) {
  return speed.quantized && speed.float ? `${number(speed.quantized[kind] / speed.float[kind], 2)} ×` : "–";
}

/** @param {Speed} speed @param {Rates} float */
function ours(speed, float) {
  const { quantized } = speed;
  /** @param {Rates} rates @param {Kind} kind */
  const rate = (rates, kind) => {
    const [low, high] = rates[`${kind}_spread`];
    return html`<strong>${count(rates[kind])}</strong><span class="spread">${count(low)} to ${count(high)}</span>`;
  };
  /** @type {{name: string, show: (kind: Kind) => unknown}[]} */
  const rows = [{ name: "Float", show: (kind) => rate(float, kind) }];
  if (quantized)
    rows.push(
      { name: "Quantized", show: (kind) => rate(quantized, kind) },
      { name: "Speed-up", show: (kind) => html`<strong>${speedUp(speed, kind)}</strong>` },
    );
  return table({
    columns: [
      { isHead: true, show: (row) => row.name },
      ...KINDS.map(([kind, title]) => ({ title, show: (/** @type {typeof rows[0]} */ row) => row.show(kind) })),
    ],
    rows,
    name: "speeds speeds-here",
    testid: "speeds",
    caption: "Tokens per second, measured here",
  });
}

/** @param {Published} figures */
function published({ source, caption, models, rows }) {
  const head = html`<tr><td rowspan="2"></td>${models.map(
    (model) => html`<th scope="colgroup" colspan=${KINDS.length}>${model}</th>`,
  )}</tr><tr>${models.map(() => KINDS.map(([, title]) => html`<th scope="col">${title}</th>`))}</tr>`;
  const figures = table({
    columns: [
      { isHead: true, show: (row) => row.method },
      ...models.flatMap((_, index) =>
        KINDS.map(([kind]) => ({ show: (/** @type {typeof rows[0]} */ row) => `${number(row[kind][index], 2)} ×` })),
      ),
    ],
    rows,
    name: "speeds",
    head,
  });
  return html`<section class="published" data-testid="published">
    <h3>Published figures, not measured here</h3>
    <p class="protocol">${caption}; from ${source}.</p>
    ${scrolling("Published speed-ups", figures)}
  </section>`;
}
