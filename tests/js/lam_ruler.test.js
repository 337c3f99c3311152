/** The λ axis of the form: which study's band it has. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { STUDIED_BANDS } from "../../assets/js/base/recipe_contract.js";
import { bandFor, bandWords, placeOf } from "../../assets/js/calibrate/lam_ruler.js";

const SAID = { model: "tiny-llama", bits: 2, method: "rqc-gbs", range: "search", order: "activation", refine: 1 };

test("the band is that of the line most like the recipe", () => {
  const fitted = bandFor(SAID);
  assert.deepEqual([fitted.study, fitted.fitting.range, fitted.fitting.refine], ["tiny-llama", "search", 3]);
  const plain = bandFor({ ...SAID, range: "minmax", order: "natural", refine: 0 });
  assert.equal(plain.fitting.range, "minmax");
  assert.equal(bandFor({ ...SAID, method: "sarqc-gbs", gamma: 0.5 }).gamma, 0.5);
  assert.equal(bandFor({ ...SAID, model: "/models/tiny-llama" }).study, "tiny-llama");
  for (const other of [{ model: "mine" }, { bits: 4 }, { grid: "affine" }, { method: "rtn" }])
    assert.equal(bandFor({ ...SAID, ...other }), undefined);
});

test("its words say the study, the band and what was measured, or that there is none", () => {
  const band = bandFor(SAID);
  const words = bandWords(band, SAID);
  for (const part of ["study tiny-llama", `λ = ${band.best}`, `${band.low} to ${band.high}`, "5 draws", "refined × 3"])
    assert.ok(words.includes(part), words);
  assert.equal(bandWords(undefined, SAID), "No study of this model at these bits.");
});

test("λ has a place on the axis, 0 before all others", () => {
  const places = [0, 1e-9, 0.001, 0.01, 0.1, 1, 10, 1e9].map(placeOf);
  assert.deepEqual(
    places,
    places.toSorted((one, other) => one - other),
  );
  assert.deepEqual([places[0], places.at(-1)], [0, 1]);
  assert.ok(places[1] > 0);
});

test("every band holds its best λ", () => {
  assert.ok(STUDIED_BANDS.length > 8);
  for (const { low, high, best } of STUDIED_BANDS) assert.ok(low <= best && best <= high);
});
