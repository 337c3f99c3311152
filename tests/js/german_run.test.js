/** What the view of a run says on a German page. */
import assert from "node:assert/strict";
import { test } from "node:test";
import "./german.mjs";

const { advancedWords, detailWords, stageAndDetail, stageWords } = await import("../../assets/js/base/stage_words.js");
const { exportWords } = await import("../../assets/js/calibrate/exports_card.js");
const { nextStep } = await import("../../assets/js/calibrate/next_step.js");
const State = await import("../../assets/js/calibrate/run_state.js");
const { expertsWords, writtenWords } = await import("../../assets/js/calibrate/said_words.js");
const { protocolWords, reasonWords } = await import("../../assets/js/calibrate/speed_card.js");
const { storedWords } = await import("../../assets/js/calibrate/stored_words.js");
const { segmentsOf } = await import("../../assets/js/calibrate/tuning_bar.js");
const { budgetWords, standing } = await import("../../assets/js/calibrate/tuning_progress.js");

const NBSP = "\u00a0";

test("stages, with what a run says of them", () => {
  assert.deepEqual(
    [
      ["loading", "tiny-llama"],
      ["quantizing", "GPTQ, 3 bits"],
      ["comparing with GPTQ 1 %", "perplexity"],
      ["comparing models", "draw 2 of at most 8"],
      ["choosing λ", "6 candidates, judged on 4 of 16 sequences"],
      ["saving", "reading it again"],
    ].map(([stage, detail]) => stageAndDetail(stage, detail)),
    [
      "wird geladen: tiny-llama",
      "wird quantisiert: GPTQ, 3 Bit",
      `Vergleich mit GPTQ 1${NBSP}%: Perplexität`,
      "Modelle werden verglichen: Stichprobe 2 von höchstens 8",
      "λ wird gewählt: 6 Kandidaten, beurteilt auf 4 von 16 Sequenzen",
      "wird gespeichert: wieder eingelesen",
    ],
  );
  assert.deepEqual(
    ["windows of the test text", "steps of epoch 2 of block 7", "answers of piqa", "something new"].map((what) =>
      advancedWords({ done: 3, total: 1200, what }),
    ),
    [
      "3 von 1.200 Fenstern des Testtexts",
      "3 von 1.200 Schritten der Epoche 2 von Block 7",
      "3 von 1.200 Antworten auf piqa",
      "3 von 1.200 something new",
    ],
  );
  assert.deepEqual([stageWords("a new stage"), detailWords("a new detail")], ["a new stage", "a new detail"]);
});

test("the log of a run, and what is before one that waits", () => {
  const at = "2026-11-26T20:00:00Z";
  const layers = [
    { name: "a.q_proj", block: 0, module: "q_proj" },
    { name: "a.k_proj", block: 0, module: "k_proj" },
  ];
  const said = [
    { type: "stage", name: "loading", detail: "tiny-llama" },
    { type: "started", model: "m", device: "cpu", layers, share_quantized: 0.8, finished_layers: 1, phases: [] },
    { type: "epoch_done", block: 3, epoch: 0, epochs: 20, objective: 0.5, recon: 0, sar: 0 },
    { type: "measured", quantity: "perplexity", which: "quantized", value: 12.345, standard_error: null, protocol: {} },
    { type: "warned", what: "as Python says it", where: "here" },
    { type: "cancelled" },
  ];
  const states = [];
  said.reduce((state, event, seq) => {
    states.push(State.reduce(state, { ...event, at, seq: seq + 1 }));
    return states.at(-1);
  }, State.initial());
  assert.deepEqual(
    states.at(-1).log.map(({ text }) => text),
    [
      "Wird geladen: tiny-llama",
      "Begonnen auf cpu; 1 von 2 Schichten liegen schon auf dem Datenträger",
      "Perplexität des quantisierten Modells: 12,3",
      "here: as Python says it",
      "Abgebrochen; fertige Schichten bleiben",
    ],
  );
  assert.equal(State.learningWords(states[2]), "Block 3 · Epoche 0 von 20 · Zielfunktion 0,500");
  assert.equal(State.describeMatrix(states[1]), "0 von 2 Schichten gelöst.");
  assert.equal(
    State.queueWords({ number: 3, at_work: 1, worked: 65, behind: null, seconds: 120 }),
    `an Stelle 3 der Warteschlange: ein Lauf arbeitet, seit 1${NBSP}min 5${NBSP}s; 2 warten davor; beginnt in etwa 2${NBSP}min`,
  );
  assert.equal(exportWords({ state: "queued" }, State.initial()), "wartet auf ein Gerät");
  assert.equal(exportWords({ state: "running" }, states[1]), "0 von 2 Schichten geholt");
});

