/** Numbers are written as Python writes them. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import {
  bytes,
  count,
  csv,
  duration,
  format,
  number,
  percent,
  plain,
  significant,
  when,
} from "../../assets/js/base/format.js";

const golden = JSON.parse(readFileSync(new URL("../golden/format.json", import.meta.url), "utf8"));

test("numbers look as in the sentence", () => {
  for (const [value, decimals, text] of golden.number) assert.equal(number(value, decimals), text);
  for (const [value, text] of golden.perplexity) assert.equal(format(value, "perplexity"), text);
  for (const [value, text] of golden.percent) assert.equal(percent(value, 1), text);
  for (const [value, text] of golden.plain) assert.equal(plain(value), text);
});

test("three digits that mean something, whatever the size", () => {
  for (const [value, text] of golden.significant) assert.equal(significant(value), text);
});

test("a difference has two decimals, and more where two would be nothing", () => {
  const said = [2.154, -0.034, 0.0021, 0, null, undefined].map((value) => format(value, "difference"));
  assert.deepEqual(said, ["2.15", "\u22120.034", "0.0021", "0.00", "–", "–"]); // a dash for what was not measured
});

test("units", () => {
  assert.equal(count(6291456), "6,291,456");
  assert.equal(bytes(null), "unknown");
  assert.equal(bytes(23 * 1024 * 1024).replace("\u00a0", " "), "23.0 MiB");
  const durations = [3, 62, 3600, 7500, Number.NaN].map((seconds) => duration(seconds).replaceAll("\u00a0", " "));
  assert.deepEqual(durations, ["3.0 s", "1 min 2 s", "1 h", "2 h 5 min", "unknown"]);
});

test("a time is short today and has its date otherwise", () => {
  const now = new Date(2026, 4, 6, 12, 0);
  assert.equal(when(new Date(2026, 4, 6, 9, 5).toISOString(), now), "09:05");
  assert.equal(when(new Date(2026, 4, 5, 9, 5).toISOString(), now), "2026-05-05 09:05");
  assert.equal(when(null), "");
});

test("a CSV keeps full precision and quotes what must be quoted", () => {
  const columns = [{ key: "lambda" }, { key: "note" }];
  const rows = [
    { lambda: 0.1, note: 'a "b", c' },
    { lambda: 83.12345678901234, note: null },
  ];
  const about = { model: "toy", lambda: "of the rows" };
  assert.equal(csv([{ key: "lambda" }], [{ lambda: 0.1 }], about), "model,lambda\r\ntoy,0.1\r\n");
  assert.equal(csv(columns, rows), 'lambda,note\r\n0.1,"a ""b"", c"\r\n83.12345678901234,\r\n');
});
