/** What the steps of the tour say, draw and show as a table, from what is set in them: no page is needed. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { before, test } from "node:test";
import { each } from "./given.js";

const read = (name) => JSON.parse(readFileSync(new URL(`../../assets/${name}`, import.meta.url), "utf8"));
const given = {
  study: read("tour.json").study,
  pretrained: read("tour.json").pretrained,
  published: read("published.json").results,
};

/** The best of three λ beside GPTQ. */
const gain = (words) => ({ at: 1, words });

/** A line of three λ whose middle is best, with one γ. */
const view = (gamma) => {
  const rows = [
    { perplexity: 90, recon: 0.02, held_out: 0.2, drift: 2, accuracy: 0.6 },
    { perplexity: 70, recon: 0.03, held_out: 0.1, drift: 1, accuracy: 0.7 },
    { perplexity: 80, recon: 0.04, held_out: 0.15, drift: 0.5, accuracy: 0.65 },
  ].map((row, i) => ({
    ...row,
    lambda: [0, 0.1, 1][i],
    perplexity_difference: row.perplexity / 100 - 1,
    perplexity_low: row.perplexity / 100 - 1.06,
    perplexity_high: row.perplexity / 100 - 0.94,
    accuracy_difference: row.accuracy - 0.6,
    accuracy_low: row.accuracy - 0.64,
    accuracy_high: row.accuracy - 0.56,
    sweet_spot: i > 0,
    at: [0, i],
  }));
  const columns = Object.keys(rows[0])
    .filter((key) => !["at", "sweet_spot"].includes(key))
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
    told: {
      perplexity: { best: [gain("30.0 % lower perplexity than GPTQ 1 %")] },
      accuracy: { best: [gain("10.0 points higher accuracy than GPTQ 1 %")] },
    },
    table: { columns, rows },
    arrays: {},
  };
};
/** Both penalties, and the λ that three layers want. */
const twoViews = () => ({
  identity: view(null),
  saliency: view(0.5),
  wanted: new Map(Object.entries({ a: 1, b: 0.1, c: 0 })),
});
const words = (pieces) => pieces.map((piece) => piece.text ?? piece).join("");

const worth = (change, half) => ({
  change,
  low: change - half,
  high: change + half,
  verdict: Math.abs(change) <= half ? "unknown" : change < 0 ? "better" : "worse",
  size: `${change} %`,
  words: `${Math.abs(change) <= half ? "Not known yet: " : ""}${change} % than without it.`,
});
const LADDER = {
  steps: ["lambda", "range", "order", "refine"].map((name) => ({ name, title: name })),
  alone: [worth(-3, 0.2), worth(-9, 0.5), worth(-4, 0.5), worth(-1, 0.1)],
  last: [worth(-0.5, 0.9), worth(-6, 0.5), worth(0.7, 0.1), worth(-2, 0.1)],
  words: "",
};

let modules;
before(async () => {
  globalThis.matchMedia ??= () => ({ matches: false, addEventListener() {} });
  ({ MODULES: modules } = await import("../../assets/js/learn/learn_page.js"));
});

