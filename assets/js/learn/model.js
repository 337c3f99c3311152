/**
 * A whole pretrained model over λ, with the band in which the best λ lies, and the λ that each layer would want.
 * @module learn/model
 */

import { oneOf } from "../base/address.js";
import { nearest } from "../base/address_bar.js";
import { format, number, plain } from "../base/format.js";
import { axis, curve, frame, guessGlyph, heaps, isMeasured, panel, spread, upright } from "../charts/chart.js";
import { label, mark, ROLES, s, segment } from "../charts/svg.js";
import { asking, oneFromStudy } from "./address.js";
import { choices } from "./controls.js";
import { piece, words } from "./pieces.js";
import { bestByLayer, bestOf, bothPenalties, column, endsOf } from "./shipped_study.js";

/**
 * @typedef {"identity"|"saliency"} Penalty
 * @typedef {import("./types.d.ts").Asking & {saliency: Penalty}} Settings
 * @typedef {{identity: import("./types.d.ts").View, saliency: import("./types.d.ts").View, wanted: Map<string, number>}} Data
 *   wanted: with saliency, the λ at which each layer errs least on unseen text
 * @typedef {NonNullable<ReturnType<typeof facts>>} Facts
 */

/** @type {[Penalty, string][]} */
const PENALTIES = [
  ["identity", "identity"],
  ["saliency", "saliency"],
];

export const state = { guess: oneFromStudy("guess"), saliency: oneOf("penalty", ["identity", "saliency"]) };

/** @type {Settings} */
export const start = { saliency: "saliency" };

const FAR = 8; // times the best perplexity: what is higher would flatten the rest, and is said instead of drawn

/**
 * @param {import("./types.d.ts").Given} given
 * @returns {Promise<Data>}
 */
export async function prepare(given) {
  const { id, bits, saliency } = given.pretrained;
  const [views, wanted] = await Promise.all([
    bothPenalties(given.pretrained),
    bestByLayer(id, { method: saliency, bits }),
  ]);
  return { ...views, wanted };
}

/** @type {import("./types.d.ts").StepModule<Settings, Data, Facts>["values"]} */
export const values = (_, data) => (data ? { guess: data.identity.lams } : null);

/**
 * @param {Settings} settings
 * @param {Data|null} data
 */
export function facts(settings, data) {
  if (!data) return null;
  const view = data[settings.saliency];
  const measured = column(view, "perplexity");
  const both = [data.identity, data.saliency].map((each) => column(each, "perplexity"));
  const near = FAR * Math.min(...both.flat().filter(isMeasured));
  const drawn = (/** @type {(number|null)[]} */ values) =>
    values.map((value) => (isMeasured(value) && value <= near ? value : null));
  const perplexities = drawn(measured);
  return {
    ...asking(settings),
    guess: settings.guess,
    lams: view.lams,
    names: view.lam_texts,
    gamma: view.gamma_texts[0],
    draws: view.line.draws.length,
    band: view.lams.map((_, i) =>
      view.table.rows.some(({ at: [g, m], sweet_spot }) => g === 0 && m === i && sweet_spot),
    ),
    perplexities,
    /** Beyond the chart: positions of λ and perplexities. */
    far: measured.flatMap((value, i) => (isMeasured(value) && value > near ? [{ at: i, value }] : [])),
    /** Of both penalties: the axis is the same for either. */
    range: roomBelow(spread(both.flatMap(drawn), { air: 0.12 })),
    ends: endsOf(view, "perplexity"),
    best: bestOf(perplexities),
    /** Of the best λ to GPTQ 1 %, as one chosen of all. */
    gain: view.told.perplexity.best[0],
    /** How many layers are best at each λ. */
    layers: view.lams.map((lam) => [...data.wanted.values()].filter((wanted) => wanted === lam).length),
    own: nearest(view.lams, settings.guess) ?? 0,
    table: view.table,
  };
}

/** A range with room for the words under the lowest point, above the band's edge. @param {[number, number]} range */
const roomBelow = ([low, high]) => /** @type {[number, number]} */ ([low - 0.08 * (high - low), high]);

