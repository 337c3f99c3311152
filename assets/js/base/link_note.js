/**
 * What of a page's address could not be used, said in words where the page begins.
 * @module link_note
 */

import { fill, h } from "./dom.js";

/**
 * @param {HTMLElement} place of class link-note; empty it is not seen
 * @param {string[]} sentences
 */
export function note(place, sentences) {
  fill(
    place,
    sentences.length
      ? [
          h("p", {}, "This page’s address asks for something that is not here."),
          h(
            "ul",
            {},
            sentences.map((one) => h("li", {}, one)),
          ),
        ]
      : [],
  );
}
