/**
 * A plan as a person reads it: what is quantized, what it takes, and who can load it.
 * @module plan_facts
 */

import { bytes, count, duration, number, percent } from "../base/format.js";
import { html } from "../base/html.js";
import { tr } from "../base/messages.js";
import { formatsFold } from "./readers_table.js";

/** @import { Fix } from "../base/client.js" */
/** @import { Plan } from "../base/types.d.ts" */

/**
 * Names and texts of what is known about a plan.
 * @param {Plan} plan
 * @returns {[string, string][]}
 */
export function planFacts(plan) {
  const { parameters, layers, experts, bytes_before: before, bytes_after: after } = plan;
  /** @type {(value: number | null, text: (value: number) => string) => string} */
  const known = (value, text) => (value === null ? "" : text(value));
  /** @type {[string, string][]} */
  const rows = [
    [tr("Runs"), plan.runs > 1 ? String(plan.runs) : ""],
    [tr("Model"), plan.family ? `${plan.model} (${plan.family})` : plan.model],
    [tr("Opened"), plan.opened],
    [
      tr("Quantized"),
      known(plan.share_quantized, (share) => {
        const values = { share: percent(share, 1), parameters: count(parameters ?? 0), layers: layers ?? 0 };
        return experts
          ? tr("{share} of {parameters} parameters, {layers} layers, up to {experts} experts in a block", {
              ...values,
              experts,
            })
          : tr("{share} of {parameters} parameters, {layers} layers", values);
      }),
    ],
    [
      tr("Bits per weight"),
      known(plan.bits_per_weight, (bits) =>
        tr("{bits}, scales and zero points or biases included", { bits: number(bits, 2) }),
      ),
    ],
    [
      tr("Size"),
      before === null || after === null
        ? ""
        : tr("{before} → {after} once packed", { before: bytes(before), after: bytes(after) }),
    ],
    [tr("Memory"), known(plan.memory_bytes, (memory) => memoryText(memory, plan))],
    [tr("Disk"), known(plan.disk_bytes, (disk) => tr("about {size} in the state folder", { size: bytes(disk) }))],
    [tr("Calibration"), known(plan.calibration_tokens, (tokens) => calibrationText(tokens, plan))],
    [tr("Test"), known(plan.test_tokens, (tokens) => tr("{count} tokens", { count: count(tokens) }))],
    [tr("Time"), known(plan.minutes, (minutes) => timeText(minutes, plan))],
  ];
  return rows.filter(([, text]) => text);
}

/** @param {number} tokens @param {Plan} plan */
function calibrationText(tokens, { begin }) {
  return begin
    ? tr("{count} tokens, each sequence and test window behind {begin}", { count: count(tokens), begin })
    : tr("{count} tokens", { count: count(tokens) });
}

/** @param {number} minutes @param {Plan} plan */
function timeText(minutes, { runs, minutes_on: on }) {
  const time = duration(60 * minutes);
  return runs > 1
    ? tr("about {time} for all {runs} on {device}", { time, runs, device: on })
    : tr("about {time} on {device}", { time, device: on });
}

/** @param {number} device @param {Plan} plan */
function memoryText(device, { host_bytes: host, streamed }) {
  const size = bytes(device);
  if (host) {
    const beside = { size, host: bytes(host) };
    return streamed
      ? tr("about {size} on the device, {host} beside it, one block at a time", beside)
      : tr("about {size} on the device, {host} beside it", beside);
  }
  return streamed ? tr("about {size}, one block at a time", { size }) : tr("about {size}", { size });
}

/**
 * @param {Plan} plan
 * @param {import("./readers_table.js").Fold} fold of the table of readers
 * @param {(fix: Fix) => void} mend changes the form so that a format can carry its result
 */
export const planned = (plan, fold, mend) =>
  html`${plan.warnings.map((text) => html`<p class="warning">${text}</p>`)}
    <dl class="facts">${planFacts(plan).map(([name, text]) => html`<dt>${name}</dt><dd>${text}</dd>`)}</dl>
    ${formatsFold(plan.formats, fold, mend)}`;
