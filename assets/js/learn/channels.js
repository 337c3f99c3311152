/**
 * Step 4: a toy layer's channels, their activations and weights, and how far the weights of each channel move with and
 * without saliency.
 * @module learn/channels
 */

import { number, plain } from "../format.js";
import { columnMeans, difference, quantizeLayer, saliency, statisticsOf } from "../toy.js";
import { slider } from "./controls.js";
import { normals } from "./random.js";
import { ROLES, label, s, segment } from "./svg.js";

export const state = { picks: String, gamma: Number, lambda: Number };
export const start = { gamma: 0.5, lambda: 0.3 };

const GRID = { bits: 2, groupSize: null, kind: "asymmetric" };
const [OUTPUTS, CHANNELS, TOKENS, ASKED] = [96, 12, 12, 3];
const GAMMAS = [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1];
const LAMS = [0, 0.01, 0.03, 0.1, 0.3, 1, 3];
// Sizes of activations and weights by channel: some channels have one of the two, two have both.
const ACTIVATIONS = [0.5, 1.9, 0.4, 0.7, 0.6, 2.4, 0.5, 0.8, 1.2, 0.4, 0.9, 0.6];
const WEIGHTS = [0.9, 1.5, 0.35, 1.0, 0.8, 0.7, 1.2, 0.3, 0.5, 1.1, 1.4, 0.9];

/** Channels of the address, “2,6,9”, counted from 1. */
export function readPicks(text) {
  const found = String(text ?? "").split(",").map((part) => Number(part) - 1);
  return [...new Set(found)].filter((one) => Number.isInteger(one) && one >= 0 && one < CHANNELS).slice(0, ASKED);
}

/** Positions of the largest values, largest first. */
export const largest = (values, count) => values.map((_, i) => i).sort((a, b) => values[b] - values[a]).slice(0, count);

const nearestOf = (values, wanted) => values.reduce((best, value, i) => (Math.abs(value - wanted) < Math.abs(values[best] - wanted) ? i : best), 0);
const rms = (values) => Math.sqrt(values.reduce((total, value) => total + value * value, 0) / values.length);

