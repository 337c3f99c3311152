/**
 * How long a run or an export stays on this host, in words.
 * @module kept
 */

import { when } from "../base/format.js";

/** @typedef {{until: string | null, shared: boolean, while_room: boolean}} Kept */

/**
 * What follows “kept”, or empty where nothing ends it.
 * @param {Kept | null | undefined} kept
 */
export function keptWords(kept) {
  if (!kept) return "";
  if (kept.shared && kept.until === null) return "while its share link lasts";
  const room = kept.while_room && "until room is needed; a name, a note or a tag on the run prevents that";
  return [kept.until !== null && `until ${when(kept.until)}`, room].filter(Boolean).join(", or ");
}
