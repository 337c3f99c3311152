/**
 * Runs: one page of a list that the server filters, sorts and cuts, which follows all runs through one stream; what is
 * done with the runs that are picked, and the cards below with several side by side.
 * @module runs/runs_page
 */

import { remember } from "../base/address_bar.js";
import { asProblem, listen, offline, request } from "../base/client.js";
import { saveAs } from "../base/dom.js";
import { button, html, nothing, render } from "../base/html.js";
import { scrollBehavior } from "../base/motion.js";
import { store } from "../base/page_state.js";
import { problemBlock } from "../base/problem.js";
import { at } from "../base/site.js";
import { visitor } from "../base/whoami.js";
import { showComparison } from "./compared_runs.js";
import { showPareto } from "./pareto_card.js";
import {
  addressOf,
  chosen,
  comparable,
  count,
  deletionWords,
  outcomeWords,
  pathOf,
  place,
  readQuery,
  reduce,
  rows,
  SORT,
  START,
  whyNotCompared,
} from "./runs_state.js";
import { runsTable, SORT_WORDS, tagsIn } from "./runs_table.js";
import { FILTERED } from "./studies_list.js";

/**
 * @import { Answer, Run, RunsState } from "./types.d.ts"
 * @import { Verb } from "./runs_state.js"
 * @import { Acts, Deeds, Dispatch } from "./runs_table.js"
 */

const TYPING_MS = 150; // after the last key
const NEWS_MS = 400; // for news that come together
const UNFOLDED = 200; // runs of a group

/**
 * Called with the element of the table.
 * @param {HTMLElement} root
 */
