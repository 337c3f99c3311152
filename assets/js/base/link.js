/**
 * What the link of a page hides, locks and embeds, done to the page: loaded in the head, before there is anything to
 * see. A control is any element with `data-control="name"`; one that fills its whole slot also has `data-panel`.
 * @module link
 */

import { readLink } from "./address.js";

/** What the address said when the page was opened. */
export const link = readLink(globalThis.location?.search ?? "");

const FIELDS = "input, select, button, textarea";
const locked = new Set(link.lock);

/**
 * True for a control that the link keeps as it is; a page asks before it changes such a thing by another way.
 * @param {string} name
 */
export const isLocked = (name) => locked.has(name);

/** @param {string[]} names */
function hide(names) {
  const rules = names.map((name) => {
    const control = `[data-control="${name}"]`;
    return `${control}, .slot:has(> .html-container > .slot > [data-panel]${control}) { display: none !important; }`;
  });
  const style = document.createElement("style");
  style.textContent = rules.join("\n");
  document.head.append(style);
  document.documentElement.dataset.hide = names.join(" ");
}

/**
 * Leaves a single card of the Lab, with what its frame says of it (lab/framed_part.js).
 * @param {string} card
 */
function alone(card) {
  const style = document.createElement("style");
  style.textContent = `.lab .block.slot:not(.area-told, :has(> .html-container > .slot > [data-control="${card}"]))
    { display: none !important; }`;
  document.head.append(style);
}

/** Fields of locked controls are disabled, also those that are made or enabled later. */
function lock() {
  for (const name of locked) {
    /** @type {NodeListOf<HTMLElement>} */
    const controls = document.querySelectorAll(`[data-control="${name}"]`);
    for (const control of controls) {
      if (control.dataset.locked === undefined) {
        control.dataset.locked = "";
        control.title = "Set by the link";
      }
      /** @type {Iterable<any>} of FIELDS */
      const fields = control.matches(FIELDS) ? [control] : control.querySelectorAll(FIELDS);
      for (const field of fields) {
        if (!field.disabled) field.disabled = true;
        if (!field.hasAttribute("aria-description")) field.setAttribute("aria-description", "Set by the link");
      }
    }
  }
}

/**
 * Says in words, where the page begins, what of its address is wrong or has a new name. Without templates, since this
 * module is loaded in the head.
 * @param {HTMLElement} place of class link-note; empty it is not seen
 * @param {string[]} sentences
 */
export function note(place, sentences) {
  place.replaceChildren();
  if (!sentences.length) return;
  const list = document.createElement("ul");
  for (const sentence of sentences) list.appendChild(document.createElement("li")).append(sentence);
  const words = document.createElement("p");
  words.append("Part of this link was ignored:");
  place.append(words, list);
}

if (link.hide.length) hide(link.hide);
const { dataset } = globalThis.document?.documentElement ?? { dataset: {} };
if (link.embed) dataset.embed = "";
else delete dataset.embed;
if (link.card) {
  dataset.card = link.card;
  alone(link.card);
} else delete dataset.card;
if (link.lecture) dataset.lecture = "";
if (link.notes) dataset.notes = "";
if (locked.size) {
  document.documentElement.dataset.lock = link.lock.join(" ");
  document.documentElement.style.setProperty("--words-locked", JSON.stringify("set by the link"));
  new MutationObserver(lock).observe(document.documentElement, {
    childList: true,
    subtree: true,
    attributes: true,
    attributeFilter: ["disabled"],
  });
  lock();
}
