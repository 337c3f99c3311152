/** URL → state → URL, for every control at once; what a link hides and locks; and what can't be used, said in words. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { fit, LAB_VIEW, parse, readLink, serialise } from "../../assets/js/base/address.js";
import { CONTROLS, PANELS } from "../../assets/js/base/contract.js";
import { numbersFrom } from "./given.js";

/** Choices by chance, from a seed so that a failure comes again. */
function random(seed) {
  const next = numbersFrom(seed);
  return { next, below: (n) => Math.floor(next() * n), pick: (list) => list[Math.floor(next() * list.length)] };
}

const LETTERS = "abzAZ09._-";
function anyName(dice) {
  const more = Array.from({ length: dice.below(30) }, () => dice.pick([...LETTERS])).join("");
  return dice.pick([..."abzAZ09"]) + more;
}

/** Written by hand and not from the table's own readers. */
const MAKE = {
  study: anyName,
  method: anyName,
  bits: (dice) => 1 + dice.below(16),
  layer: (dice) => dice.pick(["all", 0, 7, 18431]),
  lambda: (dice) => dice.pick([0, 0.1, 1e-7, 1e21, 2 ** -30, dice.next(), 1000 * dice.next()]),
  gamma: (dice) => dice.pick([0, 0.5, dice.next()]),
  draw: (dice) => dice.pick(["all", 0, 4, 123456]),
  quantity: (dice) => dice.pick(["held_out", "recon", "drift", "sar", "lambda", "gamma", "tokens"]),
  steps: (dice) => dice.pick(["order,range,lambda,refine", "lambda,refine,order,range", "refine,order,range,lambda"]),
  show: (dice) => dice.pick(["perplexity", "accuracy", "error", "drift"]),
  drawing: (dice) => dice.pick(["surface", "flat"]),
  pool: (dice) => dice.pick(["max", "mean", "max-saliency", "mean-saliency", "signed"]),
  open: (dice) => dice.pick(["where", "trade_off,steps", "text,proof"]),
  preview: anyName,
};
const STANDARD = {
  layer: "all",
  draw: "all",
  steps: "order,range,lambda,refine",
  show: "perplexity",
  pool: "max",
};

test("every state survives its own address, 2,000 of them", () => {
  assert.deepEqual(Object.keys(MAKE), Object.keys(LAB_VIEW));
  for (let seed = 0; seed < 2000; seed += 1) {
    const dice = random(seed);
    const state = { ...STANDARD };
    for (const [key, make] of Object.entries(MAKE)) if (dice.next() < 0.7) state[key] = make(dice);
    const card = dice.next() < 0.3 ? "plane" : "";
    const link = {
      hide: Object.keys({ ...CONTROLS, ...PANELS }).filter(() => dice.next() < 0.2),
      lock: Object.keys(CONTROLS).filter(() => dice.next() < 0.2),
      embed: card !== "" || dice.next() < 0.5,
      card,
      theme: dice.next() < 0.5 ? "dark" : "",
      lecture: dice.next() < 0.5,
      notes: "",
    };
    const search = serialise(state, LAB_VIEW, { link });
    assert.deepEqual(parse(search, LAB_VIEW), { state, problems: [] }, search);
    assert.deepEqual(readLink(search), { ...link, problems: [] }, search);
    assert.equal(serialise(parse(search, LAB_VIEW).state, LAB_VIEW, { link: readLink(search) }), search);
    assert.ok(!/=(raw|perplexity|all)(&|$)/.test(search), search);
  }
});

test("standards, known to the table or to the page, are left out; zero is a value, nothing is not", () => {
  assert.equal(serialise({ ...STANDARD }, LAB_VIEW), "");
  const standard = { study: "s", lambda: 0.1 };
  assert.equal(serialise({ ...standard, gamma: 0.5 }, LAB_VIEW, { standard }), "?gamma=0.5");
  const said = serialise({ lambda: 0, method: "", gamma: undefined, bits: null, layer: 0 }, LAB_VIEW);
  assert.equal(said, "?layer=0&lambda=0");
});

test("what can't be read is told and ignored", () => {
  const bad = {
    bits: ["two", "2.5", "0", "17", "-2", "1e1"],
    lambda: ["-1", "NaN", "Infinity", "1e999", "0x10", "0,1"],
    layer: ["-1", "first", "1.5"],
    draw: ["every"],
    show: ["loss"],
    quantity: ["error", "HELD_OUT"],
    drawing: ["3d", "difference"],
    pool: ["min", "mean,max"],
    study: ["../etc", "a b", ".hidden", "<b>"],
  };
  for (const [key, texts] of Object.entries(bad)) {
    for (const text of texts) {
      const { state, problems } = parse(`?${key}=${encodeURIComponent(text)}`, LAB_VIEW);
      assert.deepEqual(state, STANDARD, `${key}=${text}`);
      assert.equal(problems.length, 1);
      assert.ok(problems[0].includes(`“${key}=${text}”`) && problems[0].includes("ignored"));
    }
  }
  const { state, problems } = parse("?other=1&bits=2&bits=3&__theme=dark&hide=map", LAB_VIEW);
  assert.equal(state.bits, 2);
  assert.deepEqual(problems.map((one) => one.split(" ")[0]).sort(), ["“bits”", "“other”"]);
  assert.deepEqual(parse("?lambda=", LAB_VIEW), { state: STANDARD, problems: [] });
});

test("names of a link are names, each once, and no way into the page's style", () => {
  const { hide, lock, embed, problems } = readLink('?hide=map,%20map,lambda,*{},"]&lock=bits,&embed=yes');
  assert.deepEqual({ hide, lock, embed }, { hide: ["map", "lambda"], lock: ["bits"], embed: false });
  assert.equal(problems.length, 3);
  for (const [search, isLecture, notes, count] of [
    ["?lecture", true, "", 0],
    ["?lecture=1", true, "", 0],
    ["?lecture=0", false, "", 0],
    ["?lecture=yes", false, "", 1],
    ["?notes=0123456789abcdef", false, "0123456789abcdef", 0],
    ["?notes=<b>", false, "", 1],
  ]) {
    const read = readLink(search);
    assert.deepEqual([read.lecture, read.notes, read.problems.length], [isLecture, notes, count], search);
  }
  assert.deepEqual(readLink("?lang=de&scale=ratio").problems, []); // of former addresses
});

test("what a study does not have is taken out and told", () => {
  const line = (name, method, bits, draws = [0, 1]) => ({ name, method, bits, draws });
  const study = { lines: [line("rtn", "rtn", 2), line("gptq", "gptq", 3), line("x-auto", "x", 2)], layers: 4 };
  const kept = (state) => {
    const { state: fitted, problems } = fit(state, study);
    return [fitted, problems.length];
  };
  assert.deepEqual(kept({ method: "x", bits: 2, layer: 3, draw: 1 }), [{ method: "x", bits: 2, layer: 3, draw: 1 }, 0]);
  assert.deepEqual(kept({ method: "gptq", bits: 2 }), [{ bits: 2 }, 1]);
  assert.deepEqual(kept({ method: "gptq", bits: 4 }), [{ method: "gptq" }, 1]);
  assert.deepEqual(kept({ method: "awq", layer: 4, draw: 7 }), [{ layer: "all", draw: "all" }, 3]);
});
