/**
 * Step 2: two weights on a lattice. The ellipse of L_recon, the circle of L_sar, the dot that each λ selects, and what
 * the column solver finds; everything is solved again while the weights or the tokens are dragged.
 * @module learn/lattice
 */

import { whole } from "../base/address.js";
import { nearest } from "../base/address_bar.js";
import { number, significant } from "../base/format.js";
import { label, mark, path, ROLES, s, segment } from "../charts/svg.js";
import { between, oneFrom } from "./address.js";
import { choices, slider } from "./controls.js";
import { driftWeights, everyPair, factorise, regularisedGram, solveColumns, statisticsOf, winners } from "./solver.js";

export const start = { x: -0.44, y: 0.06, tokens: "-1.32,0.9;0.99,-0.95;0.56,-0.46", lambda: 0 };

const GRID = { bits: 3, groupSize: null, kind: "asymmetric" };
const OWN = { scale: 1, zeroPoint: 4 }; // levels −4 to 3
const LOW = -4;
const HIGH = 3;
const REACH = 1.8; // of the tokens' own axes
const LAMS = [0, ...Array.from({ length: 49 }, (_, i) => Number((10 ** (-4 + i / 8)).toPrecision(2)))];
const MOST = 5; // jumps that one can choose, the last meaning “or more”

export const state = {
  x: between("first weight", LOW + 0.5, HIGH - 0.5),
  y: between("second weight", LOW + 0.5, HIGH - 0.5),
  tokens: {
    title: "tokens",
    read: (text) => (tokensOf(text) ? text : undefined),
    wants: `three pairs of numbers from −${REACH} to ${REACH}, as “1,0;0,1;1,1”`,
  },
  guess: whole("guess", 0, MOST),
  lambda: oneFrom("λ", LAMS),
};

const clip = (value, low, high) => Math.max(low, Math.min(high, value));
const two = (value) => Math.round(value * 100) / 100;

/** The tokens of the address, “x,y;x,y;x,y”, or null for anything else. */
function tokensOf(text) {
  const found = String(text)
    .split(";")
    .map((pair) => pair.split(",").map((one) => (one.trim() ? Number(one) : NaN)));
  return found.length === 3 &&
    found.every((pair) => pair.length === 2 && pair.every((value) => Math.abs(value) <= REACH))
    ? found
    : null;
}

/** The tokens of a text; without them those of the start. */
export const readTokens = (text) => tokensOf(text) ?? tokensOf(start.tokens);

/** Points of the set where (p − w)ᵀ A (p − w) = level, for a symmetric 2 × 2 matrix that is positive definite. */
export function contour([[a, b], [, c]], centre, level, count = 120) {
  const middle = (a + c) / 2;
  const apart = Math.hypot((a - c) / 2, b);
  const turn = 0.5 * Math.atan2(2 * b, a - c);
  const [long, short] = [Math.sqrt(level / (middle + apart)), Math.sqrt(level / Math.max(middle - apart, 1e-9))];
  return Array.from({ length: count + 1 }, (_, i) => {
    const angle = (2 * Math.PI * i) / count;
    const [u, v] = [long * Math.cos(angle), short * Math.sin(angle)];
    return [centre[0] + u * Math.cos(turn) - v * Math.sin(turn), centre[1] + u * Math.sin(turn) + v * Math.cos(turn)];
  });
}

