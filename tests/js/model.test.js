/** The model in the page: its arithmetic, its files, its predictions and its card, against plain definitions. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { bytesOf, inScript, withKernel } from "../../assets/js/model/arithmetic.js";
import { codesAlone, givesCodes, takesLong } from "../../assets/js/model/computing.js";
import { tensorOf, tensorsOf } from "../../assets/js/model/container.js";
import { continuedAt } from "../../assets/js/model/continued.js";
import { Llama, Scratch } from "../../assets/js/model/llama.js";
import { divergences, likeliest, logProbabilities, parting, writing } from "../../assets/js/model/predictions.js";
import { sentencesOf } from "../../assets/js/model/sentences.js";
import { Asked } from "../../assets/js/model/session.js";
import { comparedAt, firstFiles, INITIAL, reduce } from "../../assets/js/model/try_state.js";
import { brokenWords, computedBy } from "../../assets/js/model/try_view.js";
import { bitsAt, emptyLinears } from "../../assets/js/model/weights.js";
import { serving } from "../../assets/js/model/worker.js";
import { assembled } from "./assemble.mjs";
import { numbersFrom } from "./given.js";

const MODEL = new URL("../../assets/models/tiny-llama/", import.meta.url);
const read = (path) => readFileSync(new URL(path, MODEL));

/** Numbers in [-1, 1) from a seed. */
function random(seed) {
  const next = numbersFrom(seed);
  return () => 2 * next() - 1;
}

/** An array that such numbers fill. */
function filled(into, next) {
  into.forEach((_, i) => {
    into[i] = next();
  });
  return into;
}

test("the kernel that is shipped is its text, assembled", async () => {
  const shipped = readFileSync(new URL("../../assets/js/model/kernel.js", import.meta.url), "utf8");
  assert.equal(shipped, await assembled());
});

test("the kernel and plain JavaScript give the same bits, and those of exact sums to single precision", () => {
  for (const [vectors, rows, width] of [
    [1, 3, 4],
    [4, 5, 8],
    [7, 2, 256],
    [9, 1, 768],
  ]) {
    const bytes = [vectors * width, rows * width, vectors * rows].reduce((sum, count) => sum + bytesOf(count), 0);
    const [fast, plain] = [withKernel(bytes), inScript(bytes)].map((arithmetic) => {
      const [x, w, y] = [vectors * width, rows * width, vectors * rows].map(arithmetic.take);
      const next = random(rows);
      for (const into of [x, w]) filled(into, next);
      arithmetic.products(x, w, y, vectors, rows, width);
      return { x, w, y };
    });
    assert.deepEqual(fast.y, plain.y);
    for (let t = 0; t < vectors; t += 1)
      for (let r = 0; r < rows; r += 1) {
        let sum = 0;
        for (let i = 0; i < width; i += 1) sum += fast.x[t * width + i] * fast.w[r * width + i];
        assert.ok(Math.abs(fast.y[t * rows + r] - sum) < 1e-5 * width ** 0.5);
      }
  }
});

test("codes of every width are found in a string of bits, also across words and down columns", () => {
  const next = random(3);
  for (const bits of [2, 3, 4]) {
    const codes = Array.from({ length: 70 }, () => Math.floor(((next() + 1) / 2) * 2 ** bits));
    const text = codes.map((code) => [...code.toString(2).padStart(bits, "0")].reverse().join("")).join("");
    const words = Array.from({ length: Math.ceil(text.length / 32) }, (_, i) =>
      Number.parseInt([...text.slice(32 * i, 32 * i + 32).padEnd(32, "0")].reverse().join(""), 2),
    );
    const among = Uint32Array.from(words.flatMap((word) => [1, word, 2])); // as the middle one of three columns
    codes.forEach((code, i) => {
      assert.equal(bitsAt(Uint32Array.from(words), 0, 1, i * bits, bits), code);
      assert.equal(bitsAt(among, 1, 3, i * bits, bits), code);
    });
  }
});

test("a text that begins like the last one is read on from there, to the same bits", () => {
  const attention = { heads: 2, shared: 1, head: 4, positions: 32, theta: 100 };
  const sizes = { blocks: 2, width: 8, inner: 12, words: 9, epsilon: 1e-6, ...attention };
  const arithmetic = inScript(1 << 20);
  const next = random(2);
  const taken = (count) => filled(arithmetic.take(count), next);
  const norms = Array.from({ length: 5 }, () => taken(8));
  const blocks = emptyLinears(sizes, taken);
  const common = { norms, embedding: taken(72) };
  const asked = () => new Asked(new Llama(sizes, arithmetic, common, blocks, new Scratch(sizes, 8, arithmetic.take)));
  const one = asked();
  for (const tokens of [[1, 2, 3, 4], [1, 2, 5], [1, 2, 5, 6, 7], [1, 2], [3], [3, 1]]) {
    one.read(tokens);
    const written = [...writing(one.model, one.past, one.first, 3, -1)]; // goes on over the text that follows
    const fresh = asked();
    fresh.read(tokens);
    assert.deepEqual(one.logs, fresh.logs);
    assert.deepEqual(written, [...writing(fresh.model, fresh.past, fresh.first, 3, -1)]);
  }
});

