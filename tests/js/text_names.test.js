/** Texts of one's own by their titles. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { hasUnknownTexts, rememberTexts, textWords, titled, withTitles } from "../../assets/js/base/text_names.js";

const [ONE, OTHER, THEIRS] = ["a", "b", "c"].map((letter) => `text-${letter.repeat(24)}`);

test("titles stand where people read, and names where the server does", () => {
  const document = {
    evidence: { words: `by 4 windows of ${ONE}` },
    recipe: { test: ONE },
    rows: [`on ${THEIRS}`, 3, null],
  };
  assert.equal(titled(document), document); // nothing is known yet
  assert.ok(hasUnknownTexts(JSON.stringify(document)));
  rememberTexts([{ name: ONE, title: "notes.txt" }]);
  assert.deepEqual(titled(document), {
    evidence: { words: "by 4 windows of notes.txt" },
    recipe: { test: ONE },
    rows: [`on ${THEIRS}`, 3, null],
  });
  assert.ok(hasUnknownTexts(THEIRS) && !hasUnknownTexts(ONE));
  assert.equal(textWords(`calibration: ${ONE}\ntest: ${ONE}\n# ${THEIRS}`), `${ONE} is notes.txt.`);
});

test("texts of one title are told apart, and a title is no pattern", () => {
  rememberTexts([
    { name: OTHER, title: "$& <b>" },
    { name: ONE, title: "$& <b>" },
  ]);
  assert.equal(withTitles(`${ONE} ${OTHER}`), "$& <b> $& <b> (2)");
  rememberTexts([]);
  assert.equal(withTitles(ONE), ONE);
});
