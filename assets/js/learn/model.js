/**
 * Step 6: the whole model over λ, with the band of λ that can't be told from the best.
 * @module learn/model
 */

import { oneOf } from "../base/address.js";
import { nearest } from "../base/address_bar.js";
import { format, number } from "../base/format.js";
import { axis, curve, frame, guessGlyph, panel, spread, upright } from "../charts/chart.js";
import { label, ROLES, s, segment } from "../charts/svg.js";
import { oneFromStudy } from "./address.js";
import { choices } from "./controls.js";
import { bestOf, column, viewOf, whileLoading } from "./shipped_study.js";

export const state = { guess: oneFromStudy("guess"), saliency: oneOf("penalty", ["identity", "saliency"]) };
export const start = { saliency: "identity" };

export function create(stage) {
  const views = {};
  let place = null;
  let scene = () => [];
  const { id, bits } = stage.study;
  const kind = () => stage.state.saliency;
  const shownView = () => views[kind()];
  const saliency = choices({
    control: "saliency",
    label: "Penalty",
    options: [
      ["identity", "identity"],
      ["saliency", "saliency"],
    ],
    change: (value) => stage.set({ saliency: value }),
  });
  stage.part("controls").append(saliency.element);
  const board = stage.board((size) => scene(size));
  const guess = board.handle({
    control: "guess",
    label: "Your guess of the best λ",
    glyph: guessGlyph(),
    drag: (x) => place && stage.set({ guess: shownView().lams[place.position(x)] }),
    step: (dx) => {
      const { lams } = shownView() ?? { lams: [] };
      if (lams.length)
        stage.set({
          guess: lams[Math.max(0, Math.min(lams.length - 1, (nearest(lams, stage.state.guess) ?? 0) + dx))],
        });
    },
  });
  guess.show(false);

  whileLoading(stage, async () => {
    const found = await Promise.all(
      ["identity", "saliency"].map((name) => viewOf(id, { method: stage.study[name], bits })),
    );
    [views.identity, views.saliency] = found;
    stage.values({ guess: views.identity.lams });
    guess.show(true);
  });

  scene = ({ width, height }) => {
    const view = shownView();
    if (!view) return [];
    const values = column(view, "perplexity");
    const errors = column(view, "perplexity_error");
    const all = Object.values(views).flatMap((one) => column(one, "perplexity"));
    place = panel(
      { left: 56, right: width - 32, top: 60, bottom: height - 64 },
      view.lams.length,
      spread(all, { air: 0.12 }),
    );
    const own = nearest(view.lams, stage.state.guess) ?? 0;
    guess.at(place.x(own), place.bottom + 44, view.lams[own], `λ = ${view.lam_texts[own]}`);
    guess.still(stage.shown);
    guess.show(stage.hasGuess);
    const best = bestOf(values);
    return [
      stage.shown ? bands(place, view.band[0]) : null,
      frame(
        place,
        `Perplexity on unseen text${view.gamma_texts[0] ? `, γ = ${view.gamma_texts[0]}` : ""}`,
        (value) => number(value, 0),
        { lines: 1 },
      ),
      stage.shown ? label(place.left - 6, place.top - 14, "bars: standard error of the difference to GPTQ") : null,
      axis(place, view.lam_texts),
      stage.hasGuess ? upright(place, own, { stroke: "var(--series-4)", dash: "4 4" }) : null,
      stage.shown
        ? [
            curve(place, values, ROLES.quality, { errors, size: 5 }),
            label(
              place.x(best),
              place.y(values[best] - (errors[best] ?? 0)) + 16,
              `${format(values[best], "perplexity")} at λ = ${view.lam_texts[best]}`,
              { at: "middle", fill: ROLES.quality.ink, weight: 600, halo: true },
            ),
          ]
        : first(place, view, values),
    ];
  };

  /** Before the answer only the ends are shown: no penalty, and the largest. */
  function first(at, view, values) {
    const ends = [0, view.lams.length - 1].map((i) => values.map((value, k) => (k === i ? value : null)));
    return ends.map((one) => curve(at, one, ROLES.quality, { size: 6 }));
  }

  return {
    draw() {
      saliency.at(kind());
    },
    answer() {
      const view = shownView();
      if (!view) return [];
      const values = column(view, "perplexity");
      const best = bestOf(values);
      const own = nearest(view.lams, stage.state.guess) ?? 0;
      const band = view.lams.map((_, i) => i).filter((i) => view.band[0][i]);
      const [low, high] = [view.lam_texts[band[0]], view.lam_texts[band.at(-1)]];
      const inside = view.band[0][own];
      const said =
        stage.state.guess === undefined
          ? ""
          : `You said ${view.lam_texts[own]}, which is ${inside ? "as good as the best" : "outside the band"}. `;
      const difference = column(view, "perplexity_difference")[best];
      const error = column(view, "perplexity_error")[best];
      return [
        said,
        { role: "quality", text: `Every λ from ${low} to ${high}` },
        ` is as good, as far as ${view.line.draws.length} draws can tell. The best is ${number(Math.abs(difference), 1)} ± ${number(error, 1)} ${difference < 0 ? "better" : "worse"} than GPTQ, which is identity at λ = 0.01.`,
      ];
    },
    aria() {
      const view = shownView();
      if (!view) return "The study is being fetched.";
      const values = column(view, "perplexity");
      if (!stage.shown)
        return `Perplexity on unseen text at λ = ${view.lam_texts[0]}: ${format(values[0], "perplexity")}, at λ = ${view.lam_texts.at(-1)}: ${format(values.at(-1), "perplexity")}.`;
      return `Perplexity on unseen text over λ, lowest at λ = ${view.lam_texts[bestOf(values)]} with ${format(values[bestOf(values)], "perplexity")}.`;
    },
    table() {
      const view = shownView();
      const keys = ["lambda", "gamma", "perplexity", "perplexity_difference", "perplexity_error", "sweet_spot"];
      const columns = view ? view.table.columns.filter((one) => keys.includes(one.key)) : [];
      const rows = (view?.table.rows ?? []).filter(
        (row) => stage.shown || row.at[1] === 0 || row.at[1] === view.lams.length - 1,
      );
      return {
        columns: stage.shown ? columns : columns.filter((one) => ["lambda", "gamma", "perplexity"].includes(one.key)),
        rows,
      };
    },
  };
}

/** The band of λ as stretches behind the curve, each reaching half way to its neighbours. */
function bands(at, band) {
  const half = (at.x(1) - at.x(0)) / 2;
  const first = band.indexOf(true);
  const last = band.lastIndexOf(true);
  const name =
    first < 0
      ? null
      : label((at.x(first) + at.x(last)) / 2, at.top + 14, "as good as the best", {
          at: "middle",
          fill: ROLES.quality.ink,
        });
  return [
    band.map((inside, i) => {
      if (!inside) return null;
      const x = at.x(i) - half;
      return [
        s("rect", { x, y: at.top, width: 2 * half, height: at.bottom - at.top, fill: "var(--band)" }),
        segment(x, at.bottom, x + 2 * half, at.bottom, { stroke: "var(--band-strong)", "stroke-width": 4 }),
      ];
    }),
    name,
  ];
}