/** @type {import("./types.d.ts").StepModule<Settings, Data, Facts>["answer"]} */
export function answer({ guess, lams, names, own, band, best, draws, gain, layers }) {
  const place = piece("quality", where(names[band.indexOf(true)], names[band.lastIndexOf(true)]));
  return words`${guess === undefined ? "" : `${judged(names[own], band[own])} `}\
The best λ ${place} (95\u00a0% confidence, ${String(draws)} draws).${gain ? ` The best λ: ${gain.words}.` : ""}\
${reason(layers, lams[best], lams)}`;
}

/** @param {string} guess @param {boolean} isInBand */
const judged = (guess, isInBand) =>
  isInBand ? `You said ${guess}, which is in the band.` : `You said ${guess}, which is outside the band.`;

/** @param {string} low @param {string} high */
const where = (low, high) => (low === high ? `is ${low}` : `lies between ${low} and ${high}`);

/**
 * One λ is for all layers, and most would take another.
 * @param {number[]} layers at each λ
 * @param {number} best the model's
 * @param {number[]} lams
 */
function reason(layers, best, lams) {
  const all = layers.reduce((sum, count) => sum + count, 0);
  if (!all) return "";
  const less = layers.reduce((sum, count, i) => sum + (lams[i] < best ? count : 0), 0);
  return ` By its own error on unseen text a layer would take another: ${less} of ${all} want less than ${plain(best)}.`;
}

/** @param {Facts} facts @returns {import("../lecture/state.js").Question} */
export const asked = ({ lams, names, best, band }) => ({
  lams,
  names,
  best,
  band: band.includes(true) ? [band.indexOf(true), band.lastIndexOf(true)] : [best, best],
});

/** @param {Facts} facts */
export function aria({ answered, names, perplexities, best }) {
  const value = (/** @type {number} */ i) => format(perplexities[i], "perplexity");
  const last = names.length - 1;
  return answered
    ? `Perplexity on unseen text over λ, lowest at λ = ${names[best]} with ${value(best)}.`
    : `Perplexity on unseen text at λ = ${names[0]}: ${value(0)}, at λ = ${names[last]}: ${value(last)}.`;
}

/** @param {Facts} facts */
export function table({ answered, lams, table: { columns, rows } }) {
  const keys = ["lambda", "gamma", "perplexity"];
  if (answered) keys.push("perplexity_difference", "perplexity_low", "perplexity_high", "sweet_spot");
  return {
    columns: columns.filter((column) => keys.includes(column.key)),
    rows: rows.filter(({ at }) => answered || at[1] === 0 || at[1] === lams.length - 1),
  };
}

/**
 * @param {import("../charts/svg.js").Size} size
 * @param {Facts} facts
 */
const panelOf = ({ width, height }, { lams, range }) =>
  panel({ left: 56, right: width - 32, top: 60, bottom: height - 64 - WISHES }, lams.length, range);

const WISHES = 82; // pixels below the axis for what each layer wants

/**
 * @param {import("./stage.js").Stage<Settings, Data, Facts>} stage
 * @returns {import("./types.d.ts").StepView<Facts>}
 */
export function create(stage) {
  const { board } = stage;
  const guess = board.handle({
    control: "guess",
    label: "Your guess of the best λ",
    glyph: guessGlyph(),
    drag: (x) => {
      const { facts } = stage;
      if (facts) stage.set({ guess: facts.lams[panelOf(board.size, facts).position(x)] });
    },
    step: (dx) => {
      if (!stage.facts) return;
      const { lams, own } = stage.facts;
      stage.set({ guess: lams[Math.max(0, Math.min(lams.length - 1, own + dx))] });
    },
  });
  guess.show(false);

  return {
    controls: () =>
      choices({
        control: "saliency",
        label: "Penalty",
        options: PENALTIES,
        value: stage.state.saliency,
        change: (saliency) => stage.set({ saliency }),
      }),
    draw(size, facts) {
      const { answered, hasGuess, own, lams, names, gamma, band, perplexities, far } = facts;
      const at = panelOf(size, facts);
      guess.at(at.x(own), at.bottom + 44, lams[own], `λ = ${names[own]}`);
      guess.still(answered);
      guess.show(hasGuess);
      const title = gamma ? `Perplexity on unseen text, γ = ${gamma}` : "Perplexity on unseen text";
      const bars =
        at.right - at.left > 500
          ? "bars: 95 % interval of the difference from GPTQ 1 %"
          : "bars: 95 %, beside GPTQ 1 %";
      const ends = [0, lams.length - 1].map((end) => perplexities.map((value, i) => (i === end ? value : null)));
      return [
        answered && bands(at, band),
        frame(at, title, (value) => number(value, 0), { lines: 1 }),
        answered && label(at.left - 6, at.top - 14, bars),
        far.map(({ at: position, value }) =>
          label(at.x(position), at.top + 14, `↑ ${format(value, "perplexity")}`, {
            fill: ROLES.quality.ink,
            halo: true,
          }),
        ),
        answered && wishes(at, facts),
        axis(at, names),
        heaps(at, stage.counts),
        hasGuess && upright(at, own, { stroke: "var(--series-4)", dash: "4 4" }),
        // Before the answer only the ends are shown: no penalty, and the largest.
        answered ? whole(at, facts) : ends.map((values) => curve(at, values, ROLES.quality, { size: 6 })),
      ];
    },
  };
}

