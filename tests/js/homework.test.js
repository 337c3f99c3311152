/** Homework: links that are forged, answers beside facts that are computed here anew, and receipts with slips. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import test from "node:test";
import { readLink, serialise } from "../../assets/js/base/address.js";
import { sha256 } from "../../assets/js/base/sha256.js";
import { askable, factsOf, isAnswer, percentOf, verdictOf } from "../../assets/js/homework/answers.js";
import { reduce, START } from "../../assets/js/homework/homework_card.js";
import { receiptOf, standingOf } from "../../assets/js/homework/receipt.js";

test("the hash is that of node's own library, for every length around a block and for letters of several bytes", () => {
  for (let length = 0; length < 140; length += 1) {
    const text = "λ<a>é".repeat(40).slice(0, length);
    assert.equal(sha256(text), createHash("sha256").update(text).digest("hex"), String(length));
  }
});

test("a link says its questions, and what is forged is told and left out", () => {
  const read = (search) => {
    const { homework, label, problems } = readLink(search);
    return [homework.join(), label, problems.length];
  };
  assert.deepEqual(read("?homework=drift,best&label=Sheet 3, part 1"), ["best,drift", "Sheet 3, part 1", 0]);
  assert.deepEqual(read("?homework=best,best,best"), ["best", "", 0]);
  assert.deepEqual(read("?homework=<script>,constructor&label=x"), ["", "x", 1]);
  assert.deepEqual(read(`?homework=best&label=${"x".repeat(61)}`), ["best", "", 1]);
  for (const sign of ["\u202e", "\u0000", "\n", "\u200b"])
    assert.deepEqual(read(`?homework=best&label=${encodeURIComponent(`a${sign}b`)}`), ["best", "", 1]);
  const markup = "<img src=x onerror=alert(1)>"; // is text wherever it is shown
  assert.deepEqual(read(`?homework=best&label=${encodeURIComponent(markup)}`), ["best", markup, 0]);
  const link = { hide: [], lock: ["bits"], embed: false, homework: ["best", "better"], label: "A & B" };
  const again = readLink(serialise({}, {}, { link }));
  assert.deepEqual([again.homework, again.label], [link.homework, link.label]);
  assert.equal(serialise({}, {}, { link: { ...link, lock: [], homework: [] } }), ""); // a name without questions
});

const LAMS = [0, 0.1, 0.3, 1];

/** A view of one γ with these perplexities, band and drifts. */
const view = ({ perplexity, band, drift, best }) => ({
  study: { id: "toy", model: { name: "Toy" } },
  line: { title: "GPTQ + saliency penalty", bits: 2, baseline: "gptq" },
  lams: LAMS,
  lam_texts: LAMS.map(String),
  gamma_texts: ["0.1"],
  told: { perplexity: { best: [best] } },
  table: {
    rows: LAMS.map((_, i) => ({
      at: [0, i],
      perplexity: perplexity[i],
      sweet_spot: band.includes(i),
      drift: drift?.[i] ?? null,
    })),
  },
});

const BEST = { at: 2, chosen_of: 4, mean: -1.5, low: -2, high: -1, clear: true };
const TOY = view({ perplexity: [12, 10.5, 10, 11], band: [1, 2], drift: [0.8, 0.6, 0.5, 0.4], best: BEST });
const right = (name, answer, of = TOY) => verdictOf(name, answer, factsOf(of, 0)).isRight;

test("the best λ is right, each of its band too, and nothing else", () => {
  assert.deepEqual(
    LAMS.map((lam) => right("best", String(lam))),
    [false, true, true, false],
  );
});

test("significance follows from the interval alone", () => {
  const of = (change) => view({ perplexity: [12, 10.5, 10, 11], band: [2], best: change && { ...BEST, ...change } });
  const accepted = (toy) => ["yes", "no", "unknown"].filter((answer) => right("better", answer, toy));
  assert.deepEqual(accepted(of({})), ["yes"]);
  assert.deepEqual(accepted(of({ low: -2, high: 0.5, clear: false })), ["no"]);
  assert.deepEqual(accepted(of({ mean: 1.5, low: 1, high: 2 })), ["no"]); // worse
  assert.deepEqual(accepted(of({ low: null, high: null, clear: false })), ["unknown"]);
  assert.deepEqual(accepted(of(null)), ["unknown"]);
});

test("the fall of drift is one minus a ratio, give or take two points; what is not a number is no answer", () => {
  const fall = 100 * (1 - 0.5 / 0.8);
  for (const [off, isRight] of [
    [0, true],
    [1.9, true],
    [-1.9, true],
    [2.1, false],
    [-2.1, false],
  ])
    assert.equal(right("drift", String((fall + off).toFixed(3))), isRight, String(off));
  assert.ok(right("drift", "37,5 %"));
  for (const text of ["", "abc", "1e400", "NaN", "Infinity", "<b>1</b>", "9".repeat(20), "--1", "1 2"])
    assert.equal(percentOf(text), null, text);
  for (const text of ["-5", "100000"]) assert.equal(right("drift", text), false);
  assert.equal(isAnswer("best", "0.2", factsOf(TOY, 0)), false);
  assert.equal(isAnswer("better", "toString", factsOf(TOY, 0)), false);
});

test("a line that can't answer is not asked", () => {
  assert.equal(factsOf(view({ perplexity: [12, null, 10, 11], band: [], best: null }), 0), null);
  const undrifted = factsOf(view({ perplexity: [12, 10.5, 10, 11], band: [], best: null }), 0);
  assert.deepEqual(askable(["best", "better", "drift"], undrifted), ["best", "better"]);
});

test("another line begins anew; the same one keeps what was answered", () => {
  const facts = factsOf(TOY, 0);
  let state = reduce(START, { type: "shown", facts });
  state = reduce(state, { type: "answered", name: "best", answer: "0.3" });
  state = reduce(state, { type: "checked" });
  assert.equal(reduce(state, { type: "shown", facts: factsOf(TOY, 0) }), state);
  assert.deepEqual([state.tries, state.checked], [1, { best: "0.3" }]);
  const other = reduce(state, { type: "shown", facts: { ...facts, bits: 3 } });
  assert.deepEqual([other.tries, other.answers, other.checked], [0, {}, null]);
});

test("a receipt fits with spaces, other line ends and words around it, and with no changed character", () => {
  const answered = [{ name: "best", answer: "λ = 0.3", isRight: true }];
  const receipt = receiptOf({ label: "Sheet 3", facts: factsOf(TOY, 0), answered, tries: 2 });
  assert.match(
    receipt,
    /^sarqc receipt 1\ntask: Sheet 3\nstudy: toy\n[\s\S]*checked: 2 times\ncheck: (\w{4}-){2}\w{4}$/,
  );
  assert.equal(standingOf(receipt), "fits");
  assert.equal(standingOf(`My answer:\r\n\r\n  ${receipt.replaceAll("\n", "  \r\n")}\r\nThanks`), "fits");
  let changed = 0;
  for (let at = 0; at < receipt.length; at += 1) {
    if (/\s/.test(receipt[at])) continue;
    const slip = `${receipt.slice(0, at)}${receipt[at] === "x" ? "y" : "x"}${receipt.slice(at + 1)}`;
    assert.notEqual(standingOf(slip), "fits", slip);
    changed += 1;
  }
  assert.ok(changed > 80);
  for (const [text, standing] of [
    ["", "empty"],
    ["check: abcd", "none"],
    ["sarqc receipt 1", "none"],
    ["<script>", "none"],
  ])
    assert.equal(standingOf(text), standing, text);
});
