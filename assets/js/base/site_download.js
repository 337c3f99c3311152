/**
 * The line of the menu *Share* that publishes a study: its size first, then the site as a zip file.
 * @module site_download
 */

import { asProblem, file, request } from "./client.js";
import { download } from "./dom.js";
import { html, nothing, render } from "./html.js";
import { store } from "./page_state.js";
import { problemBlock } from "./problem.js";

/** @import { Trouble } from "./problem.js" */
/** @typedef {{phase: "begin"|"asked"|"planned"|"written"|"saved", words: string, trouble: Trouble | null}} Publishing */
/** @typedef {{type: Publishing["phase"], words?: string} | {type: "trouble", trouble: Trouble}} Action */

/** @type {Publishing} */
export const START = { phase: "begin", words: "", trouble: null };

/** @param {Publishing} state @param {Action} action @returns {Publishing} */
export function reduce(state, action) {
  if (action.type === "trouble") return { ...state, phase: state.words ? "planned" : "begin", trouble: action.trouble };
  return { ...state, phase: action.type, words: action.words ?? state.words, trouble: null };
}

/**
 * The line for one study, as an element of its own.
 * @param {string} study
 */
export function siteDownload(study) {
  const element = document.createElement("div");
  element.className = "share-link";
  element.dataset.control = "publish"; // hidden where it is not installed
  const path = `/studies/${encodeURIComponent(study)}/site`;
  const lines = store(START, reduce, draw);
  const { dispatch } = lines;

  const failed = (/** @type {unknown} */ error) => dispatch({ type: "trouble", trouble: asProblem(error) });

  function plan() {
    dispatch({ type: "asked" });
    request(path)
      .then(({ words }) => dispatch({ type: "planned", words }))
      .catch(failed);
  }

  function save() {
    dispatch({ type: "written" });
    file(`${path}.zip`)
      .then((zip) => {
        download(`${study}-site.zip`, zip, "application/zip");
        dispatch({ type: "saved" });
      })
      .catch(failed);
  }

  /** @param {Publishing} state */
  function draw({ phase, words, trouble }) {
    const isBusy = phase === "asked" || phase === "written";
    const isPlanned = words !== "";
    render(
      html`<p>The Lab of this study as files for any web server, without sarqc.</p>
        <div class="share-link-buttons"><button type="button" class="act-quiet" data-testid="publish" ?disabled=${isBusy}
          @click=${isPlanned ? save : plan}>${isPlanned ? "Download the site" : "Publish"}</button></div>
        <p role="status" data-testid="publish-words">${isPlanned ? `${words}. ` : nothing}${WORDS[phase]}</p>
        ${trouble ? problemBlock(trouble, "publish-problem") : nothing}`,
      element,
    );
  }

  lines.draw();
  return element;
}

/** @type {Record<Publishing["phase"], string>} */
const WORDS = {
  begin: "",
  asked: "The size is being estimated.",
  planned: "",
  written: "The site is being written, which may take a minute.",
  saved: "Saved. Unpack it where a web server finds it.",
};
