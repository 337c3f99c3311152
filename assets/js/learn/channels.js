/**
 * A toy layer's channels, their activations and weights, and how far the weights of each channel move under the
 * penalty with saliency and under identity. The layer is made so that the difference can be seen: 8 tokens that are much
 * alike, so that channels can stand in for each other, and three channels whose weights are a tenth of the others'.
 * @module learn/channels
 */

import { nearest } from "../base/address_bar.js";
import { change, percent, plain } from "../base/format.js";
import { html } from "../base/html.js";
import { isLocked } from "../base/link.js";
import { label, ROLES, s, segment } from "../charts/svg.js";
import { asking, oneFrom } from "./address.js";
import { lambdaSlider, slider } from "./controls.js";
import { piece, words } from "./pieces.js";
import { normals } from "./random.js";
import { columnMeans, difference, quantizeLayer, saliency, statisticsOf } from "./solver.js";

/**
 * @typedef {{picks?: string, gamma: number, lambda: number, shown?: number}} Settings
 * @typedef {ReturnType<typeof toyChannels>} Layer
 * @typedef {ReturnType<typeof movement>} Movement
 * @typedef {NonNullable<ReturnType<typeof facts>>} Facts
 * @typedef {ReturnType<typeof layout>} Layout
 */

/** @type {import("./solver.js").Grid} */
const GRID = { bits: 2, groupSize: null, kind: "asymmetric" };
const [OUTPUTS, CHANNELS, TOKENS, WANTED] = [96, 12, 8, 3];
const ALIKE = 4; // what the channels of a token share, for each 1 of their own
const GAMMAS = [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1];
const LAMS = [0, 0.01, 0.03, 0.1, 0.3, 1, 3];
// Sizes of activations and weights by channel: 2 has large activations and 3 small weights, but only 8, 10 and 12 have both.
const ACTIVATIONS = [0.6, 2.2, 0.3, 0.8, 0.7, 0.9, 0.6, 1.6, 0.5, 1.2, 0.6, 1.4];
const WEIGHTS = [1, 1.4, 0.3, 1.1, 0.9, 1.2, 1.2, 0.12, 1, 0.1, 1.3, 0.12];

export const state = {
  picks: {
    title: "picks",
    read: (/** @type {string} */ text) => (fits(text) ? text : undefined),
    wants: `at most ${WANTED} of the channels 1 to ${CHANNELS}, as “1,2,3”`,
  },
  gamma: oneFrom("γ", GAMMAS),
  lambda: oneFrom("λ", LAMS),
};

/** @type {Settings} */
export const start = { gamma: 0.5, lambda: 0.1 };

const SHAPE = /^\d+(,\d+)*$/;
/** @type {(text: string) => boolean} */
const fits = (text) => SHAPE.test(text) && readPicks(text).length === text.split(",").length;

/**
 * Channels of the address, “2,6,9”, counted from 1.
 * @param {string|undefined} text
 * @returns {number[]} counted from 0
 */
export function readPicks(text) {
  const channels = (text ?? "").split(",").map((part) => Number(part) - 1);
  const there = (/** @type {number} */ channel) => Number.isInteger(channel) && channel >= 0 && channel < CHANNELS;
  return [...new Set(channels)].filter(there).slice(0, WANTED);
}

/**
 * Positions of the largest values, largest first.
 * @param {number[]} values
 * @param {number} count
 */
export const largest = (values, count) =>
  values
    .map((_, i) => i)
    .sort((a, b) => values[b] - values[a])
    .slice(0, count);

/** @type {(values: number[]) => number} */
const rms = (values) => Math.sqrt(values.reduce((total, value) => total + value * value, 0) / values.length);

/** The layer and its calibration tokens, from a seed. */
export function toyChannels(seed = 5) {
  const draw = normals(seed);
  const inputs = Array.from({ length: TOKENS }, () => {
    const shared = draw();
    return ACTIVATIONS.map((size) => (size * (draw() + ALIKE * shared)) / Math.hypot(1, ALIKE));
  });
  const weight = Array.from({ length: OUTPUTS }, () => WEIGHTS.map((size) => size * draw()));
  return { weight, means: columnMeans(weight), statistics: statisticsOf(inputs) };
}

