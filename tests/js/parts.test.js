/** Small pure parts of modules that otherwise live in the page. */
import assert from "node:assert/strict";
import { before, test } from "node:test";

// These modules touch the page when they are loaded; the little they ask for is enough here.
globalThis.matchMedia ??= () => ({ matches: false, addEventListener() {} });
let parts;
before(async () => {
  const [explorer, host, runs] = await Promise.all([
    import("../../assets/js/explorer.js"),
    import("../../assets/js/plot_host.js"),
    import("../../assets/js/runs.js"),
  ]);
  parts = { ...explorer, ...host, ...runs };
});

test("neighbours of the sweet spot make one stretch on the slider", () => {
  const [first, second, ...more] = parts.stretches([false, true, true, false, true]);
  assert.equal(more.length, 0);
  assert.deepEqual(first, [0.15, 0.6]);
  assert.deepEqual(second, [0.9, 1]);
  assert.deepEqual(parts.stretches([true]), []);
});

test("turning keeps the distance and stays above the ground", () => {
  const camera = { eye: { x: 1, y: -1, z: 0.5 }, up: { x: 0, y: 0, z: 1 } };
  const far = Math.hypot(1, 1, 0.5);
  for (const [dx, dy] of [[10, 0], [0, 40], [0, -4000], [500, 4000]]) {
    const { eye } = parts.turned(camera, dx, dy);
    assert.ok(Math.abs(Math.hypot(eye.x, eye.y, eye.z) - far) < 1e-9);
    assert.ok(eye.z > 0);
  }
  assert.deepEqual(camera.eye, { x: 1, y: -1, z: 0.5 });
});

test("a filter finds runs by every word typed", () => {
  const run = { id: "1", state: "finished", owner: "ada", recipe: { model: "a/tiny-llama", bits: 2, method: "rqc-gbs", grid: "asymmetric" } };
  assert.ok(parts.matches(run, ""));
  assert.ok(parts.matches(run, "LLAMA 2 bits"));
  assert.ok(!parts.matches(run, "llama 3 bits"));
});

test("a sentence is the text of its pieces", () => {
  assert.equal(parts.plainText([{ text: "At " }, { text: "λ = 0.1", role: "lambda" }, { text: "." }]), "At λ = 0.1.");
});
