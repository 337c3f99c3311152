/** What the steps of the tour say, draw and show as a table, from what is set in them: no page is needed. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { before, test } from "node:test";

const read = (name) => JSON.parse(readFileSync(new URL(`../../assets/${name}`, import.meta.url), "utf8"));
const given = { study: read("tour.json").study, published: read("published.json").results };

/** A line of three λ whose middle is best, with one γ. */
const view = (gamma) => {
  const rows = [
    { perplexity: 90, recon: 0.02, held_out: 0.2, drift: 2, accuracy: 0.6 },
    { perplexity: 70, recon: 0.03, held_out: 0.1, drift: 1, accuracy: 0.7 },
    { perplexity: 80, recon: 0.04, held_out: 0.15, drift: 0.5, accuracy: 0.65 },
  ].map((row, i) => ({
    ...row,
    lambda: [0, 0.1, 1][i],
    perplexity_difference: row.perplexity - 100,
    perplexity_error: 3,
    accuracy_difference: row.accuracy - 0.6,
    accuracy_error: 0.015,
    at: [0, i],
  }));
  const columns = Object.keys(rows[0])
    .filter((key) => key !== "at")
    .map((key) => ({ key, title: key, kind: "plain" }));
  return {
    study: { model: { name: "toy", perplexity: 60, accuracy: 0.66, accuracy_standard_error: 0.04 } },
    line: { draws: [0, 1, 2, 3, 4] },
    layers: [{ name: "a", index: 0, label: "layer a" }],
    layer: 0,
    lams: [0, 0.1, 1],
    lam_texts: ["0", "0.1", "1"],
    gammas: [gamma],
    gamma_texts: [gamma === null ? "" : String(gamma)],
    told: { perplexity: { band: [[false, true, true]] } },
    table: { columns, rows },
    arrays: {},
  };
};
const words = (pieces) => pieces.map((piece) => piece.text ?? piece).join("");

const worth = (mean, error) => ({ mean, error, clear: Math.abs(mean) > 2.8 * error });
const LADDER = {
  steps: ["lambda", "range", "order", "refine"].map((name) => ({ name, title: name })),
  alone: [worth(-3, 0.2), worth(-9, 0.5), worth(-4, 0.5), worth(-1, 0.1)],
  last: [worth(-0.5, 0.4), worth(-6, 0.5), worth(0.7, 0.1), worth(-2, 0.1)],
  words: "",
};

let modules;
before(async () => {
  globalThis.matchMedia ??= () => ({ matches: false, addEventListener() {} });
  ({ MODULES: modules } = await import("../../assets/js/learn/learn_page.js"));
});

test("the tour has a step for each in its words, and each can be opened from its start", () => {
  assert.deepEqual(
    Object.keys(modules),
    read("tour.json").steps.map(({ name }) => name),
  );
  const data = { layer: { view: view(null), surface: null }, both: { identity: view(null), saliency: view(0.5) } };
  for (const [name, module] of Object.entries(modules)) {
    const ladder = { ...view(null), ladder: LADDER };
    const fetched =
      name === "layer" ? data.layer : name === "knobs" ? ladder : ["model", "paper"].includes(name) ? data.both : null;
    const made = fetched ?? module.prepare?.(given) ?? null;
    for (const shown of [0, 1]) {
      const facts = module.facts({ ...module.start, shown }, made, given);
      assert.equal(facts.answered, shown === 1);
      assert.match(module.aria(facts), /\.$/);
      assert.doesNotMatch(module.aria(facts) + words(module.answer(facts)), /undefined|NaN|null/);
      const { columns, rows } = module.table(facts);
      if (shown) for (const row of rows) assert.ok(columns.every(({ key }) => row[key] !== undefined));
    }
  }
});

test("a step whose study is being fetched has no facts, and the last says what was published", () => {
  const { layer, model, paper } = modules;
  assert.equal(layer.facts(layer.start, null, given), null);
  assert.equal(model.facts(model.start, null, given), null);
  const { knobs } = modules;
  assert.equal(knobs.facts(knobs.start, null, given), null);
  assert.equal(knobs.facts(knobs.start, { ...view(null), ladder: null }, given), null); // a study without a ladder
  const worths = knobs.facts({ shown: 1, guess: 3 }, { ...view(null), ladder: LADDER }, given);
  assert.equal(
    words(knobs.answer(worths)),
    "You said λ = 0.1. Worth most is the range, 9.0 ± 0.5 in perplexity. λ saves 3.0 ± 0.2 alone and 0.5 ± 0.4, not " +
      "clear of 0 after all the others. After the others the order does harm.",
  );
  const facts = paper.facts({ shown: 1, guess: 0.3 }, null, given);
  assert.equal(facts.ours, null);
  assert.match(
    words(paper.answer(facts)),
    /^You said 0\.3, and there it is, with saliency: 56\.9 %, 2\.9 points above λ = 0/,
  );
});

