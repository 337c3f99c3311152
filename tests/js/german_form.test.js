/** What the form of Calibrate says on a German page, and in which language it asks the server. */
import assert from "node:assert/strict";
import { test } from "node:test";
import "./german.mjs";

const read = (name) => import(`../../assets/js/${name}.js`);
const plainBlanks = (text) => text.replaceAll("\u00a0", " ");

test("what the form asks carries the language", async () => {
  const asked = [];
  globalThis.fetch = async (address, { method = "GET" } = {}) => {
    asked.push(`${method} ${address}`);
    return new Response("{}");
  };
  const [{ request, file }, { visitor }] = await Promise.all(["base/client", "base/whoami"].map(read));
  for (const path of ["/models", "/corpora", "/texts", "/model?name=a%2Fb"]) await request(path);
  for (const path of ["/plan", "/recipe-texts", "/recipe-texts?study=s", "/runs"])
    await request(path, { method: "POST", body: { bits: 2 } });
  await request("/texts?title=a+b", { method: "POST", body: new Blob(["a"]) });
  await request("/texts/a", { method: "DELETE" });
  await file("/runs/x/recipe");
  await visitor();
  assert.deepEqual(asked, [
    "GET /api/models?lang=de",
    "GET /api/corpora?lang=de",
    "GET /api/texts?lang=de",
    "GET /api/model?name=a%2Fb&lang=de",
    "POST /api/plan?lang=de",
    "POST /api/recipe-texts?lang=de",
    "POST /api/recipe-texts?study=s&lang=de",
    "POST /api/runs?lang=de",
    "POST /api/texts?title=a+b&lang=de",
    "DELETE /api/texts/a?lang=de",
    "GET /api/runs/x/recipe?lang=de",
    "GET /api/visitor?lang=de",
  ]);
});

test("a recipe in words", async () => {
  const { autoWords, describe, modelWords } = await read("calibrate/recipe_form");
  const { settingsWords } = await read("calibrate/effort_choice");
  const recipe = { model: "a/tiny", bits: 2, method: "sarqc-gbs" };
  assert.equal(
    describe({ ...recipe, grid: "affine", lambda: 0.25, kind: "tune" }),
    "tiny, 2 Bit affin, GPTQ + Salienz-Strafterm, λ = 0,25, Suche nach λ",
  );
  assert.equal(modelWords({ model: "a/tiny", quantized_checkpoint: "b/c", method: "gptq" }), "c repariert");
  const auto = { ...recipe, lambda: "auto", gamma: "auto", samples: 32, validation_share: 0.25 };
  assert.equal(
    autoWords({ ...auto, channel_fraction: 0.125 }),
    "auto: 3 Werte von λ (0,25; 0,5; 0,75) × 4 von γ (0,1; 0,15; 0,35; 0,5) je Schicht, beurteilt an 8 von 32 Sequenzen " +
      "und 12,5 % der Kanäle",
  );
  assert.equal(
    autoWords({ ...auto, method: "sarqc-gs", samples: "?" }),
    "auto: 10 Werte von λ (0,1 bis 1) für das ganze Modell, beurteilt nach der Perplexität auf einem Teil der Sequenzen",
  );
  assert.equal(
    settingsWords({ ...recipe, lambda: [0.1, 0.5], gamma: "auto", group_size: "per_channel" }),
    "gptq+saliency, λ = 0,1; 0,5, γ auto, asymmetrisch, ein Skalierungsfaktor je Kanal",
  );
});

test("what a plan takes, and a grid costs", async () => {
  const [{ planFacts }, { gridCost }, { choicesOf }] = await Promise.all(
    ["plan_facts", "grid_switch", "budgets"].map((name) => read(`calibrate/${name}`)),
  );
  const plan = {
    runs: 2,
    model: "a/tiny",
    family: "llama",
    opened: "",
    parameters: 1234567,
    share_quantized: 0.875,
    layers: 28,
    experts: 8,
    bits_per_weight: 2.25,
    bytes_before: 2048,
    bytes_after: 1536,
    memory_bytes: 3 * 2 ** 30,
    host_bytes: 2 ** 30,
    streamed: true,
    disk_bytes: 1024,
    calibration_tokens: 65536,
    begin: "<s>",
    test_tokens: null,
    minutes: 2.5,
    minutes_on: "cpu",
  };
  assert.deepEqual(
    planFacts(plan).map(([name, text]) => `${name}: ${plainBlanks(text)}`),
    [
      "Läufe: 2",
      "Modell: a/tiny (llama)",
      "Quantisiert: 87,5 % von 1.234.567 Parametern, 28 Schichten, bis zu 8 Experten je Block",
      "Bits je Gewicht: 2,25, mit Skalierungsfaktoren und Nullpunkten oder Verschiebungen",
      "Größe: 2,0 KiB → 1,5 KiB, wenn gepackt",
      "Arbeitsspeicher: etwa 3,0 GiB auf dem Gerät, 1,0 GiB daneben, Block für Block",
      "Speicherplatz: etwa 1,0 KiB im Datenordner",
      "Kalibrierung: 65.536 Tokens, jede Sequenz und jedes Testfenster hinter <s>",
      "Zeit: etwa 2 min 30 s für alle 2 auf cpu",
    ],
  );
  const reader = { reader: "mlx-lm", loads: "yes", version: "1", words: "" };
  const formats = [{ format: "mlx", possible: true, readers: [reader], note: "", fixes: [], tried: "" }];
  assert.equal(
    gridCost({ grid: "full_range", group_size: 64 }, { bits_per_weight: 3.25, formats }),
    "ganzer Bereich, Gruppen zu 64: 3,25 Bit je Gewicht, geladen als mlx von mlx-lm",
  );
  assert.deepEqual(
    choicesOf(null, "1").map(([, words]) => words),
    ["in 1 Minute", "in 3 Minuten", "in 10 Minuten", "in 30 Minuten", "in 2 Stunden", "bis es feststeht"],
  );
});

