/**
 * Studies that no run of this host owns: those of the command line and those opened from a file. Below them, those that
 * can't be read.
 * @module runs/studies_list
 */

import { asProblem, request } from "../base/client.js";
import { ready } from "../base/dom.js";
import { ORIGINS, when } from "../base/format.js";
import { button, html, nothing, render } from "../base/html.js";
import { store } from "../base/page_state.js";
import { problemBlock } from "../base/problem.js";
import { shareLink } from "../base/share_link.js";
import { at } from "../base/site.js";
import { table } from "../base/table.js";
import { mayRun, visitor } from "../base/whoami.js";
import { shortModel } from "../calibrate/recipe_form.js";

/** @import { Column } from "../base/table.js" */
/** @import { DamagedEntry, StudiesAction, StudiesState, StudyEntry } from "./types.d.ts" */

export const FILTERED = "runs filtered"; // event of the document, with the filter of the list of runs

/** @type {StudiesState} */
export const START = {
  studies: [],
  damaged: [],
  filter: "",
  asking: null,
  sharing: null,
  isSending: false,
  trouble: null,
};

/**
 * @param {StudiesState} state
 * @param {StudiesAction} action
 * @returns {StudiesState}
 */
export function reduce(state, action) {
  switch (action.type) {
    case "listed":
      return {
        ...state,
        studies: action.studies.filter(({ origin }) => Object.hasOwn(ORIGINS, origin)),
        damaged: action.damaged,
      };
    case "removed":
      return {
        ...state,
        studies: state.studies.filter(({ id }) => id !== action.id),
        damaged: state.damaged.filter(({ id }) => id !== action.id),
        sharing: state.sharing === action.id ? null : state.sharing,
      };
    case "filtered":
      return { ...state, filter: action.filter };
    case "sharing": // the same again puts it away
      return { ...state, sharing: state.sharing === action.id ? null : action.id };
    case "deletion asked":
      return { ...state, asking: action.id };
    case "sending":
      return { ...state, isSending: action.isSending };
    case "trouble":
      return { ...state, trouble: action.trouble };
  }
}

/**
 * Called with the element of the list.
 * @param {HTMLElement} root
 */
export async function mount(root) {
  const card = /** @type {HTMLElement} */ (root.querySelector(".studies"));
  const list = /** @type {HTMLElement} */ (root.querySelector('[data-part="studies"]'));
  const button = /** @type {HTMLButtonElement} */ (await ready('[data-part="open-study"]'));
  const file = /** @type {HTMLInputElement} */ (await ready('[data-part="study-file"]'));
  const problem = await ready('[data-part="study-problem"]');
  const words = button.textContent;
  const who = await visitor().catch(() => null); // the list says it if the server does not answer
  const canShare = who?.public && mayRun(who);
  const page = store(START, reduce, draw);
  const { dispatch } = page;

  const attempt = (/** @type {() => Promise<void>} */ work) =>
    work().catch((error) => dispatch({ type: "trouble", trouble: asProblem(error) }));

  /** Sends the chosen file; a study that was taken is shown in the Lab. */
  async function send() {
    const chosen = file.files?.[0];
    file.value = ""; // the same file may be chosen again
    if (!chosen) return;
    dispatch({ type: "sending", isSending: true });
    await attempt(async () => {
      const study = await request("/studies", { method: "POST", body: chosen });
      location.assign(at(`/?study=${encodeURIComponent(study.id)}`));
    });
    dispatch({ type: "sending", isSending: false });
  }

  function ask(/** @type {string|null} */ id) {
    dispatch({ type: "deletion asked", id });
    page.draw();
    /** @type {HTMLElement|null} */ (list.querySelector('[data-testid="study-delete-yes"]'))?.focus();
  }

  async function remove(/** @type {string} */ id) {
    await attempt(async () => {
      await request(`/studies/${encodeURIComponent(id)}`, { method: "DELETE" });
      dispatch({ type: "removed", id });
    });
    ask(null);
  }

  /** The lines of the study that is shared, kept while others are drawn again. @type {[string, HTMLElement] | null} */
  let link = null;
  function linesOf(/** @type {string} */ id) {
    if (link?.[0] !== id) link = [id, shareLink("study", id)];
    return link[1];
  }
  const share = canShare ? (/** @type {string} */ id) => dispatch({ type: "sharing", id }) : null;

  /** @param {StudiesState} all */
  function draw(all) {
    const state = filtered(all);
    card.hidden = !state.studies.length && !state.damaged.length;
    button.disabled = state.isSending;
    button.textContent = state.isSending ? "Sending" : words;
    render(state.trouble ? problemBlock(state.trouble) : nothing, problem);
    render(
      [
        state.studies.length ? studiesTable(state, { ask, remove, share }) : nothing,
        state.sharing ? html`<div class="studies-share">${linesOf(state.sharing)}</div>` : nothing,
        state.damaged.length ? damagedTable(state, { ask, remove }) : nothing,
      ],
      list,
    );
  }

  document.addEventListener(FILTERED, (event) => {
    const { detail } = /** @type {CustomEvent<string>} */ (event);
    if (detail !== page.state.filter) dispatch({ type: "filtered", filter: detail });
  });
  button.addEventListener("click", () => file.click());
  file.addEventListener("change", send);
  await attempt(async () => dispatch({ type: "listed", ...(await request("/studies")) }));
  page.draw();
}