test("a weight goes to the nearest level, by no more than half a step, and a guess is judged by that", () => {
  const { weight } = modules;
  for (const bits of [2, 3, 4]) {
    const facts = weight.facts({ ...weight.start, bits }, null, given);
    assert.equal(facts.levels.length, 2 ** bits);
    facts.weights.forEach((value, i) => {
      const nearest = facts.levels.reduce((a, b) => (Math.abs(b - value) < Math.abs(a - value) ? b : a));
      assert.ok(Math.abs(facts.rounded[i] - nearest) < 1e-12);
      assert.ok(Math.abs(facts.rounded[i] - value) <= facts.step / 2 + 1e-12);
    });
    const said = (guess) => words(weight.answer(weight.facts({ ...weight.start, bits, guess }, null, given)));
    assert.match(said(facts.rounded[0]), /: right\. The nearest level/);
    assert.doesNotMatch(said(facts.rounded[0] + facts.step), /right/);
  }
});

test("step 2 counts its changes, and names the pair that the column solver stops at", () => {
  const { lattice } = modules;
  const said = (more) => words(lattice.answer(lattice.facts({ ...lattice.start, shown: 1, ...more }, null, given)));
  assert.match(said({ guess: 3 }), /^You said 3, and so it is: it changes 3 times\./);
  assert.match(said({ guess: 5 }), /^You said 5 or more; it changes 3 times\./);
  const { table, facts } = lattice;
  assert.equal(table(facts({ ...lattice.start, shown: 1 }, null, given)).rows.length, 4);
  assert.equal(table(facts({ ...lattice.start }, null, given)).rows.length, 1);
});

test("the last steps read the best λ, the band and the differences from the view", () => {
  const { layer, model, paper } = modules;
  const both = { identity: view(null), saliency: view(0.5) };
  const inBand = words(model.answer(model.facts({ ...model.start, shown: 1, guess: 1 }, both, given)));
  assert.match(
    inBand,
    /^You said 1, which is as good as the best\. Every λ from 0\.1 to 1 is as good, as far as 5 draws/,
  );
  // 2.5 standard errors: beyond two, and yet not clear with five draws (2.78).
  const close = { ...both, identity: view(null) };
  for (const row of close.identity.table.rows) row.perplexity_difference = -7.5;
  const near = words(model.answer(model.facts({ ...model.start, shown: 1, guess: 1 }, close, given)));
  assert.match(near, /The best can’t be told from GPTQ, .*: the difference is −7\.5 ± 3\.0\./);
  assert.match(inBand, /The best is 30\.0 ± 3\.0 better than GPTQ/);
  const whole = words(layer.answer(layer.facts({ lambda: 0.1, shown: 1 }, { view: view(null), surface: null }, given)));
  assert.match(
    whole,
    /^Calibration text is best at λ = 0, unseen text at λ = 0\.1\. .*unseen text 50.% less, drift 50.% less/,
  );
  const facts = paper.facts({ shown: 1 }, both, given);
  assert.deepEqual(Object.values(facts.ours.perplexities), [60, 100, 70, 70]);
  assert.match(words(paper.answer(facts)), /is highest at λ = 0\.1, 10\.0 ± 1\.5 points against GPTQ/);
});

test("where something is drawn and what is meant by a place on the drawing agree", async () => {
  const size = { width: 700, height: 600 };
  const { lineOf } = await import("../../assets/js/learn/weight.js");
  const { layout } = await import("../../assets/js/learn/lattice.js");
  const line = lineOf(size);
  const close = (a, b) => assert.ok(a.every((value, i) => Math.abs(value - b[i]) < 1e-9));
  close([line.value(line.x(0.42))], [0.42]);
  for (const width of [390, 700]) {
    const at = layout({ ...size, width });
    close(at.weights(...at.place([-1.5, 2])), [-1.5, 2]);
    close(at.token(...at.tokenPlace([0.3, -1.1])), [0.3, -1.1]);
  }
});

test("a value and its sign stay in one line", async () => {
  const { unbroken } = await import("../../assets/js/learn/stage.js");
  assert.equal(unbroken("λ = 0.1, 1 ± 0.1, 5 %"), "λ\u00a0=\u00a00.1, 1\u00a0±\u00a00.1, 5\u00a0%");
});
