/**
 * What a finished run answers: its large numbers, how it stands beside GPTQ, and how far it is from the float model.
 * @module calibrate/answer
 */

import { bytes, format, number, percent } from "../base/format.js";
import { html, nothing } from "../base/html.js";
import { scrolling, table } from "../base/table.js";
import { besideBaseline, distances, unbroken } from "./distances.js";
import { isRuined } from "./next_step.js";

/** @import { EvidenceDocument, RotatedModule, Summary } from "../base/types.d.ts" */
/** @typedef {Partial<Summary>} Said of a run that may be older than a number */

/**
 * @param {Said} summary
 * @param {EvidenceDocument | null} evidence over the draws of its recipe; null of a run before there was any
 * @param {unknown} next what to try next
 */
export function answer(summary, evidence, next) {
  return html`<div class="scores">${scores(summary)}</div>${repaired(summary)}${rotated(summary)}${distilled(summary)}${verdict(summary, evidence)}${next}${opened(summary)}${besideFloat(summary)}`;
}

/** @param {Said} summary */
function scores(summary) {
  /** @param {number | null | undefined} value */
  const ppl = (value) => (value === null || value === undefined ? null : format(value, "perplexity"));
  /** @param {number | null | undefined} value @param {number | null | undefined} error */
  const accuracy = (value, error) =>
    value === null || value === undefined
      ? null
      : html`${percent(value, 1)}${error ? html`<small> ± ${format(error, "points")}</small>` : nothing}`;
  /** @param {unknown} value of the float model; null where there is none */
  const float = (value) => (value === null ? "float not measured" : ["float ", value]);
  return [
    score("Perplexity", ppl(summary.perplexity), float(ppl(summary.perplexity_float)), "perplexity"),
    score(
      "Accuracy",
      accuracy(summary.accuracy, summary.accuracy_standard_error),
      float(accuracy(summary.accuracy_float, summary.accuracy_standard_error_float)),
      "accuracy",
    ),
    size(summary),
  ];
}

/**
 * Runs from before sizes were told have their share of the parameters alone.
 * @param {Said} summary
 */
function size({ bytes_after, bytes_before, bits_per_weight, share_quantized }) {
  const share = percent(Number(share_quantized), 1);
  if (!bytes_after || !bits_per_weight) return score("Quantized", share, "of all parameters", "share");
  const note = [
    "float ",
    bytes(bytes_before),
    "; ",
    number(bits_per_weight, 2),
    " bits per weight in ",
    html`<span data-testid="share">${share}</span>`,
    " of the parameters",
  ];
  return score("Size", bytes(bytes_after), note, "size");
}

/** @param {string} name @param {unknown} value @param {unknown} note @param {string} testid */
const score = (name, value, note, testid) =>
  value === null
    ? nothing
    : html`<div class="score"
        ><span class="score-name">${name}</span><strong data-testid=${testid}>${value}</strong
        ><span class="score-note">${note}</span></div
      >`;

const MOODS = { better: "is-better", worse: "is-worse", equal: "is-plain", unknown: "is-plain" };

/**
 * The comparison with GPTQ, or why there is none. Only an interval over draws has a colour.
 * @param {Said} summary
 * @param {EvidenceDocument | null} evidence
 */
function verdict(summary, evidence) {
  const { baseline } = summary;
  if (!baseline) return nothing;
  // A gain over GPTQ is not shown as good news when perplexity is ruined anyway.
  const mood = evidence && !isRuined(summary) ? MOODS[evidence.verdict] : "is-plain";
  const kind = baseline.reason ? "protocol" : `verdict ${mood}`;
  return html`<p class=${kind} data-testid="baseline">${unbroken(evidence?.words ?? baseline.words)}</p>`;
}

/**
 * What a repair is worth.
 * @param {Said} summary
 */
function repaired({ repair }) {
  if (!repair) return nothing;
  const kind = repair.verdict === null ? "protocol" : "verdict is-plain";
  return html`<p class=${kind} data-testid="repair">${repair.words}</p><p class="protocol">${repair.layers_words}</p>`;
}

/**
 * How scales were tuned.
 * @param {Said} summary
 */
const distilled = ({ distillation }) =>
  distillation ? html`<p class="protocol" data-testid="distillation">${distillation.words}</p>` : nothing;

/** Columns beside the module: what stands before and after the rotation. @type {[string, keyof RotatedModule][]} */
const ROTATED = [
  ["Range, original", "range_before"],
  ["Range, rotated", "range_after"],
  ["Rounded to nearest, original", "rounding_before"],
  ["Rounded to nearest, rotated", "rounding_after"],
  ["Drift, rotated", "drift"],
  ["Drift, original basis", "original_drift"],
];

/**
 * What a rotation changed, with ranges and drift before and after it.
 * @param {Said} summary
 */
function rotated({ rotation }) {
  if (!rotation) return nothing;
  const columns = [
    { isHead: true, show: (/** @type {RotatedModule} */ row) => row.module },
    ...ROTATED.map(([title, name]) => ({
      title,
      show: (/** @type {RotatedModule} */ row) => (row[name] === null ? "–" : format(Number(row[name]), "significant")),
    })),
  ];
  const rows = table({ columns, rows: rotation.modules, name: "rotation", testid: "rotation-table" });
  const title = "Weights before and after the rotation";
  return html`<p class="protocol" data-testid="rotation">${rotation.words}</p><details class="layers-fold"
      ><summary>${title}</summary
      >${scrolling(title, rows)}<p class="protocol"
        >Means over linears. Range: largest weight of a group over its root mean square. The other columns are ‖ΔW‖/‖W‖: of plain rounding on this grid, and of this run.</p
      ></details
    >`;
}

/**
 * What is to be known of a checkpoint that others quantized.
 * @param {Said} summary
 */
const opened = ({ opened: found }) =>
  found ? html`<p class="protocol" data-testid="opened-words">${found.words}</p>` : nothing;

/** @param {Said} summary */
function besideFloat(summary) {
  const rows = besideBaseline(summary);
  if (!rows.length) return nothing;
  /** @typedef {typeof rows[0]} Row */
  const withBaseline = rows.some((row) => row.baseline !== null);
  const columns = [
    { isHead: true, show: (/** @type {Row} */ row) => row.name },
    { title: "This run", show: (/** @type {Row} */ row) => row.run },
    ...(withBaseline ? [{ title: "GPTQ 1 %", show: (/** @type {Row} */ row) => row.baseline ?? "–" }] : []),
  ];
  return html`${table({ columns, rows, name: "beside-float", testid: "beside-float" })}<details class="layers-fold"
      ><summary>What these numbers say</summary
      ><dl class="beside-help">${distances(summary).map(
        ({ name, help }) => html`<dt>${name}</dt><dd>${help}</dd>`,
      )}<dt>±</dt><dd>One standard error over the windows of the test text.</dd></dl></details
    >`;
}
