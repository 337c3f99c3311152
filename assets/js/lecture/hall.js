/**
 * A lecture as the server keeps it, seen by the lecturer: begun, told which question is open, followed, ended. The secret
 * stays in this tab, so that the page can be loaded again.
 * @module lecture/hall
 */

import { offline, Problem } from "../base/client.js";
import { at } from "../base/site.js";
import { follow as followStream } from "./stream.js";

/** @import { HallState, LectureBegun, LectureWish } from "../base/types.d.ts" */

const KEPT = "sarqc-lecture"; // in the storage of the tab
const SECRET = "X-Lecture-Secret";
const GONE = [403, 404];

/** The lecture that this tab has begun, or null. @returns {LectureBegun|null} */
export function kept() {
  try {
    return JSON.parse(sessionStorage.getItem(KEPT) ?? "null");
  } catch {
    return null;
  }
}

/** @param {LectureBegun|null} begun */
export function keep(begun) {
  try {
    if (begun) sessionStorage.setItem(KEPT, JSON.stringify(begun));
    else sessionStorage.removeItem(KEPT);
  } catch {
    // Without storage a page that is loaded again begins another lecture.
  }
}

/** @returns {Promise<LectureBegun>} */
export const begin = () => ask("POST", "/lectures");

/**
 * Says which question is open, or closed, or answered.
 * @param {LectureBegun} lecture
 * @param {LectureWish} wish
 */
export const tell = (lecture, wish) => ask("PUT", `/lectures/${lecture.code}`, lecture.secret, wish);

/** Ends the lecture for everybody. @param {LectureBegun} lecture */
export const end = (lecture) => ask("DELETE", `/lectures/${lecture.code}`, lecture.secret);

/**
 * @param {string} method
 * @param {string} path below /api
 * @param {string} [secret]
 * @param {unknown} [body]
 */
async function ask(method, path, secret, body) {
  const headers = { "Content-Type": "application/json", ...(secret ? { [SECRET]: secret } : {}) };
  const response = await fetch(at(`/api${path}`), {
    method,
    headers,
    body: body === undefined ? undefined : JSON.stringify(body),
  }).catch(() => {
    throw offline("The phones wait. Check that sarqc is running.");
  });
  if (response.status === 204) return null;
  const document = await response.json().catch(() => null);
  if (response.ok) return document;
  throw new Problem(document?.error ?? { what: `The server answered ${response.status}.`, where: path });
}

/**
 * Follows a lecture until it is over.
 * @param {LectureBegun} lecture
 * @param {{state: (state: HallState) => void, lost: (problem: Problem|null) => void, gone: () => void}} handlers
 * @returns {() => void} ends the following
 */
export const follow = ({ code, secret }, { state, lost, gone }) =>
  followStream(
    at(`/api/lectures/${code}/events`),
    { [SECRET]: secret },
    {
      hear(/** @type {HallState} */ hall) {
        if (hall.phase === "ended") gone();
        else state(hall);
        return hall.phase !== "ended";
      },
      lost: (isLost) => lost(isLost ? offline("The phones wait for it too.") : null),
      refused(status) {
        if (GONE.includes(status)) gone();
        else lost(new Problem({ what: `The server answered ${status}.` }));
      },
    },
  );
