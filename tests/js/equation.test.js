/** The objective in words, what each mark of a figure shows of it, and the term that stands out. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { marksOf, termsOf } from "../../assets/js/charts/terms.js";
import { initial, reduce } from "../../assets/js/explorer/state.js";
import { spoken } from "../../assets/js/explorer/typeset.js";

test("the objective is said as it is set", () => {
  const said = (aim, weighing) => spoken({ aim, weighing, lam: null });
  assert.match(said("outputs", "one"), /times X, plus λ times .* times S; S is the identity\.$/);
  assert.match(said("float outputs", "gamma"), /of the float model, plus .* power of γ/);
  assert.equal(said("weights", null), "Ŵ is chosen to minimise the squared norm of Ŵ minus W.");
});

const figure = {
  data: [
    { type: "scatter", line: { color: "var(--recon)" }, marker: { color: "var(--recon)" } },
    { type: "scatter", line: { color: "var(--held-out-faint)" } },
    { type: "scatter", marker: { color: "var(--drift)", line: { color: "var(--surface)" } } },
    { type: "scatter", line: { color: "var(--ink)" } },
    {
      type: "heatmap",
      colorscale: [
        [0, "var(--drift)"],
        [1, "var(--recon)"],
      ],
    },
  ],
  layout: {
    annotations: [
      { text: "Perplexity" },
      { text: "", font: { color: "var(--ink-2)" } },
      { font: { color: "var(--drift-ink)" } },
    ],
  },
  bindings: [
    {
      path: "layout.annotations.0.text",
      over: ["gamma", "lambda"],
      values: [['<span style="color:var(--quality-ink)">78</span>']],
    },
    { path: "data.0.y", over: ["gamma"], values: [[1, 2]] },
    { path: "data.4.z", array: "surface" },
  ],
};

test("a mark belongs to the term whose colour it has; a map has the colours of its values", () => {
  const { traces, annotations, quantities } = marksOf(figure);
  assert.deepEqual(traces, ["recon", "recon", "drift", null, null]);
  assert.deepEqual(annotations, ["quality", null, "drift"]);
  assert.deepEqual(quantities, ["recon", "held_out", "drift", null, null]); // what the sentence points at
  assert.deepEqual(termsOf(figure), ["recon", "drift"]);
  assert.deepEqual(termsOf({ data: figure.data.slice(3), layout: {}, bindings: [] }), []);
});

test("one term stands out at a time", () => {
  const lit = reduce(initial(), { type: "lit", term: "recon" });
  assert.equal(lit.lit, "recon");
  assert.equal(reduce(lit, { type: "lit", term: "recon" }), lit);
  assert.equal(reduce(lit, { type: "lit", term: null }).lit, null);
});
