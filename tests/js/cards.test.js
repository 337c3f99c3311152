/** What the cards of a run say: its exports and who can load them, text side by side, and speed. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { exportWords } from "../../assets/js/calibrate/exports_card.js";
import { byAnswer, loadedBy, withVersion } from "../../assets/js/calibrate/readers_table.js";
import { initial, reduce } from "../../assets/js/calibrate/run_state.js";
import { protocolWords, reasonWords, speedUp } from "../../assets/js/calibrate/speed_card.js";
import { cut, inWords, level, named } from "../../assets/js/calibrate/texts_card.js";
import { each, layerDone, plain, started } from "./given.js";

const told = (...events) =>
  events.reduce((state, event, index) => reduce(state, { seq: index + 1, ...event }), initial());
const begun = started([{ name: "l.0" }, { name: "l.1" }]);
const layer = layerDone(2, 0, {});

test("an export says where it stands", () => {
  assert.equal(exportWords({ state: "queued" }, initial()), "waiting for a device");
  assert.equal(exportWords({ state: "running" }, initial()), "starting");
  assert.equal(exportWords({ state: "running" }, told(begun, layer)), "1 of 2 layers fetched");
  const saving = told(begun, layer, layerDone(3, 1, {}), { type: "stage", name: "saving", detail: "checkpoint" });
  assert.equal(exportWords({ state: "running" }, saving), "saving");
  assert.equal(exportWords({ state: "running" }, told(begun, layer, { type: "cancelled" })), "starting"); // again
  for (const state of ["cancelled", "failed", "interrupted"])
    assert.match(exportWords({ state }, initial()), /the run is as it was/);
});

const reader = (name, loads, version = "1") => ({ reader: name, version, loads, words: "" });

test("who can load it: readers by what they made of it, the best first", () => {
  const found = byAnswer([reader("a", "no", "1"), reader("b", "not_run", ""), reader("c", "yes"), reader("d", "no")]);
  assert.deepEqual(Object.fromEntries(found.map(({ kind, readers }) => [kind, readers.map(withVersion)])), {
    yes: ["c 1"],
    no: ["a 1", "d 1"],
    not_run: ["b"],
  });
  assert.deepEqual(each(found, "kind"), ["yes", "no", "not_run"]);
});

test("the save menu names who loads a format and who does not", () => {
  const [able, unable, untried] = [reader("a", "yes"), reader("b", "no"), reader("c", "not_run")];
  assert.equal(loadedBy([able, unable, untried]), "loads in a, not in b");
  assert.equal(loadedBy([able, reader("d", "yes")]), "loads in a, d");
  assert.equal(loadedBy([unable]), "loads in no reader that was tried, not in b");
  assert.equal(loadedBy([untried]), "no reader was tried");
});

test("a text is cut at the first different token", () => {
  assert.deepEqual(cut(["a", "b", "c"], 1), { same: ["a"], first: "b", rest: ["c"] });
  assert.deepEqual(cut(["a", "b"], 0), { same: [], first: "a", rest: ["b"] });
  assert.deepEqual(cut(["a", "b"], null), { same: ["a", "b"], first: null, rest: [] });
});

test("colours are those of one logarithmic scale", () => {
  assert.deepEqual(
    [0, 0.001, 0.1, 10, 50].map((kl) => Math.round(100 * level(kl)) / 100),
    [0, 0, 0.5, 1, 1],
  );
});

test("the numbers in a sentence", () => {
  const found = { float: { pieces: ["The", " king", "\n"] }, divergence: 1, kl: [0.1, 0.2, 0.6] };
  assert.equal(
    plain(inWords(found)),
    "The texts part at token 2 of 3. KL divergence 0.300 nats a token on average, at most 0.600 nats at token 3, “↵”.",
  );
  assert.match(inWords({ ...found, divergence: null }), /^The two texts are the same\./);
  assert.equal(named(" a\tb"), "“␣a⇥b”");
});

test("speed says what it lacks and how it was measured", () => {
  const float = { prefill: 100, decode: 10 };
  assert.equal(speedUp({ float, quantized: { prefill: 71, decode: 13 } }, "decode"), "1.30 ×");
  assert.equal(speedUp({ float, quantized: null }, "decode"), "–");
  assert.equal(reasonWords({ float, reason: "no kernel" }), "Only the float model was measured: no kernel.");
  assert.equal(reasonWords({ float: null, reason: "elsewhere" }), "Nothing was measured: elsewhere.");
  const protocol = {
    sequence_length: 512,
    prompt_tokens: 480,
    decoded_tokens: 32,
    repeats: 5,
    dtype: "bfloat16",
    device: "cpu",
    threads: 2,
    torch: "2",
    float_model: "as it is",
    fed: "our codes",
    largest_relative_difference: 0.0026,
  };
  const words = plain(protocolWords({ kernel: "k", protocol }));
  assert.match(words, /^One sequence of 512 tokens: 480 read at once, then 32 made one by one\./);
  assert.match(words, /fed our codes; .* at most 0\.26 % in any layer\.$/);
  assert.doesNotMatch(protocolWords({ kernel: null, protocol }), /fed/);
});
