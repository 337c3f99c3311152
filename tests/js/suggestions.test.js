/** What models suggest for the form: nothing that a person has entered is lost, and all of it comes back from a link. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { parse } from "../../assets/js/base/address.js";
import { calibrateView, recipeIn, recipeSearch } from "../../assets/js/base/recipe_address.js";
import { METHODS, RECIPE_FIELDS } from "../../assets/js/base/recipe_contract.js";
import { recipeOf, saidBeside, valuesOf } from "../../assets/js/calibrate/recipe_form.js";
import { alsoSet, altered, refilled, suggestedFor, toTell, unapplied } from "../../assets/js/calibrate/suggestions.js";
import { textsToChoose } from "../../assets/js/calibrate/text_question.js";
import { each } from "./given.js";

const NAMES = ["model", "bits", "lam", "group_size", "calibration", "samples", "test", "tasks", "baseline", "range"];
const tiny = { model: "tiny", bits: 2, lambda: 0.1, calibration: "own", samples: 8, test: "own-test", tasks: ["a"] };
const hub = { model: "meta/big", bits: 3, calibration: "wikitext2", samples: 128, test: "wikitext2-test" };
const models = [
  { name: "tiny", where: "embedded", suggested: tiny },
  { name: "meta/big", where: "hub", suggested: hub },
  { name: "local", where: "local", suggested: { model: "local", length: 256 } },
];
const wanted = (model) => valuesOf(NAMES, suggestedFor(model, models));
const at = (values, name) => values[NAMES.indexOf(name)];
const put = (values, changes) => values.map((value, index) => changes[NAMES[index]] ?? value);
const moved = (before, model) => refilled(put(wanted(before), { model }), wanted(before), wanted(model));

test("another model replaces what nobody touched, and nothing else", () => {
  const entered = put(wanted("tiny"), { bits: 4, samples: 16, lam: "0.37" });
  const big = refilled(put(entered, { model: "meta/big" }), wanted("tiny"), wanted("meta/big"));
  assert.deepEqual([at(big, "model"), at(big, "calibration"), at(big, "tasks")], ["meta/big", "wikitext2", ""]);
  assert.deepEqual([at(big, "bits"), at(big, "samples"), at(big, "lam")], [4, 16, "0.37"]);
  const back = refilled(put(big, { model: "tiny" }), wanted("meta/big"), wanted("tiny"));
  assert.deepEqual(back, entered);
});

test("a model that suggests no text gets none, and no text of another model", () => {
  for (const before of ["tiny", "meta/big"])
    for (const now of [moved(before, "local"), moved(before, "somebody/unknown")])
      assert.deepEqual([at(now, "calibration"), at(now, "test"), at(now, "bits")], ["", "", 3], before);
  const typed = put(wanted("tiny"), { calibration: "mine.txt" });
  assert.equal(at(refilled(typed, wanted("tiny"), wanted("local")), "calibration"), "mine.txt");
});

test("what another model has changed is told with what was there before, but for texts that are asked for", () => {
  const now = moved("tiny", "local");
  assert.deepEqual(each(altered(NAMES, wanted("tiny"), now), "name", "before", "now"), [
    ["bits", 2, 3],
    ["lam", "0.1", ""],
    ["samples", 8, 32],
    ["tasks", "a", ""],
  ]);
  const big = altered(NAMES, wanted("tiny"), moved("tiny", "meta/big"));
  assert.equal(big.find(({ name }) => name === "test").now, "wikitext2-test");
  assert.deepEqual(altered(NAMES, [], now), []); // the first time nothing was there
});

test("of what a model changes bits, λ and γ are told, by the values that count", () => {
  const changes = (fields) => fields.map(([name, before, now], index) => ({ name, title: name, index, before, now }));
  const told = (...fields) => each(toTell(changes(fields), "sarqc-gbs"), "name", "before", "now");
  const { lam } = METHODS["sarqc-gbs"].defaults;
  assert.deepEqual(told(["bits", 2, 3], ["samples", 8, 32], ["tasks", "a", ""]), [["bits", 2, 3]]);
  assert.deepEqual(told(["lam", "0.1", ""]), [["lam", "0.1", lam]]);
  assert.deepEqual(told(["lam", String(lam), ""], ["lam", null, lam]), []);
});

test("what a run or an address sets beside the form is told, and nothing that is usual", () => {
  const names = ["model", "seed", "rotate", "window", "samples"];
  const held = (values, suggested = {}) => each(alsoSet(names, values, suggested), "title", "value", "usual");
  assert.deepEqual(held(["m", 3, "r1", null, 9]), [
    ["Seed", 3, 0],
    ["Rotation", "r1", "none"],
  ]);
  assert.deepEqual(held(["m", 0, "none", 256, 9], { window: 256 }), []);
  assert.deepEqual(held(["m", 0, "none", 512, 9], { window: 256 }), [["Window", 512, 256]]);
});

test("the texts to choose from are one’s own and those of this host, none of them written by a model", () => {
  const corpus = (name, role, where, source, here = true) => ({ name, title: name, role, where, source, here });
  const corpora = [
    corpus("tiny-calibration", "calibration", "embedded", "tiny"),
    corpus("notes.txt", "any", "local", "notes.txt"),
    corpus("wikitext2", "calibration", "hub", "wikitext"),
    corpus("wikitext2-validation", "held_out", "hub", "wikitext"),
    corpus("wikitext2-test", "test", "hub", "wikitext"),
    corpus("c4", "calibration", "hub", "c4"),
    corpus("c4-validation", "test", "hub", "c4", false),
    corpus("pile", "calibration", "hub", "pile", false),
  ];
  assert.deepEqual(each(textsToChoose([{ name: "text-1", title: "letters" }], corpora), "calibration", "test"), [
    ["text-1", "text-1"], // in halves
    ["notes.txt", "notes.txt"],
    ["wikitext2", "wikitext2-test"],
    ["c4", "c4"], // its other part is not here
  ]);
});

test("what is suggested otherwise is told, and only that", () => {
  const entered = put(wanted("meta/big"), { bits: 4, lam: "0.37" });
  const left = unapplied(NAMES, entered, suggestedFor("meta/big", models));
  assert.deepEqual(each(left, "name", "value"), [["bits", 3]]); // λ is not among what it suggests
  assert.deepEqual(unapplied(NAMES, wanted("tiny"), suggestedFor("tiny", models)), []);
  assert.deepEqual(unapplied(NAMES, put(wanted("tiny"), { samples: "8" }), suggestedFor("tiny", models)), []);
});

test("the form comes back from its address", () => {
  const entered = put(wanted("tiny"), { bits: 4, group_size: "per_channel", lam: "0, auto", baseline: false });
  const search = recipeSearch(saidBeside(NAMES, entered));
  const { state, problems } = parse(search, calibrateView(NAMES));
  assert.deepEqual(problems, []);
  const again = valuesOf(NAMES, recipeIn(state, NAMES));
  assert.deepEqual(recipeOf(NAMES, again), recipeOf(NAMES, entered));
  assert.equal(at(again, "baseline"), false);
  const plain = NAMES.map((name) => RECIPE_FIELDS[name].default ?? null);
  assert.equal(recipeSearch(saidBeside(NAMES, plain)), ""); // defaults need not be said
});