export function create(stage) {
  let scale = null;
  let inset = null;
  let scene;
  const options = Array.from({ length: MOST + 1 }, (_, i) => [i, i === MOST ? `${i} or more` : String(i)]);
  const guess = choices({
    control: "guess",
    label: "Changes",
    options,
    change: (value) => stage.set(stage.shown ? {} : { guess: value }),
  });
  stage.part("ask").append(guess.element);
  const lambda = slider({
    control: "lambda",
    sign: "λ",
    label: "λ, weight of the drift penalty",
    names: LAMS.map(lambdaText),
    change: (position) => stage.set({ lambda: LAMS[position] }),
  });
  stage.part("controls").append(lambda.element);
  const board = stage.board((size) => scene(size));
  const weights = () => [clip(stage.state.x, LOW, HIGH), clip(stage.state.y, LOW, HIGH)];
  const cross = board.handle({
    control: "weights",
    label: "The two float weights",
    glyph: [
      path(
        [
          [-8, -8],
          [8, 8],
        ],
        { stroke: "var(--ink)", "stroke-width": 3.5 },
      ),
      path(
        [
          [-8, 8],
          [8, -8],
        ],
        { stroke: "var(--ink)", "stroke-width": 3.5 },
      ),
    ],
    drag: (px, py) =>
      stage.set({
        x: two(clip(scale.toX(px), LOW + 0.5, HIGH - 0.5)),
        y: two(clip(scale.toY(py), LOW + 0.5, HIGH - 0.5)),
      }),
    step: (dx, dy) =>
      stage.set({
        x: two(clip(stage.state.x + 0.05 * dx, LOW + 0.5, HIGH - 0.5)),
        y: two(clip(stage.state.y + 0.05 * dy, LOW + 0.5, HIGH - 0.5)),
      }),
  });
  const moveToken = (which, pair) => {
    const all = readTokens(stage.state.tokens);
    all[which] = pair.map((value) => two(clip(value, -REACH, REACH)));
    stage.set({ tokens: all.map((one) => one.join(",")).join(";") });
  };
  const tokens = [0, 1, 2].map((which) =>
    board.handle({
      control: `token-${which + 1}`,
      label: `Calibration token ${which + 1}`,
      glyph: [s("circle", { r: 6, fill: ROLES.recon.color, stroke: "var(--surface)", "stroke-width": 2 })],
      drag: (px, py) => moveToken(which, [inset.toX(px), inset.toY(py)]),
      step: (dx, dy) =>
        moveToken(
          which,
          readTokens(stage.state.tokens)[which].map((value, i) => value + 0.05 * [dx, dy][i]),
        ),
    }),
  );

  /** The toy layer solved: all pairs, the winners over λ, the one at the shown λ, and the column solver's. */
  function facts() {
    const weight = weights();
    const { gram } = statisticsOf(readTokens(stage.state.tokens));
    const candidates = everyPair(weight, gram, OWN, GRID);
    const lam = stage.shown ? LAMS[position()] : 0;
    const route = winners(candidates);
    const best = route.filter((one) => one.from <= lam).at(-1).candidate;
    const regularised = regularisedGram(gram, driftWeights(gram), lam);
    const solved = solveColumns([weight], factorise(regularised).unitUpper, GRID, [[OWN]]);
    return { weight, gram, regularised, candidates, lam, route, best, found: solved.dequantized[0] };
  }

  const position = () => nearest(LAMS, stage.state.lambda);

  scene = ({ width, height }) => {
    const found = facts();
    const narrow = width < 560;
    const side = narrow ? 108 : 150;
    const area = narrow
      ? { left: 44, top: 8, size: Math.min(width - 60, height - side - 88) }
      : { left: 56, top: 8, size: Math.min(height - 60, width - side - 120) };
    const unit = area.size / (HIGH - LOW + 1);
    const toX = (px) => (px - area.left) / unit + LOW - 0.5;
    const toY = (py) => HIGH + 0.5 - (py - area.top) / unit;
    const at = ([x, y]) => [area.left + (x - LOW + 0.5) * unit, area.top + (HIGH + 0.5 - y) * unit];
    scale = { toX, toY };
    const box = narrow ? { left: width - side - 12, top: height - side - 8 } : { left: width - side - 40, top: 44 };
    const centre = [box.left + side / 2, box.top + side / 2];
    const reach = side / 2 / (REACH + 0.2);
    inset = { toX: (px) => (px - centre[0]) / reach, toY: (py) => (centre[1] - py) / reach };
    const pairs = readTokens(stage.state.tokens);
    cross.at(
      ...at(found.weight),
      two(found.weight[0]),
      `weights ${number(found.weight[0], 2)} and ${number(found.weight[1], 2)}`,
    );
    pairs.forEach((pair, i) =>
      tokens[i].at(
        centre[0] + pair[0] * reach,
        centre[1] - pair[1] * reach,
        pair[0],
        `token ${number(pair[0], 2)} and ${number(pair[1], 2)}`,
      ),
    );
    const close = (points) => points.map(at);
    const mean = driftWeights(found.gram)[0];
    const circle = [
      [mean, 0],
      [0, mean],
    ];
    const { best } = found;
    return [
      s(
        "clipPath",
        { id: "lattice-area" },
        s("rect", { x: area.left, y: area.top, width: area.size, height: area.size }),
      ),
      s(
        "g",
        { "clip-path": "url(#lattice-area)" },
        found.lam > 0
          ? path(close(contour(found.regularised, found.weight, best.recon + found.lam * best.sar)), {
              fill: "var(--accent-soft)",
              stroke: "none",
            })
          : null,
        [9, 3.2].map((more) =>
          path(close(contour(found.gram, found.weight, Math.max(best.recon, 1e-6) * more)), {
            stroke: ROLES.recon.color,
            "stroke-width": 1.25,
            opacity: 0.35,
          }),
        ),
        path(close(contour(found.gram, found.weight, Math.max(best.recon, 1e-6))), {
          stroke: ROLES.recon.color,
          "stroke-width": 2,
        }),
        path(close(contour(circle, found.weight, best.sar)), {
          stroke: ROLES.drift.color,
          "stroke-width": 2,
          "stroke-dasharray": ROLES.drift.dash,
        }),
      ),
      found.candidates.map((one) => mark("circle", ...at(one.levels), narrow ? 2.5 : 3.5, { fill: "var(--ink-3)" })),
      stage.shown
        ? path(
            found.route.map((one) => at(one.candidate.levels)),
            { stroke: "var(--ink-2)", "stroke-width": 1.5 },
          )
        : null,
      stage.shown ? names(found.route, at, narrow) : null,
      stage.shown &&
        s("circle", {
          cx: at(found.found)[0],
          cy: at(found.found)[1],
          r: 13,
          fill: "none",
          stroke: "var(--series-4)",
          "stroke-width": 2,
        }),
      mark("circle", ...at(best.levels), 8, { fill: "var(--ink)", stroke: "var(--surface)", "stroke-width": 2 }),
      Array.from({ length: HIGH - LOW + 1 }, (_, i) => LOW + i).map((value) => [
        label(at([value, LOW])[0], area.top + area.size + 14, number(value, 0), { at: "middle" }),
        label(area.left - 12, at([LOW, value])[1], number(value, 0), { at: "middle" }),
      ]),
      label(area.left + area.size / 2, area.top + area.size + 34, "first weight", { at: "middle", fill: "var(--ink)" }),
      turnedLabel(area.left - 28, area.top + area.size / 2, "second weight"),
      tokenBox(box, side, centre, pairs, reach, narrow),
      narrow
        ? legend(16, box.top + 8, stage.shown, found.lam > 0)
        : legend(width - side - 40, box.top + side + 40, stage.shown, found.lam > 0),
    ];
  };

  return {
    draw() {
      guess.at(stage.state.guess ?? "");
      lambda.at(position());
    },
    answer() {
      const { route, lam, best, found } = facts();
      const jumps = route.length - 1;
      const { guess: said } = stage.state;
      const right = said === jumps || (said === MOST && jumps >= MOST);
      const own =
        said === undefined
          ? "It"
          : right
            ? `You said ${options[said][1]}, and so it is: it`
            : `You said ${options[said]?.[1] ?? said}; it`;
      const solver = found.every((value, i) => value === best.levels[i])
        ? "finds it too"
        : `stops at (${found.map((value) => number(value, 0)).join(", ")})`;
      return [
        `${own} changes ${jumps} ${jumps === 1 ? "time" : "times"}. At λ = ${lambdaText(lam)} the best dot is (${best.levels.map((value) => number(value, 0)).join(", ")}); `,
        `the column solver, which takes one weight after the other, ${solver}. Drag the cross or the tokens.`,
      ];
    },
    aria() {
      const { weight, best, lam } = facts();
      return `A lattice of pairs of quantized weights around the float pair ${weight.map((value) => number(value, 2)).join(", ")}. At λ = ${lambdaText(lam)} the pair ${best.levels.map((value) => number(value, 0)).join(", ")} is best.`;
    },
    table() {
      const columns = [
        { key: "from", title: "From λ", kind: "significant" },
        { key: "first", title: "First weight", kind: "plain" },
        { key: "second", title: "Second weight", kind: "plain" },
        { key: "recon", title: "L_recon", kind: "significant" },
        { key: "sar", title: "L_sar", kind: "significant" },
      ];
      const shown = stage.shown ? facts().route : facts().route.slice(0, 1);
      const rows = shown.map(({ from, candidate }) => ({
        from,
        first: candidate.levels[0],
        second: candidate.levels[1],
        recon: candidate.recon,
        sar: candidate.sar,
      }));
      return { columns, rows };
    },
  };
}

