/**
 * Step 1: one weight of a group, the levels that a few bits leave, and where it goes.
 * @module learn/weight
 */

import { number } from "../base/format.js";
import { afterGuess, frame, guessGlyph, panel } from "../charts/chart.js";
import { label, mark, path, ROLES, s, segment } from "../charts/svg.js";
import { between, oneFrom } from "./address.js";
import { choices } from "./controls.js";
import { normals } from "./random.js";
import { codeRange, gridOf, nearestCode } from "./solver.js";

const WIDTHS = [2, 3, 4];
const RANGE = [-1.15, 1.25];
const RING = -0.3; // where the ring stands before there is a guess

export const state = {
  bits: oneFrom("bits", WIDTHS),
  weight: between("weight", -0.82, 0.94),
  guess: between("guess", ...RANGE),
};
export const start = { bits: 2, weight: 0.42 };

const draw = normals(4);
// The rest of the group; its extremes are those of the grid.
const OTHERS = [-0.82, 0.94, ...Array.from({ length: 13 }, () => Math.max(-0.75, Math.min(0.85, 0.38 * draw())))];
const clip = (value) => Math.max(-0.82, Math.min(0.94, value));
const two = (value) => Math.round(value * 100) / 100;

export function create(stage) {
  let scene;
  const bits = choices({
    control: "bits",
    label: "Bits",
    options: WIDTHS.map((value) => [value, String(value)]),
    change: (value) => stage.set({ bits: value }),
  });
  stage.part("ask").append(bits.element);
  const board = stage.board((size) => scene(size));
  const place = { x: null };
  const weight = board.handle({
    control: "weight",
    label: "The weight before quantization",
    glyph: [s("circle", { r: 9, fill: "var(--ink)" })],
    drag: (x) => stage.set({ weight: two(clip(place.x.value(x))) }),
    step: (dx) => stage.set({ weight: two(clip(stage.state.weight + 0.02 * dx)) }),
  });
  const guess = board.handle({
    control: "guess",
    label: "Your guess of the level",
    glyph: guessGlyph(),
    drag: (x) => stage.set({ guess: two(Math.max(RANGE[0], Math.min(RANGE[1], place.x.value(x)))) }),
    step: (dx) => stage.set({ guess: two(Math.max(RANGE[0], Math.min(RANGE[1], ring() + 0.02 * dx))) }),
  });

  const bitsShown = () => stage.state.bits;
  const ring = () => stage.state.guess ?? RING;

  /** Everything about the shown weight at the shown width. */
  function facts() {
    const grid = { bits: bitsShown(), groupSize: null, kind: "asymmetric" };
    const all = [clip(stage.state.weight), ...OTHERS];
    const own = gridOf(all, grid);
    const [lowest, highest] = codeRange(grid);
    const levels = Array.from({ length: highest - lowest + 1 }, (_, i) => (lowest + i - own.zeroPoint) * own.scale);
    const rounded = all.map((value) => (nearestCode(value, own, [lowest, highest]) - own.zeroPoint) * own.scale);
    return { all, own, levels, rounded, code: nearestCode(all[0], own, [lowest, highest]) };
  }

  scene = ({ width, height }) => {
    const { all, own, levels, rounded } = facts();
    const [left, right] = [56, width - 32];
    const across = (value) => left + ((value - RANGE[0]) / (RANGE[1] - RANGE[0])) * (right - left);
    place.x = { value: (x) => RANGE[0] + ((x - left) / (right - left)) * (RANGE[1] - RANGE[0]) };
    const [floatY, levelY] = [height * 0.17, height * 0.47];
    weight.at(across(all[0]), floatY, all[0], `weight ${number(all[0], 2)}`);
    guess.at(across(ring()), levelY, ring(), `guess ${number(ring(), 2)}`);
    guess.still(stage.shown);
    guess.show(stage.hasGuess);
    const at = panel({ left, right, top: height * 0.68, bottom: height - 44 }, 2, [0, own.scale * 0.62]);
    const saw = Array.from({ length: 401 }, (_, i) => RANGE[0] + (i / 400) * (RANGE[1] - RANGE[0])).filter(
      (value) => value >= -0.82 && value <= 0.94,
    );
    const range = codeRange({ bits: bitsShown(), kind: "asymmetric" });
    const away = (value) => Math.abs((nearestCode(value, own, range) - own.zeroPoint) * own.scale - value);
    const names = levels.length < 9 || width > 620;
    return [
      label(left - 8, floatY - 36, "The group before quantization", { fill: "var(--ink)", weight: 600 }),
      segment(left - 8, floatY, right + 8, floatY),
      OTHERS.map((value, i) =>
        mark("circle", across(value), floatY, 5, { fill: i < 2 ? "var(--ink-2)" : "var(--ink-3)" }),
      ),
      label(left - 8, levelY + (names ? 68 : 40), `${levels.length} levels of ${bitsShown()} bits: code and value`, {
        fill: "var(--ink)",
        weight: 600,
      }),
      segment(left - 8, levelY, right + 8, levelY),
      levels.map((value, code) => [
        segment(across(value), levelY - 12, across(value), levelY + 12, { stroke: "var(--ink)", "stroke-width": 2 }),
        names ? label(across(value), levelY + 26, code.toString(2).padStart(bitsShown(), "0"), { at: "middle" }) : null,
        names ? label(across(value), levelY + 44, number(value, 2), { at: "middle", fill: "var(--ink)" }) : null,
      ]),
      stage.shown
        ? [
            OTHERS.map((value, i) =>
              segment(across(value), floatY + 8, across(rounded[i + 1]), levelY - 14, { stroke: "var(--line-2)" }),
            ),
            segment(across(all[0]), floatY + 10, across(rounded[0]), levelY - 14, {
              stroke: ROLES.drift.color,
              "stroke-width": 2.5,
            }),
            mark("square", across(rounded[0]), levelY, 7, { fill: ROLES.drift.color }),
            frame(at, "How far a weight of each value moves", (value) => number(value, 2), { wanted: 2 }),
            path(
              saw.map((value) => [across(value), at.y(away(value))]),
              { stroke: ROLES.drift.color, "stroke-width": 2 },
            ),
            segment(across(all[0]), at.y(0), across(all[0]), at.y(away(all[0])), {
              stroke: "var(--ink)",
              "stroke-dasharray": "3 3",
            }),
            mark("square", across(all[0]), at.y(away(all[0])), 6, { fill: "var(--ink)" }),
            [-1, -0.5, 0, 0.5, 1].map((value) =>
              label(across(value), at.bottom + 20, number(value, 1), { at: "middle" }),
            ),
          ]
        : [afterGuess(at, "How far it moves, once you have guessed")],
    ];
  };

  return {
    draw() {
      bits.at(bitsShown());
    },
    answer() {
      const { all, rounded, own } = facts();
      const moved = Math.abs(rounded[0] - all[0]);
      const { guess: said } = stage.state;
      const near = said !== undefined && Math.abs(said - rounded[0]) < own.scale / 2;
      const guessed =
        said === undefined
          ? "The nearest level is "
          : `You said ${number(said, 2)}${near ? ": right. The" : "; the"} nearest level is `;
      return [
        guessed,
        { role: "drift", text: number(rounded[0], 2) },
        `. The weight moves by ${number(moved, 2)}. None moves by more than half a step, ${number(own.scale / 2, 2)}. Drag the large dot, change the bits.`,
      ];
    },
    aria() {
      const { all, levels, rounded } = facts();
      const text = `A number line with ${all.length} weights from −0.82 to 0.94 and ${levels.length} levels of ${bitsShown()} bits.`;
      return stage.shown ? `${text} The weight ${number(all[0], 2)} goes to ${number(rounded[0], 2)}.` : text;
    },
    table() {
      const { all, rounded } = facts();
      const columns = [
        { key: "weight", title: "Weight", kind: "error" },
        { key: "level", title: "Its level", kind: "error" },
        { key: "moved", title: "Moves by", kind: "error" },
      ];
      const rows = all.map((value, i) =>
        stage.shown ? { weight: value, level: rounded[i], moved: rounded[i] - value } : { weight: value },
      );
      return { columns, rows };
    },
  };
}
