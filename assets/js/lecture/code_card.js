/**
 * The card of a lecture with the code to scan, over the step: how phones join, and the end of the lecture.
 * @module lecture/code_card
 */

import { button, html, nothing, svg } from "../base/html.js";
import { attendance } from "./state.js";

/** @import { HallState, LectureBegun } from "../base/types.d.ts" */

const QUIET = 4; // modules of light around the code, as readers want them
const LOOPBACK = ["localhost", "127.0.0.1", "[::1]"];

/**
 * Whether an address leads nowhere on another device.
 * @param {string} address
 */
export const isLocal = (address) => LOOPBACK.includes(new URL(address).hostname);

/**
 * A path over the dark modules of a code.
 * @param {string[]} rows of “0” and “1”
 */
export const darkPath = (rows) =>
  rows
    .flatMap((row, y) =>
      [...row.matchAll(/1+/g)].map(({ index, 0: run }) => `M${index} ${y}h${run.length}v1h-${run.length}z`),
    )
    .join("");

/**
 * @param {object} shown
 * @param {LectureBegun|null} shown.lecture
 * @param {HallState|null} shown.hall
 * @param {boolean} shown.isBusy
 * @param {boolean} shown.isOver
 * @param {unknown} shown.trouble
 * @param {() => void} shown.begin
 * @param {() => void} shown.end
 * @param {() => void} shown.close
 */
export function codeCard({ lecture, hall, isBusy, isOver, trouble, begin, end, close }) {
  return html`<section class="code-card card" data-testid="code-card" role="group" aria-label="Join with a phone">
    ${lecture ? joining(lecture, hall) : nothing}
    ${isOver ? html`<p role="status">The lecture is over on the server: it was idle for long, or the app was restarted.</p>` : nothing}
    ${trouble ?? nothing}
    <div class="code-buttons">
      ${
        lecture
          ? html`<button type="button" class="quiet" data-testid="end-lecture" ?disabled=${isBusy} @click=${end}
              >End for all phones</button>`
          : html`<button type="button" class="act" data-testid="begin-lecture" ?disabled=${isBusy} @click=${begin}
              >Let phones join</button>`
      }
      ${button("Close", "close-code", close, "act-quiet")}
    </div>
  </section>`;
}

/** @param {LectureBegun} lecture @param {HallState|null} hall */
function joining({ address, qr }, hall) {
  const size = qr.length + 2 * QUIET;
  return html`<div class="code-picture">
      <svg viewBox="${-QUIET} ${-QUIET} ${size} ${size}" role="img" aria-label="Code that leads to the address beside it"
        data-testid="qr" shape-rendering="crispEdges">${svg`<rect x=${-QUIET} y=${-QUIET} width=${size} height=${size}
          fill="#ffffff"></rect><path d=${darkPath(qr)} fill="#000000"></path>`}</svg>
    </div>
    <div class="code-words">
      <h2>Guess along</h2>
      <p>Scan the code, or open</p>
      <p class="code-address" data-testid="join-address">${address.replace(/^https?:\/\//, "")}</p>
      ${
        isLocal(address)
          ? html`<p class="code-note" role="status">This address leads nowhere on a phone. Open the app by its name in the network; its operator decides who may reach it.</p>`
          : nothing
      }
      <p class="code-count" role="status" data-testid="attendance">${attendance(hall)}</p>
      <p class="code-note">No name is asked. What phones guess is deleted when the lecture ends.</p>
    </div>`;
}
