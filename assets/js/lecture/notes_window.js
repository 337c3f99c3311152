/**
 * The window of a lecturer's notes: the words of the step in the lecture's window, what to say of it, the next step, the
 * time. Its keys move the lecture.
 * @module lecture/notes_window
 */

import { html, nothing, render } from "../base/html.js";
import { store } from "../base/page_state.js";
import { titled } from "../base/page_title.js";
import { lectureChannel } from "./notes_channel.js";
import { meaningOf } from "./remote_keys.js";

/** @import { Said } from "./notes_channel.js" */
/** @typedef {{said: Said|null, isGone: boolean, now: number}} State */
/** @typedef {{type: "heard", said: Said|null} | {type: "tick", now: number}} Action */

/**
 * @param {State} state
 * @param {Action} action
 * @returns {State}
 */
export function reduce(state, action) {
  if (action.type === "tick") return { ...state, now: action.now };
  return { ...state, said: action.said ?? state.said, isGone: action.said === null };
}

/** Minutes and seconds. @param {number} milliseconds */
export function clock(milliseconds) {
  const seconds = Math.max(0, Math.floor(milliseconds / 1000));
  return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
}

/**
 * @param {HTMLElement} root the tour, of which only words are shown
 * @param {string} id of the lecture's channel
 */
export function notesWindow(root, id) {
  /** @type {HTMLElement[]} */
  const sections = [...root.querySelectorAll(".step")].filter((one) => one instanceof HTMLElement);
  const head = document.createElement("div");
  head.className = "notes-head";
  root.prepend(head);
  const state = store(/** @type {State} */ ({ said: null, isGone: false, now: Date.now() }), reduce, draw);
  const act = lectureChannel(id, (said) => state.dispatch({ type: "heard", said }));
  document.title = titled("Notes");
  document.addEventListener("keydown", (event) => {
    const meaning = meaningOf(event);
    if (!meaning || meaning === "fill" || meaning === "notes") return;
    event.preventDefault();
    if (!event.repeat) act(meaning);
  });
  setInterval(() => state.dispatch({ type: "tick", now: Date.now() }), 1000);
  state.draw();

  /** @param {State} now */
  function draw({ said, isGone, now }) {
    const number = said?.number ?? 0;
    sections.forEach((section, index) => {
      section.hidden = index !== number - 1;
    });
    const shown = sections[number - 1];
    const answer = shown?.querySelector('[data-part="answer"]');
    if (answer && said) answer.textContent = said.answered ? said.answer : "";
    shown?.classList.toggle("is-shown", said?.answered === true);
    const next = sections[number]?.querySelector(".step-title")?.textContent;
    render(
      html`<p class="notes-clock"><span>Step ${number} of ${sections.length}</span>
          <span data-testid="notes-clock">${said ? clock(now - said.since) : ""}</span>
          <span data-testid="notes-hall">${said?.hall ?? ""}</span></p>
        <p role="status">${
          isGone ? "The window of the lecture is closed." : said ? nothing : "Waiting for the window of the lecture."
        }</p>
        <div class="notes-ways">
          <button type="button" class="act-quiet" ?disabled=${number <= 1} @click=${() => act("back")}>Back</button>
          <button type="button" class="act" data-testid="notes-on" ?disabled=${!said || isGone}
            @click=${() => act("on")}>${said && !said.answered ? "The answer" : "Next"}</button>
          <button type="button" class="quiet" ?disabled=${!said || isGone} @click=${() => act("black")}>Black</button>
          <button type="button" class="quiet" ?disabled=${!said || isGone} @click=${() => act("code")}>Code</button>
        </div>
        <p class="notes-next">${next ? `Then: ${next}` : "This is the last step."}</p>`,
      head,
    );
  }
}
