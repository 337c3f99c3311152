/** Form ↔ recipe, and a recipe in words. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import {
  autoWords,
  describe,
  formTrouble,
  idleFields,
  judgedOn,
  recipeOf,
  restOf,
  severalValues,
  shortModel,
  valuesOf,
} from "../../assets/js/calibrate/recipe_form.js";

const NAMES = ["model", "bits", "method", "lam", "gamma", "group_size", "tasks", "static_groups"];

const TOY = { model: "toy", bits: 2, method: "sarqc-gbs", lambda: 0.1, group_size: 128, tasks: ["a", "b"] };

test("empty fields are left out and lists are split", () => {
  const values = ["toy", 2, "sarqc-gbs", 0.1, null, "128", "a, b,", false];
  assert.deepEqual(recipeOf(NAMES, values), { ...TOY, static_groups: false });
});

test("what the method does not tune is not asked for", () => {
  const recipe = recipeOf(NAMES, ["toy", 2, "rtn", "0.1", "auto", "per_channel", "", true]);
  assert.deepEqual(recipe, { model: "toy", bits: 2, method: "rtn", group_size: "per_channel", tasks: [] });
});

test("a number that is none is passed on, so that the refusal names it", () => {
  assert.equal(recipeOf(NAMES, ["toy", 2, "rtn", null, null, "many", "", false]).group_size, "many");
});

const read = (typed) => recipeOf(NAMES, ["toy", 2, "sarqc-gbs", typed, "", "128", "", false]).lambda;

test("λ is a number, a word, or empty for the method's own", () => {
  assert.equal(read("0.3"), 0.3);
  assert.equal(read(" 0 "), 0);
  assert.equal(read(" auto"), "auto");
  assert.equal(read("abc"), "abc"); // the recipe refuses it in its own words
  assert.equal(read(""), undefined);
});

test("several values of λ are a list, each once, and one is not a list", () => {
  assert.deepEqual(read("0, 0.05,0.1"), [0, 0.05, 0.1]);
  assert.deepEqual(read("auto, 0.1, 0.10, abc"), ["auto", 0.1, "abc"]);
  assert.equal(read("0.1,"), 0.1);
  assert.equal(read(" , "), undefined);
  const values = ["toy", 2, "sarqc-gbs", "0, 0.1", "auto", "128", "a, b", false];
  assert.deepEqual(severalValues(NAMES, values), [{ name: "lam", title: "λ", values: [0, 0.1] }]);
  assert.deepEqual(valuesOf(["lam"], { lambda: [0, 0.1] }), ["0, 0.1"]);
  // What “auto” needs is asked where one of the runs is to choose.
  assert.deepEqual(
    idleFields({ method: "sarqc-gbs", lambda: ["auto", 0.1] }),
    idleFields({ method: "sarqc-gbs", lambda: "auto" }),
  );
});

test("only what means something to the method is asked", () => {
  const idle = (recipe) => {
    const names = ["channel_fraction", "epochs", "gamma", "lam", "mode", "static_groups", "sweep", "validation_share"];
    return names.filter((name) => idleFields(recipe).includes(name));
  };
  const auto = ["channel_fraction", "validation_share"];
  const among = (...names) => names.sort();
  assert.deepEqual(idle({ method: "rtn" }), among(...auto, "epochs", "gamma", "lam", "mode", "static_groups"));
  assert.deepEqual(idle({ method: "awq", lambda: "auto" }), among(...auto, "epochs", "gamma", "lam", "static_groups"));
  assert.deepEqual(idle({ method: "sarqc-gbs", gamma: "auto" }), ["epochs", "mode", "sweep"]);
  assert.deepEqual(idle({ method: "rqc-gbs", lambda: 0.1, gamma: "auto" }), among(...auto, "epochs", "gamma", "mode"));
  assert.deepEqual(
    idle({ method: "rqc-gs", lambda: "auto" }),
    among("channel_fraction", "epochs", "gamma", "static_groups", "sweep"),
  );
  // Another λ of a method that learns would be another training.
  assert.deepEqual(idle({ method: "omniquant" }), among(...auto, "gamma", "lam", "mode", "static_groups", "sweep"));
  assert.deepEqual(idleFields({ method: "of a later version" }), []);
});

test("what “auto” will do, in words", () => {
  const said = (recipe) => autoWords({ samples: 32, validation_share: 0.25, ...recipe });
  assert.equal(said({ method: "rtn", lambda: "auto" }), "");
  assert.equal(
    said({ method: "sarqc-gbs", lambda: "auto", gamma: "auto" }),
    "auto: 3 values of λ (0.25, 0.5, 0.75) × 4 of γ (0.1, 0.15, 0.35, 0.5) for each layer, judged on 8 of 32 sequences",
  );
  assert.equal(
    said({ method: "sarqc-gbs", lambda: 0.1, gamma: "auto", channel_fraction: 0.5 }),
    "auto: 4 values of γ (0.1, 0.15, 0.35, 0.5) for each layer, judged on 8 of 32 sequences and 50 % of the channels",
  );
  assert.equal(
    said({ method: "rqc-gs", lambda: "auto" }),
    "auto: 10 values of λ (0.1 to 1) for the whole model, judged by perplexity on 8 of 32 sequences",
  );
  assert.equal(said({ method: "rqc-gbs" }), ""); // nobody has asked
  assert.match(said({ method: "rqc-gbs", lambda: "auto", samples: 1 }), /judged on a part of the sequences$/);
});

test("the sequences kept for judging are counted as the recipe counts them", () => {
  const golden = JSON.parse(readFileSync(new URL("../golden/rules.json", import.meta.url), "utf8"));
  for (const { samples, share, kept } of golden.validation_samples)
    assert.equal(judgedOn({ samples, validation_share: share }), kept, `${share} of ${samples}`);
  assert.equal(judgedOn({ samples: 1, validation_share: 0.25 }), null);
  assert.equal(judgedOn({ samples: 8, validation_share: 1 }), null);
  assert.equal(judgedOn({ validation_share: 0.25 }), null);
});

test("a recipe fills the form and comes back", () => {
  const recipe = { ...TOY, gamma: 0.5, group_size: 64, tasks: ["a"], static_groups: true };
  assert.deepEqual(recipeOf(NAMES, valuesOf(NAMES, recipe)), recipe);
  assert.equal(valuesOf(NAMES, { group_size: null })[5], "per_channel");
  const auto = { ...recipe, lambda: "auto", gamma: "auto" };
  assert.deepEqual(recipeOf(NAMES, valuesOf(NAMES, auto)), auto);
  assert.deepEqual(valuesOf(NAMES, { lambda: null }).slice(3, 5), ["", ""]);
});

test("prompts stand on lines of their own and keep their commas", () => {
  const prompts = ["Once, upon a time", " and “more”"];
  const [typed] = valuesOf(["prompts"], { prompts });
  assert.equal(typed, "Once, upon a time\n and “more”");
  assert.deepEqual(recipeOf(["prompts"], [`${typed}\r\n\n  \n`]), { prompts });
  assert.deepEqual(recipeOf(["prompts"], [""]), { prompts: [] });
});

test("one line for a run", () => {
  const fitted = { range: "search", order: "activation", refine: 3 };
  const byBlock = { distill_by: "block", distill_codes: true, distill_norms: true, distill_lambda: 0 };
  for (const [method, more, words] of [
    ["sarqc-gbs", { lambda: "auto", gamma: 0.1 }, "GPTQ + saliency penalty, λ auto, γ = 0.1"],
    ["rqc-gbs", { model: "a/b/toy", lambda: 0, gamma: null }, "GPTQ + identity penalty, λ = 0"],
    ["gptq", fitted, "GPTQ 1 %, searched range, activation order, refined × 3"],
    ["awq", { ...fitted, refine: 0 }, "AWQ, searched range"],
    [
      "rtn",
      { range: "joint", refine: 3, refit: 2 },
      "Round to nearest, jointly searched range, refined × 3, scales refitted × 2",
    ],
    ["gptq", { distill: 5 }, "GPTQ 1 %, scales distilled"],
    [
      "gptq",
      { distill: 5, ...byBlock },
      "GPTQ 1 %, scales distilled, block by block, codes distilled, norms distilled, distilled at λ = 0",
    ],
    ["gptq", { distill_norms: true }, "GPTQ 1 %"],
    ["awq", { distill: 5 }, "AWQ"],
  ])
    assert.equal(describe({ model: "toy", bits: 2, method, ...more }), `toy, 2 bits, ${words}`);
  assert.equal(shortModel("/models/toy/"), "toy");
});

test("the rest of a run with another λ begins at the first block that is not done", () => {
  const recipe = { model: "toy", bits: 3, method: "sarqc-gbs", lambda: 0.1, sweep: [], from_block: null };
  assert.deepEqual(restOf(recipe, 20), { ...recipe, from_block: 20 });
  assert.equal(restOf(recipe, null), null);
  for (const change of [
    { method: "rtn" },
    { lambda: "auto" },
    { gamma: "auto" },
    { sweep: [0, 1] },
    { layer: "model.layers.0.mlp.down_proj" },
    { quantized_checkpoint: "q" },
    { kind: "tune" },
    { from_block: 10 }, // between the two blocks there is a λ that the field can't say
  ])
    assert.equal(restOf({ ...recipe, ...change }, 20), null, JSON.stringify(change));
  assert.equal(restOf({ ...recipe, from_block: 30, then_lambda: 0.2 }, 20)?.from_block, 20);
});

test("values from a block on are a part of the words", () => {
  const recipe = { model: "toy", bits: 3, method: "sarqc-gbs", lambda: 0.1, from_block: 20, then_lambda: 0.3 };
  assert.match(describe(recipe), /, λ = 0.1, from block 20: λ = 0.3$/);
  assert.match(describe({ ...recipe, then_gamma: 1 }), /, from block 20: λ = 0.3, γ = 1$/);
});

test("a comma that may be a decimal one is asked about, before any plan", () => {
  const asked = (name, text) => formTrouble([name], [text]);
  const answers = (name, text) => asked(name, text).fixes.map(({ words, values }) => [words, ...Object.values(values)]);
  assert.deepEqual(answers("lam", "0,1"), [
    ["One value, 0.1", 0.1],
    ["2 values, 0 and 1", [0, 1]],
  ]);
  assert.deepEqual(answers("gamma", " 0,3 "), [
    ["One value, 0.3", 0.3],
    ["2 values, 0 and 3", [0, 3]],
  ]);
  assert.deepEqual(answers("lam", "0,05; 0,1")[0], ["2 values, 0.05 and 0.1", [0.05, 0.1]]);
  assert.deepEqual(answers("sweep", "0,1,2"), [["3 values, 0, 1 and 2", [0, 1, 2]]]);
  assert.equal(asked("lam", "0,1").field, "lambda");
  for (const text of ["0, 1", "0,0.1", "0.1", "", null, 0.1, "auto", "0 ,1"]) assert.equal(asked("lam", text), null);
  assert.equal(asked("tasks", "a1,2b"), null);
});

test("a text that is too long is refused with its length, and not sent", () => {
  const refused = formTrouble(["model", "prompts"], ["m", "x".repeat(100000)]);
  assert.deepEqual([refused.what, refused.field], ["Prompts: 100,000 characters, 8,192 fit", "prompts"]);
  assert.equal(formTrouble(["prompts"], ["x".repeat(8192)]), null);
});
