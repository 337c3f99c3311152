/** What the lines of exports and the table of formats say. */
import assert from "node:assert/strict";
import { test } from "node:test";

import { exportWords } from "../../assets/js/calibrate/exports_card.js";
import { answer, isImpossible } from "../../assets/js/calibrate/readers_table.js";
import { initial, reduce } from "../../assets/js/calibrate/run_state.js";

const told = (...events) =>
  events.reduce((state, event, index) => reduce(state, { seq: index + 1, ...event }), initial());
const started = { type: "started", device: "cpu", layers: [{ name: "a" }, { name: "b" }] };
const layer = { type: "layer_done", name: "a", index: 0, total: 2, report: {}, seconds: 0 };

test("an export says where it stands", () => {
  assert.equal(exportWords({ state: "queued" }, initial()), "waiting for a device");
  assert.equal(exportWords({ state: "running" }, initial()), "starting");
  assert.equal(exportWords({ state: "running" }, told(started, layer)), "1 of 2 layers fetched");
  const saving = told(
    started,
    layer,
    { ...layer, name: "b", index: 1 },
    { type: "stage", name: "saving", detail: "checkpoint" },
  );
  assert.equal(exportWords({ state: "running" }, saving), "saving");
  assert.equal(exportWords({ state: "running" }, told(started, layer, { type: "cancelled" })), "starting"); // again
  for (const state of ["cancelled", "failed", "interrupted"])
    assert.match(exportWords({ state }, initial()), /the run is as it was/);
});

test("who can load it: yes, no, or nobody has tried", () => {
  assert.deepEqual(
    [true, false, null].map((loads) => answer(loads).word),
    ["yes", "no", "not tried"],
  );
  assert.ok(isImpossible({ transformers: false, vllm: false }));
  assert.ok(!isImpossible({ transformers: false, vllm: null }));
  assert.ok(!isImpossible({ transformers: true, vllm: null }));
});