/**
 * The studies in which every word of the filter begins a word.
 * @param {StudiesState} state
 */
export function filtered(state) {
  const words = state.filter.toLowerCase().split(/\s+/).filter(Boolean);
  const has = (/** @type {string[]} */ ...texts) => {
    const text = ` ${texts
      .join(" ")
      .toLowerCase()
      .replace(/[^\p{L}\p{N}.]+/gu, " ")}`;
    return words.every((word) => text.includes(` ${word}`));
  };
  return {
    ...state,
    studies: state.studies.filter(({ id, title, model }) => has(id, title, model)),
    damaged: state.damaged.filter(({ id }) => has(id)),
  };
}

/**
 * What the buttons of a row do.
 * @typedef {object} Deeds
 * @property {(id: string|null) => void} ask whether a study shall be deleted
 * @property {(id: string) => void} remove
 */

/** The end of a row: a deletion asks first. @param {string} id @param {string | null} asking @param {Deeds} deeds */
const deletion = (id, asking, { ask, remove }) =>
  asking === id
    ? html`${button("Delete for good", "study-delete-yes", () => remove(id), "quiet danger")}
        ${button("Keep", "study-keep", () => ask(null))}`
    : button("Delete", "study-delete", () => ask(id));

/**
 * @param {StudiesState} state
 * @param {Deeds & {share: ((id: string) => void) | null}} deeds
 */
function studiesTable({ studies, asking }, deeds) {
  const { share } = deeds;
  /** @type {Column<StudyEntry>[]} */
  const columns = [
    {
      title: "Study",
      cell: ({ id, title }) =>
        html`<td class="study-title" title=${id}><a href=${at(`/?study=${encodeURIComponent(id)}`)}>${title || id}</a></td>`,
    },
    { title: "Model", cell: ({ model }) => html`<td class="run-model" title=${model}>${shortModel(model)}</td>` },
    { title: "From", show: ({ origin }) => ORIGINS[/** @type {keyof typeof ORIGINS} */ (origin)] },
    { title: "When", show: ({ created }) => when(created) },
    {
      show: ({ id, is_mine }) => html`<span class="row-buttons">
        <a class="quiet" href=${at(`/api/studies/${encodeURIComponent(id)}/download`)} download="">Download</a>
        ${share && is_mine ? button("Share", "study-share", () => share(id)) : nothing}
        ${is_mine ? deletion(id, asking, deeds) : nothing}
      </span>`,
    },
  ];
  const line = (/** @type {StudyEntry} */ { id }, /** @type {unknown} */ cells) =>
    html`<tr data-testid="study" data-study=${id}>${cells}</tr>`;
  return table({ columns, rows: studies, name: "runs studies-list", key: ({ id }) => id, line });
}

/**
 * @param {StudiesState} state
 * @param {Deeds} deeds
 */
function damagedTable({ damaged, asking }, deeds) {
  /** @type {Column<DamagedEntry>[]} */
  const columns = [
    { title: "Can’t be read", cell: ({ id }) => html`<td class="study-title" title=${id}>${id}</td>` },
    { title: "Why", cell: ({ error }) => html`<td class="damaged-why">${sentence(error)}</td>` },
    {
      show: ({ id, is_mine }) =>
        html`<span class="row-buttons">${is_mine ? deletion(id, asking, deeds) : nothing}</span>`,
    },
  ];
  const line = (/** @type {DamagedEntry} */ { id }, /** @type {unknown} */ cells) =>
    html`<tr data-testid="damaged" data-study=${id}>${cells}</tr>`;
  return table({ columns, rows: damaged, name: "runs damaged-list", key: ({ id }) => id, line });
}

/**
 * The three parts of an error as running text.
 * @param {import("../base/problem.js").Trouble} trouble
 */
export function sentence({ what, where, remedy }) {
  const first = `${what}${where ? ` (${where})` : ""}`.replace(/\.?$/, ".");
  return [first[0].toUpperCase() + first.slice(1), remedy].filter(Boolean).join(" ");
}
