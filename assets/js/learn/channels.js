/**
 * Step 4: a toy layer's channels, their activations and weights, and how far the weights of each channel move under the
 * penalty with saliency and under identity. The layer is made so that the difference can be seen: 8 tokens that are much
 * alike, so that channels can stand in for each other, and three channels whose weights are a tenth of the others'.
 * @module learn/channels
 */

import { nearest } from "../base/address_bar.js";
import { change, percent, plain } from "../base/format.js";
import { isLocked } from "../base/link.js";
import { label, ROLES, s, segment } from "../charts/svg.js";
import { oneFrom } from "./address.js";
import { slider } from "./controls.js";
import { normals } from "./random.js";
import { columnMeans, difference, quantizeLayer, saliency, statisticsOf } from "./solver.js";

const GRID = { bits: 2, groupSize: null, kind: "asymmetric" };
const [OUTPUTS, CHANNELS, TOKENS, ASKED] = [96, 12, 8, 3];
const ALIKE = 4; // what the channels of a token share, for each 1 of their own
const GAMMAS = [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1];
const LAMS = [0, 0.01, 0.03, 0.1, 0.3, 1, 3];
// Sizes of activations and weights by channel: 2 has large activations and 3 small weights, but only 8, 10 and 12 have both.
const ACTIVATIONS = [0.6, 2.2, 0.3, 0.8, 0.7, 0.9, 0.6, 1.6, 0.5, 1.2, 0.6, 1.4];
const WEIGHTS = [1, 1.4, 0.3, 1.1, 0.9, 1.2, 1.2, 0.12, 1, 0.1, 1.3, 0.12];

export const state = {
  picks: {
    title: "picks",
    read: (text) => (fits(text) ? text : undefined),
    wants: `at most ${ASKED} of the channels 1 to ${CHANNELS}, as “1,2,3”`,
  },
  gamma: oneFrom("γ", GAMMAS),
  lambda: oneFrom("λ", LAMS),
};
export const start = { gamma: 0.5, lambda: 0.1 };

const SHAPE = /^\d+(,\d+)*$/;
const fits = (text) => SHAPE.test(text) && readPicks(text).length === text.split(",").length;

/** Channels of the address, “2,6,9”, counted from 1. */
export function readPicks(text) {
  const found = String(text ?? "")
    .split(",")
    .map((part) => Number(part) - 1);
  return [...new Set(found)].filter((one) => Number.isInteger(one) && one >= 0 && one < CHANNELS).slice(0, ASKED);
}

/** Positions of the largest values, largest first. */
export const largest = (values, count) =>
  values
    .map((_, i) => i)
    .sort((a, b) => values[b] - values[a])
    .slice(0, count);

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
 */
export function movement({ weight, statistics, means }, gamma, lam) {
  const moved = (own) => {
    const delta = difference(quantizeLayer(weight, statistics, GRID, { lam, gamma: own }).dequantized, weight);
    return means.map((_, channel) => rms(delta.map((row) => row[channel])));
  };
  const found = saliency(statistics.absMean, weight, gamma);
  return { s: found, top: largest(found, ASKED), identity: moved(null), salient: moved(gamma), gamma, lam };
}

/** How much further some channels drift together with saliency than under identity, as a share. */
export const changeOf = ({ identity, salient }, channels) =>
  rms(channels.map((one) => salient[one])) / rms(channels.map((one) => identity[one])) - 1;

/** The channels that are not the largest. */
export const othersOf = ({ s: found, top }) => found.map((_, one) => one).filter((one) => !top.includes(one));