test("a tuning run, its clock and its bar", () => {
  const tuning = {
    screened: [42, 42],
    measured: 9,
    planned: 54,
    draws: 1,
    end: null,
    tasks: null,
    budget: 180,
    seconds: 80,
    turns: [{ what: "screened", seconds: 20 }],
    rows: ["best", "as_good", "not_reached", "ruled_out"].map((one) => ({ standing: one })),
  };
  assert.equal(
    standing(tuning, { draws: 8 }),
    "Stichprobe 2 von höchstens 8: 9 Modelle gemessen, 2 λ verglichen, 1 noch nicht erreicht, 1 ausgeschieden",
  );
  assert.equal(budgetWords(tuning), `1${NBSP}min 20${NBSP}s von 3${NBSP}min, noch 1${NBSP}min 40${NBSP}s`);
  assert.deepEqual(
    segmentsOf(tuning, 80).map(({ words }) => words),
    ["Vorauswahl 0:20", "Vergleich, 9 Modelle 1:00", "noch 1:40 von 3:00"],
  );
});

test("what to try next, and how fast it is", () => {
  const recipe = { method: "gptq", bits: 3, grid: "symmetric", group_size: 64 };
  assert.equal(
    nextStep({ perplexity: 11.5, perplexity_float: 10, vocabulary: 512 }, recipe)?.words,
    `3 Bit symmetrisch: 15${NBSP}% mehr Perplexität als das Gleitkommamodell. Versuchen Sie das asymmetrische Gitter.`,
  );
  assert.equal(
    reasonWords({ float: null, reason: "the model is not in memory as a whole" }),
    "Nichts wurde gemessen: das Modell ist nicht als Ganzes im Speicher.",
  );
  const protocol = {
    sequence_length: 2048,
    prompt_tokens: 1984,
    decoded_tokens: 64,
    repeats: 5,
    dtype: "bfloat16",
    device: "cpu",
    threads: 8,
    torch: "2.13.0",
    float_model: "the quantized weights as floating-point numbers, as fast as the originals",
  };
  assert.match(
    protocolWords({ kernel: null, protocol }),
    /^Eine Sequenz von 2\.048 Tokens: .* mit 8 Threads, torch 2\.13\.0\./,
  );
});

test("sentences of a run's summary", () => {
  const counts = { experts: 1200, no_tokens: 0, fewer_tokens_than_channels: 1, channels: 768, tokens: 4096, words: "" };
  assert.equal(
    expertsWords(counts),
    "Von 1.200 Experten sah 1 weniger von 4.096 Kalibriertokens, als er Kanäle liest (768).",
  );
  assert.equal(expertsWords({ words: "as Python says it" }), "as Python says it");
  assert.match(
    writtenWords({ other_tensors: [], tokens: 64, parts_at: 4, words: "" }),
    /ist Nummer 5 das erste andere\.$/,
  );
  assert.equal(
    storedWords("λ = 0.5 is the largest of the candidates: a larger one may be better still."),
    "λ = 0,5 ist der größte Kandidat: Ein größeres ist vielleicht noch besser.",
  );
  assert.equal(storedWords("something else"), "something else");
});
