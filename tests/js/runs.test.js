import assert from "node:assert/strict";
import { test } from "node:test";
import {
  addressOf,
  chosen,
  comparable,
  count,
  deeds,
  deletionWords,
  MOST_PICKED,
  outcomeWords,
  pathOf,
  perplexity,
  place,
  plusMinus,
  readQuery,
  reduce,
  rows,
  START,
  sortedBy,
  whyNotCompared,
} from "../../assets/js/runs/runs_state.js";
import { each } from "./given.js";

const run = (id, more = {}) => ({
  id,
  state: "finished",
  recipe: { model: "a/tiny-llama", bits: 2, method: "rqc-gbs", grid: "asymmetric", calibration: "wikitext2" },
  owner: "ada",
  batch: null,
  created: "2026-01-01T00:00:00Z",
  started: null,
  ended: null,
  revision: 1,
  progress: null,
  study_id: `study-${id}`,
  summary: null,
  tuned: null,
  name: "",
  note: "",
  tags: [],
  ...more,
});
const from = (state, ...actions) => actions.reduce(reduce, state);
const after = (...actions) => from(START, ...actions);
const several = (amount, total = amount) => ({
  type: "listed",
  answer: { runs: Array.from({ length: amount }, (_, i) => run(String(i + 1))), total, revision: 1 },
});
const pick = (ids, isPicked = true) => ({ type: "picked", runs: ids.map((id) => run(id)), isPicked });
const changed = (id, more) => ({ type: "changed", run: run(id, { revision: 2, ...more }) });
const group = (key, amount) => ({
  key,
  run: run(key),
  count: amount,
  states: { finished: amount },
  varies: [],
  measures: {},
});
const grouped = (...groups) => ({
  type: "listed",
  answer: { groups, runs: groups.reduce((sum, one) => sum + one.count, 0), total: groups.length, revision: 1 },
});

test("the list is the server's, in its order, counted, and one page of it", () => {
  const state = after({ type: "asked", query: { page: 1 } }, { type: "loading" }, several(50, 1234));
  assert.equal(rows(state).length, 50);
  assert.equal(count(START), "");
  assert.equal(count(after(several(1))), "1 run");
  assert.equal(count(state), "1,234 runs");
  assert.deepEqual(place(state), { last: 24, words: "51 to 100 of 1,234" });
  assert.equal(place(after(several(3))).words, "");
  assert.equal(count(from(state, { type: "asked", query: { filter: "4" } }, several(2))), "2 runs found");
  assert.equal(state.isStale, false);
});

test("another question begins at its first page, and a page behind the last is the last", () => {
  const third = after({ type: "asked", query: { page: 2 } });
  assert.equal(third.query.page, 2);
  assert.equal(from(third, { type: "asked", query: { sort: "bits" } }).query.page, 0);
  const behind = from(third, { type: "loading" }, several(0, 60));
  assert.deepEqual([behind.query.page, behind.isStale], [1, true]);
});

test("the address has what is asked for, and what it can't mean is left out", () => {
  const query = { filter: "#paper 4", sort: "-perplexity", group: "seeds", page: 3 };
  assert.deepEqual(readQuery(new URLSearchParams(addressOf(query))), query);
  assert.equal(addressOf(START.query), "");
  assert.deepEqual(readQuery(new URLSearchParams("sort=owner&group=x&page=-1")), START.query);
  assert.equal(pathOf(START.query), "/runs?limit=50");
  assert.equal(pathOf(query), "/runs/groups?filter=%23paper+4&sort=-perplexity&limit=50&offset=150&by=seeds");
});

test("a head of a column sorts by it, and turns what is sorted by it", () => {
  assert.equal(sortedBy("-created", "perplexity"), "perplexity");
  assert.equal(sortedBy("perplexity", "perplexity"), "-perplexity");
  assert.equal(sortedBy("perplexity", "created"), "-created");
});

test("what the stream says of a run replaces it; what may be listed elsewhere makes the page stale", () => {
  const before = after({ type: "loading" }, several(2));
  const working = from(before, changed("1", { progress: { done: 1, total: 2 } }));
  assert.deepEqual([working.runs.get("1").progress.done, working.isStale], [1, false]);
  assert.equal(from(before, changed("1", { state: "failed" })).isStale, true);
  assert.equal(from(before, changed("1", { state: "failed", revision: 0 })).runs.get("1").state, "finished");
  assert.equal(from(before, changed("1", { state: "failed" }), several(2)).runs.get("1").state, "failed"); // asked before
  const heard = from(before, changed("9", { state: "running" }));
  assert.equal(heard.isStale, true);
  assert.equal(heard.runs.has("9"), false);
  const read = from(heard, { type: "loading" });
  assert.equal(from(read, changed("9", { state: "running", progress: { done: 1, total: 2 } })).isStale, false);
  assert.equal(from(read, changed("9", { state: "finished" })).isStale, true);
});

test("a removed run leaves the list and the picked ones", () => {
  const state = after(several(2), pick(["1", "2"]), { type: "removed", id: "1" });
  assert.deepEqual([...state.runs.keys()], ["2"]);
  assert.deepEqual([...state.picked.keys()], ["2"]);
  assert.equal(state.isStale, true);
});

