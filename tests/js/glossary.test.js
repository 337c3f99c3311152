/** The words that pages and scripts offer to explain are in the glossary, and each of its words is offered. */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { GLOSSARY } from "../../assets/js/base/glossary.js";

const root = new URL("../../", import.meta.url);
const read = (/** @type {string} */ path) => readFileSync(new URL(path, root), "utf8");

test("each word that a button names is explained, and none is left over", () => {
  const pages = readdirSync(new URL("pages/", root)).filter((name) => name.endsWith(".py"));
  const calls = pages.flatMap((name) => [
    ...read(`pages/${name}`).matchAll(/(?:words=|_WORDS = )\(((?:"[\w-]+"(?:, ?)?)+)\)/g),
  ]);
  const offered = calls.flatMap(([, names]) =>
    names
      .replace(/,$/, "")
      .split(", ")
      .map((name) => name.slice(1, -1)),
  );
  const tags = [...read("assets/js/explorer/words_part.js").matchAll(/data-about="([\w-]+)"/g)].map(([, name]) => name);
  assert.deepEqual([...new Set([...offered, ...tags])].sort(), Object.keys(GLOSSARY).sort());
});
