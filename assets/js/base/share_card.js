/**
 * The line of the menu *Share* that copies a single card as a frame for another page.
 * @module share_card
 */

import { copyButton } from "./clipboard.js";
import { CARDS } from "./contract.js";
import { html, nothing } from "./html.js";

/** @import { Link } from "./address.js" */

const HEIGHT = 480; // pixels: of a figure in a frame 810 wide or wider, with its heading and what is below it

/** Cards that the page has a figure for, also in parts that are closed. @returns {string[]} */
export const cardsHere = () =>
  Object.keys(CARDS).filter((name) => document.querySelector(`section[data-control="${name}"]:not(.is-off)`));

/**
 * The element that shows an address in another page.
 * @param {string} address
 * @param {string} title
 */
export const frameOf = (address, title) =>
  `<iframe src="${address.replaceAll("&", "&amp;")}" title="sarqc: ${title}" width="100%" height="${HEIGHT}" ` +
  `loading="lazy" style="border:0"></iframe>`;

/** Whether pages of other sites may show cards: a site of files says nothing, and this host says so in its head. */
const isAllowed = () => document.querySelector("#published, meta[name='cards-in-frames']") !== null;

/**
 * @param {object} options
 * @param {string[]} options.cards
 * @param {string} options.card that is chosen
 * @param {(card: string) => void} options.choose
 * @param {(link: Link) => string} options.address of what is shown, for a link
 */
export const cardLines = ({ cards, card, choose, address }) => html`
  <div class="share-row"><label>One card: <select class="field-select" data-testid="share-card"
    @change=${(/** @type {Event & {currentTarget: HTMLSelectElement}} */ event) => choose(event.currentTarget.value)}
  >${cards.map((name) => html`<option value=${name} ?selected=${name === card}>${CARDS[name]}</option>`)}</select></label>
  ${copyButton("Copy as a frame", () => frameOf(address({ hide: [], lock: [], embed: true, card }), CARDS[card]), { testid: "copy-card" })}</div>
  ${
    isAllowed()
      ? nothing
      : html`<p class="share-words">Pages of other sites may show it once the operator of this host allows that (SARQC_EMBED_ANCESTORS).</p>`
  }`;
