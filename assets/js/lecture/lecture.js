/**
 * A lecture: the step fills the window, the speaker's notes stand in a second window, and phones guess along. A published
 * site has no server, so no phones.
 * @module lecture/lecture
 */

import { asProblem } from "../base/client.js";
import { html, nothing, render } from "../base/html.js";
import { store } from "../base/page_state.js";
import { problemBlock } from "../base/problem.js";
import { published } from "../base/published.js";
import { visitor } from "../base/whoami.js";
import { codeCard } from "./code_card.js";
import * as Hall from "./hall.js";
import { notesChannel } from "./notes_channel.js";
import { meaningOf } from "./remote_keys.js";
import { attendance, canClose, countsAt, reduce, START, wishOf } from "./state.js";

/** @import { Meaning } from "./remote_keys.js" */
/** @import { Question, State } from "./state.js" */
/**
 * What a page shows at the moment.
 * @typedef {object} Stop
 * @property {string} name
 * @property {number} number
 * @property {boolean} answered
 * @property {Question|null} question
 * @property {string} answer in words
 * @property {(counts: number[]|null) => void} heap draws guesses into the figure
 */

/**
 * @param {HTMLElement} root whose steps say by an event that they were drawn
 * @param {object} options
 * @param {() => Stop} options.stop
 * @param {(meaning: Meaning) => void} options.act does what a key would do
 * @param {string} options.event that says of a stop that it was drawn
 * @param {HTMLElement} options.tools place of the buttons
 * @param {HTMLElement} [options.card] place of what stands over the figure
 * @param {boolean} [options.hasNotes]
 * @param {() => void} [options.drawn] told after each change
 */
export function lecture(root, { stop, act, event, tools, card: place = root, hasNotes = true, drawn = () => {} }) {
  const buttons = document.createElement("span");
  buttons.className = "lecture-tools";
  tools.prepend(buttons);
  const card = document.createElement("div");
  card.className = "lecture-over";
  place.append(card);
  const since = Date.now();
  const notes = hasNotes ? notesChannel({ hello: () => say(), act: (meaning) => hidesCode() || act(meaning) }) : null;
  const state = store(START, reduce, draw);
  const { dispatch } = state;
  let stopFollowing = () => {};
  let mayBegin = false;
  let told = ""; // the last wish that was sent
  let sending = Promise.resolve();

  if (!published) {
    visitor().then(
      ({ role }) => {
        mayBegin = role !== "viewer";
        draw(state.state);
      },
      () => {}, // then nothing is offered
    );
    const before = Hall.kept();
    if (before) join(before);
  }

  async function begin() {
    dispatch({ type: "asked" });
    try {
      const begun = await Hall.begin();
      Hall.keep(begun);
      join(begun);
    } catch (error) {
      dispatch({ type: "trouble", trouble: asProblem(error) });
    }
  }

  /** @param {import("../base/types.d.ts").LectureBegun} begun */
  function join(begun) {
    told = "";
    dispatch({ type: "begun", lecture: begun });
    stopFollowing = Hall.follow(begun, {
      state: (hall) => dispatch({ type: "heard", hall }),
      lost: (trouble) => dispatch({ type: "trouble", trouble }),
      gone: () => over(true),
    });
  }

  /** @param {boolean} isOver whether the server ended it */
  function over(isOver) {
    stopFollowing();
    Hall.keep(null);
    dispatch({ type: "over", isOver });
  }

  async function end() {
    const { lecture } = state.state;
    if (!lecture) return;
    dispatch({ type: "asked" });
    try {
      await Hall.end(lecture);
      over(false);
    } catch (error) {
      dispatch({ type: "trouble", trouble: asProblem(error) });
    }
  }

  /** Tells the server of the stop, once for each change, one after the other. */
  function tell() {
    const { lecture, closed } = state.state;
    if (!lecture) return;
    const { name, question, answered } = stop();
    const wish = wishOf(name, question, { isAnswered: answered, isClosed: closed.includes(name) });
    const text = JSON.stringify(wish);
    if (text === told) return;
    told = text;
    sending = sending
      .then(() => Hall.tell(lecture, wish))
      .catch((error) => {
        told = ""; // the next change tells all of it
        dispatch({ type: "trouble", trouble: asProblem(error) });
      });
  }

  /** Tells the notes of the stop. */
  function say() {
    const { number, answered, answer } = stop();
    notes?.say({ number, answered, answer, since, hall: attendance(state.state.hall) });
  }

  /** @param {State} now */
  function draw(now) {
    const { name, heap } = stop();
    heap(countsAt(now, name));
    tell();
    say();
    const { lecture, hall, isCodeShown, isBusy, isOver, trouble } = now;
    render(
      html`${
        hasNotes
          ? html`<button type="button" class="quiet" data-testid="open-notes" title="N" @click=${openNotes}>Notes</button>`
          : nothing
      }${
        lecture || mayBegin
          ? html`<button type="button" class="quiet" data-testid="phones" title="Q" aria-expanded=${String(isCodeShown)}
              @click=${toggleCode}>${(lecture && attendance(hall)) || "Phones"}</button>`
          : nothing
      }`,
      buttons,
    );
    render(
      isCodeShown
        ? codeCard({
            lecture,
            hall,
            isBusy,
            isOver,
            begin,
            end,
            close: toggleCode,
            trouble: trouble && problemBlock(trouble),
          })
        : trouble && lecture
          ? html`<div class="lecture-trouble">${problemBlock(trouble)}</div>`
          : nothing,
      card,
    );
    drawn();
  }

  function toggleCode() {
    if (published || !(state.state.lecture || mayBegin)) return;
    const wasShown = state.state.isCodeShown;
    dispatch({ type: "code" });
    if (!wasShown && !state.state.lecture) begin();
  }

  /** Closes the code, under which nothing else is seen; returns whether it was shown. */
  function hidesCode() {
    const { isCodeShown } = state.state;
    if (isCodeShown) toggleCode();
    return isCodeShown;
  }

  // Before the page and its sliders hear it: the first key, also a remote's, closes the code and does nothing else.
  addEventListener(
    "keydown",
    (event) => {
      const isForStep = meaningOf(event) !== null || event.key === "Escape" || event.key.startsWith("Arrow");
      if (!isForStep || !hidesCode()) return;
      event.preventDefault();
      event.stopPropagation();
    },
    { capture: true },
  );

  function openNotes() {
    notes?.open();
  }

  root.addEventListener(event, () => draw(state.state));
  addEventListener("pagehide", () => notes?.say(null));
  draw(state.state);

  return {
    openNotes,
    toggleCode,
    isBegun: () => state.state.lecture !== null,
    /** Shows guesses that are not shown yet; returns whether there were any. */
    showsGuesses() {
      const { name } = stop();
      if (!canClose(state.state, name)) return false;
      dispatch({ type: "closed", stop: name });
      return true;
    },
  };
}