/**
 * Saliency of each channel, the largest ones, and how far each channel's weights drift (root mean square over outputs)
 * under identity and under saliency.
 * @param {Layer} layer
 * @param {number} gamma
 * @param {number} lam
 */
export function movement({ weight, statistics, means }, gamma, lam) {
  const moved = (/** @type {number|null} */ own) => {
    const delta = difference(quantizeLayer(weight, statistics, GRID, { lam, gamma: own }).dequantized, weight);
    return means.map((_, channel) => rms(delta.map((row) => row[channel])));
  };
  const s = saliency(statistics.absMean, weight, gamma);
  return { s, top: largest(s, WANTED), identity: moved(null), salient: moved(gamma), gamma, lam };
}

/**
 * How much further some channels drift together with saliency than under identity, as a share.
 * @param {Pick<Movement, "identity"|"salient">} movement
 * @param {number[]} channels
 */
export const changeOf = ({ identity, salient }, channels) =>
  rms(channels.map((channel) => salient[channel])) / rms(channels.map((channel) => identity[channel])) - 1;

/**
 * The channels that are not the largest.
 * @param {Pick<Movement, "s"|"top">} movement
 */
export const othersOf = ({ s, top }) => s.map((_, channel) => channel).filter((channel) => !top.includes(channel));

export const prepare = () => toyChannels();

/**
 * @param {Settings} settings
 * @param {Layer|null} layer
 */
export function facts(settings, layer) {
  if (!layer) return null;
  const at = { gamma: nearest(GAMMAS, settings.gamma) ?? 0, lambda: nearest(LAMS, settings.lambda) ?? 0 };
  return {
    ...movement(layer, GAMMAS[at.gamma], LAMS[at.lambda]),
    answered: asking(settings).answered,
    picks: readPicks(settings.picks),
    activations: layer.statistics.absMean,
    weights: layer.means,
    at,
  };
}

/** Channels as they are counted on the page. */
const list = (/** @type {number[]} */ channels) =>
  channels
    .map((channel) => channel + 1)
    .sort((a, b) => a - b)
    .join(", ");

/** @type {import("./types.d.ts").StepModule<Settings, Layer, Facts>["answer"]} */
export function answer(facts) {
  const { top, picks, gamma, lam } = facts;
  const right = picks.filter((channel) => top.includes(channel)).length;
  const drifting = (/** @type {number[]} */ channels) => change(changeOf(facts, channels), "as far");
  return words`${picks.length ? `You chose ${list(picks)}: ${right} of ${WANTED}. ` : ""}\
At γ = ${plain(gamma)} they are ${list(top)}. With saliency in place of identity they drift \
${piece("drift", drifting(top))}, the others ${drifting(othersOf(facts))} (λ = ${plain(lam)}). \
This layer is made so that it shows; in a real model the two can hardly be told apart.`;
}

/** @param {Facts} facts */
export function aria({ top, gamma, answered }) {
  const text = `Bars of activations and weights for ${CHANNELS} channels.`;
  if (!answered) return text;
  return `${text} At γ = ${plain(gamma)} the most salient are ${list(top)}.`;
}

/** @param {Facts} facts */
export function table({ activations, weights, s, identity, salient, answered }) {
  const columns = [
    { key: "channel", title: "Channel", kind: "plain" },
    { key: "activation", title: "mean |x|", kind: "significant" },
    { key: "weight", title: "mean |W|", kind: "significant" },
    { key: "saliency", title: "s", kind: "significant" },
    { key: "identity", title: "Drift, identity", kind: "significant" },
    { key: "salient", title: "Drift, saliency", kind: "significant" },
  ];
  const rows = weights.map((weight, i) => ({
    channel: i + 1,
    activation: activations[i],
    weight,
    ...(answered ? { saliency: s[i], identity: identity[i], salient: salient[i] } : {}),
  }));
  return { columns: answered ? columns : columns.slice(0, 3), rows };
}

/**
 * Where the channels and the rows of bars stand.
 * @param {import("../charts/svg.js").Size} size
 */
