/**
 * A plan as a person reads it: what is quantized, what it takes, and who can load it.
 * @module plan_facts
 */

import { bytes, count, duration, number, percent } from "../base/format.js";
import { html } from "../base/html.js";
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
    ["Runs", plan.runs > 1 ? String(plan.runs) : ""],
    ["Model", plan.family ? `${plan.model} (${plan.family})` : plan.model],
    ["Opened", plan.opened],
    [
      "Quantized",
      known(plan.share_quantized, (share) => {
        const most = experts ? `, up to ${experts} experts in a block` : "";
        return `${percent(share, 1)} of ${count(parameters ?? 0)} parameters, ${layers ?? 0} layers${most}`;
      }),
    ],
    [
      "Bits per weight",
      known(plan.bits_per_weight, (bits) => `${number(bits, 2)}, scales and zero points or biases included`),
    ],
    ["Size", before === null || after === null ? "" : `${bytes(before)} → ${bytes(after)} once packed`],
    ["Memory", known(plan.memory_bytes, (memory) => memoryText(memory, plan))],
    ["Disk", known(plan.disk_bytes, (disk) => `about ${bytes(disk)} in the state folder`)],
    ["Calibration", known(plan.calibration_tokens, (tokens) => calibrationText(tokens, plan))],
    ["Test", known(plan.test_tokens, (tokens) => `${count(tokens)} tokens${ofText(plan.test_text)}`)],
    ["Time", known(plan.minutes, (minutes) => timeText(minutes, plan))],
  ];
  return rows.filter(([, text]) => text);
}

/** @param {number} tokens @param {Plan} plan */
const calibrationText = (tokens, { begin, calibration_text: text }) =>
  `${count(tokens)} tokens${ofText(text)}${begin ? `, each sequence and test window behind ${begin}` : ""}`;

/** @param {string} text its tokens and rows */
const ofText = (text) => (text ? ` of ${text}` : "");

const BUSY = 0.5; // load of a processor above which times are those of a quiet host

/** @param {number} minutes @param {Plan} plan */
function timeText(minutes, { runs, minutes_on: on, load }) {
  const words = `about ${duration(60 * minutes)}${runs > 1 ? ` for all ${runs}` : ""} on ${on}`;
  return load > BUSY ? `${words}; up to ${duration(60 * minutes * (1 + load))} now, as the host is busy` : words;
}

/** @param {number} device @param {Plan} plan */
const memoryText = (device, { host_bytes: host, streamed }) =>
  `about ${bytes(device)}${host ? ` on the device, ${bytes(host)} beside it` : ""}${streamed ? ", one block at a time" : ""}`;

/**
 * @param {Plan} plan
 * @param {import("./readers_table.js").Fold} fold of the table of readers
 * @param {(fix: Fix) => void} mend changes the form so that a format can carry its result
 */
export const planned = (plan, fold, mend) =>
  html`${plan.warnings.map((text) => html`<p class="warning">${text}</p>`)}
    <dl class="facts">${planFacts(plan).map(([name, text]) => html`<dt>${name}</dt><dd>${text}</dd>`)}</dl>
    ${formatsFold(plan.formats, fold, mend)}`;