export function create(stage) {
  const draw = normals(23);
  const inputs = Array.from({ length: TOKENS }, () => {
    const shared = draw();
    return ACTIVATIONS.map((size) => (size * (draw() + 3 * shared)) / Math.hypot(1, 3));
  });
  const weight = Array.from({ length: OUTPUTS }, () => WEIGHTS.map((size) => size * draw()));
  const statistics = statisticsOf(inputs);
  const means = columnMeans(weight);
  let scene;

  const gammaAt = () => nearestOf(GAMMAS, stage.state.gamma);
  const lambdaAt = () => nearestOf(LAMS, stage.state.lambda);
  const gamma = slider({ control: "gamma", sign: "γ", label: "γ, how saliency mixes activations and weights", names: GAMMAS.map(plain), change: (i) => stage.set({ gamma: GAMMAS[i] }) });
  const lambda = slider({ control: "lambda", sign: "λ", label: "λ, weight of the drift penalty", names: LAMS.map(plain), change: (i) => stage.set({ lambda: LAMS[i] }) });
  stage.part("controls").append(gamma.element, lambda.element);
  const board = stage.board((size) => scene(size));
  const columns = Array.from({ length: CHANNELS }, (_, channel) => {
    const box = s("rect", { rx: 6, fill: "transparent" });
    const group = s("g", { class: "pick", role: "checkbox", tabindex: 0, "aria-label": `Channel ${channel + 1}`, "data-control": `channel-${channel + 1}`, "data-testid": `channel-${channel + 1}` }, box);
    const toggle = () => {
      if (stage.shown) return;
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

  function facts() {
    const chosen = GAMMAS[gammaAt()];
    const lam = LAMS[lambdaAt()];
    const s_ = saliency(statistics.absMean, weight, chosen);
    const moved = (own) => {
      const delta = difference(quantizeLayer(weight, statistics, GRID, { lam, gamma: own }).dequantized, weight);
      return means.map((_, channel) => rms(delta.map((row) => row[channel])));
    };
    return { s: s_, top: largest(s_, ASKED), identity: moved(null), salient: moved(chosen), gamma: chosen, lam };
  }

  scene = ({ width, height }) => {
    const found = facts();
    const picks = readPicks(stage.state.picks);
    const narrow = width < 560;
    const [left, right] = [20, width - 16];
    const step = (right - left) / CHANNELS;
    const bar = Math.min(28, step * 0.56);
    const rows = [
      { name: "mean |x|, activations", values: statistics.absMean, color: ROLES.recon.color },
      { name: "mean |W|, weights", values: means, color: "var(--ink-3)" },
      { name: "s, saliency", values: stage.shown ? found.s : null, color: ROLES.quality.color },
    ];
    const low = height - 40;
    const tall = (low - 12) / 4;
    columns.forEach(({ box, group }, channel) => {
      const picked = picks.includes(channel);
      for (const [key, value] of Object.entries({ x: left + channel * step + 1, y: 6, width: step - 2, height: height - 12 })) box.setAttribute(key, value);
      group.setAttribute("aria-checked", String(picked));
      group.setAttribute("aria-disabled", String(stage.shown));
    });
    return [
      picks.map((channel) => s("rect", { x: left + channel * step + 1, y: 6, width: step - 2, height: height - 12, rx: 6, fill: "var(--series-4)", opacity: 0.18 })),
      rows.map(({ name, values, color }, row) => {
        const bottom = 12 + (row + 1) * tall - 8;
        const high = values ? Math.max(...values) : 1;
        return [
          label(left + 4, bottom - tall + 20, name, { fill: "var(--ink)", weight: 600, halo: true }),
          segment(left, bottom, right, bottom),
          values?.map((value, channel) => {
            const size = (value / high) * (tall - 42);
            const top = row === 2 && !found.top.includes(channel);
            return s("rect", { x: left + (channel + 0.5) * step - bar / 2, y: bottom - size, width: bar, height: size, rx: 2, fill: color, opacity: top ? 0.4 : null });
          }) ?? label((left + right) / 2, bottom - tall * 0.4, "Shown once you have chosen", { at: "middle", size: 14, fill: "var(--ink-3)" }),
        ];
      }),
      stage.shown ? movement(found, { left, right, step, bar, top: 12 + 3 * tall, bottom: low, narrow }) : null,
      Array.from({ length: CHANNELS }, (_, channel) => label(left + (channel + 0.5) * step, height - 22, String(channel + 1), { at: "middle", fill: picks.includes(channel) ? "var(--series-4-ink)" : "var(--ink-2)", weight: picks.includes(channel) ? 700 : 400, size: 14 })),
    ];
  };

  function movement({ identity, salient, top }, { left, right, step, bar, top: upper, bottom, narrow }) {
    const changes = identity.map((value, channel) => salient[channel] / value - 1);
    const high = Math.max(0.1, ...changes.map(Math.abs));
    const middle = (upper + 28 + bottom) / 2;
    const size = (value) => (value / high) * (bottom - middle - 14);
    const x = (channel) => left + (channel + 0.5) * step;
    return [
      label(left + 4, upper + 12, narrow ? "Drift with s, against without" : "Drift with saliency, against the drift without it", { fill: "var(--ink)", weight: 600, halo: true }),
      segment(left, middle, right, middle),
      changes.map((value, channel) => {
        const length = Math.abs(size(value));
        const above = value > 0;
        return [
          s("rect", { x: x(channel) - bar / 2, y: above ? middle - length : middle, width: bar, height: length, rx: 2, fill: ROLES.drift.color, opacity: top.includes(channel) ? null : 0.4 }),
          narrow ? null : label(x(channel), above ? middle - length - 9 : middle + length + 9, `${Math.round(100 * value) > 0 ? "+" : ""}${number(100 * value, 0)} %`, { at: "middle" }),
        ];
      }),
    ];
  }

  const list = (channels) => channels.map((one) => one + 1).sort((a, b) => a - b).join(", ");

  return {
    draw() {
      gamma.at(gammaAt());
      lambda.at(lambdaAt());
    },
    answer() {
      const { top, identity, salient, gamma: own, lam } = facts();
      const picks = readPicks(stage.state.picks);
      const right = picks.filter((one) => top.includes(one)).length;
      const others = identity.map((_, one) => one).filter((one) => !top.includes(one));
      const [change, elsewhere] = [top, others].map((some) => 100 * (rms(some.map((one) => salient[one])) / rms(some.map((one) => identity[one])) - 1));
      const said = picks.length ? `You chose ${list(picks)}: ${right} of ${ASKED}. ` : "";
      const words = (value) => (Math.abs(value) < 0.5 ? "as far as without" : `${number(Math.abs(value), 0)} % ${value < 0 ? "less" : "more"}`);
      return [
        `${said}At γ = ${plain(own)} they are ${list(top)}. With saliency they drift `,
        { role: "drift", text: words(change) },
        `, the others ${words(elsewhere)} (λ = ${plain(lam)}). Move γ and λ.`,
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
        { key: "identity", title: "Drift without saliency", kind: "significant" },
        { key: "salient", title: "Drift with it", kind: "significant" },
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
