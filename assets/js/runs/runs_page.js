/**
 * Runs: a table that follows all runs through one stream, a filter, and the comparison of those picked.
 * @module runs/runs_page
 */

import { asProblem, listen, offline, request } from "../base/client.js";
import { format, number, when } from "../base/format.js";
import { html, nothing, render, repeat } from "../base/html.js";
import { store } from "../base/page_state.js";
import { problemBlock } from "../base/problem.js";
import { METHODS } from "../base/recipe_contract.js";
import { stateChip } from "../base/state_chip.js";
import { table } from "../base/table.js";
import { visitor } from "../base/whoami.js";
import { fittingWords, shortModel } from "../calibrate/recipe_form.js";
import { drawnTable, figureMenu } from "../charts/figure_menu.js";
import { plot } from "../charts/plot_host.js";
import { canBePicked, comparable, count, deeds, listed, reduce, START } from "./runs_state.js";

/**
 * @import { Comparison, Run, RunsAction, RunsState } from "./types.d.ts"
 * @typedef {(action: RunsAction) => void} Dispatch
 * @typedef {Object<string, (run: Run) => void>} Deeds what the buttons of a row do, by name
 */

const PAGE = 200;

/**
 * Called with the element of the table.
 * @param {HTMLElement} root
 */
export async function mount(root) {
  const filter = /** @type {HTMLInputElement} */ (root.querySelector('[data-part="filter"]'));
  const button = /** @type {HTMLButtonElement} */ (root.querySelector('[data-part="compare"]'));
  const place = (/** @type {string} */ name) =>
    /** @type {HTMLElement} */ (root.querySelector(`[data-part="${name}"]`));
  const given = new URLSearchParams(location.search);
  filter.value = given.get("filter") ?? "";
  const page = store({ ...START, filter: filter.value }, reduce, draw);
  const { dispatch } = page;

  visitor().then(
    (who) => dispatch({ type: "visited", who }),
    () => {}, // the list says it if the server does not answer
  );

  /** What goes wrong is said above the table. */
  async function attempt(/** @type {() => Promise<void>} */ work) {
    try {
      await work();
    } catch (error) {
      dispatch({ type: "trouble", trouble: asProblem(error) });
    }
  }
  const post =
    (/** @type {string} */ verb) =>
    (/** @type {Run} */ { id }) =>
      attempt(async () => {
        const run = await request(`/runs/${encodeURIComponent(id)}/${verb}`, { method: "POST" });
        dispatch({ type: "changed", run });
      });
  /** @type {Deeds} */
  const does = {
    // Shows the runs of one batch; the same again shows all.
    batch: ({ batch }) => dispatch({ type: "filtered", text: page.state.filter === batch ? "" : (batch ?? "") }),
    cancel: post("cancel"),
    continue: post("continue"),
    delete: ({ id }) => dispatch({ type: "deletion asked", id }),
    "delete-no": () => dispatch({ type: "deletion asked", id: null }),
    "delete-yes": async ({ id }) => {
      await attempt(async () => {
        await request(`/runs/${encodeURIComponent(id)}`, { method: "DELETE" });
        dispatch({ type: "removed", id });
      });
      dispatch({ type: "deletion asked", id: null });
    },
  };
  const older = () =>
    attempt(async () => {
      const answer = await request(`/runs?limit=${PAGE}&before=${encodeURIComponent(page.state.next ?? "")}`);
      dispatch({ type: "listed", ...answer });
    });

  /** The picked runs' studies side by side, below the table. */
  const compare = () =>
    attempt(async () => {
      const chosen = comparable(page.state);
      const query = chosen.map((run) => encodeURIComponent(run.study_id)).join(",");
      /** @type {Comparison} */
      const comparison = await request(`/compare?ids=${query}`);
      const search = `?compare=${chosen.map((run) => run.id).join(",")}`;
      history.replaceState(history.state, "", `${location.pathname}${search}`);
      dispatch({ type: "compared", comparison });
      page.draw(); // the figure needs a place of some size
      await showCurves(comparison.figure);
      const behavior = matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth";
      document.querySelector(".compare")?.scrollIntoView({ behavior });
    });

  /** @param {RunsState} state */
  function draw(state) {
    if (filter.value !== state.filter) filter.value = state.filter;
    button.disabled = comparable(state).length < 2;
    button.textContent = state.picked.length ? `Compare ${state.picked.length}` : "Compare";
    button.title = button.disabled ? "Pick two or more finished runs" : "";
    render(count(state), place("count"));
    render(state.trouble ? problemBlock(state.trouble) : nothing, place("problem"));
    render(runsTable(state, dispatch, does, older), place("table"));
    if (state.comparison) drawComparison(state.comparison);
  }

  filter.addEventListener("input", () => dispatch({ type: "filtered", text: filter.value }));
  button.addEventListener("click", compare);
  await attempt(async () => {
    const { runs, next, revision } = await request(`/runs?limit=${PAGE}`);
    dispatch({ type: "listed", runs, next });
    follow(revision, dispatch);
  });
  const ids = (given.get("compare") ?? "").split(",").filter((id) => page.state.runs.has(id));
  for (const id of ids) dispatch({ type: "picked", id, isPicked: true });
  page.draw();
  if (ids.length > 1) compare();
}

