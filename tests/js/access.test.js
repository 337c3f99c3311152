/** Who looks at a page and what is offered to them; links to share; texts of one's own; damaged studies. */
import assert from "node:assert/strict";
import { test } from "node:test";
import * as Links from "../../assets/js/base/share_link.js";
import { mayChange, mayRun, mayShare, nameOf, whyNoRun } from "../../assets/js/base/whoami.js";
import * as Texts from "../../assets/js/calibrate/own_texts.js";
import { toShare } from "../../assets/js/lab/state.js";
import * as Studies from "../../assets/js/runs/studies_list.js";

const ann = { name: "ann", role: "runner", signed_in: true, can_sign_in: true, public: true };
const guest = { name: "guest-0123456789", role: "viewer", signed_in: false, can_sign_in: true, public: true };
const local = { name: "local", role: "operator", signed_in: false, can_sign_in: false, public: false };

test("who may begin a run, and who may share it", () => {
  assert.deepEqual([ann, guest, local].map(mayRun), [true, false, true]);
  assert.ok(mayShare(ann, "ann"));
  assert.ok(mayChange(ann, "ann"));
  assert.ok(!mayChange(ann, "bob"));
  assert.ok(!mayChange({ ...ann, role: "viewer" }, "ann"));
  assert.ok(mayChange({ ...ann, public: false }, "bob")); // a private host is everybody's who reaches it
  assert.ok(mayChange(null, "bob")); // where the server did not say, it will
  assert.ok(!mayShare(ann, "bob"));
  assert.ok(mayShare({ ...ann, role: "operator" }, "bob"));
  assert.ok(!mayShare({ ...guest }, guest.name));
  assert.ok(!mayShare(local, "local")); // nobody else can reach this host
  assert.deepEqual([ann, guest].map(nameOf), ["ann", "Guest"]);
});

test("a viewer is told what helps", () => {
  assert.match(whyNoRun(guest), /Sign in, or ask its operator\.$/);
  assert.match(whyNoRun({ ...guest, signed_in: true }), /host\. Ask its operator\.$/);
  assert.match(whyNoRun({ ...guest, can_sign_in: false }), /host\. Ask its operator\.$/);
});

test("a link is shown until all links are ended; what goes wrong keeps it", () => {
  const after = (...actions) => actions.reduce(Links.reduce, Links.START);
  const ends = "2026-12-24T12:00:00.000Z";
  const answer = { type: "made", address: "http://h/share/x", ends };
  const made = after({ type: "lasting", days: 7 }, { type: "asked" }, answer);
  const idle = { days: 7, isBusy: false, isEnded: false, trouble: null };
  assert.deepEqual(made, { ...idle, address: "http://h/share/x", ends });
  const trouble = { what: "no" };
  const failed = [{ type: "asked" }, { type: "trouble", trouble }].reduce(Links.reduce, made);
  assert.deepEqual([failed.address, failed.isBusy, failed.trouble], ["http://h/share/x", false, trouble]);
  const ended = [{ type: "asked" }, { type: "ended" }].reduce(Links.reduce, failed);
  assert.deepEqual(ended, { ...idle, address: null, ends: "", isEnded: true });
});

test("the Lab offers a link to what not everybody sees anyway", () => {
  const shown = (origin) => ({ studies: [{ id: "a", origin }], explored: { view: { study: { id: "a" } } } });
  assert.equal(toShare(shown("run"), ann), "a");
  assert.equal(toShare(shown("uploaded"), ann), "a");
  assert.equal(toShare(shown("shipped"), ann), null);
  assert.equal(toShare(shown("run"), guest), null);
  assert.equal(toShare(shown("run"), local), null);
  assert.equal(toShare({ studies: null, explored: { view: null } }, ann), null);
});

test("a text that was brought stands first, the same text once; a deletion asks first", () => {
  const text = (name) => ({ name, title: name, bytes: 1 });
  const after = (...actions) => actions.reduce(Texts.reduce, Texts.START);
  const listed = after({ type: "listed", texts: [text("a"), text("b")] }, { type: "sending" });
  assert.equal(listed.isSending, true);
  const brought = Texts.reduce(listed, { type: "brought", text: text("b") });
  assert.deepEqual([brought.texts.map(({ name }) => name), brought.isSending], [["b", "a"], false]);
  const asking = Texts.reduce(brought, { type: "deletion asked", name: "a" });
  const removed = Texts.reduce(asking, { type: "removed", name: "a" });
  assert.deepEqual([asking.asking, removed.asking, removed.texts.length], ["a", null, 1]);
  const refused = Texts.reduce(listed, { type: "trouble", trouble: { what: "It is not UTF-8" } });
  assert.deepEqual([refused.isSending, refused.texts.length, refused.trouble.what], [false, 2, "It is not UTF-8"]);
  assert.equal(Texts.reduce(refused, { type: "sending" }).trouble, null);
});

test("damaged studies are listed with a sentence, and removed like others", () => {
  const error = { what: "study.json is damaged", where: "study x", remedy: "Make it again." };
  assert.equal(Studies.sentence(error), "Study.json is damaged (study x). Make it again.");
  assert.equal(Studies.sentence({ what: "It is gone." }), "It is gone.");
  const listed = Studies.reduce(Studies.START, { type: "listed", studies: [], damaged: [{ id: "x", error }] });
  assert.equal(listed.damaged.length, 1);
  assert.deepEqual(Studies.reduce(listed, { type: "removed", id: "x" }).damaged, []);
  const shared = Studies.reduce(listed, { type: "sharing", id: "y" });
  assert.equal(shared.sharing, "y");
  assert.equal(Studies.reduce(shared, { type: "sharing", id: "y" }).sharing, null);
  assert.equal(Studies.reduce(shared, { type: "removed", id: "y" }).sharing, null);
});
