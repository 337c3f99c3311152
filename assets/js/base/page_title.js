/**
 * What a tab of the browser says of a page.
 * @module page_title
 */

import { SITE } from "./contract.js";

/** The title of a document. @param {string} shown what the page shows */
export const titled = (shown) => `${shown} – ${SITE}`;