export function create(stage) {
  const layer = toyChannels();
  const { statistics, means } = layer;
  let scene;

  const gammaAt = () => nearest(GAMMAS, stage.state.gamma);
  const lambdaAt = () => nearest(LAMS, stage.state.lambda);
  const gamma = slider({
    control: "gamma",
    sign: "γ",
    label: "γ, how saliency mixes activations and weights",
    names: GAMMAS.map(plain),
    change: (i) => stage.set({ gamma: GAMMAS[i] }),
  });
  const lambda = slider({
    control: "lambda",
    sign: "λ",
    label: "λ, weight of the drift penalty",
    names: LAMS.map(plain),
    change: (i) => stage.set({ lambda: LAMS[i] }),
  });
  stage.part("controls").append(gamma.element, lambda.element);
  const board = stage.board((size) => scene(size));
  const columns = Array.from({ length: CHANNELS }, (_, channel) => {
    const box = s("rect", { rx: 6, fill: "transparent" });
    const group = s(
      "g",
      {
        class: "pick",
        role: "checkbox",
        tabindex: 0,
        "aria-label": `Channel ${channel + 1}`,
        "data-control": `channel-${channel + 1}`,
        "data-testid": `channel-${channel + 1}`,
      },
      box,
    );
    const toggle = () => {
      if (stage.shown || isLocked(`channel-${channel + 1}`)) return;
      const picks = readPicks(stage.state.picks);
      const next = picks.includes(channel) ? picks.filter((one) => one !== channel) : [...picks, channel].slice(-ASKED);
      stage.set({ picks: next.map((one) => one + 1).join(",") || undefined });
    };
    group.addEventListener("click", toggle);
    group.addEventListener("keydown", (event) => {
      if (event.key !== " " && event.key !== "Enter") return;
      event.preventDefault();
      toggle();
    });
    board.top.append(group);
    return { box, group };
  });

  const facts = () => movement(layer, GAMMAS[gammaAt()], LAMS[lambdaAt()]);

  scene = ({ width, height }) => {
    const found = facts();
    const picks = readPicks(stage.state.picks);
    const [left, right] = [20, width - 16];
    const step = (right - left) / CHANNELS;
    const bar = Math.min(28, step * 0.56);
    const rows = [
      { name: "mean |x|, activations of each channel", values: statistics.absMean, color: ROLES.recon.color },
      { name: "mean |W|, its weights", values: means, color: "var(--ink-3)" },
      { name: "s, its saliency", values: stage.shown ? found.s : null, color: ROLES.quality.color },
    ];
    const low = height - 40;
    const tall = (low - 12) / 4.6; // the last row, with two bars a channel, is higher
    columns.forEach(({ box, group }, channel) => {
      const picked = picks.includes(channel);
      for (const [key, value] of Object.entries({
        x: left + channel * step + 1,
        y: 6,
        width: step - 2,
        height: height - 12,
      }))
        box.setAttribute(key, value);
      group.setAttribute("aria-checked", String(picked));
      group.setAttribute("aria-disabled", String(stage.shown || isLocked(`channel-${channel + 1}`)));
    });
    return [
      picks.map((channel) =>
        s("rect", {
          x: left + channel * step + 1,
          y: 6,
          width: step - 2,
          height: height - 12,
          rx: 6,
          fill: "var(--series-4)",
          opacity: 0.18,
        }),
      ),
      rows.map(({ name, values, color }, row) => {
        const bottom = 12 + (row + 1) * tall - 8;
        const high = values ? Math.max(...values) : 1;
        return [
          label(left + 4, bottom - tall + 20, name, { fill: "var(--ink)", weight: 600, halo: true }),
          segment(left, bottom, right, bottom),
          row === 2 && values ? alike(values, [left, right], (value) => bottom - (value / high) * (tall - 42)) : null,
          values?.map((value, channel) => {
            const size = (value / high) * (tall - 42);
            const top = row === 2 && !found.top.includes(channel);
            return s("rect", {
              x: left + (channel + 0.5) * step - bar / 2,
              y: bottom - size,
              width: bar,
              height: size,
              rx: 2,
              fill: color,
              opacity: top ? 0.4 : null,
            });
          }) ??
            label((left + right) / 2, bottom - tall * 0.4, "Shown once you have chosen", {
              at: "middle",
              size: 14,
              fill: "var(--ink-3)",
            }),
        ];
      }),
      stage.shown
        ? drifts(found, { left, right, step, bar, top: 12 + 3 * tall, bottom: low - 4, narrow: width < 560 })
        : null,
      Array.from({ length: CHANNELS }, (_, channel) =>
        label(left + (channel + 0.5) * step, height - 22, String(channel + 1), {
          at: "middle",
          fill: picks.includes(channel) ? "var(--series-4-ink)" : "var(--ink-2)",
          weight: picks.includes(channel) ? 700 : 400,
          size: 14,
        }),
      ),
    ];
  };

  /** Where s would stand for every channel under identity: as strong on the whole, and the same for all. */
  function alike(values, [left, right], y) {
    const same = y(rms(values));
    return [
      segment(left, same, right, same, { stroke: "var(--ink-2)", "stroke-dasharray": "4 4" }),
      label(left + 4, same - 10, "identity: the same for all", { halo: true }),
    ];
  }

  /** Both drifts of each channel side by side, and the change of the salient ones in per cent. */
  function drifts({ identity, salient, top }, { left, right, step, bar, top: upper, bottom, narrow }) {
    const high = Math.max(...identity, ...salient);
    const size = (value) => (value / high) * (bottom - upper - 58);
    const half = bar / 2 + 1;
    const key = (x, fill, text) => [
      s("rect", { x, y: upper + 24, width: 10, height: 10, rx: 2, fill }),
      label(x + 16, upper + 29, text),
    ];
    return [
      label(left + 4, upper + 10, "Drift of its weights", { fill: "var(--ink)", weight: 600, halo: true }),
      key(left + 4, "var(--ink-3)", "identity"),
      key(left + 84, ROLES.drift.color, "saliency"),
      segment(left, bottom, right, bottom),
      identity.map((value, channel) => {
        const x = left + (channel + 0.5) * step;
        const [before, after] = [size(value), size(salient[channel])];
        const shift = Math.round(100 * (salient[channel] / value - 1));
        return [
          s("rect", {
            x: x - half,
            y: bottom - before,
            width: half - 1,
            height: before,
            rx: 2,
            fill: "var(--ink-3)",
            opacity: top.includes(channel) ? null : 0.45,
          }),
          s("rect", {
            x: x + 1,
            y: bottom - after,
            width: half - 1,
            height: after,
            rx: 2,
            fill: ROLES.drift.color,
            opacity: top.includes(channel) ? null : 0.45,
          }),
          top.includes(channel) && !narrow
            ? label(x, bottom - Math.max(before, after) - 10, `${shift > 0 ? "+" : ""}${percent(shift / 100)}`, {
                at: "middle",
                fill: ROLES.drift.ink,
                weight: 600,
                halo: true,
              })
            : null,
        ];
      }),
    ];
  }

  const list = (channels) =>
    channels
      .map((one) => one + 1)
      .sort((a, b) => a - b)
      .join(", ");

  return {
    draw() {
      gamma.at(gammaAt());
      lambda.at(lambdaAt());
    },
    answer() {
      const found = facts();
      const { top, gamma: own, lam } = found;
      const picks = readPicks(stage.state.picks);
      const right = picks.filter((one) => top.includes(one)).length;
      const said = picks.length ? `You chose ${list(picks)}: ${right} of ${ASKED}. ` : "";
      return [
        `${said}At γ = ${plain(own)} they are ${list(top)}. Under saliency instead of identity they drift `,
        { role: "drift", text: change(changeOf(found, top), "as far") },
        `, the others ${change(changeOf(found, othersOf(found)), "as far")} (λ = ${plain(lam)}). This layer is made so that it shows; in the model of step 6 the two can hardly be told apart.`,
      ];
    },
    aria() {
      const { top, gamma: own } = facts();
      const text = `Bars of activations and weights for ${CHANNELS} channels.`;
      return stage.shown ? `${text} At γ = ${plain(own)} the most salient are ${list(top)}.` : text;
    },
    table() {
      const heads = [
        { key: "channel", title: "Channel", kind: "plain" },
        { key: "activation", title: "mean |x|", kind: "significant" },
        { key: "weight", title: "mean |W|", kind: "significant" },
        { key: "saliency", title: "s", kind: "significant" },
        { key: "identity", title: "Drift, identity", kind: "significant" },
        { key: "salient", title: "Drift, saliency", kind: "significant" },
      ];
      const found = facts();
      const rows = means.map((value, i) => ({
        channel: i + 1,
        activation: statistics.absMean[i],
        weight: value,
        ...(stage.shown ? { saliency: found.s[i], identity: found.identity[i], salient: found.salient[i] } : {}),
      }));
      return { columns: stage.shown ? heads : heads.slice(0, 3), rows };
    },
  };
}
