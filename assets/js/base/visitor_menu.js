/**
 * Who one is, in the top bar of a host that others can reach: name and role, and the way in or out.
 * @module visitor_menu
 */

import { html, nothing } from "./html.js";
import { at } from "./site.js";
import { nameOf, ROLE_WORDS } from "./whoami.js";

/** @import { Visitor } from "./whoami.js" */

/**
 * Nothing on a private host.
 * @param {Visitor} who
 * @param {string} here address of the page, to come back to
 */
export function visitorMenu(who, here) {
  if (!who.public) return nothing;
  const name = nameOf(who);
  const signIn = html`<a class="act-quiet" data-testid="sign-in" href=${at(`/sign-in?to=${encodeURIComponent(here)}`)}>Sign in</a>`;
  const signOut = html`<form method="post" action=${at("/sign-out")}>
    <button type="submit" class="act-quiet" data-testid="sign-out">Sign out</button>
  </form>`;
  return html`<button type="button" class="visitor-button" popovertarget="visitor-menu" data-testid="visitor">
      <span class="visitor-initial" data-initial=${[...name][0].toUpperCase()}></span>
      <span class="visitor-name">${name}</span><span class="visitor-role">${who.role}</span>
    </button>
    <div id="visitor-menu" class="visitor-menu" popover role="dialog" aria-label="Who you are" data-testid="visitor-menu">
      <p class="visitor-who"><strong>${name}</strong>${name === who.name ? nothing : ` · ${who.name}`}, ${who.role}</p>
      <p>${ROLE_WORDS[who.role]}</p>
      ${who.can_sign_in ? (who.signed_in ? signOut : signIn) : nothing}
    </div>`;
}
