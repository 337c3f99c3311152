/**
 * The card “Speed”: tokens per second as measured in this run, and the published table beside them.
 * @module speed
 */

import { fill, h } from "../base/dom.js";
import { count, number, percent } from "../base/format.js";

const KINDS = [
  ["prefill", "Prefill"],
  ["decode", "Decoding"],
];

/**
 * Fills and shows the card, or hides it where nothing was measured.
 * @param {HTMLElement} place with the published figures in its data
 * @param {object|null} speed as sarqc/events.py, SpeedMeasured, says it
 */
export function speedCard(place, speed) {
  place.hidden = !speed;
  if (!speed) return fill(place);
  return fill(
    place,
    h("header", { class: "card-head" }, h("h2", { class: "card-title", id: "speed-title" }, "Speed")),
    h(
      "div",
      { class: "run-body" },
      speed.float ? ours(speed) : null,
      speed.reason ? h("p", { class: "warning", "data-testid": "speed-reason" }, reasonWords(speed)) : null,
      speed.float ? h("p", { class: "protocol", "data-testid": "speed-protocol" }, protocolWords(speed)) : null,
      published(JSON.parse(place.dataset.published)),
    ),
  );
}

/** What the reader can't expect here, in a sentence. */
export function reasonWords(speed) {
  return `${speed.float ? "Only the float model was measured" : "Nothing was measured"}: ${speed.reason}.`;
}

/** How it was measured. */
export function protocolWords({ kernel, protocol }) {
  const {
    sequence_length: length,
    prompt_tokens: prompt,
    decoded_tokens: decoded,
    repeats,
    device,
    threads,
  } = protocol;
  const said = [
    `One sequence of ${count(length)} tokens: ${count(prompt)} read at once, then ${count(decoded)} made one by one.`,
    `Median of ${repeats} repeats, with the smallest and the largest; both models in turn, in ${protocol.dtype}, on ${device}${threads ? ` with ${threads} threads` : ""}, torch ${protocol.torch}.`,
    `The float model: ${protocol.float_model}.`,
  ];
  if (kernel) {
    const difference = percent(protocol.largest_relative_difference, 2);
    said.push(
      `The kernel, ${kernel}, was fed ${protocol.fed}; its outputs differ from those of the evaluated weights by at most ${difference} in any layer.`,
    );
  }
  return said.join(" ");
}

/** How many times faster the quantized model is, as text; a dash where it was not measured. */
export function speedUp(speed, kind) {
  return speed.quantized && speed.float ? `${number(speed.quantized[kind] / speed.float[kind], 2)} ×` : "–";
}

function ours(speed) {
  const rate = (found, kind) => {
    const [low, high] = found[`${kind}_spread`];
    return [
      h("strong", {}, count(Math.round(found[kind]))),
      h("span", { class: "spread" }, `${count(Math.round(low))} to ${count(Math.round(high))}`),
    ];
  };
  const row = (name, cells) => h("tr", {}, h("th", { scope: "row" }, name), cells);
  const measured = (name, found) =>
    row(
      name,
      KINDS.map(([kind]) => h("td", {}, rate(found, kind))),
    );
  return h(
    "table",
    { class: "speeds speeds-here", "data-testid": "speeds" },
    h("caption", {}, "Tokens per second, measured here"),
    h(
      "thead",
      {},
      h(
        "tr",
        {},
        h("td", {}),
        KINDS.map(([, title]) => h("th", { scope: "col" }, title)),
      ),
    ),
    h(
      "tbody",
      {},
      measured("Float", speed.float),
      speed.quantized ? measured("Quantized", speed.quantized) : null,
      speed.quantized
        ? row(
            "Speed-up",
            KINDS.map(([kind]) => h("td", {}, h("strong", {}, speedUp(speed, kind)))),
          )
        : null,
    ),
  );
}

function published({ source, caption, models, rows }) {
  return h(
    "section",
    { class: "published", "data-testid": "published" },
    h("h3", {}, "Published figures, not measured here"),
    h("p", { class: "protocol" }, `${caption}; from ${source}.`),
    h(
      "div",
      { class: "table-scroll", tabindex: 0, role: "region", "aria-label": "Published speed-ups" },
      h(
        "table",
        { class: "speeds" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            h("td", { rowspan: 2 }),
            models.map((model) => h("th", { scope: "colgroup", colspan: KINDS.length }, model)),
          ),
          h(
            "tr",
            {},
            models.flatMap(() => KINDS.map(([, title]) => h("th", { scope: "col" }, title))),
          ),
        ),
        h(
          "tbody",
          {},
          rows.map((row) =>
            h(
              "tr",
              {},
              h("th", { scope: "row" }, row.method),
              models.flatMap((_, index) => KINDS.map(([kind]) => h("td", {}, `${number(row[kind][index], 2)} ×`))),
            ),
          ),
        ),
      ),
    ),
  );
}
