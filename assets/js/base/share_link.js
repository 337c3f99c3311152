/**
 * Links that show a run or a study to whoever has them: making one, copying it, ending all. For hosts that others can
 * reach; who may do it, the server decides.
 * @module share_link
 */

import { asProblem, request } from "./client.js";
import { copyFrom } from "./clipboard.js";
import { html, nothing, render } from "./html.js";
import { store } from "./page_state.js";
import { problemBlock } from "./problem.js";

/** @import { Trouble } from "./problem.js" */
/**
 * @typedef {object} Shared
 * @property {string | null} address of the link that was made last
 * @property {boolean} isBusy while the server is asked
 * @property {boolean} isEnded whether all links were ended just now
 * @property {Trouble | null} trouble
 */
/** @typedef {{type: "asked"} | {type: "made", address: string} | {type: "ended"} | {type: "trouble", trouble: Trouble}} Action */

/** @type {Shared} */
export const START = { address: null, isBusy: false, isEnded: false, trouble: null };

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
      return { ...START, address: action.address };
    case "ended":
      return { ...START, isEnded: true };
    case "trouble":
      return { ...state, isBusy: false, trouble: action.trouble };
  }
}

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

  async function ask(/** @type {"POST" | "DELETE"} */ method) {
    dispatch({ type: "asked" });
    try {
      const answer = await request(path, { method });
      dispatch(answer ? { type: "made", address: `${location.origin}${answer.address}` } : { type: "ended" });
    } catch (error) {
      dispatch({ type: "trouble", trouble: asProblem(error) });
    }
  }

  /** @param {Shared} state */
  function draw({ address, isBusy, isEnded, trouble }) {
    render(
      html`<p>Make a link that shows this ${kind} to whoever has it, also to people who can’t sign in here.</p>
        ${address ? made(address) : nothing}
        <div class="share-link-buttons">
          <button type="button" class="act-quiet" data-testid="make-link" ?disabled=${isBusy}
            @click=${() => ask("POST")}>${address ? "Make another link" : "Make a link"}</button>
          <button type="button" class="quiet" data-testid="end-links" ?disabled=${isBusy}
            @click=${() => ask("DELETE")}>End all links</button>
        </div>
        <p role="status">${isEnded ? `No link shows this ${kind} any more.` : nothing}</p>
        ${trouble ? problemBlock(trouble, "link-problem") : nothing}`,
      element,
    );
  }

  lines.draw();
  return element;
}

/** @param {string} address */
const made = (address) =>
  html`<div class="share-row">
      <input type="text" readonly aria-label="The link" data-testid="shared-address" .value=${address}
        @focus=${(/** @type {Event & {currentTarget: HTMLInputElement}} */ event) => event.currentTarget.select()} />
      <button type="button" class="act-quiet" data-testid="copy-link"
        @click=${(/** @type {Event & {currentTarget: HTMLElement}} */ event) => copyFrom(event.currentTarget, address)}
      >Copy</button>
    </div>
    <p>It is shown only now; a link can’t be looked up again.</p>`;
