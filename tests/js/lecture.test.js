/** Lectures in the browser: what the server is told, what is drawn when, what a phone says, and streams in pieces. */
import assert from "node:assert/strict";
import test from "node:test";
import { questionOf } from "../../assets/js/lab/lab_lecture.js";
import { darkPath, isLocal } from "../../assets/js/lecture/code_card.js";
import { clock, reduce as noted } from "../../assets/js/lecture/notes_window.js";
import { reduce as onPhone, START as PHONE, ringOf, status } from "../../assets/js/lecture/phone_state.js";
import { isMeaning } from "../../assets/js/lecture/remote_keys.js";
import { attendance, canClose, countsAt, reduce, START, wishOf } from "../../assets/js/lecture/state.js";
import { documents } from "../../assets/js/lecture/stream.js";

const QUESTION = { lams: [0, 0.1, 1], names: ["0", "0.1", "1"], best: 1, band: [1, 2] };
const LECTURE = { code: "abcd-efgh-jkmn", secret: "s", address: "https://demo.example/join/x", qr: ["101"] };
const hall = (phase, guesses = 3) => ({ phase, stop: "model", phones: 5, guesses, counts: [1, 2, 0] });

test("the answer is told only once it is shown", () => {
  const told = (isAnswered, isClosed) => wishOf("model", QUESTION, { isAnswered, isClosed });
  assert.deepEqual(told(false, false), { stop: "model", lams: [0, 0.1, 1], phase: "open", best: null, band: null });
  assert.deepEqual([told(false, true).phase, told(false, true).best], ["closed", null]);
  assert.deepEqual([told(true, true).phase, told(true, false).best, told(true, false).band], ["revealed", 1, [1, 2]]);
  assert.equal(wishOf("weight", null, { isAnswered: true, isClosed: false }).stop, null);
});

test("a line asks for its best λ and the band of those as good, and one without perplexities asks nothing", () => {
  const view = (perplexities) => ({
    lams: QUESTION.lams,
    lam_texts: QUESTION.names,
    table: { rows: perplexities.map((perplexity, i) => ({ at: [0, i], perplexity, sweet_spot: i === 2 })).reverse() },
  });
  assert.deepEqual(questionOf(view([12, 10, 10.5]), 0), QUESTION);
  assert.equal(questionOf(view([12, null, 10]), 0), null);
  assert.equal(questionOf(view([12, 10, 10.5]), 1), null); // no such γ
});

test("guesses are drawn once they are closed, at their own stop, and a key closes them once", () => {
  const at = (phase, guesses) => reduce({ ...START, lecture: LECTURE }, { type: "heard", hall: hall(phase, guesses) });
  assert.equal(countsAt(at("open"), "model"), null);
  assert.deepEqual(countsAt(at("closed"), "model"), [1, 2, 0]);
  assert.equal(countsAt(at("closed"), "layer"), null);
  assert.equal(canClose(at("open"), "model"), true);
  assert.equal(canClose(at("open", 0), "model"), false); // nothing to show
  assert.equal(canClose(at("closed"), "model"), false);
  assert.equal(canClose(reduce(at("open"), { type: "closed", stop: "model" }), "model"), false);
  assert.equal(canClose(START, "model"), false);
  assert.equal(attendance(hall("open", 1)), "5 phones, 1 guess");
  assert.equal(attendance({ ...hall("waiting"), stop: null, phones: 1 }), "1 phone");
});

test("a lecture that is over leaves nothing of it on the page", () => {
  const during = { ...START, lecture: LECTURE, hall: hall("open"), isCodeShown: true };
  assert.deepEqual(reduce(during, { type: "over", isOver: false }), START);
  assert.deepEqual(reduce(during, { type: "over", isOver: true }), { ...START, isOver: true, isCodeShown: true });
});

const heard = (phase, more = {}) => ({
  phase,
  stop: "model",
  lams: [0, 0.1, 1],
  counts: null,
  best: null,
  band: null,
  ...more,
});

test("a phone says where it stands, without a word about others before the answer", () => {
  const open = onPhone(PHONE, { type: "heard", heard: heard("open") });
  assert.equal(ringOf(open, open.heard), 1);
  assert.match(status(open, open.heard), /Drag the ring/);
  const sent = onPhone(onPhone(open, { type: "moved", guess: 2 }), { type: "sent", guess: 2 });
  assert.match(status(sent, sent.heard), /Your guess is λ = 1\. You may change it/);
  assert.match(status({ ...sent, guess: 0 }, sent.heard), /not sent/);
  const closed = onPhone(sent, { type: "heard", heard: heard("closed") });
  assert.match(status(closed, closed.heard), /closed; yours is λ = 1/);
  const said = (best, band, guess) => {
    const state = { ...closed, sent: guess, heard: heard("revealed", { best, band, counts: [0, 0, 1] }) };
    return status(state, state.heard);
  };
  assert.equal(said(1, [1, 1], 1), "The best is λ = 0.1. You said so.");
  assert.equal(said(1, [1, 1], 2), "The best is λ = 0.1. Your guess, λ = 1, is above it.");
  assert.equal(said(1, [0, 1], 1), "The best λ lies between 0 and 0.1. Your guess, λ = 0.1, is in it.");
  assert.equal(said(1, null, null), "The best is λ = 0.1.");
  const next = onPhone(closed, { type: "heard", heard: heard("open", { stop: "paper" }) });
  assert.deepEqual([next.guess, next.sent], [null, null]);
  assert.equal(onPhone(closed, { type: "heard", heard: heard("ended", { stop: null }) }).link, "gone");
});

test("documents come whole out of a stream that is cut anywhere", async () => {
  const bytes = new TextEncoder().encode('retry: 2000\n\ndata: {"a":"λ"}\nid: 1\n\n: ping\n\ndata: {"b":2}\n\n');
  for (let size = 1; size < 12; size += 1) {
    const body = new ReadableStream({
      start(controller) {
        for (let at = 0; at < bytes.length; at += size) controller.enqueue(bytes.slice(at, at + size));
        controller.close();
      },
    });
    const found = [];
    for await (const document of documents(body)) found.push(document);
    assert.deepEqual(found, [{ a: "λ" }, { b: 2 }], String(size));
  }
});

test("the code is drawn as runs, and an address of this machine is known as one", () => {
  assert.equal(darkPath(["0110", "1001"]), "M1 0h2v1h-2zM0 1h1v1h-1zM3 1h1v1h-1z");
  for (const address of ["http://127.0.0.1:7860/join/x", "http://localhost/join/x", "http://[::1]:1/join/x"])
    assert.equal(isLocal(address), true);
  assert.equal(isLocal("https://demo.example/join/localhost"), false);
});

test("notes follow the last word and say when the lecture's window is gone", () => {
  const said = { number: 2, answered: false, answer: "", since: 0, hall: "" };
  const first = noted({ said: null, isGone: false, now: 0 }, { type: "heard", said });
  assert.deepEqual([first.said, first.isGone], [said, false]);
  const gone = noted(first, { type: "heard", said: null });
  assert.deepEqual([gone.said, gone.isGone], [said, true]);
  assert.deepEqual([clock(0), clock(61_500), clock(3_600_000), clock(-5)], ["0:00", "1:01", "60:00", "0:00"]);
  assert.deepEqual(["on", "code", "toString", 1, null].map(isMeaning), [true, true, false, false, false]);
});