export function layout({ width, height }) {
  const [left, right, low] = [20, width - 16, height - 40];
  const step = (right - left) / CHANNELS;
  return {
    left,
    right,
    height,
    narrow: width < 560,
    bar: Math.min(28, step * 0.56),
    tall: (low - 12) / 4.6, // of a row of bars; the last, with two bars a channel, is higher
    low,
    /** The middle of a channel, and the stripe that it fills. */
    middle: (/** @type {number} */ channel) => left + (channel + 0.5) * step,
    stripe: (/** @type {number} */ channel) => ({
      x: left + channel * step + 1,
      y: 6,
      width: step - 2,
      height: height - 12,
    }),
  };
}

/**
 * @param {import("./stage.js").Stage<Settings, Layer, Facts>} stage
 * @returns {import("./types.d.ts").StepView<Facts>}
 */
export function create(stage) {
  const stripes = Array.from({ length: CHANNELS }, (_, channel) => stripe(stage, channel));
  const setGamma = (/** @type {number} */ gamma) => stage.set(stage.answered ? { gamma, picks: undefined } : { gamma });
  return {
    ask: (facts) =>
      slider({
        control: "gamma",
        sign: "γ",
        label: "γ, how saliency mixes activations and weights",
        names: GAMMAS.map(plain),
        position: facts?.at.gamma ?? 0,
        change: (i) => setGamma(GAMMAS[i]),
      }),
    controls: (facts) => html`
      ${lambdaSlider({ lams: LAMS, position: facts?.at.lambda ?? 0, change: (lambda) => stage.set({ lambda }) })}`,
    draw(size, facts) {
      const { picks, answered } = facts;
      const at = layout(size);
      stripes.forEach(({ box, group, control }, channel) => {
        for (const [name, value] of Object.entries(at.stripe(channel))) box.setAttribute(name, String(value));
        group.setAttribute("aria-checked", String(picks.includes(channel)));
        group.setAttribute("aria-disabled", String(answered || isLocked(control)));
      });
      return [
        picks.map((channel) => s("rect", { ...at.stripe(channel), rx: 6, fill: "var(--series-4)", opacity: 0.18 })),
        !answered && boxes(picks, at),
        bars(facts, at),
        answered && drifts(facts, at),
        Array.from({ length: CHANNELS }, (_, channel) =>
          label(at.middle(channel), at.height - 22, String(channel + 1), {
            at: "middle",
            fill: picks.includes(channel) ? "var(--series-4-ink)" : "var(--ink-2)",
            weight: picks.includes(channel) ? 700 : 400,
            size: 14,
          }),
        ),
      ];
    },
  };
}

/**
 * What says that a channel can be picked: a frame around it, and below its bars a ring that fills.
 * @type {(picks: number[], at: Layout) => import("../charts/svg.js").Drawn}
 */
const boxes = (picks, { height, middle, stripe }) =>
  Array.from({ length: CHANNELS }, (_, channel) => [
    s("rect", { ...stripe(channel), rx: 6, fill: "none", stroke: "var(--line-2)" }),
    s("circle", {
      cx: middle(channel),
      cy: height - 52,
      r: 8,
      fill: picks.includes(channel) ? "var(--series-4)" : "var(--surface)",
      stroke: "var(--series-4)",
      "stroke-width": 2.5,
    }),
  ]);

/**
 * A channel that can be picked, above the drawing.
 * @param {import("./stage.js").Stage<Settings, Layer, Facts>} stage
 * @param {number} channel
 */
function stripe(stage, channel) {
  const control = `channel-${channel + 1}`;
  const box = s("rect", { rx: 6, fill: "transparent" });
  const group = s(
    "g",
    {
      class: "pick",
      role: "checkbox",
      tabindex: 0,
      "aria-label": `Channel ${channel + 1}`,
      "data-control": control,
      "data-testid": control,
    },
    box,
  );
  const toggle = () => {
    if (stage.answered || isLocked(control)) return;
    const picks = readPicks(stage.state.picks);
    const next = picks.includes(channel)
      ? picks.filter((pick) => pick !== channel)
      : [...picks, channel].slice(-WANTED);
    stage.set({ picks: next.map((pick) => pick + 1).join(",") || undefined });
  };
  group.addEventListener("click", toggle);
  group.addEventListener("keydown", (event) => {
    if (event.key !== " " && event.key !== "Enter") return;
    event.preventDefault();
    toggle();
  });
  stage.board.top.append(group);
  return { box, group, control };
}

