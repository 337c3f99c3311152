/**
 * A figure that fills the window, for a hall or a small screen: one button in its card, which brings it back too, as
 * Escape does. The card stays where it is in the document; styles (base.css) place it and grow its type.
 * @module enlarge
 */

import { html, made, nothing } from "../base/html.js";
import { closeMenu } from "../base/popover.js";

const LARGE = "is-enlarged";
/** @type {(() => void)|null} ends what fills the window */
let leave = null;

/** Two arrows to opposite corners. */
const icon = () =>
  html`<svg viewBox="0 0 16 16" aria-hidden="true"><path d="M9 2.5h4.5V7M13.5 2.5 9 7M7 13.5H2.5V9M2.5 13.5 7 9" /></svg>`;

/**
 * Gives a card its button.
 * @param {{name: string, root: HTMLElement, tools: HTMLElement}} card
 * @param {Element} place of the button, which in a menu goes to the card's tools while the figure fills the window
 */
export function enlargeButton({ name, root, tools }, place) {
  const heading = root.querySelector(".card-title");
  if (heading) heading.id ||= `title-${name}`; // which may say another thing later
  const button = made(html`<button
    type="button"
    class="quiet figure-button enlarge-button"
    aria-pressed="false"
    id=${`enlarge-${name}`}
    aria-labelledby=${heading ? `enlarge-${name} ${heading.id}` : nothing}
    data-testid=${`enlarge-${name}`}
    >${icon()}</button
  >`);
  /** @param {boolean} large */
  const show = (large) => {
    root.classList.toggle(LARGE, large);
    if (place !== tools) (large ? tools : place).prepend(button);
    button.setAttribute("aria-pressed", String(large));
    button.title = large ? "Back to the page" : "Fill the window";
    button.setAttribute("aria-label", `${button.title}:`);
  };
  show(false);
  button.addEventListener("click", () => {
    if (leave) {
      leave();
      return;
    }
    const { documentElement: page } = document;
    page.style.setProperty("--scrollbar", `${innerWidth - page.clientWidth}px`); // which goes
    page.dataset.enlarged = "";
    closeMenu(button);
    show(true);
    button.focus({ preventScroll: true });
    leave = () => {
      leave = null;
      /** @type {HTMLElement} */ (place === tools ? button : tools.lastElementChild).focus({ preventScroll: true });
      delete page.dataset.enlarged;
      show(false);
      document.removeEventListener("keydown", onEscape);
    };
    document.addEventListener("keydown", onEscape);
  });
  place.append(button);
}

/** Gives the window back to the page, where a figure fills it. */
export const backToPage = () => leave?.();

/** @param {KeyboardEvent} event */
function onEscape(event) {
  // A menu or a table that is open above the figure is what Escape closes first.
  if (event.key !== "Escape" || event.defaultPrevented || document.querySelector(":popover-open, dialog[open]")) return;
  event.preventDefault();
  leave?.();
}