test("a damaged file is refused in words", () => {
  const file = (header, size = 4) => {
    const text = new TextEncoder().encode(JSON.stringify(header));
    const bytes = new Uint8Array(8 + text.length + size);
    new DataView(bytes.buffer).setBigUint64(0, BigInt(text.length), true);
    bytes.set(text, 8);
    return bytes.buffer;
  };
  const entry = (end) => ({ a: { dtype: "F16", shape: [2], data_offsets: [0, end] }, __metadata__: {} });
  const tensors = tensorsOf(file(entry(4)), "x");
  assert.equal(tensorOf(tensors, "a", "F16", 2).byteLength, 4);
  assert.throws(() => tensorsOf(new ArrayBuffer(3), "x"), /x can’t be read: its header is cut off/);
  assert.throws(() => tensorsOf(file(entry(4)).slice(0, 20), "x"), /cut off/);
  assert.throws(() => tensorsOf(file(entry(6)), "x"), /a is cut off/);
  assert.throws(() => tensorOf(tensors, "b", "F16", 2), /missing/);
  assert.throws(() => tensorOf(tensors, "a", "F16", 3), /in place of 3 × F16/);
});

test("divergences and likeliest tokens follow from their definitions", () => {
  const next = random(11);
  const logits = [0, 1].map(() => Float32Array.from({ length: 12 }, () => 3 * next()));
  const logs = logits.map((one) => logProbabilities(one, 6));
  const shares = logits.map((one) => {
    const rows = [one.subarray(0, 6), one.subarray(6)].map((row) => [...row].map(Math.exp));
    return rows.map((row) => row.map((value) => value / row.reduce((sum, other) => sum + other, 0)));
  });
  divergences(logs[0], logs[1], 6).forEach((found, row) => {
    const [p, q] = [shares[0][row], shares[1][row]];
    const wanted = p.reduce((sum, value, i) => sum + value * Math.log(value / q[i]), 0);
    assert.ok(Math.abs(found - wanted) < 1e-5);
  });
  assert.deepEqual(divergences(logs[0], logs[0], 6), [0, 0]);
  const [first, ...rest] = likeliest(logs[0], 6, 3);
  assert.equal(first.token, shares[0][1].indexOf(Math.max(...shares[0][1])));
  assert.ok(rest.every(({ probability }) => probability <= first.probability));
  assert.equal(parting([1, 2], [1, 2]), null);
  for (const [one, other] of [
    [
      [1, 2],
      [1, 3],
    ],
    [[1], [1, 2]],
    [[1, 2], [1]],
  ])
    assert.equal(parting(one, other), 1);
});

test("candidates are whole sentences of the text, spread over it", () => {
  const text = read("held_out.txt").toString("utf8");
  const found = sentencesOf(text, 60);
  assert.equal(new Set(found).size, 60);
  assert.ok(found.every((sentence) => text.includes(sentence) && /^[A-Z].*[.!?]$/.test(sentence)));
  assert.deepEqual(sentencesOf("No.\nnot a sentence of its own here at all.", 5), []);
});

test("a prompt goes on as the shown point, the baseline and the float model do, where a line has texts", () => {
  const continued = {
    prompt: "Once",
    float_model: " upon",
    baseline: " more",
    points: [
      [" a", " b"],
      ["", ""],
    ],
  };
  const view = { line: { baseline: "gptq", continued }, lam_texts: ["0", "0.1"] };
  const others = [
    ["GPTQ 1 %", "… more …"],
    ["Float model", "… upon …"],
  ];
  const shown = continuedAt(view, { gamma: 0, lambda: 1 });
  assert.deepEqual(shown, { prompt: "Once", texts: [["λ = 0.1", "… b …"], ...others] });
  assert.deepEqual(continuedAt(view, { gamma: 1, lambda: 0 }).texts[0], ["λ = 0", "Not computed at this γ"]);
  assert.equal(continuedAt({ ...view, line: { baseline: "gptq" } }, { gamma: 0, lambda: 0 }), null);
});

