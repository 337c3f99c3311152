/**
 * Step 3: a toy layer calibrated on 8, 32 or 128 tokens, drawn again and again: the error on the tokens that the solver
 * saw against that on tokens it did not see.
 * @module learn/tokens
 */

import { whole } from "../base/address.js";
import { nearest } from "../base/address_bar.js";
import { percent, plain } from "../base/format.js";
import { afterGuess, axis, curve, endLabels, frame, guessGlyph, panel, spread } from "../charts/chart.js";
import { label, mark, ROLES, segment } from "../charts/svg.js";
import { between, oneFrom } from "./address.js";
import { action, choices, slider } from "./controls.js";
import { normals } from "./random.js";
import { difference, quantizeLayer, reconLoss, statisticsOf } from "./solver.js";

export const SIZES = [8, 32, 128];
export const LAMS = [0.01, 0.03, 0.1, 0.3, 1, 3];
const GRID = { bits: 2, groupSize: null, kind: "asymmetric" };
const [OUTPUTS, WIDTH, UNSEEN, KEPT] = [8, 24, 512, 30];
const TOP = 0.3; // of the guess
const RING = 0.05; // where the ring stands before there is a guess
const DRAWS = 100_000;

export const state = {
  tokens: oneFrom("tokens", SIZES),
  seed: whole("seed", 1, DRAWS),
  lambda: oneFrom("λ", LAMS),
  guess: between("guess", 0, TOP),
};
export const start = { tokens: 8, seed: 1, lambda: 0.01 };

/** The layer and its source of tokens: fixed, so that only the draw differs. */
export function toyLayer() {
  const draw = normals(11);
  const weight = Array.from({ length: OUTPUTS }, () => Array.from({ length: WIDTH }, draw));
  // A few directions carry most of the activations, as they do in language models.
  const mix = Array.from({ length: WIDTH }, (_, k) => Array.from({ length: WIDTH }, () => draw() * Math.exp(-k / 20)));
  const token = (source) => {
    const raw = mix.map(() => source());
    return mix[0].map((_, i) => raw.reduce((total, value, k) => total + value * mix[k][i], 0));
  };
  const sample = (seed, count) => {
    const source = normals(seed);
    return Array.from({ length: count }, () => token(source));
  };
  return { weight, sample, unseen: statisticsOf(sample(90_001, UNSEEN)).gram };
}

/** Relative reconstruction errors of one draw at every λ: on its own tokens and on unseen ones. */
export function errorsOf({ weight, sample, unseen }, tokens, seed) {
  const statistics = statisticsOf(sample(1000 * tokens + seed, tokens));
  const whole = [statistics.gram, unseen].map((gram) => reconLoss(weight, gram));
  const pairs = LAMS.map((lam) => {
    const delta = difference(quantizeLayer(weight, statistics, GRID, { lam }).dequantized, weight);
    return [reconLoss(delta, statistics.gram) / whole[0], reconLoss(delta, unseen) / whole[1]];
  });
  return { seed, seen: pairs.map((pair) => pair[0]), unseen: pairs.map((pair) => pair[1]) };
}

const mean = (values) => values.reduce((a, b) => a + b, 0) / values.length;

