/**
 * The paper's figure 1(b) and its perplexities at 2 bits, as published, beside the embedded model's own numbers.
 * @module learn/paper
 */

import { nearest } from "../base/address_bar.js";
import { format, number, percent, plain } from "../base/format.js";
import { html, made, nothing } from "../base/html.js";
import { isLocked } from "../base/link.js";
import { table as numbers, scrolling } from "../base/table.js";
import {
  afterGuess,
  axis,
  curve,
  endLabels,
  frame,
  guessGlyph,
  heaps,
  key,
  panel,
  spread,
  upright,
} from "../charts/chart.js";
import { label, ROLES, s, segment } from "../charts/svg.js";
import { Trial } from "../model/trial.js";
import { asking, oneFromStudy } from "./address.js";
import { piece, words } from "./pieces.js";
import { bestOf, bothPenalties, column, endsOf } from "./shipped_study.js";

/**
 * @typedef {import("./types.d.ts").Asking} Settings
 * @typedef {import("./types.d.ts").View} View
 * @typedef {{identity: View, saliency: View}} Data
 * @typedef {ReturnType<typeof facts>} Facts
 * @typedef {NonNullable<Facts["ours"]>} Ours
 * @typedef {import("../charts/chart.js").Panel} Panel
 * @typedef {import("../charts/svg.js").Drawn} Drawn
 */

export const state = { guess: oneFromStudy("guess") };

/** @type {Settings} */
export const start = {};

/** @type {import("../charts/svg.js").Role} */
const FLOAT = { ...ROLES.grey, shape: null };
/** @type {import("../charts/svg.js").Role} */
const IDENTITY = {
  ...ROLES.quality,
  color: "var(--series-1)",
  ink: "var(--series-1-ink)",
  shape: "square",
  dash: "6 4",
};
const PENALTIES = /** @type {const} */ (["identity", "saliency"]);

/** @param {import("./types.d.ts").Given} given */
export const prepare = ({ study }) => bothPenalties(study);

/** @type {import("./types.d.ts").StepModule<Settings, Data, Facts>["values"]} */
export const values = ({ published }) => ({ guess: published.figure.lams });

/**
 * What was published, and the same of our model once it is there.
 * @param {Settings} settings
 * @param {Data|null} data
 * @param {import("./types.d.ts").Given} given
 */
export function facts(settings, data, { published: { figure, perplexity }, study: { bits } }) {
  return {
    ...asking(settings),
    guess: settings.guess,
    own: nearest(figure.lams, settings.guess) ?? 0,
    names: figure.lams.map(plain),
    best: bestOf(figure.saliency.average, -1),
    figure,
    perplexity,
    ours: data && oursOf(data, figure.gamma, bits),
    saliency: data?.saliency ?? null,
  };
}

/**
 * Our accuracies over λ, at our γ nearest to the published γ, and our perplexities by the names of the published rows.
 * @param {Data} data
 * @param {number} publishedGamma
 * @param {number} bits
 */
function oursOf({ identity, saliency }, publishedGamma, bits) {
  const gamma = nearest(saliency.gammas, publishedGamma) ?? 0;
  const over = (/** @type {View} */ view, /** @type {number} */ at) => ({
    values: column(view, "accuracy", at),
    ends: endsOf(view, "accuracy", at),
    gain: view.told.accuracy?.best[at] ?? null,
  });
  const lowest = (/** @type {View} */ view) => {
    const all = view.gammas.flatMap((_, at) => column(view, "perplexity", at));
    return all[bestOf(all)];
  };
  const [perplexity, difference] = ["perplexity", "perplexity_difference"].map((name) => column(identity, name)[0]);
  return {
    model: identity.study.model,
    bits,
    draws: identity.line.draws.length,
    lams: identity.lams,
    names: identity.lam_texts,
    identity: over(identity, 0),
    saliency: over(saliency, gamma),
    /** @type {Object<string, number|null>} */
    perplexities: {
      Float: identity.study.model.perplexity,
      GPTQ: Number(perplexity) / (1 + Number(difference)),
      "SARQC-GBS (identity)": lowest(identity),
      "SARQC-GBS (saliency)": lowest(saliency),
    },
  };
}

/** @type {import("./types.d.ts").StepModule<Settings, Data, Facts>["answer"]} */
export function answer({ guess, own, names, best, figure, ours }) {
  const { average } = figure.saliency;
  const lead =
    own === best
      ? `You said ${names[best]}, and there it is`
      : `You said ${names[own]}; it is highest at ${names[best]}`;
  const accuracy = piece("quality", `${number(average[best], 1)} %`);
  const pieces = words`${guess === undefined ? `It is highest at λ = ${names[best]}` : lead}, with saliency: ${accuracy}, \
${number(average[best] - average[0], 1)} points above λ = 0.`;
  if (!ours) return pieces;
  const { values, gain } = ours.saliency;
  const said = gain ? `${/^\d/.test(gain.words) ? ":" : "."} ${gain.words}` : ""; // a verdict is a sentence of its own
  return [
    ...pieces,
    ` Ours, with saliency too, is highest at λ = ${ours.names[bestOf(values, -1)]}${said}. `,
    "These are two models at two widths, each with a scale of its own: compare the shapes, not the heights.",
  ];
}

