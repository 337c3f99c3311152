/**
 * Cards and menus over the page that a button opens, which says to readers of the screen whether they are open.
 * @module base/popover
 */

import { html, nothing } from "./html.js";

/**
 * Places the popover below its button, or above if there is no room.
 * @param {HTMLElement} button
 * @param {HTMLElement} card
 */
export function placeBeside(button, card) {
  const box = button.getBoundingClientRect();
  const fits = box.bottom + 4 + card.offsetHeight <= innerHeight;
  card.style.top = `${fits ? box.bottom + 4 : Math.max(8, box.top - 4 - card.offsetHeight)}px`;
  card.style.right = `${Math.max(8, document.documentElement.clientWidth - box.right)}px`;
}

/** Closes the menu that a button is in, if it is in one. @param {HTMLElement} button */
export function closeMenu(button) {
  const menu = button.closest("[popover]");
  if (menu instanceof HTMLElement) menu.hidePopover();
}

/**
 * A button that opens a menu of further buttons and links.
 * @param {object} options
 * @param {string} options.id of the menu
 * @param {string} options.label what it is a menu of
 * @param {unknown} options.items
 * @param {string} [options.words] on the button, instead of three dots
 * @param {string} [options.kind] class of the button
 * @param {string} [options.testid] of the button
 */
export const moreMenu = ({ id, label, items, words, kind = "quiet", testid = "more" }) =>
  html`<button type="button" class=${kind} data-testid=${testid} aria-label=${words ? nothing : label} title=${words ? nothing : label}
      aria-expanded="false" aria-controls=${id} @click=${toggleMenu}>${words ?? "⋯"}</button
    ><div class="figure-menu" id=${id} popover="auto" role="group" aria-label=${label} @click=${chosenIn}
      @toggle=${told}>${items}</div>`;

/** @param {Event} event of the button before its menu */
function toggleMenu({ currentTarget }) {
  const button = /** @type {HTMLElement} */ (currentTarget);
  const menu = /** @type {HTMLElement} */ (button.nextElementSibling);
  if (!menu.togglePopover()) return;
  placeBeside(button, menu);
  /** @type {HTMLElement | null} */ (menu.querySelector("button:enabled, a"))?.focus();
}

/** @param {Event} event what is chosen closes the menu */
function chosenIn({ currentTarget, target }) {
  const menu = /** @type {HTMLElement} */ (currentTarget);
  if (target instanceof Element && target.closest("button, a") && menu.matches(":popover-open")) menu.hidePopover();
}

/** @param {Event} event */
function told(event) {
  const menu = /** @type {HTMLElement} */ (event.currentTarget);
  const isOpen = /** @type {ToggleEvent} */ (event).newState === "open";
  menu.previousElementSibling?.setAttribute("aria-expanded", String(isOpen));
}

/**
 * Makes the card, empty and closed. Who opens it puts it in its place: a popover has none of its own.
 * @param {HTMLElement} button that opens it
 * @param {{id: string, label: string, classes?: string}} options
 */
export function popover(button, { id, label, classes = "" }) {
  const card = document.createElement("div");
  Object.assign(card, { className: `share-menu ${classes}`.trim(), popover: "auto", id, role: "dialog" });
  card.setAttribute("aria-label", label);
  card.dataset.testid = id;
  document.body.append(card);
  button.setAttribute("aria-haspopup", "dialog");
  button.setAttribute("aria-expanded", "false");
  card.addEventListener("toggle", (event) => button.setAttribute("aria-expanded", String(event.newState === "open")));
  return card;
}