test("the tour has a step for each in its words, and each can be opened from its start", () => {
  assert.deepEqual(Object.keys(modules), each(read("tour.json").steps, "name"));
  const both = twoViews();
  const ladder = { ...view(null), ladder: LADDER };
  const fetched = { layer: { view: view(null), surface: null }, knobs: ladder, model: both, paper: both };
  for (const [name, module] of Object.entries(modules)) {
    const made = fetched[name] ?? module.prepare?.(given) ?? null;
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
  const { layer, model, knobs, paper } = modules;
  for (const step of [layer, model, knobs]) assert.equal(step.facts(step.start, null, given), null);
  assert.equal(knobs.facts(knobs.start, { ...view(null), ladder: null }, given), null); // a study without a ladder
  const worths = knobs.facts({ shown: 1, guess: 3 }, { ...view(null), ladder: LADDER }, given);
  assert.equal(
    words(knobs.answer(worths)),
    "You said λ = 0.1. Worth most is the range: -9 % than without it. λ alone: -3 % than without it. " +
      "After all the others: not known yet: -0.5 % than without it. After the others the order does harm.",
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
    // Levels reach from the smallest weight to the largest but for a shift of less than half a step, and 0 is one.
    assert.ok(facts.levels.some((level) => Math.abs(level) < 1e-12));
    assert.ok(Math.abs(facts.shift) <= facts.step / 2 + 1e-12);
    const extremes = [Math.min(...facts.weights), Math.max(...facts.weights)];
    for (const [i, end] of [facts.levels[0], facts.levels.at(-1)].entries())
      assert.ok(Math.abs(end - facts.shift - extremes[i]) < 1e-12);
    assert.equal(/all are shifted by/.test(words(weight.answer(facts))), Math.abs(facts.shift) >= 0.005);
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
  const both = twoViews();
  const inBand = words(model.answer(model.facts({ ...model.start, shown: 1, guess: 1 }, both, given)));
  assert.match(
    inBand,
    /^You said 1, which is in the band\. The best λ lies between 0\.1 and 1 \(95\u00a0% confidence, 5 draws\)/,
  );
  assert.match(inBand, /The best λ: 30\.0 % lower perplexity than GPTQ 1 %\./);
  assert.match(inBand, /a layer would take another: 1 of 3 want less than 0\.1\.$/);
  const far = twoViews();
  far.saliency.table.rows[0].perplexity = 5000;
  const beyond = model.facts({ ...model.start, shown: 1 }, far, given);
  assert.deepEqual(beyond.far, [{ at: 0, value: 5000 }]);
  const other = model.facts({ ...model.start, saliency: "identity", shown: 1 }, far, given);
  assert.deepEqual(beyond.range, other.range); // the axis is the same for either penalty
  assert.equal(beyond.perplexities[0], null);
  assert.ok(beyond.range[1] < 200);
  const whole = words(layer.answer(layer.facts({ lambda: 0.1, shown: 1 }, { view: view(null), surface: null }, given)));
  assert.match(
    whole,
    /^Calibration text is best at λ = 0, unseen text at λ = 0\.1\. .*unseen text 50.% less, drift 50.% less/,
  );
  const facts = paper.facts({ shown: 1 }, both, given);
  assert.deepEqual(Object.values(facts.ours.perplexities), [60, 100, 70, 70]);
  assert.match(words(paper.answer(facts)), /is highest at λ = 0\.1: 10\.0 points higher accuracy than GPTQ 1 %\. /);
});

test("where something is drawn and what is meant by a place on the drawing agree", async () => {
  const size = { width: 700, height: 600 };
  const { lineOf } = await import("../../assets/js/learn/weight.js");
  const { layout } = await import("../../assets/js/learn/pair.js");
  const line = lineOf(size);
  const close = (a, b) => assert.ok(a.every((value, i) => Math.abs(value - b[i]) < 1e-9));
  close([line.value(line.x(0.42))], [0.42]);
  for (const width of [390, 700]) {
    const at = layout({ ...size, width });
    close(at.weights(...at.place([-1.5, 2])), [-1.5, 2]);
    close(at.token(...at.tokenPlace([0.3, -1.1])), [0.3, -1.1]);
  }
});

test("a guess is judged by what it was about: moving that after the answer takes the guess away", async () => {
  const { Stage } = await import("../../assets/js/learn/stage.js");
  const changed = (shown) => {
    const stage = { answered: shown, set: (change) => Object.assign(stage.made, change), made: { guess: 1 } };
    Stage.prototype.change.call(stage, { bits: 3 });
    return stage.made;
  };
  assert.deepEqual(changed(true), { bits: 3, guess: undefined });
  assert.deepEqual(changed(false), { bits: 3, guess: 1 });
});

test("pushing on helps most rows, a larger λ pushes less, and the way of the second weight is the one drawn", async () => {
  const { column_by_column: step } = modules;
  const { toyRows } = await import("../../assets/js/learn/column_by_column.js");
  const rows = Array.from({ length: 14 }, (_, seed) => toyRows(seed + 1)).flatMap((layer) =>
    [1, 2, 3].map((row) => step.facts({ ...step.start, row, shown: 1 }, layer)),
  );
  assert.ok(rows.filter(({ errors, alone }) => errors.at(-1) <= alone.at(-1)).length > 0.8 * rows.length);
  const at = (lambda) => step.facts({ ...step.start, lambda, shown: 1 }, step.prepare());
  const [least, most] = [step.state.lambda.values[0], step.state.lambda.values.at(-1)].map(at);
  assert.ok(Math.abs(most.pushed) < 0.5 * Math.abs(least.pushed));
  assert.ok(most.drift < least.drift);
  assert.equal(least.way, least.pushed > 0 ? 2 : 0);
  assert.match(words(step.answer({ ...least, guess: least.way })), /^You said (up|down): right\./);
  assert.match(words(step.answer({ ...least, guess: 1 })), /^You said not at all\. The first/);
});

test("what slid for free pays on new tokens, and with no turn it does not", () => {
  const { new_text: step } = modules;
  const at = (more) => step.facts({ ...step.start, shown: 1, ...more }, null, given);
  const shown = at({});
  assert.ok(shown.ratio > 5);
  assert.ok(shown.dots[0].distance > 3 * shown.dots.at(-1).distance);
  assert.ok(shown.kept > 0 && shown.kept < shown.dots.length - 1); // neither no λ nor the largest
  assert.equal(at({ angle: 0 }).ratio, 1);
  assert.match(words(step.answer({ ...shown, guess: shown.size })), /^You said .*: right\. Without λ/);
});

test("the λ that each layer wants is read from the table of layers, at its first γ", async () => {
  const { leastByLayer } = await import("../../assets/js/learn/shipped_study.js");
  const row = (layer, lambda, held_out, gamma = 0.1) => ({ layer, lambda, held_out, gamma });
  const first = [row("a", 0, 3), row("a", 0.1, 2), row("a", 1, 4)];
  const second = [row("b", 0, 1), row("b", 1, 1.5), row("b", 1, 0.5, 0.9)];
  const least = leastByLayer([...first, ...second, row("c", 0, null)]);
  assert.deepEqual(Object.fromEntries(least), { a: 0.1, b: 0 });
});

test("one draw is not said to tell which λ is best; ten say it with what is as good, once their bands are apart", () => {
  const { prepare, facts, answer, bandAround, LAMS } = modules.tokens;
  const data = prepare();
  const said = (seed) => words(answer(facts({ shown: 1, tokens: 24, seed, lambda: 0.01 }, data)));
  for (const seed of [1, 9]) assert.match(said(seed), /ten\.$/);
  assert.doesNotMatch(said(1), /best λ is|smaller λ/);
  const { groups } = facts({ shown: 1, tokens: 24, seed: 30, lambda: 0.01 }, data);
  for (const { best, band } of groups) assert.ok(band[0] <= best && best <= band[1]);
  const apart = groups[2].band[1] < groups[0].band[0];
  assert.equal(said(30).endsWith("more tokens want a smaller λ."), apart);
  assert.match(said(30), new RegExp(`best λ is ${LAMS[groups[0].best]} with 8`));
  // By hand: at the second λ every draw is worse than at the first by one, at the third by one or better by one in turn.
  const draws = [0, 1, 2, 3].map((i) => ({ unseen: [5, 6, 5 + (i % 2 ? 1 : -1), 9, 9, 9, 9, 9] }));
  assert.deepEqual(bandAround(draws, 0), [0, 0]);
  assert.deepEqual(bandAround(draws, 2), [0, 2]);
  const near = draws.map(({ unseen }) => ({ unseen: unseen.toSpliced(1, 1, unseen[2]) }));
  assert.deepEqual(bandAround(near, 0), [0, 2]);
});