test("what a search for λ and a ladder lead to", async () => {
  const { nextOf, moreOf, whyNotTuned } = await read("calibrate/tune_form");
  const { afterLadder, ladderStanding, ladderTime } = await read("calibrate/ladder_form");
  const recipe = { model: "a/tiny", bits: 2, method: "sarqc-gbs", lambda: 0.5, test: "t:test" };
  const next = nextOf({ next: "run", recipe, more_minutes: null }, []);
  assert.equal(next.button, "Mit λ = 0,5 quantisieren");
  assert.equal(
    next.lead,
    "Als Nächstes: tiny, 2 Bit, GPTQ + Salienz-Strafterm, λ = 0,5, das ganze Modell mit Eingaben aus seinen quantisierten " +
      "Schichten, beurteilt auf t:test.",
  );
  assert.equal(moreOf({ next: "run", end: "budget", more_minutes: 1 }, recipe).button, "1 Minute weitermachen");
  assert.match(whyNotTuned("gptq"), /^gptq hat kein λ; die Suche nach λ gibt es für rqc-gs, /);
  assert.equal(afterLadder({ next: "go_on", recipe, more_minutes: 2.5 }, []).button, "2,5 Minuten weitermachen");
  const ladder = { measured: 9, planned: 48, draws: 1, end: null, budget: 180 };
  assert.equal(ladderStanding(ladder, { draws: 8 }), "Stichprobe 2 von 8: 9 von höchstens 48 Modellen gemessen");
  assert.equal(ladderStanding({ ...ladder, measured: 1, end: "budget" }, { draws: 8 }), "1 Modell gemessen");
  assert.equal(plainBlanks(ladderTime(ladder, 80)), "1 min 20 s von 3 min");
});

test("texts, layers, readers and what is kept", async () => {
  const [{ inWords }, { LAYER_COLUMNS, flagWords, layerRows }, { loadedBy }, { keptWords }, { costWords }] =
    await Promise.all(
      ["texts_card", "layer_rows", "readers_table", "kept", "method_list"].map((name) => read(`calibrate/${name}`)),
    );
  const float = { pieces: ["so", " ist"] };
  assert.equal(
    inWords({ float, divergence: 1, kl: [0.5, 0.25] }),
    "Die Texte trennen sich bei Token 2 von 2. KL-Divergenz im Mittel 0,375 Nats je Token, höchstens 0,500 Nats bei " +
      "Token 1, „so“.",
  );
  const report = { flags: ["no_tokens", "little_memory", "other"], chosen: { alpha: null, lam_interval: [0.2, null] } };
  const [row] = layerRows([{ name: "a", report }]);
  const shown = (key) => LAYER_COLUMNS.find((column) => column.key === key).show(row);
  assert.deepEqual([shown("alpha"), shown("lam_low")], ["keine", "0,2 und mehr"]);
  assert.equal(row.flags, "no tokens, little memory, other"); // of the file
  assert.equal(flagWords(row.flags), "keine Tokens, wenig Speicher, other");
  const reader = (name, loads) => ({ reader: name, loads, version: "", words: "" });
  assert.equal(loadedBy([reader("a", "yes"), reader("b", "no")]), "lädt in a, nicht in b");
  assert.equal(loadedBy([reader("b", "no")]), "lädt in keinem erprobten Programm, nicht in b");
  assert.equal(keptWords({ until: null, shared: true, while_room: false }), "solange sein Link gilt");
  assert.deepEqual([costWords(1), costWords(2.5)], ["Zeit von GPTQ", "2,5 × Zeit von GPTQ"]);
});

test("who may not begin a run, and what an address may say", async () => {
  const { whyNoRun } = await read("base/whoami");
  const { parse } = await read("base/address");
  const { calibrateView } = await read("base/recipe_address");
  assert.match(whyNoRun({ can_sign_in: true, signed_in: false }), /Melden Sie sich an, oder wenden Sie sich an /);
  assert.deepEqual(parse("?bits=two&speed=maybe", calibrateView(["bits", "speed"])).problems, [
    "„bits=two“ wird nicht beachtet. Erlaubt für bits: eine ganze Zahl.",
    "„speed=maybe“ wird nicht beachtet. Erlaubt für speed: true oder false.",
  ]);
});
