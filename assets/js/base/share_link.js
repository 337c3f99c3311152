/**
 * Share links to a run or a study, with an expiry: create, copy, revoke all. For hosts
 * that others can reach; who may do it, the server decides.
 * @module share_link
 */

import { asProblem, request } from "./client.js";
import { copyButton } from "./clipboard.js";
import { LINK_LASTS } from "./contract.js";
import { counted, when } from "./format.js";
import { html, nothing, render } from "./html.js";
import { store } from "./page_state.js";
import { problemBlock } from "./problem.js";

/** @import { Trouble } from "./problem.js" */
/**
 * @typedef {object} Shared
 * @property {string | null} address of the link that was made last
 * @property {string} ends when that link ends, as a time of the server; empty without one
 * @property {number} days that the next one is to last
 * @property {boolean} isBusy while the server is asked
 * @property {boolean} isEnded whether all links were ended just now
 * @property {Trouble | null} trouble
 */
/**
 * @typedef {{type: "asked"} | {type: "made", address: string, ends: string} | {type: "ended"}
 *   | {type: "lasting", days: number} | {type: "trouble", trouble: Trouble}} Action
 */

/** @type {Shared} */
export const START = {
  address: null,
  ends: "",
  days: LINK_LASTS.days,
  isBusy: false,
  isEnded: false,
  trouble: null,
};

/**
 * @param {Shared} state
 * @param {Action} action
 * @returns {Shared}
 */
export function reduce(state, action) {
  switch (action.type) {
    case "asked":
      return { ...state, isBusy: true, trouble: null };
    case "made":
      return { ...START, days: state.days, address: action.address, ends: action.ends };
    case "ended":
      return { ...START, days: state.days, isEnded: true };
    case "lasting":
      return { ...state, days: action.days };
    case "trouble":
      return { ...state, isBusy: false, trouble: action.trouble };
  }
}

const SEEN_BY = {
  run: "Anyone with the link can see this run, even without an account here; its owner, note and tags stay hidden.",
  study: "Anyone with the link can see this study, even without an account here.",
};
const ENDED = { run: "No link shows this run any more.", study: "No link shows this study any more." };

/**
 * The lines for one run or study, as an element of their own.
 * @param {"run" | "study"} kind
 * @param {string} id
 */
export function shareLink(kind, id) {
  const element = document.createElement("div");
  element.className = "share-link";
  element.dataset.testid = "share-link-lines";
  const path = `/${kind === "run" ? "runs" : "studies"}/${encodeURIComponent(id)}/link`;
  const lines = store(START, reduce, draw);
  const { dispatch } = lines;

  function ask(/** @type {() => Promise<void>} */ work) {
    dispatch({ type: "asked" });
    work().catch((error) => dispatch({ type: "trouble", trouble: asProblem(error) }));
  }

  const make = (/** @type {number} */ days) =>
    ask(async () => {
      const { address, ends } = await request(`${path}?days=${days}`, { method: "POST" });
      dispatch({ type: "made", address: `${location.origin}${address}`, ends });
    });

  const end = () =>
    ask(async () => {
      await request(path, { method: "DELETE" });
      dispatch({ type: "ended" });
    });

  /** @param {Shared} state */
  function draw({ address, ends, days, isBusy, isEnded, trouble }) {
    const lasting = (/** @type {Event & {currentTarget: HTMLSelectElement}} */ event) =>
      dispatch({ type: "lasting", days: Number(event.currentTarget.value) });
    render(
      html`<p>${SEEN_BY[kind]} There can be up to ${LINK_LASTS.links} links at a time.</p>
        ${address ? made(address, ends) : nothing}
        <div class="share-link-buttons">
          <label>It lasts <select class="field-select" data-testid="link-days" @change=${lasting}>${LINK_LASTS.choices.map(
            (choice) => html`<option value=${choice} ?selected=${choice === days}>${counted(choice, "day")}</option>`,
          )}</select></label>
          <button type="button" class="act-quiet" data-testid="make-link" ?disabled=${isBusy}
            @click=${() => make(days)}>${address ? "Make another link" : "Make a link"}</button>
          <button type="button" class="quiet" data-testid="end-links" ?disabled=${isBusy}
            @click=${end}>End all links</button>
        </div>
        <p role="status">${isEnded ? ENDED[kind] : nothing}</p>
        ${trouble ? problemBlock(trouble, "link-problem") : nothing}`,
      element,
    );
  }

  lines.draw();
  return element;
}

/** @param {string} address @param {string} ends */
const made = (address, ends) =>
  html`<div class="share-row">
      <input type="text" readonly aria-label="The link" data-testid="shared-address" .value=${address}
        @focus=${(/** @type {Event & {currentTarget: HTMLInputElement}} */ event) => event.currentTarget.setSelectionRange(0, address.length, "backward")} />
      ${copyButton("Copy", () => address, { testid: "copy-link" })}
    </div>
    <p>It lasts until ${when(ends)}. It is shown only now; a link can’t be looked up again.</p>`;
