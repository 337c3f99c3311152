/** Text side by side and speed: what is cut, said and coloured. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { protocolWords, reasonWords, speedUp } from "../../assets/js/calibrate/speed_card.js";
import { cut, inWords, level, named } from "../../assets/js/calibrate/texts_card.js";

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
    inWords(found).replaceAll("\u00a0", " "),
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
  const words = protocolWords({ kernel: "k", protocol }).replaceAll("\u00a0", " ");
  assert.match(words, /^One sequence of 512 tokens: 480 read at once, then 32 made one by one\./);
  assert.match(words, /fed our codes; .* at most 0\.26 % in any layer\.$/);
  assert.doesNotMatch(protocolWords({ kernel: null, protocol }), /fed/);
});