export async function mount(root) {
  const part = (/** @type {string} */ name) => /** @type {HTMLElement} */ (root.querySelector(`[data-part="${name}"]`));
  const filter = /** @type {HTMLInputElement} */ (part("filter"));
  const group = /** @type {HTMLSelectElement} */ (part("group"));
  const given = new URLSearchParams(location.search);
  const page = store({ ...START, query: readQuery(given) }, reduce, draw);
  const { dispatch } = page;
  let timer = 0;
  let asking = 0; // counts requests for the list: only the latest is of interest

  visitor().then(
    (who) => dispatch({ type: "visited", who }),
    () => {}, // the list says it if the server does not answer
  );

  /** What goes wrong is said above the table. */
  const attempt = (/** @type {() => Promise<void>} */ work) =>
    work().catch((error) => dispatch({ type: "trouble", trouble: asProblem(error) }));

  /** The page of the list as it is asked for now. */
  const load = () =>
    attempt(async () => {
      clearTimeout(timer);
      const mine = ++asking;
      const { query } = page.state;
      dispatch({ type: "loading" });
      /** @type {Answer} */
      const answer = await request(pathOf(query));
      if (mine !== asking) return;
      dispatch({ type: "listed", answer });
      for (const key of page.state.unfolded.keys()) await unfold(key);
      if (page.state.isStale) await load();
    });
  const soon = (/** @type {number} */ wait) => {
    clearTimeout(timer);
    timer = window.setTimeout(load, wait);
  };
  /** Asks for another part of the list, and writes it into the address. @type {Dispatch} */
  const ask = (action) => {
    dispatch(action);
    if (action.type !== "asked") return;
    remember(addressOf(page.state.query));
    soon(action.query.filter === undefined ? 0 : TYPING_MS);
  };
  const unfold = async (/** @type {string} */ key) => {
    const search = new URLSearchParams({
      limit: String(UNFOLDED),
      [page.state.query.group === "batch" ? "batch" : "series"]: key,
    });
    if (page.state.query.filter.trim()) search.set("filter", page.state.query.filter.trim());
    const { runs } = await request(`/runs?${search}`);
    dispatch({ type: "unfolded", key, runs });
  };

  const post =
    (/** @type {string} */ verb) =>
    (/** @type {Run} */ { id }) =>
      attempt(async () => {
        const run = await request(`/runs/${encodeURIComponent(id)}/${verb}`, { method: "POST" });
        dispatch({ type: "changed", run });
      });
  const focus = (/** @type {string} */ selector) => {
    page.draw();
    /** @type {HTMLElement | null} */ (root.querySelector(selector))?.focus();
  };
  const row = (/** @type {string} */ id) => `[data-run="${CSS.escape(id)}"]`;
  /** @type {Deeds} */
  const does = {
    // Shows the runs of one batch; the same again shows all.
    batch: ({ batch }) =>
      ask({ type: "asked", query: { filter: page.state.query.filter === batch ? "" : (batch ?? "") } }),
    cancel: post("cancel"),
    continue: post("continue"),
    delete: ({ id }) => {
      dispatch({ type: "deletion asked", id });
      focus(`${row(id)} [data-testid=delete-no]`);
    },
    "delete-no": ({ id }) => {
      dispatch({ type: "deletion asked", id: null });
      focus(`${row(id)} [data-testid=more]`);
    },
    "delete-yes": async ({ id }) => {
      const neighbours = [...root.querySelectorAll("[data-run]")].map(
        (one) => /** @type {HTMLElement} */ (one).dataset.run,
      );
      const at = neighbours.indexOf(id);
      const next = neighbours[at + 1] ?? neighbours[at - 1];
      await attempt(async () => {
        await request(`/runs/${encodeURIComponent(id)}`, { method: "DELETE" });
        dispatch({ type: "removed", id });
        soon(0);
      });
      dispatch({ type: "deletion asked", id: null });
      // The button has gone: the keyboard goes on at the next run, or where runs are looked for.
      focus(next ? `${row(next)} a` : '[data-part="filter"]');
    },
  };
  /** @type {Acts} */
  const acts = {
    save: ({ id }, body) =>
      attempt(async () => {
        const run = await request(`/runs/${encodeURIComponent(id)}`, { method: "PATCH", body });
        dispatch({ type: "trouble", trouble: null });
        dispatch({ type: "changed", run });
        acts.leave(run);
      }),
    leave: ({ id }) => {
      dispatch({ type: "editing", id: null });
      focus(`${row(id)} [data-testid=edit]`);
    },
    unfold: ({ key }) =>
      attempt(async () => {
        if (page.state.unfolded.has(key)) dispatch({ type: "unfolded", key, runs: null });
        else await unfold(key);
      }),
  };
  /** Something is done to all picked runs by one request. @param {string} path @param {object} more @param {Verb} verb */
  const toPicked = (path, more, verb) =>
    attempt(async () => {
      const body = { ids: [...page.state.picked.keys()], ...more };
      const answer = await request(`/runs/${path}`, { method: "POST", body });
      if (path === "delete") for (const id of answer.done) dispatch({ type: "removed", id });
      dispatch({ type: "said", words: outcomeWords(verb, answer) });
      soon(0);
    });

  /** The picked runs' studies side by side, below the table. */
  const compare = () =>
    attempt(async () => {
      const runs = comparable(page.state);
      const query = runs.map((run) => encodeURIComponent(run.study_id)).join(",");
      const comparison = await request(`/compare?ids=${query}`);
      dispatch({ type: "trouble", trouble: null });
      const ids = runs.map(({ id }) => id).join(",");
      history.replaceState(history.state, "", `${location.pathname}?compare=${ids}`);
      await showComparison(
        comparison,
        runs.map(({ name }) => name),
      );
      scrollTo(".compare");
    });
  const pareto = () =>
    attempt(async () => {
      await showPareto(chosen(page.state));
      scrollTo(".pareto");
    });

  /** @param {RunsState} state */
  function draw(state) {
    if (filter.value !== state.query.filter) filter.value = state.query.filter;
    document.dispatchEvent(new CustomEvent(FILTERED, { detail: state.query.filter }));
    group.value = state.query.group;
    render(count(state), part("count"));
    const trouble = state.trouble ?? (state.isLost ? offline("Runs go on; this table will catch up.") : null);
    render(trouble ? problemBlock(trouble) : nothing, part("problem"));
    render(sortChoice(state, ask), part("sort"));
    render(pickedBar(state, { dispatch, compare, pareto, toPicked }), part("picked"));
    part("table").classList.toggle("is-waiting", state.isLoading);
    render(content(state, ask, does, acts), part("table"));
    render(pages(state, ask), part("pages"));
  }

  root.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || event.defaultPrevented) return;
    const asked = event.target instanceof Element && event.target.closest("[data-run]:has([data-testid=delete-no])");
    const run = asked instanceof HTMLElement && rows(page.state).find((one) => one.run?.id === asked.dataset.run)?.run;
    if (run) does["delete-no"](run);
  });
  filter.addEventListener("input", () => ask({ type: "asked", query: { filter: filter.value } }));
  group.addEventListener("change", () =>
    ask({ type: "asked", query: { group: /** @type {RunsState["query"]["group"]} */ (group.value) } }),
  );
  addEventListener("popstate", () => {
    dispatch({ type: "asked", query: readQuery(new URLSearchParams(location.search)) });
    soon(0);
  });
  page.draw();
  await attempt(async () => {
    const { revision } = await request("/runs?limit=1"); // before the list: a change after it is told once more
    await load();
    follow(revision, (action) => {
      dispatch(action);
      if (page.state.isStale && !page.state.isLoading) soon(NEWS_MS);
    });
  });
  const ids = given.get("compare");
  if (!ids) return;
  await attempt(async () => {
    const { runs } = await request(`/runs?ids=${encodeURIComponent(ids)}`);
    const inOrder = ids.split(",").flatMap((id) => runs.filter((/** @type {Run} */ run) => run.id === id));
    dispatch({ type: "picked", runs: inOrder, isPicked: true });
  });
  const why = whyNotCompared(page.state);
  if (!why) compare();
  else
    dispatch({
      type: "trouble",
      trouble: {
        what: "of the runs in this address not enough can be compared here",
        where: "the address of this page",
        remedy: `${why}.`,
      },
    });
}