const file = (name) => ({ name, bytes: 10, version: "v" });
const point = (lam, gamma = 0.1) => ({ method: "sarqc-gbs", bits: 2, gamma, lam, file: file(`${gamma}-${lam}`) });
const keptIs = (points) => ({ ...view, study: { kept: points && { ...kept, points } } });
const kept = { model: "m", draw: 0, files: [file("config.json")], points: [point(0), point(0.1)] };
const view = {
  study: { kept },
  line: { name: "sarqc-gbs", bits: 2, has_lam: true },
  gammas: [0.1, 0.5],
  lams: [0, 0.1, 0.2],
};

test("the shown point is compared with that at λ = 0 where both are kept", () => {
  const at = (lambda, gamma = 0) => comparedAt(view, { lambda, gamma });
  assert.deepEqual(at(1), { shown: point(0.1), zero: point(0) });
  assert.equal(at(0)?.shown, at(0)?.zero);
  assert.deepEqual([at(2), at(1, 1)], [null, null]);
  assert.equal(comparedAt(keptIs(null), { lambda: 1, gamma: 0 }), null);
  const alone = keptIs([point(0.1)]);
  const own = comparedAt(alone, { lambda: 1, gamma: 0 });
  assert.deepEqual(own, { shown: point(0.1), zero: null }); // a run of one λ
  assert.equal(comparedAt(keptIs([point(0)]), { lambda: 0, gamma: 0 })?.zero, null);
  assert.equal(firstFiles(alone.study.kept, own).size, 20);
  assert.equal(firstFiles(kept, at(1)).size, 30);
  assert.equal(firstFiles(kept, at(0)).size, 20);
});

test("the card takes the answer to its last question and no other", () => {
  const reading = { pieces: [] };
  let state = reduce(INITIAL, { type: "opened", size: 30 });
  state = reduce(state, { type: "answered", answer: { kind: "opened", isFast: false } });
  assert.deepEqual([state.phase, state.isFast], ["open", false]);
  state = reduce(state, { type: "asked", number: 1, text: "a", lam: "0.1" });
  state = reduce(state, { type: "asked", number: 2, text: "a", lam: "0.2" });
  state = reduce(state, { type: "answered", answer: { kind: "read", number: 1, reading } });
  assert.equal(state.read, null);
  state = reduce(state, { type: "answered", answer: { kind: "read", number: 2, reading } });
  assert.equal(state.read?.lam, "0.2");
  state = reduce(state, { type: "searched", number: 3, lam: "0.2" });
  const broken = { text: "b", count: 2, wins: 1, own: { shown: 1, zero: 2 }, all: { shown: 1, zero: 2 } };
  state = reduce(state, { type: "answered", answer: { kind: "broken", number: 3, broken } });
  state = reduce(state, { type: "asked", number: 4, text: state.text, lam: "0.1" });
  assert.deepEqual([state.text, state.broken?.lam], ["b", "0.2"]); // another λ leaves the words of the search
  state = reduce(state, { type: "asked", number: 5, text: "c", lam: "0.1" });
  assert.equal(state.broken, null);
  state = reduce(state, { type: "answered", answer: { kind: "failed", number: null, what: "no file" } });
  assert.deepEqual([state.phase, state.trouble, state.text], ["closed", "no file", "c"]);
});

test("the card says what computes, and for what a sentence was chosen", () => {
  assert.match(computedBy(true), /WebAssembly/);
  assert.match(computedBy(false), /plain JavaScript/);
  const all = { shown: 0.2, zero: 0.3 };
  const words = brokenWords({ text: "a", count: 60, wins: 51, own: { shown: 0.25, zero: 0.9 }, all }, "0.1");
  for (const part of ["60 sentences", "0.900 at λ = 0", "0.250 at λ = 0.1", "0.300 and 0.200", "in 51"])
    assert.ok(words.includes(part), `${part}: ${words}`);
  assert.match(words, /chosen for that/);
  assert.match(brokenWords({ text: "a", count: 9, wins: 0, own: { shown: 1, zero: 0.9 }, all }, "2"), /^In none of 9/);
});

test("a worker says which file can’t be had, and begins anew when it is asked again", async () => {
  const said = [];
  let isThere = false;
  const get = async () => (isThere ? new Response("{}") : new Response("", { status: 404 }));
  const serve = serving((answer) => said.push(answer), get);
  const places = [{ name: "config.json", address: "x", bytes: 2 }];
  await serve({ kind: "open", places, first: places });
  assert.match(said.at(-1).what, /config\.json can’t be fetched: the server answered 404/);
  isThere = true;
  await serve({ kind: "open", places: [{ ...places[0], bytes: 9 }], first: [] });
  assert.match(said.at(-1).what, /cut off: 2 of 9 bytes/);
  await serve({ kind: "open", places: [{ ...places[0], bytes: 1 }], first: [] });
  assert.match(said.at(-1).what, /more bytes than it should/);
  await serve({ kind: "open", places, first: [] });
  assert.match(said.at(-1).what, /tokenizer\.json is not among/);
});

