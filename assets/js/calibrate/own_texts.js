/**
 * Texts of one's own for calibration and test: bringing a file, and removing what was brought.
 * @module own_texts
 */

import { asProblem, request } from "../base/client.js";
import { bytes } from "../base/format.js";
import { button, html, nothing, render, repeat } from "../base/html.js";
import { store } from "../base/page_state.js";
import { problemBlock } from "../base/problem.js";

/** @import { Trouble } from "../base/problem.js" */
/** @typedef {{name: string, title: string, bytes: number}} OwnText an entry of GET /texts */
/**
 * @typedef {object} TextsState
 * @property {readonly OwnText[]} texts newest first
 * @property {boolean} isSending whether a file is on its way
 * @property {string | null} asking the text whose deletion waits for a second click
 * @property {Trouble | null} trouble
 */
/**
 * @typedef {{type: "listed", texts: OwnText[]} | {type: "sending"} | {type: "brought", text: OwnText}
 *   | {type: "deletion asked", name: string | null} | {type: "removed", name: string}
 *   | {type: "trouble", trouble: Trouble}} TextsAction
 */

const TITLE_MOST = 120; // characters that the server takes

/** @type {TextsState} */
export const START = { texts: [], isSending: false, asking: null, trouble: null };

/**
 * @param {TextsState} state
 * @param {TextsAction} action
 * @returns {TextsState}
 */
export function reduce(state, action) {
  const without = (/** @type {string} */ gone) => state.texts.filter(({ name }) => name !== gone);
  switch (action.type) {
    case "listed":
      return { ...state, texts: action.texts };
    case "sending":
      return { ...state, isSending: true, trouble: null };
    case "brought": // the same text again has the same name
      return { ...state, texts: [action.text, ...without(action.text.name)], isSending: false };
    case "deletion asked":
      return { ...state, asking: action.name };
    case "removed":
      return { ...state, texts: without(action.name), asking: null, trouble: null };
    case "trouble":
      return { ...state, isSending: false, asking: null, trouble: action.trouble };
  }
}

/**
 * @param {object} options
 * @param {HTMLElement} options.place
 * @param {OwnText[]} options.texts that are there at first
 * @param {(texts: readonly OwnText[], brought: string | null) => void} options.changed hears the texts after one was
 * brought, with its name, or removed
 */
export function ownTexts({ place, texts, changed }) {
  const page = store(START, reduce, draw);
  const { dispatch } = page;

  const attempt = (/** @type {() => Promise<void>} */ work) =>
    work().catch((error) => dispatch({ type: "trouble", trouble: asProblem(error) }));

  function bring(/** @type {File | undefined} */ file) {
    if (!file) return;
    dispatch({ type: "sending" });
    attempt(async () => {
      const query = new URLSearchParams({ title: [...file.name].slice(0, TITLE_MOST).join(""), file: file.name });
      const text = await request(`/texts?${query}`, { method: "POST", body: file });
      dispatch({ type: "brought", text });
      changed(page.state.texts, text.name);
    });
  }

  const remove = (/** @type {string} */ name) =>
    attempt(async () => {
      await request(`/texts/${encodeURIComponent(name)}`, { method: "DELETE" });
      dispatch({ type: "removed", name });
      changed(page.state.texts, null);
    });

  function ask(/** @type {string | null} */ name) {
    dispatch({ type: "deletion asked", name });
    page.draw();
    /** @type {HTMLElement | null} */ (place.querySelector('[data-testid="text-delete-yes"]'))?.focus();
  }

  /** @param {TextsState} state */
  function draw({ texts, isSending, asking, trouble }) {
    render(
      html`<button type="button" class="act-quiet" data-testid="bring-text" ?disabled=${isSending}
          @click=${() => /** @type {HTMLElement} */ (place.querySelector("[type=file]")).click()}
        >${isSending ? "Sending" : "Upload your text"}</button>
        <input type="file" accept="text/*,.txt,.md,.jsonl,.parquet" hidden data-testid="text-file"
          @change=${(/** @type {Event & {currentTarget: HTMLInputElement}} */ { currentTarget }) => {
            bring(currentTarget.files?.[0]);
            currentTarget.value = ""; // the same file may be chosen again
          }} />
        <p>A plain text in UTF-8, or rows or chats as .jsonl or .parquet. A run’s numbers reveal a lot about its text: share it only with people allowed to read that text.</p>
        ${trouble ? problemBlock(trouble, "text-problem") : nothing}
        ${texts.length ? html`<ul aria-label="Your texts">${repeat(texts, keyOf, (text) => lineOf(text, asking))}</ul>` : nothing}`,
      place,
    );
  }

  /** @param {OwnText} text @param {string | null} asking */
  const lineOf = ({ name, title, bytes: size }, asking) =>
    html`<li data-testid="own-text" data-text=${name}>
      <span class="own-text-title" title=${name}>${title}</span><span class="own-text-size">${bytes(size)}</span>
      ${
        asking === name
          ? html`${button("Delete for good", "text-delete-yes", () => remove(name), "quiet danger")}
              ${button("Keep", "text-keep", () => ask(null))}`
          : button("Delete", "text-delete", () => ask(name))
      }
    </li>`;

  dispatch({ type: "listed", texts });
  page.draw();
}

/** @param {OwnText} text */
const keyOf = ({ name }) => name;
