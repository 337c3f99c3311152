/**
 * How long a run or an export stays on this host, in words.
 * @module kept
 */

import { when } from "../base/format.js";

/** @typedef {{until: string | null, shared: boolean, while_room: boolean}} Kept */

const ROOM = "until room is needed; a name, a note or a tag on the run prevents that";

/**
 * What follows “kept”, or empty where nothing ends it.
 * @param {Kept | undefined} kept
 */
export function keptWords(kept) {
  if (kept === undefined) return "";
  if (kept.shared && kept.until === null) return "while its share link lasts";
  if (kept.until === null) return kept.while_room ? ROOM : "";
  const time = when(kept.until);
  return kept.while_room
    ? `until ${time}, or until room is needed; a name, a note or a tag on the run prevents that`
    : `until ${time}`;
}
