/** bind.js against the golden file that Python wrote, and arrays against their own definition. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { figureAt, openArray, setPath, withColours } from "../../assets/js/charts/bind.js";

const golden = JSON.parse(readFileSync(new URL("../golden/bind.json", import.meta.url), "utf8"));

test("the figure at a point is the one that Python makes", () => {
  for (const { gamma, lambda, ...made } of golden.made) {
    assert.deepEqual(figureAt(golden.figure, { gamma, lambda }), made);
  }
});

test("a path may go through arrays and make what is missing", () => {
  const target = { data: [{}, {}] };
  setPath(target, "data.1.error_y.array", [1]);
  assert.deepEqual(target, { data: [{}, { error_y: { array: [1] } }] });
});

test("bytes become weights in their unit, γ before λ before rows", () => {
  const shape = [2, 3, 2, 2];
  const bytes = Uint8Array.from({ length: 24 }, (_, i) => i);
  const array = openArray(bytes.buffer, { dtype: "uint8", shape, scale: 2.55 });
  const rows = array.matrix(1, 2).map((row) => Array.from(row, (v) => Math.round(v * 100)));
  assert.deepEqual(rows, [
    [20, 21],
    [22, 23],
  ]);
  assert.equal(array.matrix(1, 2), array.matrix(1, 2));
});

test("an array that does not have its shape is refused", () => {
  assert.throws(() => openArray(new ArrayBuffer(5), { dtype: "uint8", shape: [1, 1, 2, 2], scale: 1 }));
});

test("an array binding without λ follows the shown one", () => {
  const figure = {
    data: [{}, {}],
    layout: {},
    bindings: [
      { path: "data.0.z", array: "s", lambda: 0 },
      { path: "data.1.z", array: "s" },
    ],
  };
  const made = figureAt(figure, { gamma: 0, lambda: 3 }, { s: { matrix: (g, l) => [[g, l]] } });
  assert.deepEqual(made.data, [{ z: [[0, 0]] }, { z: [[0, 3]] }]);
});

test("roles become colours, also inside texts", () => {
  const made = withColours(
    { a: "var(--quality)", b: '<span style="color:var(--recon-ink)">1</span>' },
    (name) => `[${name}]`,
  );
  assert.deepEqual(made, { a: "[--quality]", b: '<span style="color:[--recon-ink]">1</span>' });
});

test("bytes with a zero of their own have both signs", () => {
  const shape = [1, 1, 1, 4];
  const array = openArray(Uint8Array.from([1, 128, 255, 65]).buffer, { dtype: "uint8", shape, scale: 0.5, zero: 128 });
  assert.deepEqual(
    Array.from(array.matrix(0, 0)[0], (v) => Math.round(v * 10000)),
    [-5000, 0, 5000, -2480],
  );
});