test("groups have their runs below them when they are unfolded, and one run is not a group", () => {
  const state = after(grouped(group("a", 3), group("b", 1)));
  const names = (of) => rows(of).map((row) => row.group?.key ?? row.run.id);
  assert.deepEqual(names(state), ["a", "b"]);
  assert.equal(count(state), "4 runs in 2 groups");
  const open = from(state, { type: "unfolded", key: "a", runs: [run("x"), run("y")] });
  assert.deepEqual(names(open), ["a", "x", "y", "b"]);
  assert.equal(from(open, changed("x", { name: "new" })).unfolded.get("a")[0].name, "new");
  assert.equal(rows(from(open, { type: "unfolded", key: "a", runs: null })).length, 2);
});

test("picked runs stay picked on other pages, in the order of picking, and are no more than the server takes", () => {
  const state = after(several(3), pick(["3"]), pick(["1"]), pick(["3"], false), several(0, 0), pick(["2"]));
  assert.deepEqual(each(comparable(state), "id"), ["1", "2"]);
  const many = after(pick(Array.from({ length: MOST_PICKED + 5 }, (_, i) => `r${i}`)));
  assert.equal(many.picked.size, MOST_PICKED);
});

test("two to eight runs with a study can be compared", () => {
  const of = (amount) => after(pick(Array.from({ length: amount }, (_, i) => `r${i}`)));
  assert.match(whyNotCompared(of(1)), /two to 8/);
  assert.equal(whyNotCompared(of(2)), "");
  assert.equal(whyNotCompared(of(8)), "");
  assert.notEqual(whyNotCompared(of(9)), "");
  const without = from(of(2), changed("r0", { study_id: null }));
  assert.notEqual(whyNotCompared(without), "");
});

test("runs of other models or test texts say so before they are compared", () => {
  const recipe = (model) => ({ recipe: { ...run("x").recipe, model } });
  const test = (corpus) => ({
    test: corpus ? `${corpus}, window 64, 512 tokens` : "",
  });
  const of = (...more) =>
    whyNotCompared(after({ type: "picked", runs: more.map((one, i) => run(String(i), one)), isPicked: true }));
  assert.equal(
    of(recipe("a/tiny-llama"), recipe("tiny-moe"), recipe("tiny-moe")),
    "Pick runs of one model: these are of tiny-llama and tiny-moe",
  );
  assert.equal(of(test("mine"), test("mine"), test(null)), ""); // one that was not measured is compared by layers
  assert.equal(
    of(test("mine"), test("yours")),
    "Pick runs with one test text: these have mine, window 64, 512 tokens and yours, window 64, 512 tokens",
  );
});

test("files and figures are of the picked runs, or of all that pass the filter", () => {
  const filtered = after({ type: "asked", query: { filter: "4", sort: "bits" } });
  assert.equal(String(chosen(filtered)), "filter=4&sort=bits");
  assert.equal(String(chosen(from(filtered, pick(["2", "1"])))), "sort=bits&ids=2%2C1");
});

test("many are deleted after one question that says what stays, and the answer says why", () => {
  const state = after({ type: "picked", runs: [run("1"), run("2", { state: "running" })], isPicked: true });
  assert.match(deletionWords(state), /^Delete 1 run for good.* 1 run at work or waiting stays/);
  const bob = { name: "bob", role: "runner", signed_in: true, can_sign_in: true, public: true };
  assert.match(deletionWords(from(state, { type: "visited", who: bob })), /Delete 0 runs.* 2 runs of others stay/);
  const answer = { done: ["1", "3"], left: [{ id: "2", error: { what: "a run that is running can't be deleted" } }] };
  assert.equal(
    outcomeWords("deleted", answer),
    "2 runs deleted. 1 run was left: a run that is running can't be deleted.",
  );
});

test("a tuning run has the perplexity of its best λ", () => {
  const tuned = { lam: null, best: 0.1, perplexity: 40 };
  const one = run("1", { tuned, summary: { perplexity: null, perplexity_float: 3 } });
  assert.equal(perplexity(one), 40);
  assert.equal(perplexity(run("2", { summary: { perplexity: 9 } })), 9);
});

test("a value has as many decimals as its error needs", () => {
  const write = (value, decimals) => value.toFixed(decimals);
  assert.equal(plusMinus(0.03412, 0.0021, write, 3), "0.034\u00a0±\u00a00.002");
  assert.equal(plusMinus(0.03412, 0.0012, write, 3), "0.0341\u00a0±\u00a00.0012");
  assert.equal(plusMinus(0.03412, null, write, 3), "0.034");
  assert.equal(plusMinus(83.4, 12, write, 1), "83\u00a0±\u00a012");
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
  assert.deepEqual(each(state.studies, "id"), ["b", "c"]);
  const gone = studies.reduce({ ...state, asking: "b" }, { type: "removed", id: "b" });
  assert.deepEqual(each(gone.studies, "id"), ["c"]);
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

test("a stream that opens takes no other trouble away", () => {
  const trouble = { what: "too few", where: "the address", remedy: "Pick two." };
  const lost = after({ type: "trouble", trouble }, { type: "stream", isLost: true });
  const state = from(lost, { type: "stream", isLost: false });
  assert.deepEqual([lost.isLost, state.isLost, state.trouble], [true, false, trouble]);
});
