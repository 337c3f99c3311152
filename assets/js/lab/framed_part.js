/**
 * What stands below a card that is alone in a frame of another page: a slider of λ, unless the card has it, and a link to
 * the whole Lab. The page around is told how high all of it is.
 * @module lab/framed_part
 */

import { LAB_VIEW, serialise } from "../base/address.js";
import { html, nothing, render } from "../base/html.js";
import { addressOf } from "../explorer/state.js";

const ITS_OWN = "hero"; // the card whose axis is the slider

/**
 * The message to the page around: `{type: "sarqc-height", height}`, in pixels. It says nothing that a page may not know.
 * @param {HTMLElement} root
 */
function tellHeight(root) {
  let last = 0;
  new ResizeObserver(() => {
    const height = Math.ceil(root.getBoundingClientRect().height);
    if (height !== last) parent.postMessage({ type: "sarqc-height", height }, "*");
    last = height;
  }).observe(root);
}

/**
 * @param {string} card its name, as in `embed`
 * @returns {import("../explorer/explorer.js").Part}
 */
export function framedPart(card) {
  const foot = document.createElement("div");
  foot.className = "frame-foot";
  return {
    cards: [],

    wire({ root }) {
      root.append(foot);
      if (parent !== window) tellHeight(root);
    },

    render(explorer, state) {
      const { view, at } = state;
      const last = view.lams.length - 1;
      const place = explorer.root.querySelector(`section[data-control="${card}"]:not(.is-off)`);
      const door = place?.closest(".door")?.id.replace("door-", "") ?? "";
      const query = serialise({ ...addressOf(state), open: door }, LAB_VIEW);
      const move = (/** @type {Event & {currentTarget: HTMLInputElement}} */ event) =>
        explorer.move({ lambda: Number(event.currentTarget.value) });
      const name = `λ = ${view.lam_texts[at.lambda]}`;
      render(
        html`${place ? nothing : html`<p role="status">This line has no such figure.</p>`}
          ${
            last < 1
              ? nothing
              : html`<label class="frame-lambda">${
                  card === ITS_OWN
                    ? nothing
                    : html`<input type="range" min="0" max=${last} .value=${String(at.lambda)} aria-label="λ"
                        aria-valuetext=${name} data-testid="frame-lambda"
                        ?disabled=${state.locked.includes("lambda")} @input=${move} />`
                }<output>${name}</output></label>`
          }
          <a href=${location.pathname + query} target="_blank" rel="noopener" data-testid="frame-link">${view.study.title || view.study.id} in sarqc ↗</a>`,
        foot,
      );
    },
  };
}
