/**
 * Runs: a table that follows all runs through one stream, a filter, and the comparison of those picked.
 * @module runs
 */

import { asProblem, listen, request } from "../base/client.js";
import { fill, h, problem, say } from "../base/dom.js";
import { format, number, when } from "../base/format.js";
import { METHODS } from "../base/recipe_contract.js";
import { STATE_WORDS, stateChip } from "../calibrate/chip.js";
import { shortModel } from "../calibrate/recipe_form.js";
import { drawnTable, figureMenu } from "../charts/figure_menu.js";
import { plot } from "../charts/plot_host.js";

const PAGE = 200;
const AT_MOST = 4; // more curves than this in one figure can't be told apart
const runs = new Map();
const picked = new Set();
let root = null;
let next = null;
let asked = null; // the id whose deletion waits for a second click

const part = (name) => root.querySelector(`[data-part="${name}"]`);

/** Called with the element of the table. */
export async function mount(element) {
  root = element;
  const given = new URLSearchParams(location.search);
  part("filter").value = given.get("filter") ?? "";
  part("filter").addEventListener("input", draw);
  part("compare").addEventListener("click", () => compare([...picked]));
  try {
    const answer = await request(`/runs?limit=${PAGE}`);
    for (const run of answer.runs) runs.set(run.id, run);
    next = answer.next;
    follow(answer.revision);
  } catch (error) {
    fill(part("problem"), problem(asProblem(error)));
  }
  draw();
  const ids = (given.get("compare") ?? "").split(",").filter((id) => runs.has(id));
  for (const id of ids) picked.add(id);
  draw();
  if (ids.length > 1) compare(ids);
}

function follow(revision) {
  listen(`/events?after=${revision}`, {
    message: (message) => {
      if (message.type === "run") runs.set(message.run.id, message.run);
      else if (message.type === "removed") {
        runs.delete(message.id);
        picked.delete(message.id);
      }
      soon();
    },
    state: (word) =>
      fill(
        part("problem"),
        word === "lost"
          ? problem({
              what: "The server does not answer just now.",
              where: "",
              remedy: "Runs go on; this table will catch up.",
            })
          : null,
      ),
  });
}

let _frame = null;
function soon() {
  _frame ??= requestAnimationFrame(() => {
    _frame = null;
    draw();
  });
}

const COLUMNS = [
  ["", ""],
  ["State", ""],
  ["Model", ""],
  ["Bits", "is-number"],
  ["Method", ""],
  ["λ", "is-number"],
  ["γ", "is-number"],
  ["Perplexity", "is-number"],
  ["Δ to float", "is-number"],
  ["Accuracy", "is-number"],
  ["When", ""],
  ["", ""],
];

/** What the filter looks at. */
export function words(run) {
  const { recipe } = run;
  return [
    run.id,
    run.batch,
    STATE_WORDS[run.state],
    recipe.model,
    `${recipe.bits} bits`,
    recipe.method,
    recipe.grid,
    recipe.calibration,
    run.owner,
  ]
    .join(" ")
    .toLowerCase();
}

/** True when every word typed is found. */
export const matches = (run, typed) =>
  typed
    .toLowerCase()
    .split(/\s+/)
    .every((word) => words(run).includes(word));

const counted = (amount) => (amount === 1 ? "1 run" : `${amount} runs`);

function draw() {
  const typed = part("filter").value.trim();
  const all = [...runs.values()].sort((a, b) => (a.created < b.created ? 1 : -1));
  const shown = all.filter((run) => matches(run, typed));
  say(part("count"), all.length ? (typed ? `${shown.length} of ${counted(all.length)}` : counted(all.length)) : "");
  const button = part("compare");
  const ready = [...picked].filter((id) => runs.get(id)?.study_id);
  button.disabled = ready.length < 2;
  button.textContent = picked.size ? `Compare ${picked.size}` : "Compare";
  button.title = ready.length < 2 ? "Pick two or more finished runs" : "";
  if (!all.length) {
    fill(
      part("table"),
      h(
        "div",
        { class: "empty" },
        h("p", {}, "No run yet."),
        h("a", { class: "act", href: "/calibrate" }, "Start a calibration"),
      ),
    );
    return;
  }
  const focused = document.activeElement?.dataset?.key;
  fill(
    part("table"),
    h(
      "table",
      { class: "runs" },
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          COLUMNS.map(([title, kind]) => h("th", { scope: "col", class: kind || null }, title)),
        ),
      ),
      h("tbody", {}, shown.map(row)),
    ),
    shown.length ? null : h("div", { class: "empty" }, h("p", {}, "No run matches the filter.")),
    next
      ? h(
          "div",
          { class: "empty" },
          h("button", { type: "button", class: "quiet", on: { click: older } }, "Show older runs"),
        )
      : null,
  );
  // The table is made anew; whoever was at a button stays there.
  if (focused) root.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
}

