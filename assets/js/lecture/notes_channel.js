/**
 * Between the window of a lecture and that of its notes, in the same browser.
 * @module lecture/notes_channel
 */

import { isMeaning } from "./remote_keys.js";

/** @import { Meaning } from "./remote_keys.js" */
/**
 * @typedef {object} Said what the notes know of the lecture
 * @property {number} number of the step
 * @property {boolean} answered
 * @property {string} answer
 * @property {number} since when it runs, in milliseconds as Date.now() gives them
 * @property {string} hall phones and guesses, in words
 */

const WINDOW = "popup,width=760,height=820";

/** @param {string} id */
const channelOf = (id) => new BroadcastChannel(`sarqc-lecture-${id}`);

/** 16 hexadecimal digits that no other window has. */
const newId = () =>
  [...crypto.getRandomValues(new Uint8Array(8))].map((byte) => byte.toString(16).padStart(2, "0")).join("");

/**
 * The side of the lecture.
 * @param {{hello: () => void, act: (meaning: Meaning) => void}} handlers hello: a window of notes has opened
 */
export function notesChannel({ hello, act }) {
  const id = newId();
  const channel = channelOf(id);
  channel.onmessage = ({ data }) => {
    if (data?.type === "hello") hello();
    else if (data?.type === "act" && isMeaning(data.meaning)) act(data.meaning);
  };
  return {
    open() {
      window.open(`${location.pathname}?notes=${id}`, `notes-${id}`, WINDOW);
    },
    /** @param {Said|null} said null: the lecture's window closes */
    say: (said) => channel.postMessage({ type: "stop", said }),
  };
}

/**
 * The side of the notes.
 * @param {string} id
 * @param {(said: Said|null) => void} hear
 * @returns {(meaning: Meaning) => void} does in the lecture what a key would do there
 */
export function lectureChannel(id, hear) {
  const channel = channelOf(id);
  channel.onmessage = ({ data }) => {
    if (data?.type === "stop") hear(data.said);
  };
  channel.postMessage({ type: "hello" });
  return (meaning) => channel.postMessage({ type: "act", meaning });
}
