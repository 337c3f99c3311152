/**
 * Where the site begins: “” at the root of its host name, “/sarqc” below a path of another site.
 * @module base/site
 */

/**
 * The address before everything of this site, from that of one of its scripts.
 * @param {string} script address of a module
 */
export const rootOf = (script) =>
  script.startsWith("http") ? new URL(script).pathname.replace(/\/assets\/.*$/, "") : "";

const ROOT = rootOf(import.meta.url);

/**
 * An address of this site as a browser needs it.
 * @param {string} path from the site's own “/”
 */
export const at = (path) => `${ROOT}${path}`;

/** The page's path from the site's own “/”. */
export const ownPath = () => location.pathname.slice(ROOT.length) || "/";