/**
 * @param {number} revision of the list of runs, after which changes are of interest
 * @param {Dispatch} dispatch
 */
function follow(revision, dispatch) {
  listen(`/events?after=${revision}`, {
    message: (message) => {
      if (message.type === "run") dispatch({ type: "changed", run: message.run });
      else if (message.type === "removed") dispatch({ type: "removed", id: message.id });
    },
    state: (word) =>
      dispatch({
        type: "trouble",
        trouble: word === "lost" ? offline("Runs go on; this table will catch up.") : null,
      }),
  });
}

/**
 * @param {RunsState} state
 * @param {Dispatch} dispatch
 * @param {Deeds} does
 * @param {() => void} older
 */
function runsTable(state, dispatch, does, older) {
  if (!state.runs.size)
    return html`<div class="empty">
      <p>No run yet.</p>
      <a class="act" href="/calibrate">Start a calibration</a>
    </div>`;
  const runs = listed(state);
  const line = (/** @type {Run} */ { id }, /** @type {unknown} */ cells) =>
    html`<tr class=${state.picked.includes(id) ? "is-picked" : nothing} data-testid="row" data-run=${id}>${cells}</tr>`;
  return html`${table({ columns: columns(state, dispatch, does), rows: runs, name: "runs", key: ({ id }) => id, line })}
    ${runs.length ? nothing : html`<div class="empty"><p>No run matches the filter.</p></div>`}
    ${
      state.next
        ? html`<div class="empty"><button type="button" class="quiet" @click=${older}>Show older runs</button></div>`
        : nothing
    }`;
}

/**
 * @param {RunsState} state
 * @param {Dispatch} dispatch
 * @param {Deeds} does
 * @returns {import("../base/table.js").Column<Run>[]}
 */
function columns(state, dispatch, does) {
  /** @type {(title: string, text: (run: Run) => unknown) => import("../base/table.js").Column<Run>} */
  const numbers = (title, text) => ({
    title,
    kind: "is-number",
    cell: (run) => html`<td class="is-number">${text(run)}</td>`,
  });
  return [
    { show: (run) => pickBox(state, run, dispatch) },
    { title: "State", show: (run) => html`${stateChip(run.state)}${progress(run)}` },
    {
      title: "Model",
      cell: ({ id, recipe: { model } }) =>
        html`<td class="run-model" title=${model}>
          <a href="/calibrate?run=${encodeURIComponent(id)}">${shortModel(model)}</a>
        </td>`,
    },
    numbers("Bits", ({ recipe }) => recipe.bits),
    { title: "Method", show: ({ recipe }) => [recipe.method, ...fittingWords(recipe)].join(", ") },
    numbers("λ", ({ recipe }) => taken(recipe.lambda, recipe.method, "lam")),
    numbers("γ", ({ recipe }) => taken(recipe.gamma, recipe.method, "gamma")),
    {
      title: "Perplexity",
      kind: "is-number",
      cell: ({ summary }) => {
        const value = summary?.perplexity ?? null;
        return html`<td class="is-number" data-value=${String(value)}>${format(value, "perplexity")}</td>`;
      },
    },
    numbers("Δ to float", ({ summary }) => {
      const { perplexity, perplexity_float: float } = summary ?? {};
      if (perplexity === null || perplexity === undefined || !float) return "–";
      return `${perplexity > float ? "+" : ""}${number(perplexity - float, 2)}`;
    }),
    numbers("Accuracy", ({ summary }) => format(summary?.accuracy ?? null, "share")),
    { title: "When", show: ({ created }) => when(created) },
    { show: (run) => html`<span class="row-buttons">${buttons(state, run, does)}</span>` },
  ];
}

