/** Whole German sentences of the tour, of a lecture's phone, of homework and of the model in the page. */
import assert from "node:assert/strict";
import { test } from "node:test";
import "./german.mjs";

const read = async (name) => import(`../../assets/js/${name}.js`);
const words = (pieces) => pieces.map((piece) => piece.text ?? piece).join("");

test("answers of the tour", async () => {
  const [weight, lattice, step, text] = await Promise.all(
    ["weight", "lattice", "column_by_column", "new_text"].map((name) => read(`learn/${name}`)),
  );
  assert.equal(
    words(weight.answer(weight.facts({ ...weight.start, guess: 0.2 }))),
    "Ihr Tipp: 0,20. Die nächstgelegene Stufe ist 0,59. Das Gewicht verschiebt sich um 0,17. Keines verschiebt sich um " +
      "mehr als einen halben Stufenabstand, 0,29. Damit 0 eine Stufe ist, sind alle um 0,23 verschoben. Ziehen Sie am " +
      "großen Punkt, ändern Sie die Bits.",
  );
  assert.equal(
    words(lattice.answer(lattice.facts({ ...lattice.start, shown: 1, guess: 3 }))),
    "Ihr Tipp: 3. So ist es: Er wechselt 3-mal. Bei λ = 0 ist der beste Punkt (1, 2); der Spaltenlöser, der nicht alle " +
      "probiert, sondern ein Gewicht rundet und das nächste den Fehler ausgleichen lässt, bleibt bei (0, 1) stehen. " +
      "Ziehen Sie am Kreuz oder an den Tokens.",
  );
  assert.equal(
    words(step.answer(step.facts({ ...step.start, shown: 1, guess: 2 }, step.prepare()))),
    "Ihr Tipp: nach oben. Richtig. Das erste Gewicht geht von −0,60 auf −0,42, das zweite wird um 0,13 nach oben " +
      "geschoben. Sind alle Spalten gerundet, ist der Fehler dieser Zeile 4,6\u00a0%; jede für sich gerundet, " +
      "28,9\u00a0%. Bei λ = 0,01 ist die Zeile um 52\u00a0% gedriftet.",
  );
  const shown = text.facts({ ...text.start, shown: 1, guess: 2 });
  assert.equal(
    words(text.answer(shown)),
    "Ihr Tipp: 5- bis 10-mal. Richtig. Ohne λ ist der Fehler des Siegers auf neuen Tokens 8,0-mal so groß. Neue Tokens " +
      "mögen den Sieger ab λ = 0,037 am liebsten. Bei λ = 0, Drift 2,42: Fehler 0,206, auf neuen Tokens 1,65.",
  );
});

test("a link's mistakes and a lecture", async () => {
  const [{ oneFrom, settle }, phone, { attendance }] = await Promise.all(
    ["learn/address", "lecture/phone_state", "lecture/state"].map(read),
  );
  assert.deepEqual(settle({ lambda: 0.2 }, { lambda: oneFrom("λ", [0.1, 0.5]) }).problems, [
    "λ = 0,2 gibt es in dieser Abbildung nicht: Zu sehen ist λ = 0,1.",
  ]);
  const heard = { stop: "model", phase: "revealed", lams: [0, 0.1, 0.3, 1], counts: [], best: 2, band: [1, 2] };
  const said = (sent) => phone.status({ ...phone.START, sent }, heard);
  assert.equal(said(0), "Das beste λ liegt zwischen 0,1 und 0,3. Ihr Tipp, λ = 0, liegt darunter.");
  assert.equal(said(2), "Das beste λ liegt zwischen 0,1 und 0,3. Ihr Tipp, λ = 0,3, liegt darin.");
  assert.equal(attendance({ phones: 1, stop: "model", guesses: 2 }), "1 Telefon, 2 Tipps");
});

test("homework with its receipt, and the model in the page", async () => {
  const [{ verdictOf }, { receiptOf, standingOf }, { brokenWords }] = await Promise.all(
    ["homework/answers", "homework/receipt", "model/try_view"].map(read),
  );
  const facts = { study: "a", line: "GPTQ", bits: 2, gamma: "", names: ["0", "0,1", "1"], best: 1, band: [0, 1, 0] };
  assert.equal(
    verdictOf("best", "1", facts).words,
    "Ein kleineres λ hat eine niedrigere Perplexität. Vergleichen Sie die Kurve dort.",
  );
  const answered = [{ name: "best", answer: "λ = 0,1", isRight: true }];
  const receipt = receiptOf({ label: "Blatt 3", facts, answered, tries: 2 });
  assert.deepEqual(receipt.split("\n").slice(0, -1), [
    "sarqc receipt 1",
    "Aufgabe: Blatt 3",
    "Studie: a",
    "Einstellung: GPTQ, 2 Bit",
    "best: λ = 0,1, richtig",
    "geprüft: 2-mal",
  ]);
  assert.equal(standingOf(receipt), "fits");
  const [own, all] = [
    { shown: 0.272, zero: 0.893 },
    { shown: 0.252, zero: 0.336 },
  ];
  assert.equal(
    brokenWords({ count: 60, wins: 51, own, all }, "0,3"),
    "Von 60 Sätzen des zurückgehaltenen Textes leidet dieser am meisten, wenn λ fehlt: mittlere KL 0,893 bei λ = 0, " +
      "0,272 bei λ = 0,3. Dafür wurde er ausgewählt. Über alle Sätze sind die Mittel 0,336 und 0,252, und in 51 ist " +
      "λ = 0,3 näher am Gleitkommamodell.",
  );
  const { Failure, worded } = await read("model/failure");
  assert.equal(
    worded(new Failure("refused", { name: "config.json", status: 404 }).told),
    "config.json lässt sich nicht laden: Der Server hat mit 404 geantwortet.",
  );
});
