/**
 * Step 7: the paper's figure 1(b) and its perplexities at 2 bits, as published, beside the embedded model's own numbers.
 * @module learn/paper
 */

import { nearest } from "../base/address_bar.js";
import { fill, h } from "../base/dom.js";
import { format, number, percent, plain } from "../base/format.js";
import { afterGuess, axis, curve, endLabels, frame, guessGlyph, key, panel, spread, upright } from "../charts/chart.js";
import { ROLES, segment } from "../charts/svg.js";
import { oneFromStudy } from "./address.js";
import { bestOf, column, viewOf, whileLoading } from "./shipped_study.js";

export const state = { guess: oneFromStudy("guess") };
export const start = {};

const FLOAT = { ...ROLES.grey, shape: null };
const IDENTITY = {
  ...ROLES.quality,
  color: "var(--series-1)",
  ink: "var(--series-1-ink)",
  shape: "square",
  dash: "6 4",
};

export function create(stage) {
  const views = {};
  let place = null;
  let scene;
  const { figure, perplexity } = stage.published;
  const { id, bits } = stage.study;
  const names = figure.lams.map(plain);
  const board = stage.board((size) => scene(size));
  const guess = board.handle({
    control: "guess",
    label: "Your guess of the λ with the highest published accuracy",
    glyph: guessGlyph(),
    drag: (x) => stage.set({ guess: figure.lams[place.position(x)] }),
    step: (dx) => stage.set({ guess: figure.lams[Math.max(0, Math.min(figure.lams.length - 1, at() + dx))] }),
  });
  const at = () => nearest(figure.lams, stage.state.guess) ?? 0;
  stage.values({ guess: figure.lams });

  whileLoading(stage, async () => {
    [views.identity, views.saliency] = await Promise.all(
      ["identity", "saliency"].map((name) => viewOf(id, { method: stage.study[name], bits })),
    );
  });

  scene = ({ width, height }) => {
    const both = [figure.identity.average, figure.saliency.average];
    const beside = width > 640; // else one under the other, with no room at the curves' ends
    const boxes = beside
      ? [
          { left: 56, right: width / 2 - 78, top: 60, bottom: height - 68 },
          { left: width / 2 + 48, right: width - 84, top: 60, bottom: height - 68 },
        ]
      : [
          { left: 52, right: width - 24, top: 58, bottom: height / 2 - 68 },
          { left: 52, right: width - 24, top: height / 2 + 62, bottom: height - 40 },
        ];
    place = panel(boxes[0], figure.lams.length, spread([...both.flat(), figure.float]));
    const own = at();
    guess.at(place.x(own), place.bottom + 44, figure.lams[own], `λ = ${names[own]}`);
    guess.still(stage.shown);
    guess.show(stage.hasGuess);
    const only = (values) => values.map((value, i) => (i === 0 ? value : null));
    return [
      frame(place, `Accuracy, ${figure.model}, ${figure.bits} bits, published`, (value) => percent(value / 100), {
        lines: beside ? 0 : 1,
      }),
      axis(place, names),
      level(place, figure.float),
      stage.hasGuess ? upright(place, own, { stroke: "var(--series-4)", dash: "4 4" }) : null,
      curve(place, stage.shown ? both[0] : only(both[0]), IDENTITY),
      curve(place, stage.shown ? both[1] : only(both[1]), ROLES.quality),
      named(place, stage.shown ? both.map((values) => values.at(-1)) : [], figure.float, beside),
      stage.shown ? views.identity && ours(boxes[1], beside) : afterGuess(boxes[1]),
    ];
  };

  /** The float model's own accuracy. */
  const level = (at, value) =>
    segment(at.left, at.y(value), at.right, at.y(value), { stroke: FLOAT.color, "stroke-dasharray": FLOAT.dash });

  /** The names of the curves, at their ends where there is room for them. */
  function named(at, [identity, saliency], float, beside) {
    const curves = [
      { role: ROLES.quality, text: "saliency", value: saliency },
      { role: IDENTITY, text: "identity", value: identity },
      { role: FLOAT, text: "float", value: float },
    ].filter(({ value }) => value !== undefined);
    return beside ? endLabels(at, curves) : key(at, curves);
  }

  /** Our γ nearest to the published one. */
  const ownGamma = () => nearest(views.saliency.gammas, figure.gamma) ?? 0;

  function ours(box, beside) {
    const { identity, saliency } = views;
    const pairs = [
      [identity, 0],
      [saliency, ownGamma()],
    ].map(([view, gamma]) => ["accuracy", "accuracy_error"].map((key) => column(view, key, gamma)));
    const reach = pairs.flatMap(([values, errors]) =>
      values.flatMap((value, i) => [value - (errors[i] ?? 0), value + (errors[i] ?? 0)]),
    );
    const float = saliency.study.model.accuracy;
    const panelOf = panel(box, identity.lams.length, spread([...reach, float]));
    const { name } = identity.study.model;
    return [
      frame(panelOf, `Accuracy, ${name}, ${bits} bits, ours`, (value) => percent(value), { lines: beside ? 0 : 1 }),
      axis(panelOf, identity.lam_texts),
      level(panelOf, float),
      curve(panelOf, pairs[0][0], IDENTITY, { errors: pairs[0][1] }),
      curve(panelOf, pairs[1][0], ROLES.quality, { errors: pairs[1][1] }),
      named(
        panelOf,
        pairs.map(([values]) => values.at(-1)),
        float,
        beside,
      ),
    ];
  }

  /** Perplexities at 2 bits: the published ones, and ours at the λ that is best for each. */
  function table() {
    const mine = { Float: views.identity?.study.model.perplexity };
    if (views.identity) {
      const one = views.identity.table.rows[0];
      mine.GPTQ = one.perplexity - one.perplexity_difference;
      for (const [row, name] of [
        ["SARQC-GBS (identity)", "identity"],
        ["SARQC-GBS (saliency)", "saliency"],
      ]) {
        const all = views[name].gammas.flatMap((_, gamma) => column(views[name], "perplexity", gamma));
        mine[row] = all[bestOf(all)];
      }
    }
    const columns = [
      { key: "method", title: "Perplexity, 2 bits", kind: "text" },
      ...perplexity.models.map((model) => ({ key: model, title: `${model}, published`, kind: "perplexity" })),
      { key: "ours", title: "Ours", kind: "perplexity" },
    ];
    const rows = perplexity.rows.map(({ method, values }) => ({
      method,
      ...Object.fromEntries(perplexity.models.map((model, i) => [model, values[i]])),
      ours: mine[method],
    }));
    return { columns, rows };
  }

  /** What a small task says of the float model's own accuracy: points above it are no wonder. */
  function doubt() {
    const { accuracy_standard_error: error } = views.identity.study.model;
    return error
      ? ` The task is small: the float model’s own accuracy is uncertain by ± ${number(100 * error, 0)} points, so a point above it proves nothing.`
      : "";
  }

  return {
    draw() {
      if (!stage.shown || !views.identity) return;
      const { columns, rows } = table();
      fill(
        stage.part("extra"),
        h(
          "div",
          { class: "table-scroll", tabindex: 0, role: "region", "aria-label": "Published perplexities beside ours" },
          h(
            "table",
            { class: "numbers paper-table", "data-testid": "published" },
            h(
              "thead",
              {},
              h(
                "tr",
                {},
                columns.map((one) => h("th", { scope: "col" }, one.title)),
              ),
            ),
            h(
              "tbody",
              {},
              rows.map((row) =>
                h(
                  "tr",
                  {},
                  columns.map((one, i) =>
                    i ? h("td", {}, format(row[one.key], one.kind)) : h("th", { scope: "row" }, row[one.key]),
                  ),
                ),
              ),
            ),
          ),
        ),
        h(
          "p",
          { class: "paper-note" },
          `Published figures are from ${perplexity.source}, and figure 1(b), the mean of eight tasks. Ours: ${views.identity.study.model.name}, the best λ and γ of each; bars are standard errors of the difference to GPTQ over ${views.identity.line.draws.length} draws.${doubt()}`,
        ),
      );
    },
    answer() {
      const best = bestOf(figure.saliency.average, -1);
      const { guess: own } = stage.state;
      const said =
        own === undefined
          ? `It is highest at λ = ${names[best]}`
          : at() === best
            ? `You said ${names[best]}, and there it is`
            : `You said ${names[at()]}; it is highest at ${names[best]}`;
      const gain = figure.saliency.average[best] - figure.saliency.average[0];
      const pieces = [
        `${said}, with saliency: `,
        { role: "quality", text: `${number(figure.saliency.average[best], 1)} %` },
        `, ${number(gain, 1)} points above λ = 0. `,
      ];
      if (!views.saliency) return pieces;
      const [values, difference, error] = ["", "_difference", "_error"].map((end) =>
        column(views.saliency, `accuracy${end}`, ownGamma()),
      );
      const mine = bestOf(values, -1);
      return [
        ...pieces,
        `Ours, with saliency too, is highest at λ = ${views.saliency.lam_texts[mine]}, ${format(difference[mine], "points")} ± ${format(error[mine], "points")} points against GPTQ.`,
      ];
    },
    aria() {
      const best = bestOf(figure.saliency.average, -1);
      const text = `Published accuracy of ${figure.model} at ${figure.bits} bits over λ`;
      return stage.shown
        ? `${text}, highest at λ = ${names[best]}, beside the accuracy of the embedded model.`
        : `${text}: only λ = 0 is shown.`;
    },
    table: () => (stage.shown ? shownNumbers() : { columns: [{ key: "lambda", title: "λ", kind: "plain" }], rows: [] }),
  };

  function shownNumbers() {
    const columns = [
      { key: "source", title: "From", kind: "text" },
      { key: "lambda", title: "λ", kind: "plain" },
      { key: "identity", title: "Accuracy, identity", kind: "share" },
      { key: "saliency", title: "Accuracy, saliency", kind: "share" },
    ];
    const rows = (source, lams, identity, saliency) =>
      lams.map((lambda, i) => ({ source, lambda, identity: identity[i], saliency: saliency[i] }));
    const [identity, saliency] = [figure.identity.average, figure.saliency.average].map((values) =>
      values.map((value) => value / 100),
    );
    const published = rows(`${figure.model}, published`, figure.lams, identity, saliency);
    if (!views.identity) return { columns, rows: published };
    const { lams, study } = views.identity;
    return {
      columns,
      rows: [
        ...published,
        ...rows(
          `${study.model.name}, ours`,
          lams,
          column(views.identity, "accuracy"),
          column(views.saliency, "accuracy", ownGamma()),
        ),
      ],
    };
  }
}
