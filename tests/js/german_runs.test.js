/** What the page of runs says on a German page, and that its requests and addresses have the language. */
import assert from "node:assert/strict";
import { test } from "node:test";

globalThis.location = { search: "?lang=de", pathname: "/runs", host: "localhost" };
globalThis.matchMedia ??= () => ({ matches: false, addEventListener() {} });
await import("./german.mjs");

const { listen, request } = await import("../../assets/js/base/client.js");
const { at } = await import("../../assets/js/base/site.js");
const { stateChip } = await import("../../assets/js/base/state_chip.js");
const { SORT_WORDS } = await import("../../assets/js/runs/runs_table.js");
const State = await import("../../assets/js/runs/runs_state.js");

const run = (id, more = {}) => ({
  id,
  state: "finished",
  recipe: { model: "a/tiny-llama", bits: 2, method: "rqc-gbs", grid: "asymmetric", calibration: "wikitext2" },
  owner: "ada",
  study_id: `study-${id}`,
  summary: null,
  ...more,
});
const after = (...actions) => actions.reduce(State.reduce, State.START);
const listed = (amount, total = amount) => ({
  type: "listed",
  answer: { runs: Array.from({ length: amount }, (_, i) => run(String(i + 1))), total, revision: 1 },
});
const picked = (...runs) => after({ type: "picked", runs, isPicked: true });

test("requests of lists, figures, comparisons and files, and the stream, have the language", async () => {
  const asked = [];
  globalThis.fetch = async (address) => {
    asked.push(address);
    return { ok: true, status: 200, json: async () => ({}) };
  };
  globalThis.EventSource = class {
    constructor(address) {
      asked.push(address);
    }
  };
  await request(State.pathOf(State.START.query));
  await request(`/runs/pareto?${new URLSearchParams({ size: "bits" })}`);
  await request("/compare?ids=a,b");
  await request("/runs/20260101-abc/tuning");
  await request("/runs/delete", { method: "POST", body: { ids: ["a"] } });
  listen("/events?after=4", { message: () => {} });
  asked.push(at(`/api/runs/csv?${State.chosen(State.START)}`));
  assert.deepEqual(asked, [
    "/api/runs?limit=50&lang=de",
    "/api/runs/pareto?size=bits&lang=de",
    "/api/compare?ids=a,b&lang=de",
    "/api/runs/20260101-abc/tuning?lang=de",
    "/api/runs/delete?lang=de",
    "/api/events?after=4&lang=de",
    "/api/runs/csv?&lang=de",
  ]);
});

test("the address of the list keeps the language", () => {
  assert.equal(State.addressOf(State.START.query), "?lang=de");
  assert.equal(State.addressOf({ ...State.START.query, group: "seeds", page: 1 }), "?group=seeds&page=2&lang=de");
});

test("counts, pages and what is sorted by", () => {
  const state = after({ type: "asked", query: { page: 1 } }, { type: "loading" }, listed(50, 1234));
  assert.equal(State.count(after(listed(1))), "1 Lauf");
  assert.equal(State.count(state), "1.234 Läufe");
  assert.equal(State.place(state).words, "51 bis 100 von 1.234");
  assert.equal(
    State.count(after(listed(50), { type: "asked", query: { filter: "x" } }, listed(2))),
    "2 Läufe gefunden",
  );
  const groups = [{ key: "a", run: run("1"), count: 4 }];
  const grouped = { type: "listed", answer: { groups, runs: 4, total: 1, revision: 1 } };
  assert.equal(State.count(after(grouped)), "4 Läufe in 1 Gruppe");
  assert.deepEqual([SORT_WORDS.created, SORT_WORDS.duration], ["Datum", "Dauer"]);
  assert.ok(stateChip("queued").values.includes("wartet"));
});

test("why runs can't be compared, and what is asked before many are deleted", () => {
  assert.equal(State.whyNotCompared(picked(run("1"))), "Wählen Sie zwei bis 8 fertige Läufe");
  const other = { recipe: { ...run("x").recipe, model: "b/tiny-moe" } };
  assert.equal(
    State.whyNotCompared(picked(run("1"), run("2", other))),
    "Wählen Sie Läufe eines einzigen Modells: Diese sind von tiny-llama und tiny-moe",
  );
  const of = (corpus) => ({ summary: { protocol: { test: { corpus, window: 2048, predicted_tokens: 51200 } } } });
  assert.equal(
    State.whyNotCompared(picked(run("1", of("mine")), run("2", of("yours")))),
    "Wählen Sie Läufe mit gleichem Testtext: Diese haben mine, Fenster 2.048, 51.200 Tokens und yours, Fenster 2.048, " +
      "51.200 Tokens",
  );
  assert.equal(
    State.deletionWords(picked(run("1"), run("2", { state: "running" }))),
    "1 Lauf endgültig löschen, mit Studie, Protokoll und Exporten? 1 Lauf läuft oder wartet und bleibt: Brechen Sie " +
      "ihn erst ab.",
  );
  const answer = { done: ["1", "3"], left: [{ id: "2", error: { what: "ein Lauf läuft" } }] };
  assert.equal(State.outcomeWords("tagged", answer), "2 Läufe verschlagwortet. 1 Lauf blieb: ein Lauf läuft.");
});