/** @param {Facts} facts @returns {import("../lecture/state.js").Question} */
export const asked = ({ figure, names, best }) => ({ lams: figure.lams, names, best, band: [best, best] });

/** @param {Facts} facts */
export function aria({ figure, names, best, answered }) {
  const values = { model: figure.model, bits: figure.bits, best: names[best] };
  return answered
    ? `Published accuracy of ${values.model} at ${values.bits} bits over λ, highest at λ = ${values.best}, ` +
        "beside the accuracy of the embedded model."
    : `Published accuracy of ${values.model} at ${values.bits} bits over λ: only λ = 0 is shown.`;
}

/** @param {Facts} facts */
export function table({ answered, figure, ours }) {
  if (!answered) return { columns: [{ key: "lambda", title: "λ", kind: "plain" }], rows: [] };
  const columns = [
    { key: "source", title: "From", kind: "text" },
    { key: "lambda", title: "λ", kind: "plain" },
    { key: "identity", title: "Accuracy, identity", kind: "share" },
    { key: "saliency", title: "Accuracy, saliency", kind: "share" },
  ];
  const share = (/** @type {{average: number[]}} */ { average }) => average.map((value) => value / 100);
  /** @type {(source: string, lams: number[], identity: (number|null)[], saliency: (number|null)[]) => import("./types.d.ts").NumberTable["rows"]} */
  const rows = (source, lams, identity, saliency) =>
    lams.map((lambda, i) => ({ source, lambda, identity: identity[i], saliency: saliency[i] }));
  const published = rows(`${figure.model}, published`, figure.lams, share(figure.identity), share(figure.saliency));
  if (!ours) return { columns, rows: published };
  const own = rows(`${ours.model.name}, ours`, ours.lams, ours.identity.values, ours.saliency.values);
  return { columns, rows: [...published, ...own] };
}

/**
 * Both panels; where there is no room for two, the second below the first and no room at the curves' ends.
 * @param {import("../charts/svg.js").Size} size
 * @param {Facts} facts
 */
function panels({ width, height }, { figure, ours }) {
  const beside = width > 640;
  const [first, second] = beside
    ? [
        { left: 64, right: width / 2 - 86, top: 78, bottom: height - 68 },
        { left: width / 2 + 64, right: width - 88, top: 78, bottom: height - 68 },
      ]
    : [
        { left: 60, right: width - 28, top: 78, bottom: height / 2 - 76 },
        { left: 60, right: width - 28, top: height / 2 + 82, bottom: height - 48 },
      ];
  const grounds = beside
    ? [
        { x: 8, y: 4, width: width / 2 - 14, height: height - 12 },
        { x: width / 2 + 6, y: 4, width: width / 2 - 14, height: height - 12 },
      ]
    : [
        { x: 4, y: 4, width: width - 8, height: height / 2 - 8 },
        { x: 4, y: height / 2 + 4, width: width - 8, height: height / 2 - 8 },
      ];
  const reach = PENALTIES.flatMap((name) => {
    const { values, ends } = ours?.[name] ?? { values: [], ends: [] };
    return values.flatMap((value, i) => (value === null ? [] : (ends[i] ?? [value])));
  });
  const all = [...figure.identity.average, ...figure.saliency.average, figure.float];
  return {
    beside,
    grounds,
    published: panel(first, figure.lams.length, spread(all)),
    own: panel(second, ours?.lams.length ?? 0, spread(ours ? [...reach, ours.model.accuracy] : [])),
  };
}

/**
 * @param {import("./stage.js").Stage<Settings, Data, Facts>} stage
 * @returns {import("./types.d.ts").StepView<Facts>}
 */
export function create(stage) {
  const { board } = stage;
  const guess = board.handle({
    control: "guess",
    label: "Your guess of the λ with the highest published accuracy",
    glyph: guessGlyph(),
    drag: (x) => {
      const { facts } = stage;
      if (facts) stage.set({ guess: facts.figure.lams[panels(board.size, facts).published.position(x)] });
    },
    step: (dx) => {
      if (!stage.facts) return;
      const { own, figure } = stage.facts;
      stage.set({ guess: figure.lams[Math.max(0, Math.min(figure.lams.length - 1, own + dx))] });
    },
  });

  const tried = trying();

  return {
    draw(size, facts) {
      const { answered, hasGuess, figure, names, own, ours } = facts;
      const at = panels(size, facts);
      guess.at(at.published.x(own), at.published.bottom + 44, figure.lams[own], `λ = ${names[own]}`);
      guess.still(answered);
      guess.show(hasGuess);
      return [
        at.grounds.map((ground) => s("rect", { ...ground, rx: 8, fill: "var(--ground)" })),
        heaps(at.published, stage.counts),
        published(at.published, facts, at.beside),
        answered ? ours && measured(at.own, ours, at.beside) : afterGuess(at.own),
      ];
    },
    extra: (facts) =>
      facts.answered && facts.ours && facts.saliency
        ? html`${below(facts, facts.ours)} ${facts.saliency.study.kept ? tried(facts.saliency) : nothing}`
        : null,
  };
}

