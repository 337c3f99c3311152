import assert from "node:assert/strict";
import { test } from "node:test";
import {
  canBePicked,
  comparable,
  count,
  deeds,
  listed,
  matches,
  reduce,
  START,
} from "../../assets/js/runs/runs_state.js";

const run = (id, more = {}) => ({
  id,
  state: "finished",
  recipe: { model: "a/tiny-llama", bits: 2, method: "rqc-gbs", grid: "asymmetric", calibration: "wikitext2" },
  owner: "ada",
  batch: null,
  created: `2026-01-0${id}T00:00:00Z`,
  progress: null,
  study_id: `study-${id}`,
  summary: null,
  ...more,
});
const after = (...actions) => actions.reduce(reduce, START);
const several = (count) => ({
  type: "listed",
  runs: Array.from({ length: count }, (_, i) => run(String(i + 1))),
  next: null,
});
const pick = (id, isPicked = true) => ({ type: "picked", id, isPicked });

test("a filter finds runs by every word typed, in the words of the page", () => {
  assert.ok(matches(run("1"), ""));
  assert.ok(matches(run("1"), "LLAMA 2 bits"));
  assert.ok(!matches(run("1"), "llama 3 bits"));
  assert.ok(matches(run("1", { state: "queued" }), "waiting"));
});

test("runs are listed newest first, counted, and more than one page of them is kept", () => {
  const state = after(several(2), {
    type: "listed",
    runs: [run("3", { recipe: { ...run("3").recipe, bits: 4 } })],
    next: "3",
  });
  assert.deepEqual(
    listed(state).map(({ id }) => id),
    ["3", "2", "1"],
  );
  assert.equal(state.next, "3");
  assert.equal(count(START), "");
  assert.equal(count(after(several(1))), "1 run");
  const filtered = reduce(state, { type: "filtered", text: " 4 bits " });
  assert.equal(count(filtered), "1 of 3 runs");
  assert.deepEqual(
    listed(filtered).map(({ id }) => id),
    ["3"],
  );
});

test("what the stream says of a run replaces it, and a removed run leaves the comparison too", () => {
  const before = after(several(2), pick("1"), pick("2"));
  const changed = reduce(before, { type: "changed", run: run("1", { state: "failed" }) });
  assert.equal(changed.runs.get("1").state, "failed");
  assert.equal(before.runs.get("1").state, "finished");
  const removed = reduce(changed, { type: "removed", id: "1" });
  assert.deepEqual([...removed.runs.keys()], ["2"]);
  assert.deepEqual(removed.picked, ["2"]);
});

test("runs are compared in the order of picking, those with a study, and no more than four", () => {
  const state = after(several(5), pick("3"), pick("1"), pick("3", false), pick("2"));
  assert.deepEqual(
    comparable(state).map(({ id }) => id),
    ["1", "2"],
  );
  const full = after(several(5), ...["1", "2", "3", "4"].map((id) => pick(id)));
  assert.ok(!canBePicked(full, full.runs.get("5")));
  assert.ok(canBePicked(full, full.runs.get("4")));
  assert.ok(!canBePicked(START, run("1", { study_id: null })));
  const without = reduce(full, { type: "changed", run: run("2", { study_id: null }) });
  assert.deepEqual(
    comparable(without).map(({ id }) => id),
    ["1", "3", "4"],
  );
});

test("what may be done follows from where a run stands; a deletion asks first, of that run alone", () => {
  const at = (state) => deeds(START, run("1", { state, study_id: null }));
  assert.deepEqual(at("queued"), ["cancel"]);
  assert.deepEqual(at("running"), ["cancel"]);
  assert.deepEqual(at("cancelling"), []);
  for (const state of ["cancelled", "interrupted", "failed"]) assert.deepEqual(at(state), ["continue", "delete"]);
  assert.deepEqual(deeds(START, run("1", { batch: "b" })), ["batch", "lab", "delete"]);
  const asking = after(several(2), { type: "deletion asked", id: "1" });
  assert.deepEqual(deeds(asking, run("1")), ["lab", "delete-yes", "delete-no"]);
  assert.deepEqual(deeds(asking, run("2")), ["lab", "delete"]);
  assert.deepEqual(deeds(reduce(asking, { type: "deletion asked", id: null }), run("1")), ["lab", "delete"]);
});

test("the list of studies has those that no run and no package owns", async () => {
  const studies = await import("../../assets/js/runs/studies_list.js");
  const entry = (id, origin) => ({ id, title: id, model: "m", origin, created: "" });
  const all = [entry("a", "shipped"), entry("b", "uploaded"), entry("c", "command_line"), entry("d", "run")];
  const state = studies.reduce(studies.START, { type: "listed", studies: all, damaged: [] });
  assert.deepEqual(
    state.studies.map(({ id }) => id),
    ["b", "c"],
  );
  const gone = studies.reduce({ ...state, asking: "b" }, { type: "removed", id: "b" });
  assert.deepEqual(
    gone.studies.map(({ id }) => id),
    ["c"],
  );
});

test("the page of runs is a script that can be loaded", async () => {
  globalThis.matchMedia ??= () => ({ matches: false, addEventListener() {} });
  const page = await import("../../assets/js/runs/runs_page.js");
  assert.equal(typeof page.mount, "function");
});

test("who only follows a link to a run is offered nothing that the server would refuse", () => {
  const visited = (who) => (state, owner) =>
    deeds(reduce(START, { type: "visited", who }), run("1", { state, owner, study_id: null }));
  const ann = { name: "ann", role: "runner", signed_in: true, can_sign_in: true, public: true };
  assert.deepEqual(visited(ann)("running", "ann"), ["cancel"]);
  assert.deepEqual(visited(ann)("failed", "ann"), ["continue", "delete"]);
  for (const state of ["queued", "running", "failed", "finished"]) {
    assert.deepEqual(visited(ann)(state, "bob"), []);
    assert.deepEqual(visited({ ...ann, role: "viewer" })(state, "ann"), []);
  }
  assert.deepEqual(visited({ ...ann, role: "operator" })("running", "bob"), ["cancel"]);
  assert.deepEqual(visited({ ...ann, public: false })("running", "bob"), ["cancel"]);
});
