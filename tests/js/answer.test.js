/** What a finished run says of its model, beside the float one and beside GPTQ. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { besideBaseline, distances, unbroken, withError } from "../../assets/js/calibrate/distances.js";
import { plain } from "./given.js";

const FAR = {
  log_ratio: 0.23911,
  log_ratio_standard_error: 0.00847,
  kl: 0.32397,
  kl_standard_error: 0.00482,
  kl_99: 1.7573,
  same_top: 0.59324,
  same_top_standard_error: 0.00458,
};

test("an error is shown with one digit, with two where it begins with 1", () => {
  assert.equal(plain(withError(0.23911, 0.00847)), "0.239 ± 0.008");
  assert.equal(plain(withError(0.2667, 0.0102)), "0.267 ± 0.010");
  assert.equal(plain(withError(-0.0276, 0.009)), "−0.028 ± 0.009");
  assert.equal(plain(withError(59.3, 25)), "59 ± 25");
  assert.equal(plain(withError(0.2, null)), "0.2000");
  assert.equal(plain(withError(0.2, 0)), "0.2000");
});

test("no line ends beside a ± or before a per cent", () => {
  assert.equal(unbroken("2.7 ± 0.9 % lower"), "2.7\u00a0±\u00a00.9\u00a0% lower");
});

test("each number beside the float model has a name, its error and an explanation", () => {
  const said = distances(FAR);
  assert.deepEqual(
    said.map(({ name, value }) => [name, plain(value)]),
    [
      ["KL from float, nats a token", "0.324 ± 0.005"],
      ["KL, 99 % of tokens below", "1.76"],
      ["Same top token", "59.3 ± 0.5 %"],
    ],
  );
  assert.ok(said.every(({ help }) => help.endsWith(".")));
  const single = distances({ ...FAR, same_top_standard_error: null });
  assert.equal(plain(single[2].value), "59.3 %");
});

test("a run stands beside its baseline, or alone", () => {
  const baseline = { ...FAR, log_ratio: 0.2667, log_ratio_standard_error: 0.0102, perplexity: 116.34, reason: "" };
  const rows = besideBaseline({ ...FAR, perplexity: 113.18, baseline });
  assert.deepEqual(
    rows.slice(0, 1).map((row) => [row.name, plain(row.run), plain(row.baseline)]),
    [["Perplexity", "113.2", "116.3"]],
  );
  assert.equal(rows.length, 4);
  const none = Object.fromEntries(Object.keys(FAR).map((name) => [name, null]));
  for (const other of [null, undefined, { ...none, perplexity: null, reason: "a single layer is quantized" }])
    assert.ok(besideBaseline({ ...FAR, perplexity: 113.18, baseline: other }).every((row) => row.baseline === null));
});

test("what was not measured beside the float model is not shown", () => {
  assert.deepEqual(besideBaseline({ perplexity: 113.2 }), []); // a run from before
  assert.deepEqual(besideBaseline({ perplexity: 113.2, log_ratio: null }), []);
});
