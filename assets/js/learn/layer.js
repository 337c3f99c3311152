/**
 * A real layer of the study that ships with the app: its error on calibration text and on unseen text over λ, and
 * where its weights moved.
 * @module learn/layer
 */

import { nearest } from "../base/address_bar.js";
import { arrayBytes } from "../base/client.js";
import { change, percent, significant } from "../base/format.js";
import { html, render } from "../base/html.js";
import { colour } from "../base/theme.js";
import { openArray } from "../charts/bind.js";
import { axis, curve, endLabels, frame, guessGlyph, heaps, key, panel, spread, upright } from "../charts/chart.js";
import { ROLES } from "../charts/svg.js";
import { asking, oneFromStudy } from "./address.js";
import { lambdaSlider } from "./controls.js";
import { guessed, piece, words } from "./pieces.js";
import { bestOf, column, viewOf } from "./shipped_study.js";

/**
 * @typedef {import("./types.d.ts").Asking & {lambda: number}} Settings
 * @typedef {import("./types.d.ts").View} View
 * @typedef {{view: View, surface: Surface|null}} Data
 * @typedef {{matrix: (lambda: number) => ArrayLike<number>[], scale: number}} Surface |Ŵ − W| at a λ, in cells; `scale` is its
 * largest value at any
 * @typedef {NonNullable<ReturnType<typeof facts>>} Facts
 */

export const state = { guess: oneFromStudy("guess"), lambda: oneFromStudy("λ") };

/** @type {Settings} */
export const start = { lambda: 0.1 };

/**
 * @param {import("./types.d.ts").Given} given
 * @returns {Promise<Data>}
 */
export async function prepare({ study: { id, bits, identity, layer: name } }) {
  const model = await viewOf(id, { method: identity, bits });
  const { index } = model.layers.find((layer) => layer.name === name) ?? model.layers[model.layers.length - 1];
  const view = await viewOf(id, { method: identity, bits, layer: index });
  const info = view.arrays.surface;
  if (!info) return { view, surface: null };
  const array = openArray(await arrayBytes(id, info), info);
  return { view, surface: { matrix: (lambda) => array.matrix(0, lambda), scale: info.scale } };
}

/** @type {import("./types.d.ts").StepModule<Settings, Data, Facts>["values"]} */
export const values = (_, data) => (data ? { guess: data.view.lams, lambda: data.view.lams } : null);

/**
 * @param {Settings} settings
 * @param {Data|null} data
 */
export function facts(settings, data) {
  if (!data) return null;
  const { view, surface } = data;
  return {
    ...asking(settings),
    guess: settings.guess,
    lams: view.lams,
    names: view.lam_texts,
    layer: view.layers[view.layer ?? 0].label,
    seen: column(view, "recon"),
    unseen: column(view, "held_out"),
    drift: column(view, "drift"),
    own: nearest(view.lams, settings.guess) ?? 0,
    at: nearest(view.lams, settings.lambda) ?? 0,
    table: view.table,
    surface,
  };
}

/** @type {import("./types.d.ts").StepModule<Settings, Data, Facts>["answer"]} */
export function answer({ names, seen, unseen, drift, guess, own, at }) {
  const against = (/** @type {(number|null)[]} */ errors) => change(Number(errors[at]) / Number(errors[0]) - 1);
  const best = piece("held_out", `unseen text at λ = ${names[bestOf(unseen)]}`);
  const drifts = piece("drift", `drift ${against(drift)}`);
  return words`${guess === undefined ? "" : guessed(names[own])}Calibration text is best at λ = ${names[bestOf(seen)]}, ${best}. \
At λ = ${names[at]}, compared with λ = 0: error on unseen text ${against(unseen)}, ${drifts}. \
In the maps of the layer’s weights, a stronger colour has moved further.`;
}

/** @param {Facts} facts @returns {import("../lecture/state.js").Question} */
export function asked({ lams, names, unseen }) {
  const best = bestOf(unseen);
  return { lams, names, best, band: [best, best] };
}

/** @param {Facts} facts */
export function aria({ layer, names, seen, unseen, answered }) {
  const values = { layer, seen: names[bestOf(seen)], unseen: names[bestOf(unseen)] };
  return answered
    ? `Reconstruction error of ${values.layer} over λ: on calibration text best at λ = ${values.seen}, on ` +
        `unseen text at ${values.unseen}.`
    : `Reconstruction error of ${values.layer} over λ: on calibration text best at λ = ${values.seen}.`;
}

/** @param {Facts} facts */
export function table({ table: { columns, rows }, answered }) {
  const keys = ["lambda", ...(answered ? ["recon", "held_out", "sar", "drift"] : ["recon"])];
  return { columns: columns.filter((column) => keys.includes(column.key)), rows };
}

/**
 * The curves' panel and whether their names have room at its right.
 * @param {import("../charts/svg.js").Size} size
 * @param {Facts} facts
 */