export function create(stage) {
  const layer = toyLayer();
  const draws = Object.fromEntries(SIZES.map((size) => [size, []]));
  let scene;
  let place;

  /** Draws up to the seed of the address, the newest last; made once each. */
  function upTo(seed) {
    for (const size of SIZES) {
      const last = seed;
      const first = Math.max(1, last - KEPT + 1);
      const have = new Map(draws[size].map((one) => [one.seed, one]));
      draws[size] = Array.from(
        { length: last - first + 1 },
        (_, i) => have.get(first + i) ?? errorsOf(layer, size, first + i),
      );
    }
  }

  const at = () => nearest(LAMS, stage.state.lambda);
  const size = () => stage.state.tokens;
  const ring = () => stage.state.guess ?? RING;
  const again = (count) => stage.set({ seed: Math.min(DRAWS, stage.state.seed + count) });
  const pick = choices({
    control: "tokens",
    label: "Tokens",
    options: SIZES.map((one) => [one, String(one)]),
    change: (value) => stage.set({ tokens: value }),
  });
  const lambda = slider({
    control: "lambda",
    sign: "λ",
    label: "λ, weight of the drift penalty",
    names: LAMS.map(plain),
    change: (position) => stage.set({ lambda: LAMS[position] }),
  });
  stage
    .part("controls")
    .append(
      action({ control: "draw", text: "Draw again", act: () => again(1) }),
      action({ control: "draw-ten", text: "Ten draws", act: () => again(10) }),
      pick.element,
      lambda.element,
    );
  const board = stage.board((given) => scene(given));
  const keep = (value) => Math.round(1000 * Math.max(0, Math.min(TOP, value))) / 1000;
  const guess = board.handle({
    control: "guess",
    label: "Your guess of the error on new tokens",
    glyph: guessGlyph(),
    drag: (_, y) => stage.set({ guess: keep(place.value(y)) }),
    step: (dx, dy) => stage.set({ guess: keep(ring() + 0.01 * (dx + dy)) }),
  });

  scene = ({ width, height }) => {
    upTo(stage.state.seed);
    const narrow = width < 560;
    const top = Math.max(...SIZES.flatMap((one) => draws[one].flatMap((draw) => draw.unseen)), 0.1);
    const range = stage.shown ? spread([top], { zero: true }) : [0, TOP];
    const first = narrow
      ? { left: 52, right: width - 20, top: 40, bottom: height * 0.46 }
      : { left: 60, right: width * 0.48, top: 44, bottom: height - 62 };
    const second = narrow
      ? { left: 52, right: width - 108, top: height * 0.46 + 86, bottom: height - 44 }
      : { left: width * 0.48 + 76, right: width - 104, top: 44, bottom: height - 62 };
    const left = panel(first, SIZES.length * 2, range);
    place = left;
    const spot = at();
    guess.at(left.x(1) - 8, left.y(ring()), ring(), percent(ring()));
    guess.still(stage.shown);
    guess.show(stage.hasGuess);
    return [
      frame(
        left,
        stage.shown ? "Error of each draw, by number of tokens" : "Error of the first draw",
        (value) => percent(value),
        { wanted: 5 },
      ),
      SIZES.map((one, column) => columnOf(one, column, left, spot)),
      label(
        left.left - 6,
        left.bottom + 44,
        stage.shown
          ? narrow
            ? "tokens; light: the error on new ones"
            : "tokens that the solver saw; light: the error on new ones"
          : "tokens that the solver saw",
      ),
      stage.shown ? curves(panel(second, LAMS.length, range), spot) : afterGuess(second),
    ];
  };

  function columnOf(tokens, column, left, spot) {
    if (!stage.shown && tokens !== SIZES[0]) return null;
    const shown = stage.shown ? draws[tokens] : draws[tokens].slice(-1);
    const middle = left.x(2 * column + 0.5);
    const bold = tokens === size() || !stage.shown;
    return [
      label(middle, left.bottom + 20, String(tokens), {
        at: "middle",
        fill: "var(--ink)",
        weight: bold ? 700 : 400,
        size: 14,
      }),
      ["seen", "unseen"].map((which, side) => {
        if (!stage.shown && side) return null;
        const role = side ? ROLES.heldOut : ROLES.recon;
        const x = left.x(2 * column + side) + (side ? -8 : 8);
        const average = mean(shown.map((draw) => draw[which][spot]));
        return [
          shown.map((draw, i) =>
            mark(
              "circle",
              x + 12 * Math.sin(draw.seed * 2.4),
              left.y(draw[which][spot]),
              i === shown.length - 1 ? 6 : 3.5,
              { fill: role.color, opacity: i === shown.length - 1 ? 1 : 0.45 },
            ),
          ),
          shown.length > 1
            ? segment(x - 20, left.y(average), x + 20, left.y(average), { stroke: role.ink, "stroke-width": 2.5 })
            : null,
        ];
      }),
    ];
  }

  function curves(right, spot) {
    const shown = draws[size()];
    const average = (which) => LAMS.map((_, i) => mean(shown.map((draw) => draw[which][i])));
    return [
      frame(right, `${size()} tokens, over λ`, (value) => percent(value), { wanted: 5 }),
      axis(right, LAMS.map(plain)),
      segment(right.x(spot), right.top, right.x(spot), right.bottom, { stroke: "var(--ink)" }),
      shown
        .slice(-12)
        .map((draw) => [
          curve(right, draw.unseen, ROLES.heldOut, { faint: true, width: 1, marks: false }),
          curve(right, draw.seen, ROLES.recon, { faint: true, width: 1, marks: false }),
        ]),
      curve(right, average("unseen"), ROLES.heldOut, { width: 3 }),
      curve(right, average("seen"), ROLES.recon, { width: 3 }),
      endLabels(right, [
        { value: average("unseen").at(-1), text: "new tokens", role: ROLES.heldOut },
        { value: average("seen").at(-1), text: "tokens it saw", role: ROLES.recon },
      ]),
    ];
  }

  const facts = (tokens) => ({
    seen: mean(draws[tokens].map((draw) => draw.seen[at()])),
    unseen: mean(draws[tokens].map((draw) => draw.unseen[at()])),
    count: draws[tokens].length,
  });

  return {
    draw() {
      upTo(stage.state.seed);
      pick.at(size());
      lambda.at(at());
    },
    answer() {
      const few = facts(SIZES[0]);
      const many = facts(SIZES.at(-1));
      const said = stage.state.guess === undefined ? "" : `You said ${percent(stage.state.guess)}. `;
      const draw = few.count === 1 ? "In this draw" : `Over ${few.count} draws`;
      return [
        `${said}${draw}, at λ = ${plain(LAMS[at()])}, ${SIZES[0]} tokens give `,
        { role: "recon", text: percent(few.seen, 1) },
        " on themselves and ",
        { role: "held_out", text: percent(few.unseen, 1) },
        ` on new ones; ${SIZES.at(-1)} give ${percent(many.seen, 1)} and ${percent(many.unseen, 1)}. Draw again, move λ.`,
      ];
    },
    aria() {
      const few = facts(SIZES[0]);
      const text = `Error of a toy layer on the ${SIZES[0]} tokens that it was calibrated on: ${percent(few.seen, 1)}`;
      return stage.shown ? `${text}; on new tokens ${percent(few.unseen, 1)}.` : `${text}.`;
    },
    table() {
      const columns = [
        { key: "tokens", title: "Tokens", kind: "plain" },
        { key: "draw", title: "Draw", kind: "plain" },
        { key: "lambda", title: "λ", kind: "plain" },
        { key: "seen", title: "Error, tokens it saw", kind: "share" },
        { key: "unseen", title: "Error, new tokens", kind: "share" },
      ];
      const sizes = stage.shown ? SIZES : SIZES.slice(0, 1);
      const rows = sizes.flatMap((tokens) =>
        (stage.shown ? draws[tokens] : draws[tokens].slice(-1)).map((draw) => ({
          tokens,
          draw: draw.seed,
          lambda: LAMS[at()],
          seen: draw.seen[at()],
          unseen: stage.shown ? draw.unseen[at()] : null,
        })),
      );
      return { columns, rows };
    },
  };
}
