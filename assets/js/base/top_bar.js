/**
 * The bar above every page: the theme, and on a host that others can reach who one is.
 * @module top_bar
 */

import { render } from "./html.js";
import { ownPath } from "./site.js";
import * as theme from "./theme.js";
import { visitorMenu } from "./visitor_menu.js";
import { visitor } from "./whoami.js";

/**
 * Called once per page with the element of the bar.
 * @param {HTMLElement} element
 */
export async function mount(element) {
  theme.mount(element);
  const place = /** @type {HTMLElement} */ (element.querySelector('[data-part="visitor"]'));
  const who = await visitor().catch(() => null); // the page itself says that the server does not answer
  if (who) render(visitorMenu(who, ownPath() + location.search), place);
}