/** @param {string} selector */
function scrollTo(selector) {
  document.querySelector(selector)?.scrollIntoView({ behavior: scrollBehavior() });
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
    state: (word) => dispatch({ type: "stream", isLost: word === "lost" }),
  });
}

/**
 * @param {RunsState} state
 * @param {Dispatch} ask
 * @param {Deeds} does
 * @param {Acts} acts
 */
function content(state, ask, does, acts) {
  if (state.total === null) return nothing;
  if (rows(state).length) return runsTable(state, ask, does, acts);
  if (state.query.filter.trim())
    return html`<div class="empty"><p>No run matches the filter.</p>
      <button type="button" class="quiet" @click=${() => ask({ type: "asked", query: { filter: "" } })}>Show all runs</button></div>`;
  return html`<div class="empty">
    <p>No run yet.</p>
    <a class="act" href=${at("/calibrate")}>Start a calibration</a>
  </div>`;
}

/**
 * What the list is sorted by, where heads of columns have no room, and its direction.
 * @param {RunsState} state
 * @param {Dispatch} ask
 */
function sortChoice({ query: { sort } }, ask) {
  const name = sort.replace(/^-/, "");
  const isFalling = sort.startsWith("-");
  const choose = (/** @type {string} */ chosenSort) => ask({ type: "asked", query: { sort: chosenSort } });
  const change = (/** @type {Event} */ event) => {
    const { value } = /** @type {HTMLSelectElement} */ (event.target);
    choose(value === "created" ? SORT : value);
  };
  return html`<select aria-label="Sort by" data-testid="sort" @change=${change}>${Object.entries(SORT_WORDS).map(
    ([value, words]) => html`<option value=${value} ?selected=${value === name}>${words}</option>`,
  )}</select
    ><button type="button" class="quiet" data-testid="direction" aria-label=${isFalling ? "Falling; turn it round" : "Rising; turn it round"}
      title=${isFalling ? "Falling" : "Rising"} @click=${() => choose(isFalling ? name : `-${name}`)}>${isFalling ? "↓" : "↑"}</button>`;
}