const lambdaText = (lam) =>
  lam === 0 ? "0" : lam < 0.001 ? lam.toFixed(5) : number(lam, lam < 0.1 ? 3 : lam < 1 ? 2 : 1);

/** A word along an axis that goes up. */
function turnedLabel(x, y, text) {
  const node = label(x, y, text, { at: "middle", fill: "var(--ink)" });
  node.setAttribute("transform", `rotate(-90 ${x} ${y})`);
  return node;
}

/** Each winner with the λ from which it wins, on the side that is free. */
function names(route, at, narrow) {
  return route.map(({ from, candidate }, i) => {
    const [x, y] = at(candidate.levels);
    const before = route[i - 1] ?? route[i + 1];
    const left = before && at(before.candidate.levels)[0] > x;
    const text = `λ ≥ ${from === 0 ? "0" : significant(from)}`;
    return [
      mark("circle", x, y, 5, { fill: "var(--ink-2)" }),
      label(x + (left ? -20 : 20), y + (narrow ? -12 : 0), text, {
        at: left ? "end" : "start",
        fill: "var(--ink)",
        halo: true,
      }),
    ];
  });
}

function tokenBox({ left, top }, side, centre, pairs, reach, narrow) {
  return [
    s("rect", { x: left, y: top, width: side, height: side, rx: 8, fill: "var(--ground)" }),
    segment(left + 6, centre[1], left + side - 6, centre[1]),
    segment(centre[0], top + 6, centre[0], top + side - 6),
    pairs.map((pair) =>
      segment(centre[0], centre[1], centre[0] + pair[0] * reach, centre[1] - pair[1] * reach, {
        stroke: ROLES.recon.color,
        opacity: 0.5,
        "stroke-width": 1.5,
      }),
    ),
    label(left, top - 14, narrow ? "Tokens" : "Calibration tokens", { fill: "var(--ink)", weight: 600 }),
  ];
}

/** What the signs mean, in the order in which they appear. */
function legend(x, y, shown, penalised) {
  const line = (role, text, i) => [
    segment(x, y + 24 * i, x + 26, y + 24 * i, {
      stroke: role.color,
      "stroke-width": 2,
      "stroke-dasharray": role.dash,
    }),
    label(x + 36, y + 24 * i, text, { fill: role.ink }),
  ];
  const dot = (node, text, i) => [node, label(x + 36, y + 24 * i, text)];
  return [
    line(ROLES.recon, "equal error", 0),
    line(ROLES.drift, "equal drift", 1),
    dot(mark("circle", x + 13, y + 48, 7, { fill: "var(--ink)" }), "best of all dots", 2),
    shown
      ? dot(
          s("circle", { cx: x + 13, cy: y + 72, r: 9, fill: "none", stroke: "var(--series-4)", "stroke-width": 2 }),
          "column solver",
          3,
        )
      : null,
    shown && penalised
      ? dot(
          s("rect", { x, y: y + 88, width: 26, height: 16, rx: 8, fill: "var(--accent-soft)" }),
          "no better dot inside",
          4,
        )
      : null,
  ];
}
