/**
 * Step 5: a real layer of the study that ships with the app: its error on calibration text and on unseen text over λ, and
 * where its weights moved.
 * @module learn/layer
 */

import { nearest } from "../base/address_bar.js";
import { arrayBytes } from "../base/client.js";
import { h } from "../base/dom.js";
import { change, percent } from "../base/format.js";
import { colour } from "../base/theme.js";
import { openArray } from "../charts/bind.js";
import { axis, curve, endLabels, frame, guessGlyph, key, panel, spread, upright } from "../charts/chart.js";
import { ROLES } from "../charts/svg.js";
import { oneFromStudy } from "./address.js";
import { slider } from "./controls.js";
import { bestOf, column, viewOf, whileLoading } from "./shipped_study.js";

export const state = { guess: oneFromStudy("guess"), lambda: oneFromStudy("λ") };
export const start = { lambda: 0.1 };

export function create(stage) {
  let view = null;
  let array = null;
  let place = null;
  let scene = () => [];
  const { id, bits, identity, layer: name } = stage.study;
  const lambda = slider({
    control: "lambda",
    sign: "λ",
    label: "λ, weight of the drift penalty",
    names: ["0"],
    change: (position) => stage.set({ lambda: view.lams[position] }),
  });
  stage.part("controls").append(lambda.element);
  const maps = h(
    "div",
    { class: "learn-maps" },
    [0, 1].map(() => h("figure", {}, h("canvas", { width: 40, height: 40, role: "img" }), h("figcaption", {}))),
  );
  stage.part("canvas").after(maps);
  const board = stage.board((size) => scene(size));
  const guess = board.handle({
    control: "guess",
    label: "Your guess of the best λ",
    glyph: guessGlyph(),
    drag: (x) => view && stage.set({ guess: view.lams[place.position(x)] }),
    step: (dx) =>
      view && stage.set({ guess: view.lams[Math.max(0, Math.min(view.lams.length - 1, at(stage.state.guess) + dx))] }),
  });
  guess.show(false);

  whileLoading(stage, async () => {
    const whole = await viewOf(id, { method: identity, bits });
    const { index } = whole.layers.find((one) => one.name === name) ?? whole.layers.at(-1);
    const found = await viewOf(id, { method: identity, bits, layer: index });
    const info = found.arrays.surface;
    array = info ? openArray(await arrayBytes(id, info), info) : null;
    view = found;
    stage.values({ guess: view.lams, lambda: view.lams });
    lambda.names(view.lam_texts);
    guess.show(true);
  });

  const at = (value) => nearest(view.lams, value) ?? 0;

  scene = ({ width, height }) => {
    if (!view) return [];
    const [seen, unseen] = [column(view, "recon"), column(view, "held_out")];
    const narrow = width < 560;
    const range = spread(stage.shown ? [...seen, ...unseen] : seen);
    place = panel(
      { left: 56, right: width - (narrow ? 24 : 118), top: narrow ? 62 : 44, bottom: height - 56 },
      view.lams.length,
      range,
    );
    const own = at(stage.state.guess);
    guess.at(place.x(own), place.bottom + 40, view.lams[own], `λ = ${view.lam_texts[own]}`);
    guess.still(stage.shown);
    guess.show(stage.hasGuess);
    const curves = [
      { role: ROLES.recon, text: "calibration text", value: seen.at(-1) },
      ...(stage.shown ? [{ role: ROLES.heldOut, text: "unseen text", value: unseen.at(-1) }] : []),
    ];
    return [
      frame(place, `Reconstruction error, ${view.layers[view.layer].label}`, (value) => percent(value), {
        lines: narrow ? 1 : 0,
      }),
      axis(place, view.lam_texts),
      stage.hasGuess ? upright(place, own, { stroke: "var(--series-4)", dash: "4 4" }) : null,
      stage.shown ? upright(place, at(stage.state.lambda)) : null,
      curve(place, seen, ROLES.recon),
      stage.shown ? curve(place, unseen, ROLES.heldOut) : null,
      narrow ? key(place, curves) : endLabels(place, curves),
    ];
  };

  function drawMaps() {
    maps.classList.toggle("is-waiting", !stage.shown || !array);
    if (!array || !stage.shown) return;
    const scale = view.arrays.surface.scale;
    [0, at(stage.state.lambda)].forEach((position, side) => {
      const figure = maps.children[side];
      paint(figure.querySelector("canvas"), array.matrix(0, position), scale);
      const text = `|Ŵ − W| at λ = ${view.lam_texts[position]}`;
      figure.querySelector("figcaption").textContent = text;
      figure.querySelector("canvas").setAttribute("aria-label", `Map of ${text}`);
    });
  }

  return {
    draw() {
      if (view) lambda.at(at(stage.state.lambda));
      drawMaps();
    },
    answer() {
      if (!view) return [];
      const [seen, unseen, drift] = ["recon", "held_out", "drift"].map((key) => column(view, key));
      const [best, own, shown] = [bestOf(unseen), at(stage.state.guess), at(stage.state.lambda)];
      const said = stage.state.guess === undefined ? "" : `You said ${view.lam_texts[own]}. `;
      const less = (values) => change(values[shown] / values[0] - 1);
      return [
        `${said}Calibration text is best at λ = ${view.lam_texts[bestOf(seen)]}, `,
        { role: "held_out", text: `unseen text at λ = ${view.lam_texts[best]}` },
        `. At λ = ${view.lam_texts[shown]}, against λ = 0: error on unseen text ${less(unseen)}, `,
        { role: "drift", text: `drift ${less(drift)}` },
        ". In the maps of the layer’s weights, a stronger colour has moved further.",
      ];
    },
    aria() {
      if (!view) return "The study is being fetched.";
      const seen = column(view, "recon");
      const text = `Reconstruction error of ${view.layers[view.layer].label} over λ: on calibration text best at λ = ${view.lam_texts[bestOf(seen)]}`;
      return stage.shown
        ? `${text}, on unseen text at ${view.lam_texts[bestOf(column(view, "held_out"))]}.`
        : `${text}.`;
    },
    table() {
      const keys = stage.shown ? ["recon", "held_out", "sar", "drift"] : ["recon"];
      const columns = view ? view.table.columns.filter((one) => one.key === "lambda" || keys.includes(one.key)) : [];
      return { columns, rows: view?.table.rows ?? [] };
    },
  };
}

/** A matrix as pixels: from the surface's colour at 0 to the colour of drift at the largest value. */
function paint(canvas, matrix, scale) {
  const [rows, columns] = [matrix.length, matrix[0].length];
  Object.assign(canvas, { width: columns, height: rows });
  const context = canvas.getContext("2d");
  const rgb = (name) => {
    context.fillStyle = colour(name);
    const hex = context.fillStyle;
    return [1, 3, 5].map((first) => parseInt(hex.slice(first, first + 2), 16));
  };
  const [low, high] = [rgb("--surface"), rgb("--drift-ink")];
  const image = context.createImageData(columns, rows);
  matrix.forEach((row, r) =>
    row.forEach((value, c) => {
      const share = Math.min(1, value / scale);
      const first = 4 * (r * columns + c);
      for (let i = 0; i < 3; i += 1) image.data[first + i] = low[i] + share * (high[i] - low[i]);
      image.data[first + 3] = 255;
    }),
  );
  context.putImageData(image, 0, 0);
}