/**
 * What can be done with the picked runs, or with all of the list.
 * @param {RunsState} state
 * @param {{dispatch: Dispatch, compare: () => void, pareto: () => void,
 *   toPicked: (path: string, more: object, verb: Verb) => void}} acts
 */
function pickedBar(state, { dispatch, compare, pareto, toPicked }) {
  const { picked, asking, said } = state;
  const amount = picked.size;
  if (!amount && !state.all) return said ? html`<span class="picked-words" role="status">${said}</span>` : nothing;
  const why = whyNotCompared(state);
  const stop = () => dispatch({ type: "asking", what: null });
  if (asking === "delete" && amount)
    return html`<span class="picked-words" role="alert" data-testid="delete-words">${deletionWords(state)}</span>
      ${button("Delete for good", "delete-picked-yes", () => toPicked("delete", {}, "deleted"), "quiet danger")}
      ${button("Keep", "delete-picked-no", stop)}`;
  if (asking === "tag" && amount) {
    const send = (/** @type {SubmitEvent} */ event) => {
      event.preventDefault();
      const form = new FormData(/** @type {HTMLFormElement} */ (event.target), event.submitter);
      const tags = tagsIn(form.get("tag"));
      const isAdded = form.get("what") === "add";
      if (tags.length) toPicked("tags", { [isAdded ? "add" : "remove"]: tags }, isAdded ? "tagged" : "without the tag");
    };
    return html`<form class="picked-tag" @submit=${send} @keydown=${(/** @type {KeyboardEvent} */ { key }) => key === "Escape" && stop()}>
      <label>Tag <input name="tag" data-testid="tag-picked-text" autocomplete="off" required /></label>
      <button class="quiet" name="what" value="add" data-testid="tag-picked-add">Add</button>
      <button class="quiet" name="what" value="remove">Remove</button>
      ${button("Leave", "tag-picked-no", stop)}
    </form>`;
  }
  return html`<span class="picked-words" role="status">${said || pickedWords(state)}</span>
    ${
      amount
        ? html`<button type="button" class="quiet" data-testid="compare" ?disabled=${Boolean(why)}
            aria-describedby="compare-why" @click=${compare}>${why ? "Compare" : `Compare ${comparable(state).length}`}</button
          ><span id="compare-why" class="picked-why">${why}</span>`
        : nothing
    }
    ${button("Size against quality", "pareto", pareto)}
    ${button("CSV", "csv", () => saveAs("runs.csv", at(`/api/runs/csv?${chosen(state)}`)))}
    ${
      amount
        ? [
            button("Tag", "tag-picked", () => dispatch({ type: "asking", what: "tag" })),
            button("Delete", "delete-picked", () => dispatch({ type: "asking", what: "delete" })),
            button("Pick none", "pick-none", () => dispatch({ type: "picked none" })),
          ]
        : html`<span class="picked-hint">Pick runs to compare, tag or delete them.</span>`
    }`;
}

/** Of which runs the buttons are. @param {RunsState} state */
function pickedWords({ picked, query }) {
  if (picked.size) return `${picked.size} picked`;
  return query.filter.trim() ? "All found" : "All runs";
}

/**
 * @param {RunsState} state
 * @param {Dispatch} ask
 */
function pages(state, ask) {
  const { last, words } = place(state);
  if (!last) return nothing;
  const { page } = state.query;
  const go = (/** @type {string} */ text, /** @type {string} */ name, /** @type {number} */ to) =>
    html`<button type="button" class="quiet" data-testid=${name} ?disabled=${to === page || to < 0 || to > last}
      @click=${() => ask({ type: "asked", query: { page: to } })}>${text}</button>`;
  return html`<nav class="pages-of-list" aria-label="Pages of the list">
    ${go("First", "page-first", 0)}${go("Before", "page-before", page - 1)}
    <span data-testid="page-words">${words}</span>
    ${go("Next", "page-next", page + 1)}${go("Last", "page-last", last)}
  </nav>`;
}