function panelOf({ width, height }, { answered, seen, unseen, lams }) {
  const narrow = width < 560;
  const box = { left: 56, right: width - (narrow ? 24 : 124), top: narrow ? 62 : 44, bottom: height - 56 };
  return { narrow, at: panel(box, lams.length, spread(answered ? [...seen, ...unseen] : seen)) };
}

/**
 * @param {import("./stage.js").Stage<Settings, Data, Facts>} stage
 * @returns {import("./types.d.ts").StepView<Facts>}
 */
export function create(stage) {
  const { board } = stage;
  const maps = document.createElement("div");
  stage.part("canvas").after(maps);
  const guess = board.handle({
    control: "guess",
    label: "Your guess of the best λ",
    glyph: guessGlyph(),
    drag: (x) => {
      const { facts } = stage;
      if (facts) stage.set({ guess: facts.lams[panelOf(board.size, facts).at.position(x)] });
    },
    step: (dx) => {
      if (!stage.facts) return;
      const { lams, own } = stage.facts;
      stage.set({ guess: lams[Math.max(0, Math.min(lams.length - 1, own + dx))] });
    },
  });
  guess.show(false);

  return {
    controls: (facts) =>
      lambdaSlider({ lams: facts?.lams ?? [], position: facts?.at ?? 0, change: (lambda) => stage.set({ lambda }) }),
    draw(size, facts) {
      const { answered, hasGuess, names, seen, unseen, own, lams, at: position } = facts;
      const { narrow, at } = panelOf(size, facts);
      guess.at(at.x(own), at.bottom + 40, lams[own], `λ = ${names[own]}`);
      guess.still(answered);
      guess.show(hasGuess);
      /** @type {{role: import("../charts/svg.js").Role, text: string, value: number}[]} */
      const curves = [{ role: ROLES.recon, text: "calibration text", value: Number(seen[seen.length - 1]) }];
      if (answered) curves.push({ role: ROLES.heldOut, text: "unseen text", value: Number(unseen[unseen.length - 1]) });
      return [
        frame(at, `Reconstruction error, ${facts.layer}`, (value) => percent(value), {
          lines: narrow ? 1 : 0,
        }),
        axis(at, names),
        heaps(at, stage.counts),
        hasGuess && upright(at, own, { stroke: "var(--series-4)", dash: "4 4" }),
        answered && upright(at, position),
        curve(at, seen, ROLES.recon),
        answered && curve(at, unseen, ROLES.heldOut),
        narrow ? key(at, curves) : endLabels(at, curves),
      ];
    },
    paint: (facts) => paint(maps, facts),
  };
}

/**
 * Both maps of the layer's weights: at λ = 0 and at the λ that is set.
 * @param {HTMLElement} place
 * @param {Facts|null} facts
 */
function paint(place, facts) {
  const surface = facts?.answered ? facts.surface : null;
  const sides = facts && surface ? [0, facts.at] : [null, null];
  const text = (/** @type {number|null} */ at) => (facts && at !== null ? `|Ŵ − W| at λ = ${facts.names[at]}` : "");
  place.className = `learn-maps${surface ? "" : " is-waiting"}`;
  render(
    [
      sides.map(
        (at) => html`<figure>
          <canvas width="40" height="40" role="img" aria-label="Map of ${text(at)}"></canvas>
          <figcaption>${text(at)}</figcaption>
        </figure>`,
      ),
      html`<div class="learn-scale"><span>${surface ? significant(surface.scale) : ""}</span><i></i><span>0</span></div>`,
    ],
    place,
  );
  place.querySelectorAll("canvas").forEach((canvas, side) => {
    const at = sides[side];
    if (surface && at !== null) paintMap(canvas, surface.matrix(at), surface.scale);
  });
}

/**
 * A matrix as pixels: from the surface's colour at 0 to the colour of drift at the largest value.
 * @param {HTMLCanvasElement} canvas
 * @param {ArrayLike<number>[]} matrix
 * @param {number} scale
 */
function paintMap(canvas, matrix, scale) {
  const context = canvas.getContext("2d");
  if (!context) return;
  const [rows, columns] = [matrix.length, matrix[0].length];
  Object.assign(canvas, { width: columns, height: rows });
  const rgb = (/** @type {string} */ name) => {
    context.fillStyle = colour(name);
    const hex = context.fillStyle;
    return [1, 3, 5].map((first) => parseInt(hex.slice(first, first + 2), 16));
  };
  const [low, high] = [rgb("--surface"), rgb("--drift-ink")];
  const image = context.createImageData(columns, rows);
  for (let cell = 0; cell < rows * columns; cell += 1) {
    const share = Math.min(1, matrix[Math.floor(cell / columns)][cell % columns] / scale);
    for (let i = 0; i < 3; i += 1) image.data[4 * cell + i] = low[i] + share * (high[i] - low[i]);
    image.data[4 * cell + 3] = 255;
  }
  context.putImageData(image, 0, 0);
}
