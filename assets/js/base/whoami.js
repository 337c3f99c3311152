/**
 * Who looks at the page, as the server knows them.
 * @module whoami
 */

import { request } from "./client.js";

/**
 * @typedef {object} Visitor
 * @property {string} name what their runs, studies and texts are kept under
 * @property {"viewer" | "runner" | "operator"} role
 * @property {boolean} signed_in
 * @property {boolean} can_sign_in whether this host has a page for it
 * @property {boolean} public whether others than this machine can reach the host
 */

/** @type {Promise<Visitor> | null} */
let asked = null;

/** The visitor, asked for once a page. */
export function visitor() {
  asked ??= request("/visitor");
  return asked;
}

/**
 * True for somebody who may begin, change and share what is theirs.
 * @param {Visitor} who
 */
export const mayRun = (who) => who.role !== "viewer";

/**
 * True for somebody who may share a thing: on a private host there is nobody to share it with.
 * @param {Visitor} who
 * @param {string} owner of the thing
 */
export const mayShare = (who, owner) => who.public && mayRun(who) && (who.role === "operator" || who.name === owner);

/**
 * True for somebody who may cancel, continue or delete a thing, or take it away.
 * @param {Visitor | null} who null where the server did not say: it will say so again to anyone who tries
 * @param {string} owner of the thing
 */
export const mayChange = (who, owner) => !who?.public || who.role === "operator" || (mayRun(who) && who.name === owner);

/** What a person is called: those without a name of their own are guests. @param {Visitor} who */
export const nameOf = (who) => (who.name.startsWith("guest-") ? "Guest" : who.name);

/** What each role may do, in words. @type {Record<Visitor["role"], string>} */
export const ROLE_WORDS = {
  viewer: "You can look at what is shown to you, and change nothing.",
  runner: "You can begin runs, and see and share your own.",
  operator: "You can see and change everything on this host.",
};

/** Why a viewer can't begin a run. @param {Visitor} who */
export const whyNoRun = (who) =>
  `Viewers can’t begin runs on this host. ${who.can_sign_in && !who.signed_in ? "Sign in, or ask" : "Ask"} its operator.`;
