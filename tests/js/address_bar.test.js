/** The address bar as the browser keeps it: what is written over, what is an entry of its own, and the way back. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { JSDOM } from "jsdom";

const { window } = new JSDOM("<!doctype html>", { url: "http://h/lab?study=a" });
const { location, history } = window;
Object.assign(globalThis, { location, history, addEventListener: window.addEventListener.bind(window) });
const { onReturn, remember } = await import("../../assets/js/base/address_bar.js");

const rest = () => new Promise((resolve) => setTimeout(resolve, 220)); // as long as things have to stand still
/** @param {number} way */
async function go(way) {
  const gone = new Promise((resolve) => window.addEventListener("popstate", resolve, { once: true }));
  history.go(way);
  await gone;
}
/** @type {string[]} */
const shown = [];
onReturn((search) => shown.push(search));

test("a step is an entry, what moves within it is not, and going back makes no entry", async () => {
  remember("?study=a&lambda=0.1", "a");
  await rest();
  assert.deepEqual([location.search, history.length], ["?study=a&lambda=0.1", 1]);

  remember("?study=a&lambda=0.2", "a");
  remember("?study=b", "b"); // before λ stood still: the entry that is left has it all the same
  assert.deepEqual([location.search, history.length], ["?study=b", 2]);
  await go(-1);
  assert.deepEqual(shown, ["?study=a&lambda=0.2"]);

  remember("?study=a&lambda=0.3", "a"); // what the page shows by then
  await rest();
  assert.deepEqual([location.search, history.length], ["?study=a&lambda=0.3", 2]);
  await go(1);
  assert.deepEqual(shown.slice(1), ["?study=b"]);
});

test("what was still to be written when the person went back is forgotten", async () => {
  remember("?study=b", "b");
  remember("?study=c", "c");
  remember("?study=c&lambda=1", "c");
  await go(-1);
  await rest();
  assert.equal(location.search, "?study=b");
});

test("a place on the page is not a way back", async () => {
  const before = shown.length;
  location.hash = "#numbers";
  await go(-1);
  assert.equal(shown.length, before);
});

test("a page without steps makes no entries", async () => {
  const { length } = history;
  for (const search of ["?sort=date", "?sort=name"]) {
    remember(search);
    await rest();
  }
  assert.deepEqual([location.search, history.length], ["?sort=name", length]);
});