/**
 * Three rows of bars, a bar for each channel; saliency once it may be seen.
 * @type {(facts: Facts, at: Layout) => import("../charts/svg.js").Drawn}
 */
function bars({ activations, weights, s: saliencies, top, answered }, { left, right, tall, bar, middle }) {
  const rows = [
    { name: "mean |x|, activations of each channel", values: activations, color: ROLES.recon.color },
    { name: "mean |W|, its weights", values: weights, color: "var(--ink-3)" },
    { name: "s, its saliency", values: answered ? saliencies : null, color: ROLES.quality.color },
  ];
  return rows.map(({ name, values, color }, row) => {
    const bottom = 12 + (row + 1) * tall - 8;
    const title = label(left + 4, bottom - tall + 20, name, { fill: "var(--ink)", weight: 600, halo: true });
    if (!values) {
      const look = { at: /** @type {const} */ ("middle"), size: 14, fill: "var(--ink-3)" };
      const note = label((left + right) / 2, bottom - tall * 0.4, "Shown once you have chosen", look);
      return [title, segment(left, bottom, right, bottom), note];
    }
    const high = Math.max(...values);
    const heightOf = (/** @type {number} */ value) => (value / high) * (tall - 42);
    return [
      title,
      segment(left, bottom, right, bottom),
      row === 2 && alike(left, right, bottom - heightOf(rms(values))),
      values.map((value, channel) => {
        const height = heightOf(value);
        const opacity = row === 2 && !top.includes(channel) ? 0.4 : null;
        const corner = { x: middle(channel) - bar / 2, y: bottom - height };
        return s("rect", { ...corner, width: bar, height, rx: 2, fill: color, opacity });
      }),
    ];
  });
}

/**
 * Where s would stand for every channel under identity: as strong on the whole, and the same for all.
 * @type {(left: number, right: number, y: number) => import("../charts/svg.js").Drawn}
 */
const alike = (left, right, y) => [
  segment(left, y, right, y, { stroke: "var(--ink-2)", "stroke-dasharray": "4 4" }),
  label(left + 4, y - 10, "identity: the same for all", { halo: true }),
];

/**
 * Both drifts of each channel side by side, and the change of the salient ones in per cent.
 * @type {(facts: Facts, at: Layout) => import("../charts/svg.js").Drawn}
 */
function drifts({ identity, salient, top }, { left, right, tall, low, bar, narrow, middle }) {
  const [upper, bottom] = [12 + 3 * tall, low - 4];
  const high = Math.max(...identity, ...salient);
  const heightOf = (/** @type {number} */ value) => (value / high) * (bottom - upper - 58);
  const half = bar / 2 + 1;
  const key = (/** @type {number} */ x, /** @type {string} */ fill, /** @type {string} */ text) => [
    s("rect", { x, y: upper + 24, width: 10, height: 10, rx: 2, fill }),
    label(x + 16, upper + 29, text),
  ];
  return [
    label(left + 4, upper + 10, "Drift of its weights", { fill: "var(--ink)", weight: 600, halo: true }),
    key(left + 4, "var(--ink-3)", "identity"),
    key(left + 84, ROLES.drift.color, "saliency"),
    segment(left, bottom, right, bottom),
    identity.map((value, channel) => {
      const x = middle(channel);
      const [before, after] = [heightOf(value), heightOf(salient[channel])];
      const shift = Math.round(100 * (salient[channel] / value - 1));
      const isTop = top.includes(channel);
      const column = (/** @type {number} */ from, /** @type {number} */ height, /** @type {string} */ fill) =>
        s("rect", { x: from, y: bottom - height, width: half - 1, height, rx: 2, fill, opacity: isTop ? null : 0.45 });
      return [
        column(x - half, before, "var(--ink-3)"),
        column(x + 1, after, ROLES.drift.color),
        isTop &&
          !narrow &&
          label(x, bottom - Math.max(before, after) - 10, `${shift > 0 ? "+" : ""}${percent(shift / 100)}`, {
            at: "middle",
            fill: ROLES.drift.ink,
            weight: 600,
            halo: true,
          }),
      ];
    }),
  ];
}
