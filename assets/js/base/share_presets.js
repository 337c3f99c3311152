/**
 * What people most often want a link for: one choice in place of thirty.
 * @module share_presets
 */

/** @import { Link } from "./address.js" */
/** @typedef {"Everything" | "Figure only" | "Explore λ"} Preset */

/** What stays of the page; everything else that can be hidden is. @type {Record<"figure" | "explore", string[]>} */
const STAYS = {
  figure: ["hero", "lambda"],
  explore: ["equation", "sentence", "hero", "sliders", "lambda", "gamma", "play", "show", "bar"],
};

/** What each does. @type {Record<Preset, string>} */
export const PRESETS = {
  Everything: "The whole page; every setting can be changed.",
  "Figure only": "The main figure at this λ, without margins of the page: for a slide or an article.",
  "Explore λ": "The main figure with its sliders and its sentence; nothing else can be changed.",
};

/**
 * The link of a preset.
 * @param {Preset} preset
 * @param {readonly string[]} names of all that can be hidden on the page
 * @returns {Link}
 */
export function presetLink(preset, names) {
  /** @param {string[]} stays */
  const without = (stays) => names.filter((name) => !stays.includes(name));
  const among = (/** @type {string[]} */ wanted) => wanted.filter((name) => names.includes(name));
  switch (preset) {
    case "Everything":
      return { hide: [], lock: [], embed: false };
    case "Figure only":
      return { hide: without(STAYS.figure), lock: among(["lambda"]), embed: true };
    case "Explore λ":
      return { hide: without(STAYS.explore), lock: [], embed: false };
  }
}

/** The preset that a link is, if it is one. @param {Link} link @param {readonly string[]} names */
export function presetOf(link, names) {
  const key = (/** @type {Link} */ { hide, lock, embed }) =>
    JSON.stringify([[...hide].sort(), [...lock].sort(), embed]);
  return (
    Object.keys(PRESETS).find((name) => key(presetLink(/** @type {Preset} */ (name), names)) === key(link)) ?? null
  );
}