function row(run) {
  const { recipe, summary } = run;
  const float = summary?.perplexity_float;
  const perplexity = summary?.perplexity ?? null;
  const delta = perplexity !== null && float ? perplexity - float : null;
  // An empty λ or γ means the method's own; the table shows what was taken.
  const chosen = (name, field) =>
    recipe[name] === "auto" ? "auto" : format(recipe[name] ?? METHODS[recipe.method]?.defaults[field], "plain");
  const progress =
    ["running", "cancelling"].includes(run.state) && run.progress?.total
      ? ` ${run.progress.done} of ${run.progress.total}`
      : "";
  const pick = h("input", {
    type: "checkbox",
    "aria-label": "Pick for comparison",
    "data-testid": "pick",
    dataset: { key: `pick-${run.id}` },
    disabled: !run.study_id || (!picked.has(run.id) && picked.size >= AT_MOST),
    on: {
      change: (event) => {
        if (event.target.checked) picked.add(run.id);
        else picked.delete(run.id);
        draw();
      },
    },
  });
  pick.checked = picked.has(run.id);
  return h(
    "tr",
    { class: picked.has(run.id) ? "is-picked" : null, "data-testid": "row", dataset: { run: run.id } },
    h("td", {}, pick),
    h("td", {}, stateChip(run.state), progress),
    h(
      "td",
      { class: "run-model", title: recipe.model },
      h("a", { href: `/calibrate?run=${encodeURIComponent(run.id)}` }, shortModel(recipe.model)),
    ),
    h("td", { class: "is-number" }, recipe.bits),
    h("td", {}, recipe.method),
    h("td", { class: "is-number" }, chosen("lambda", "lam")),
    h("td", { class: "is-number" }, chosen("gamma", "gamma")),
    h("td", { class: "is-number", dataset: { value: String(perplexity) } }, format(perplexity, "perplexity")),
    h("td", { class: "is-number" }, delta === null ? "–" : `${delta > 0 ? "+" : ""}${number(delta, 2)}`),
    h("td", { class: "is-number" }, format(summary?.accuracy ?? null, "share")),
    h("td", {}, when(run.created)),
    h("td", {}, h("span", { class: "row-buttons" }, buttons(run))),
  );
}

function buttons(run) {
  const act = (text, name, handler, kind = "quiet") =>
    h(
      "button",
      {
        type: "button",
        class: kind,
        "data-testid": name,
        dataset: { key: `${name}-${run.id}` },
        on: { click: handler },
      },
      text,
    );
  const post = (verb) => async () => {
    try {
      const answer = await request(`/runs/${encodeURIComponent(run.id)}/${verb}`, { method: "POST" });
      runs.set(answer.id, answer);
      draw();
    } catch (error) {
      fill(part("problem"), problem(asProblem(error)));
    }
  };
  const made = [];
  if (run.batch) made.push(act("Batch", "batch", () => only(run.batch)));
  if (run.study_id) made.push(h("a", { class: "quiet", href: `/?study=${encodeURIComponent(run.study_id)}` }, "Lab"));
  if (["queued", "running"].includes(run.state)) made.push(act("Cancel", "cancel", post("cancel")));
  if (["cancelled", "interrupted", "failed"].includes(run.state))
    made.push(act("Continue", "continue", post("continue")));
  if (["finished", "cancelled", "interrupted", "failed"].includes(run.state)) {
    if (asked === run.id) {
      made.push(act("Delete for good", "delete-yes", () => remove(run.id), "quiet danger"));
      made.push(act("Keep", "delete-no", () => ask(null)));
    } else made.push(act("Delete", "delete", () => ask(run.id)));
  }
  return made;
}

/** Shows the runs of one batch; the same again shows all. */
function only(batch) {
  const filter = part("filter");
  filter.value = filter.value === batch ? "" : batch;
  draw();
}

function ask(id) {
  asked = id;
  draw();
}

async function remove(id) {
  try {
    await request(`/runs/${encodeURIComponent(id)}`, { method: "DELETE" });
    runs.delete(id);
    picked.delete(id);
  } catch (error) {
    fill(part("problem"), problem(asProblem(error)));
  }
  ask(null);
}

async function older() {
  try {
    const answer = await request(`/runs?limit=${PAGE}&before=${encodeURIComponent(next)}`);
    for (const run of answer.runs) runs.set(run.id, run);
    next = answer.next;
    draw();
  } catch (error) {
    fill(part("problem"), problem(asProblem(error)));
  }
}

/** The picked runs' studies side by side, below the table. */
async function compare(ids) {
  const section = document.querySelector(".compare");
  const chosen = ids.map((id) => runs.get(id)).filter((run) => run?.study_id);
  try {
    const query = chosen.map((run) => encodeURIComponent(run.study_id)).join(",");
    const view = await request(`/compare?ids=${query}`);
    history.replaceState(history.state, "", `${location.pathname}?compare=${chosen.map((run) => run.id).join(",")}`);
    section.classList.add("is-shown");
    const heads = () =>
      view.studies.map((study, index) => h("th", { scope: "col", class: `series-${(index % 4) + 1}` }, study.name));
    fill(
      section.querySelector('[data-part="differences"]'),
      view.differences.length
        ? compareTable(
            heads(),
            view.differences.map((one) => [one.title, one.values.map(valueText)]),
          )
        : h("p", { class: "empty" }, "The recipes are equal."),
    );
    fill(
      section.querySelector('[data-part="compared"]'),
      compareTable(
        heads(),
        view.numbers.map((one) => [one.title, one.values.map((value) => format(value, one.kind))]),
      ),
    );
    await showCurves(view.figure);
    section.scrollIntoView({ behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" });
  } catch (error) {
    fill(part("problem"), problem(asProblem(error)));
  }
}

/** The curves overlaid, with their menu from the first time on. */
async function showCurves(figure) {
  const host = await plot("compare");
  if (!host.figure) figureMenu(host, { file: () => "compared", table: () => drawnTable(host.canvas.data) });
  await host.show(figure, { gamma: 0, lambda: 0 });
}

const valueText = (value) =>
  Array.isArray(value) ? value.join(", ") || "none" : value === null || value === undefined ? "none" : String(value);

function compareTable(heads, rows) {
  return h(
    "table",
    { class: "compare-table" },
    h("thead", {}, h("tr", {}, h("th", {}), heads)),
    h(
      "tbody",
      {},
      rows.map(([name, values]) =>
        h(
          "tr",
          {},
          h("th", { scope: "row" }, name),
          values.map((value) => h("td", {}, value)),
        ),
      ),
    ),
  );
}
