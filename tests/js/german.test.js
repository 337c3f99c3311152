/** What scripts of the Lab say on a German page. */
import assert from "node:assert/strict";
import { test } from "node:test";
import "./german.mjs";

const { parse, readLink, fit, LAB_VIEW } = await import("../../assets/js/base/address.js");
const { change, count, format, interval, when, withInterval } = await import("../../assets/js/base/format.js");
const { at } = await import("../../assets/js/base/site.js");
const { asSentence } = await import("../../assets/js/base/problem.js");
const { channelRange } = await import("../../assets/js/charts/cell_channels.js");
const { formatNumber, hoverWords } = await import("../../assets/js/charts/flat/format.js");
const { counted } = await import("../../assets/js/explorer/counting.js");
const { spoken } = await import("../../assets/js/explorer/typeset.js");
const { elsewhere, layerChoice } = await import("../../assets/js/lab/state.js");
const Preview = await import("../../assets/js/lab/preview.js");

test("addresses keep the language, once", () => {
  assert.deepEqual(["/learn", "/api/studies?x=1", "/calibrate?bits=2&lang=de"].map(at), [
    "/learn?lang=de",
    "/api/studies?x=1&lang=de",
    "/calibrate?bits=2&lang=de",
  ]);
});

test("numbers, intervals and times", () => {
  assert.deepEqual(
    [
      format(1234.5, "difference"),
      format(0.1234, "share"),
      format(true, "flag"),
      format(1.5e-9, "significant"),
      count(6291456),
    ],
    ["1.234,50", "12,3\u00a0%", "ja", "1,50·10^−9", "6.291.456"],
  );
  assert.equal(interval(-0.1, 6.4, 1), "von −0,1 bis 6,4");
  assert.equal(interval(0.25, null, 1), "von 0,3 aufwärts");
  assert.equal(withInterval(3.2, -0.1, 6.4, 1), "3,2 (−0,1 bis 6,4)");
  assert.equal(withInterval(3.2, 0.4, null, 1), "3,2 (ab 0,4)");
  assert.deepEqual([change(-0.12), change(0.5), change(0)], ["12\u00a0% weniger", "50\u00a0% mehr", "gleich viel"]);
  const now = new Date(2026, 10, 26, 20, 0);
  assert.equal(when(new Date(2026, 10, 26, 9, 5).getTime() / 1000, now), "09:05");
  assert.equal(when(new Date(2026, 2, 7, 9, 5).getTime() / 1000, now), "07.03.2026, 09:05");
});

test("charts write numbers of the language, and a hover too", () => {
  assert.deepEqual(
    [formatNumber(",.1f", -1234.56), formatNumber(".0%", 0.25), formatNumber("+.2r", 0.0123)],
    ["−1.234,6", "25\u00a0%", "+0,012"],
  );
  assert.equal(hoverWords("%{x}: %{y:.2f}", { x: 0.5, y: 1.005 }).text, "0,5: 1,00");
  assert.equal(channelRange("saliency rank", [0, 19], 0, 57), "Salienzränge 0–18");
});

test("numbers of a sentence count with a decimal comma", () => {
  assert.equal(counted("von 9,50 auf 8 bei λ = 0,1", "von 8,50 auf 8 bei λ = 0,3", 0.5), "von 9,00 auf 8 bei λ = 0,2");
});

test("what of an address can't be used", () => {
  const { problems } = parse("?bits=99&lambda=x&layre=3&draw=0&draw=1", LAB_VIEW);
  assert.deepEqual(problems, [
    "„bits=99“ wird nicht beachtet. Erlaubt für bits: eine ganze Zahl von 1 bis 16.",
    "„lambda=x“ wird nicht beachtet. Erlaubt für lambda: eine Zahl ab 0.",
    "„draw“ steht 2-mal da: Nur das erste zählt.",
    "„layre“ wird nicht beachtet: unbekannter Parameter.",
  ]);
  assert.deepEqual(readLink("?theme=red").problems, [
    "„theme=red“ wird nicht beachtet. Erlaubt für theme: light oder dark.",
  ]);
  const study = { lines: [{ name: "a", method: "gptq", bits: 2, draws: [0] }], layers: 4 };
  assert.deepEqual(fit({ bits: 3, layer: 9 }, study).problems, [
    "Diese Studie hat nichts mit 3 Bit: „bits“ wird nicht beachtet.",
    "Die Schichten dieser Studie zählen ab 0, es sind 4: „layer“ wird nicht beachtet.",
  ]);
  const line = { has_lam: true };
  const view = {
    line,
    lams: [0, 0.1],
    lam_texts: ["0", "0,1"],
    gammas: [null],
    gamma_texts: [""],
    second: { sign: "γ" },
  };
  assert.deepEqual(elsewhere({ lambda: 0.25 }, { view, at: { gamma: 0, lambda: 1 } }), [
    "λ = 0,25 gibt es zu dieser Kurve nicht: Zu sehen ist λ = 0,1.",
  ]);
});

test("the objective, and a preview", () => {
  assert.equal(
    spoken({ aim: "outputs", weighing: "one" }),
    "Ŵ minimiert die quadrierte Norm von Ŵ minus W, mal X, plus λ mal die quadrierte Norm von Ŵ minus W, mal S; S ist die Einheitsmatrix.",
  );
  const begun = Preview.initial({ sweep: [0, 0.1, 0.5] });
  assert.equal(Preview.words(begun), "wartet auf ein Gerät");
  const point = (index, lam, recon) => ({ type: "point_done", index, total: 3, lam, relative_recon: recon });
  const state = [point(0, 0, 0.21), point(1, 0.1, 0.1875)].reduce(Preview.reduce, begun);
  assert.equal(Preview.words(state), "2 von 3 λ gelöst");
  assert.equal(
    Preview.sentence(state, "Block 0 · q"),
    "Block 0 · q: 2 von 3 λ gelöst; der Rekonstruktionsfehler auf dem Kalibriertext geht von 0,210 bei λ = 0 bis 0,188 bei λ = 0,1.",
  );
});

test("lists of the Lab, and sentences that begin with any Latin letter", () => {
  const layers = [{ index: 0, label: "block 0 · q", name: "q", block: 0, expert: null }];
  assert.deepEqual(layerChoice({ layers, layer: null, blocks: null }).groups[0].options[0], ["all", "alle Schichten"]);
  assert.equal(asSentence("über alle Schichten"), "Über alle Schichten");
  assert.equal(asSentence("λ = 0,1"), "λ = 0,1");
});
