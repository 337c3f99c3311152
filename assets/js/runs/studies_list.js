/**
 * Studies that no run of this host owns: those of the command line and those opened from a file.
 * @module runs/studies_list
 */

import { asProblem, request } from "../base/client.js";
import { ready } from "../base/dom.js";
import { ORIGINS, when } from "../base/format.js";
import { html, nothing, render } from "../base/html.js";
import { store } from "../base/page_state.js";
import { problemBlock } from "../base/problem.js";
import { table } from "../base/table.js";
import { shortModel } from "../calibrate/recipe_form.js";

/** @import { StudiesAction, StudiesState, StudyEntry } from "./types.d.ts" */

/** @type {StudiesState} */
export const START = { studies: [], asking: null, isSending: false, trouble: null };

/**
 * @param {StudiesState} state
 * @param {StudiesAction} action
 * @returns {StudiesState}
 */
export function reduce(state, action) {
  switch (action.type) {
    case "listed":
      return { ...state, studies: action.studies.filter(({ origin }) => Object.hasOwn(ORIGINS, origin)) };
    case "removed":
      return { ...state, studies: state.studies.filter(({ id }) => id !== action.id) };
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
  const page = store(START, reduce, draw);
  const { dispatch } = page;

  async function attempt(/** @type {() => Promise<void>} */ work) {
    try {
      await work();
    } catch (error) {
      dispatch({ type: "trouble", trouble: asProblem(error) });
    }
  }

  /** Sends the chosen file; a study that was taken is shown in the Lab. */
  async function send() {
    const chosen = file.files?.[0];
    file.value = ""; // the same file may be chosen again
    if (!chosen) return;
    dispatch({ type: "sending", isSending: true });
    await attempt(async () => {
      const study = await request("/studies", { method: "POST", body: chosen });
      location.assign(`/?study=${encodeURIComponent(study.id)}`);
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

  /** @param {StudiesState} state */
  function draw(state) {
    card.hidden = !state.studies.length;
    button.disabled = state.isSending;
    button.textContent = state.isSending ? "Sending" : words;
    render(state.trouble ? problemBlock(state.trouble) : nothing, problem);
    render(studiesTable(state, ask, remove), list);
  }

  button.addEventListener("click", () => file.click());
  file.addEventListener("change", send);
  await attempt(async () => dispatch({ type: "listed", ...(await request("/studies")) }));
  page.draw();
}

/**
 * @param {StudiesState} state
 * @param {(id: string|null) => void} ask whether a study shall be deleted
 * @param {(id: string) => void} remove
 */
function studiesTable({ studies, asking }, ask, remove) {
  const act = (
    /** @type {string} */ text,
    /** @type {string} */ name,
    /** @type {() => void} */ click,
    kind = "quiet",
  ) => html`<button type="button" class=${kind} data-testid=${name} @click=${click}>${text}</button>`;
  const end = (/** @type {string} */ id) =>
    asking === id
      ? html`${act("Delete for good", "study-delete-yes", () => remove(id), "quiet danger")}
          ${act("Keep", "study-keep", () => ask(null))}`
      : act("Delete", "study-delete", () => ask(id));
  /** @type {import("../base/table.js").Column<StudyEntry>[]} */
  const columns = [
    {
      title: "Study",
      cell: ({ id, title }) =>
        html`<td class="study-title" title=${id}><a href="/?study=${encodeURIComponent(id)}">${title || id}</a></td>`,
    },
    { title: "Model", cell: ({ model }) => html`<td class="run-model" title=${model}>${shortModel(model)}</td>` },
    { title: "From", show: ({ origin }) => ORIGINS[/** @type {keyof typeof ORIGINS} */ (origin)] },
    { title: "When", show: ({ created }) => when(created) },
    {
      show: ({ id }) => html`<span class="row-buttons">
        <a class="quiet" href="/api/studies/${encodeURIComponent(id)}/download" download="">Download</a>${end(id)}
      </span>`,
    },
  ];
  const line = (/** @type {StudyEntry} */ { id }, /** @type {unknown} */ cells) =>
    html`<tr data-testid="study" data-study=${id}>${cells}</tr>`;
  return table({ columns, rows: studies, name: "runs studies-list", key: ({ id }) => id, line });
}