test("files that are damaged are said to be so, and sizes beyond all models are refused", async () => {
  const config = JSON.parse(read("config.json"));
  const damaged = {
    "config.json": [
      ["null", /^The model’s files are damaged: /],
      ["{", /^The model’s files are damaged: /],
      [JSON.stringify({ ...config, num_hidden_layers: 1e9 }), /num_hidden_layers is 1000000000, not a whole number/],
      [JSON.stringify({ ...config, head_dim: -1 }), /head_dim is -1, not a whole number/],
      [JSON.stringify({ ...config, vocab_size: "9" }), /vocab_size is 9, not a whole number/],
      [
        JSON.stringify({ ...config, num_hidden_layers: 1000, intermediate_size: 262144 }),
        /^There is too little memory/,
      ],
    ],
    "tokenizer.json": [
      ["[]", /^The model’s files are damaged: tokenizer\.json: /],
      ['{"model": null}', /^The model’s files are damaged: tokenizer\.json: /],
    ],
    "model.safetensors": [
      [`${"\x11"}${"\0".repeat(7)}{"a": {"dtype": 1`.slice(0, 25), /^The model’s files are damaged: /],
      [`${"\x0b"}${"\0".repeat(7)}{"a": null}`, /^The model’s files are damaged: /],
    ],
  };
  const names = ["config.json", "tokenizer.json", "held_out.txt", "model.safetensors"];
  for (const [name, cases] of Object.entries(damaged))
    for (const [text, words] of cases) {
      const whole = (file) =>
        file === name ? Buffer.from(text) : file === "held_out.txt" ? Buffer.from("a") : read(file);
      const said = [];
      const serve = serving(
        (answer) => said.push(answer),
        async (file) => new Response(whole(file)),
      );
      const places = names.map((file) => ({ name: file, address: file, bytes: whole(file).length }));
      await serve({ kind: "open", places, first: [], inScript: true });
      assert.equal(said.at(-1).kind, "failed");
      assert.match(said.at(-1).what, words, `${name}: ${text}`);
    }
});

test("a run gives codes of a line of linears on integer zero points, without what only measures it", () => {
  const line = { grid: "asymmetric" };
  assert.ok(givesCodes(line, {}));
  assert.ok(!givesCodes({ ...line, grid: "affine" }, {}));
  assert.ok(!givesCodes(line, { lambda: "auto" }));
  assert.ok(takesLong({ method: "sarqc-signround" }));
  assert.ok(!takesLong({ method: "sarqc-gs" }) && !takesLong({}));
  assert.ok(!givesCodes(line, { rotate: "r1" }));
  assert.ok(!givesCodes(line, { distill: 5, distill_norms: true }));
  const recipe = { model: "m", lambda: 0.3, refine: 3, test: "t", test_tokens: 4096, tasks: ["a"], prompts: ["b"] };
  const alone = { model: "m", lambda: 0.3, refine: 3, baseline: false, inputs_from: "float" };
  assert.deepEqual(codesAlone(recipe, "float"), alone);
});

test("computed points stand beside those that the study keeps", () => {
  const at = { gamma: 0, lambda: 1 };
  const [zero, own] = [point(0), { ...point(0.1), of: "run" }];
  assert.equal(comparedAt(keptIs([zero]), at), null);
  assert.deepEqual(comparedAt(keptIs([zero]), at, [own]), { shown: own, zero });
  assert.equal(comparedAt(keptIs([zero]), at, [{ ...own, bits: 3 }]), null);
  const bare = { ...keptIs([]), line: { ...view.line, has_lam: false }, gammas: [null], lams: [0] };
  const first = { gamma: 0, lambda: 0 };
  const rounded = { ...point(null), gamma: null };
  assert.equal(comparedAt(bare, first), null);
  assert.deepEqual(comparedAt(bare, first, [rounded]), { shown: rounded, zero: null });
});

test("the card says how far codes are, and why there are none", () => {
  const begun = reduce(INITIAL, { type: "computing", progress: { done: 3, of: 42 } });
  assert.deepEqual(begun.computing, { done: 3, of: 42 });
  assert.equal(reduce(begun, { type: "computed" }).computing, null);
  const halted = reduce(begun, { type: "halted", what: "full" });
  assert.deepEqual([halted.computing, halted.trouble], [null, "full"]);
});