/**
 * The published curves; of each only λ = 0 before the answer.
 * @type {(at: Panel, facts: Facts, beside: boolean) => Drawn}
 */
function published(at, { answered, hasGuess, figure, names, own }, beside) {
  const curves = PENALTIES.map((name) => figure[name].average);
  const [identity, saliency] = answered ? curves : curves.map((all) => all.map((value, i) => (i === 0 ? value : null)));
  return [
    heading(at, `Published: ${figure.model}, ${figure.bits} bits`),
    frame(at, beside ? "Accuracy" : "", (value) => percent(value / 100)),
    axis(at, names),
    level(at, figure.float),
    hasGuess && upright(at, own, { stroke: "var(--series-4)", dash: "4 4" }),
    curve(at, identity, IDENTITY),
    curve(at, saliency, ROLES.quality),
    named(at, answered ? curves.map((all) => all[all.length - 1]) : [], figure.float, beside),
  ];
}

/** @type {(at: Panel, ours: Ours, beside: boolean) => Drawn} */
function measured(at, { model, bits, names, identity, saliency }, beside) {
  const ends = [identity, saliency].map(({ values }) => Number(values[values.length - 1]));
  return [
    heading(at, `Ours: ${model.name}, ${bits} bits`),
    frame(at, beside ? "Accuracy" : "", (value) => percent(value)),
    axis(at, names),
    level(at, model.accuracy),
    curve(at, identity.values, IDENTITY, { ends: identity.ends }),
    curve(at, saliency.values, ROLES.quality, { ends: saliency.ends }),
    named(at, ends, model.accuracy, beside),
  ];
}

/** Whose figure a panel is. @param {Panel} at @param {string} text */
const heading = (at, text) => label(at.left - 44, at.top - 48, text, { fill: "var(--ink)", size: 15, weight: 700 });

/**
 * The float model's own accuracy.
 * @param {Panel} at
 * @param {number} value
 */
const level = (at, value) =>
  segment(at.left, at.y(value), at.right, at.y(value), { stroke: FLOAT.color, "stroke-dasharray": FLOAT.dash });

/**
 * The names of the curves, at their ends where there is room for them; without ends only the float model's.
 * @type {(at: Panel, ends: number[], float: number, beside: boolean) => Drawn}
 */
function named(at, ends, float, beside) {
  const curves = [{ role: FLOAT, text: "float", value: float }];
  if (ends.length)
    curves.unshift(
      { role: ROLES.quality, text: "saliency", value: ends[1] },
      { role: IDENTITY, text: "identity", value: ends[0] },
    );
  return beside ? endLabels(at, curves) : key(at, curves);
}

/**
 * The model of our numbers itself, on a sentence; λ is its own there, at first the best.
 * @returns {(view: View) => HTMLElement}
 */
function trying() {
  const card = made(html`<section class="try-card" data-testid="try-card">
    <h3 class="card-title">The model on a sentence</h3><div></div></section>`);
  const trial = new Trial(/** @type {HTMLElement} */ (card.lastElementChild));
  /** @type {number|null} */
  let shown = null;
  return function tried(view) {
    const lambda = shown ?? Math.max(0, bestOf(column(view, "perplexity")));
    trial.follow({
      view,
      at: { gamma: 0, lambda },
      isLocked: isLocked("lambda"),
      move: (to) => {
        shown = to;
        tried(view);
      },
      show: () => {}, // the line of this step is the one that is kept
      recipeAt: () => null,
    });
    return card;
  };
}

/**
 * Perplexities at 2 bits: the published, and ours at the λ and γ that are best for each.
 * @param {Facts} facts
 * @param {Ours} ours
 */
function below({ perplexity: { source, models, rows } }, ours) {
  /** @type {import("../base/table.js").Column<typeof rows[number]>[]} */
  const columns = [
    { title: "Published perplexity, 2 bits", isHead: true, show: ({ method }) => method },
    ...models.map((model, i) => ({
      title: model,
      show: (/** @type {typeof rows[number]} */ { values }) => format(values[i], "perplexity"),
    })),
    { title: "Ours", show: ({ method }) => format(ours.perplexities[method], "perplexity") },
  ];
  const perplexities = numbers({ columns, rows, name: "numbers paper-table", testid: "published" });
  return html`${scrolling("Published perplexities beside ours", perplexities)}
    <p class="paper-note">${note(source, ours)}</p>`;
}

/**
 * @param {string} source of the published figures
 * @param {Ours} ours
 */
function note(source, { model, draws }) {
  const error = model.accuracy_standard_error;
  const doubt = error
    ? ` The float model’s own accuracy has a standard error of ${number(100 * error, 0)} points: a point above it proves nothing.`
    : "";
  const figures =
    `Published: ${source}, and figure 1(b), the mean of eight tasks. Ours: ${model.name}, the best λ and γ of ` +
    `each; bars are 95 % intervals of the difference from GPTQ 1 % over ${draws} draws.`;
  return figures + doubt;
}