/**
 * λ or γ as they were taken: an empty field means the method's own.
 * @param {number|"auto"|null} value
 * @param {string} method
 * @param {"lam"|"gamma"} name
 */
const taken = (value, method, name) =>
  value === "auto" ? "auto" : format(value ?? METHODS[method]?.defaults[name], "plain");

/** @param {Run} run */
const progress = ({ state, progress: made }) =>
  ["running", "cancelling"].includes(state) && made?.total ? ` ${made.done} of ${made.total}` : "";

/**
 * @param {RunsState} state
 * @param {Run} run
 * @param {Dispatch} dispatch
 */
function pickBox(state, run, dispatch) {
  const change = (/** @type {Event} */ { target }) =>
    dispatch({ type: "picked", id: run.id, isPicked: target instanceof HTMLInputElement && target.checked });
  return html`<input type="checkbox" aria-label="Pick for comparison" data-testid="pick"
    ?disabled=${!canBePicked(state, run)} .checked=${state.picked.includes(run.id)} @change=${change} />`;
}

/** @type {Object<string, string>} */
const WORDS = {
  batch: "Batch",
  cancel: "Cancel",
  continue: "Continue",
  delete: "Delete",
  "delete-yes": "Delete for good",
  "delete-no": "Keep",
};

/**
 * @param {RunsState} state
 * @param {Run} run
 * @param {Deeds} does
 */
const buttons = (state, run, does) =>
  repeat(
    deeds(state, run),
    (deed) => deed, // a button is never taken for another, least of all by whoever presses it twice
    (deed) =>
      deed === "lab"
        ? html`<a class="quiet" href="/?study=${encodeURIComponent(run.study_id ?? "")}">Lab</a>`
        : html`<button type="button" class=${deed === "delete-yes" ? "quiet danger" : "quiet"} data-testid=${deed}
            @click=${() => does[deed](run)}>${WORDS[deed]}</button>`,
  );

/**
 * Where the recipes differ, and the numbers.
 * @param {Comparison} comparison
 */
function drawComparison({ studies, differences, numbers }) {
  const section = /** @type {HTMLElement} */ (document.querySelector(".compare"));
  const place = (/** @type {string} */ name) =>
    /** @type {HTMLElement} */ (section.querySelector(`[data-part="${name}"]`));
  section.classList.add("is-shown");
  const beside = (/** @type {{title: string, texts: unknown[]}[]} */ rows) =>
    table({
      name: "compare-table",
      columns: [
        { isHead: true, show: (/** @type {typeof rows[number]} */ { title }) => title },
        ...studies.map(({ name }, i) => ({
          title: name,
          kind: `series-${(i % 4) + 1}`,
          show: (/** @type {typeof rows[number]} */ { texts }) => texts[i],
        })),
      ],
      rows,
    });
  render(
    differences.length
      ? beside(differences.map(({ title, values }) => ({ title, texts: values.map(valueText) })))
      : html`<p class="empty">The recipes are equal.</p>`,
    place("differences"),
  );
  render(
    beside(numbers.map(({ title, kind, values }) => ({ title, texts: values.map((value) => format(value, kind)) }))),
    place("compared"),
  );
}

/**
 * The curves overlaid, with their menu from the first time on.
 * @param {Comparison["figure"]} figure
 */
async function showCurves(figure) {
  const host = await plot("compare");
  if (!host.figure) figureMenu(host, { file: () => "compared", table: () => drawnTable(host.canvas.data) });
  await host.show(figure, { gamma: 0, lambda: 0 });
}

/** @param {unknown} value */
const valueText = (value) =>
  Array.isArray(value) ? value.join(", ") || "none" : value === null || value === undefined ? "none" : String(value);
