/** Curves drawn over the main figure. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { ROLES } from "../../assets/js/base/contract.js";
import { drawnOver, place } from "../../assets/js/explorer/overlay.js";
import { each } from "./given.js";

const names = ["0", "0.1", "1"];
const LAMS = [0, 0.1, 1];
const trace = (role, yaxis, more = {}) => ({
  mode: "lines+markers",
  name: "a curve",
  x: names,
  y: [],
  yaxis,
  line: { color: ROLES[role].color },
  marker: { color: ROLES[role].color, symbol: ROLES[role].symbol },
  ...more,
});
const figure = {
  data: [trace("recon", "y2", { mode: "lines" }), trace("quality", "y"), trace("recon", "y2"), trace("penalty", "y3")],
  layout: {
    xaxis: { range: [-0.45, 2.45] },
    yaxis: { range: [0, 9], domain: [0.7, 1] },
    yaxis2: { range: [0, 1], domain: [0.4, 0.6] },
    yaxis3: { range: [0, 1], domain: [0, 0.3] },
    annotations: [{ text: "first" }],
  },
  bindings: [{ path: "data.1.y", over: [], values: [] }],
  narrow: { "layout.margin.r": 16 },
};
const overlay = {
  lams: [0, 0.05, 0.1, 2],
  recon: [5, 0.4, 0.3, 0.2],
  heldOut: [null, null, null, null],
  sar: [0.5, null, 0.4, 0.3],
  words: "computed 21:10",
};

test("a λ lies between two ticks in proportion, as in Python, and nowhere beyond the ends", () => {
  const { position } = JSON.parse(readFileSync(new URL("../golden/rules.json", import.meta.url)));
  for (const { lams, lam, expected } of position) {
    const found = place(lam, lams);
    if (expected === null) assert.equal(found, null);
    else assert.ok(Math.abs(found - expected) < 1e-9, `${lam} on ${lams}: ${found}`);
  }
});

test("each curve lies in the panel of its quantity, in its colour, and hollow", () => {
  const made = drawnOver(figure, overlay, LAMS);
  const added = made.data.slice(figure.data.length);
  assert.deepEqual(each(added, "yaxis"), ["y2", "y2", "y3", "y3"]);
  const roles = ["recon", "recon", "penalty", "penalty"];
  assert.deepEqual(
    each(each(added, "marker"), "color"),
    each(
      roles.map((role) => ROLES[role]),
      "color",
    ),
  );
  const [line, hover, penalty] = added;
  assert.deepEqual(line.x, [0, 0.5, 1]); // λ = 2 is beyond the axis
  assert.deepEqual(line.y, [1 - 0.07, 0.4, 0.3]); // the first is off the scale: at its edge
  assert.deepEqual(line.marker.symbol, ["triangle-up-open", "circle-open", "circle-open"]);
  assert.deepEqual(hover.x, ["0", "0.1"]);
  assert.deepEqual(hover.text, ["5.00", "0.300"]);
  assert.deepEqual(penalty.x, [0, 1]); // what was not measured is left out
});

test("the figure itself stays, with its bindings where they were", () => {
  const before = structuredClone(figure);
  const made = drawnOver(figure, overlay, LAMS);
  assert.deepEqual(figure, before);
  assert.deepEqual(made.data.slice(0, figure.data.length), figure.data);
  assert.deepEqual(made.layout.annotations[0], figure.layout.annotations[0]);
  assert.match(made.layout.annotations[1].text, /computed 21:10/);
  assert.equal(made.narrow["layout.annotations.1.visible"], false);
  assert.deepEqual([made.bindings, made.narrow["layout.margin.r"]], [figure.bindings, 16]);
});

test("a figure without any of the curves stays as it is", () => {
  const bars = { data: [{ type: "bar" }], layout: {} };
  assert.equal(drawnOver(bars, overlay, LAMS), bars);
});
