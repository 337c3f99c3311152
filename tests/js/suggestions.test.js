/** What models suggest for the form: nothing that a person has entered is lost, and all of it comes back from a link. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { parse } from "../../assets/js/base/address.js";
import { calibrateView, recipeIn, recipeSearch } from "../../assets/js/base/recipe_address.js";
import { RECIPE_FIELDS } from "../../assets/js/base/recipe_contract.js";
import { recipeOf, saidBeside, valuesOf } from "../../assets/js/calibrate/recipe_form.js";
import { refilled, suggestedFor, unapplied } from "../../assets/js/calibrate/suggestions.js";

const NAMES = ["model", "bits", "lam", "group_size", "calibration", "samples", "test", "tasks", "baseline"];
const tiny = { model: "tiny", bits: 2, lambda: 0.1, calibration: "own", samples: 8, test: "own-test", tasks: ["a"] };
const hub = { model: "meta/big", bits: 3, calibration: "wikitext2", samples: 128, test: "wikitext2-test" };
const models = [
  { name: "tiny", suggested: tiny },
  { name: "meta/big", suggested: hub },
  { name: "local", suggested: { model: "local", length: 256 } },
];
const wanted = (model) => valuesOf(NAMES, suggestedFor(model, models));
const at = (values, name) => values[NAMES.indexOf(name)];
const put = (values, changes) => values.map((value, index) => changes[NAMES[index]] ?? value);

test("another model replaces what nobody touched, and nothing else", () => {
  const entered = put(wanted("tiny"), { bits: 4, samples: 16, lam: "0.37" });
  const big = refilled(put(entered, { model: "meta/big" }), wanted("tiny"), wanted("meta/big"));
  assert.deepEqual([at(big, "model"), at(big, "calibration"), at(big, "tasks")], ["meta/big", "wikitext2", ""]);
  assert.deepEqual([at(big, "bits"), at(big, "samples"), at(big, "lam")], [4, 16, "0.37"]);
  const back = refilled(put(big, { model: "tiny" }), wanted("meta/big"), wanted("tiny"));
  assert.deepEqual(back, entered);
});

test("a model without texts of its own takes those of this host, whatever was chosen before", () => {
  const big = wanted("meta/big");
  for (const model of ["local", "somebody/unknown"]) {
    const now = refilled(put(big, { model }), big, wanted(model));
    assert.deepEqual([at(now, "calibration"), at(now, "test"), at(now, "bits")], ["own", "own-test", 3], model);
  }
});

test("what is suggested otherwise is told, and only that", () => {
  const entered = put(wanted("meta/big"), { bits: 4, lam: "0.37" });
  const left = unapplied(NAMES, entered, suggestedFor("meta/big", models));
  assert.deepEqual(
    left.map(({ name, value }) => [name, value]),
    [["bits", 3]], // λ is not among what it suggests
  );
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
