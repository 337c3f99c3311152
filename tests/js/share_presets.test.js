import assert from "node:assert/strict";
import test from "node:test";
import { readLink, serialise, unknownNames } from "../../assets/js/base/address.js";
import { CARDS, CONTROLS, EVERYWHERE, PANELS } from "../../assets/js/base/contract.js";
import { frameOf } from "../../assets/js/base/share_card.js";
import { PRESETS, presetLink, presetOf } from "../../assets/js/base/share_presets.js";

const NAMES = [...Object.keys(CONTROLS), ...Object.keys(PANELS), ...Object.keys(EVERYWHERE)];

test("every preset is a link that the page understands, and is known again", () => {
  for (const preset of Object.keys(PRESETS)) {
    const link = presetLink(preset, NAMES);
    const read = readLink(serialise({}, {}, { link }));
    assert.deepEqual(unknownNames(read, CONTROLS, { ...PANELS, ...EVERYWHERE }), []);
    assert.deepEqual(read.problems, []);
    assert.equal(presetOf(read, NAMES), preset);
    assert.equal(
      read.lock.some((name) => read.hide.includes(name)),
      false,
    );
  }
  assert.equal(presetOf({ hide: ["map"], lock: [], embed: false }, NAMES), null);
});

test("a figure alone keeps its λ, and so does a page to explore it", () => {
  const figure = presetLink("Figure only", NAMES);
  assert.deepEqual([figure.embed, figure.lock, figure.hide.includes("hero")], [true, ["lambda"], false]);
  assert.ok(!presetLink("Explore λ", NAMES).hide.includes("lambda"));
});

test("a card's link is read again, and its frame is markup that keeps the address", () => {
  for (const card of Object.keys(CARDS)) {
    const query = serialise(
      { study: "a" },
      { study: { title: "", read: String, wants: "" } },
      { link: { embed: true, card } },
    );
    const read = readLink(query);
    assert.deepEqual([read.embed, read.card, read.problems], [true, card, []]);
    const frame = frameOf(`https://lab.example/${query}`, CARDS[card]);
    assert.ok(frame.includes(`src="https://lab.example/?study=a&amp;embed=${card}"`), frame);
  }
  for (const wrong of ["constructor", "sentence", "__proto__"]) {
    const read = readLink(`?embed=${wrong}&theme=pink`);
    assert.deepEqual([read.embed, read.card, read.theme, read.problems.length], [false, "", "", 2]);
  }
});