const GAPS = [9, 7, 6, 5, 4, 3]; // pixels from dot to dot, the first at which all have room

/**
 * A dot for each layer at the λ that is best for it alone.
 * @type {(at: import("../charts/chart.js").Panel, facts: Facts) => import("../charts/svg.js").Drawn}
 */
function wishes(at, { layers }) {
  const top = at.bottom + 84;
  const room = at.x(1) - at.x(0) - 8;
  const acrossAt = (/** @type {number} */ gap) => Math.max(3, Math.floor(room / gap));
  const fits = (/** @type {number} */ gap) => gap * Math.ceil(Math.max(...layers) / acrossAt(gap)) <= WISHES - 18;
  const gap = GAPS.find(fits) ?? GAPS[GAPS.length - 1];
  const across = acrossAt(gap);
  const dots = layers.flatMap((count, i) =>
    Array.from({ length: count }, (_, k) => {
      const inRow = Math.min(across, count - across * Math.floor(k / across));
      const x = at.x(i) + gap * ((k % across) - (inRow - 1) / 2);
      return mark("circle", x, top + gap * Math.floor(k / across), 0.4 * gap, { fill: ROLES.heldOut.color });
    }),
  );
  return [
    label(
      at.left - 6,
      at.bottom + 66,
      at.right - at.left > 500
        ? "The λ that each layer wants for itself, by its error on unseen text"
        : "The λ that each layer wants for itself",
      { fill: "var(--ink)" },
    ),
    dots,
  ];
}

/**
 * The curve with its 95 % intervals and the name of its lowest point.
 * @type {(at: import("../charts/chart.js").Panel, facts: Facts) => import("../charts/svg.js").Drawn}
 */
function whole(at, { perplexities, ends, best, names }) {
  const lowest = Number(perplexities[best]);
  const [low, high] = ends[best] ?? [lowest, lowest];
  const under = at.y(low) + 16;
  const named = under < at.bottom - 10 ? under : at.y(high) - 14; // clear of the band's edge
  return [
    curve(at, perplexities, ROLES.quality, { ends, size: 5 }),
    label(at.x(best), named, `${format(lowest, "perplexity")} at λ = ${names[best]}`, {
      at: "middle",
      fill: ROLES.quality.ink,
      weight: 600,
      halo: true,
    }),
  ];
}

/**
 * The band of λ as stretches behind the curve, each reaching half way to its neighbours.
 * @type {(at: import("../charts/chart.js").Panel, band: boolean[]) => import("../charts/svg.js").Drawn}
 */
function bands(at, band) {
  const half = (at.x(1) - at.x(0)) / 2;
  const [first, last] = [band.indexOf(true), band.lastIndexOf(true)];
  if (first < 0) return null;
  return [
    band.map((inside, i) => {
      if (!inside) return null;
      const x = at.x(i) - half;
      return [
        s("rect", { x, y: at.top, width: 2 * half, height: at.bottom - at.top, fill: "var(--band)" }),
        segment(x, at.bottom, x + 2 * half, at.bottom, { stroke: "var(--band-strong)", "stroke-width": 4 }),
      ];
    }),
    label((at.x(first) + at.x(last)) / 2, at.top + 14, "best λ in here, 95\u00a0% sure", {
      at: "middle",
      fill: ROLES.quality.ink,
    }),
  ];
}
