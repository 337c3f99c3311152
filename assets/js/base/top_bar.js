/**
 * The bar above every page: the theme, and on a host that others can reach who one is.
 * @module top_bar
 */

import { render } from "./html.js";
import { LANGUAGE } from "./messages.js";
import { ownPath } from "./site.js";
import * as theme from "./theme.js";
import { visitorMenu } from "./visitor_menu.js";
import { visitor } from "./whoami.js";

/** Gradio's scripts say English, as soon as they are there. @param {HTMLElement} root */
function keepLanguage(root) {
  const keep = () => {
    if (root.lang !== LANGUAGE) root.lang = LANGUAGE;
  };
  new MutationObserver(keep).observe(root, { attributes: true, attributeFilter: ["lang"] });
  keep();
}

/** Gives a link to another language the address of the moment. @param {HTMLAnchorElement} link */
function spoken(link) {
  const query = new URLSearchParams(location.search);
  const code = link.dataset.language ?? "en";
  if (code === "en") query.delete("lang");
  else query.set("lang", code);
  link.href = `${location.pathname}?${query}`;
}

/**
 * Called once per page with the element of the bar.
 * @param {HTMLElement} element
 */
export async function mount(element) {
  if (LANGUAGE !== "en") keepLanguage(document.documentElement);
  theme.mount(element);
  for (const link of element.querySelectorAll("[data-language]")) {
    link.addEventListener("pointerdown", () => spoken(/** @type {HTMLAnchorElement} */ (link)));
    link.addEventListener("focus", () => spoken(/** @type {HTMLAnchorElement} */ (link)));
  }
  const place = /** @type {HTMLElement} */ (element.querySelector('[data-part="visitor"]'));
  const who = await visitor().catch(() => null); // the page itself says that the server does not answer
  if (who) render(visitorMenu(who, ownPath() + location.search), place);
}
