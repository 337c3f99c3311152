/**
 * The sentence about the shown point, what is printed small below it, and both as text to copy.
 * @module words_part
 */

import { copyFrom } from "../base/clipboard.js";
import { explainWords } from "../base/glossary.js";
import { html, made, nothing, render } from "../base/html.js";
import { count } from "./counting.js";
import { toldOf } from "./state.js";

/** @import { Piece } from "../base/types.d.ts" */
/** @import { Explorer, Part, WithView } from "./explorer.js" */
/** @import { Told, View } from "./state.js" */

/** Of what the sentence speaks and the main figure has a curve. */
const POINTED = ["quality", "recon", "held_out", "drift"];

/** The pieces of a sentence as text. @param {Piece[]} pieces */
export const plainText = (pieces) => pieces.map((piece) => piece.text).join("");

/** @returns {Part} */
export function wordsPart() {
  let finish = () => {}; // of numbers that count
  return {
    cards: [],

    wire(explorer) {
      const button = explorer.part("copy");
      button?.addEventListener("click", () => {
        if (explorer.seen) copyFrom(button, asText(explorer.seen, location.href));
      });
      explainWords(document);
      const place = explorer.part("sentence")?.parentElement;
      let width = place?.clientWidth;
      const again = () => {
        if (!place || place.clientWidth === width) return;
        width = place.clientWidth;
        if (explorer.seen) keepRoom(explorer, explorer.seen);
      };
      if (place) new ResizeObserver(again).observe(place);
      const sentence = explorer.part("sentence");
      const [main] = explorer.parts[0].cards;
      /** What is spoken of stands out in the main figure. @param {Event} event */
      const point = ({ target }) => {
        const about = target instanceof HTMLElement ? (target.dataset.of ?? "") : "";
        explorer.hosts[main].root.dataset.pointed = POINTED.includes(about) ? about : "";
      };
      for (const name of ["pointerover", "pointerleave"]) sentence?.addEventListener(name, point);
    },

    render(explorer, state, before) {
      const { view, at, shown } = state;
      if (view === before.view && at === before.at && shown === before.shown) return;
      if (view !== before.view || shown !== before.shown) keepRoom(explorer, state);
      const { sentences, small_print } = toldOf(state);
      const pieces = sentences[at.gamma][at.lambda];
      const sentence = explorer.part("sentence");
      finish();
      if (sentence && sentence.textContent !== plainText(pieces))
        finish = count(sentence, () => render(written(pieces), sentence));
      const small = explorer.part("small-print");
      if (small) render(printed(view, small_print[at.gamma][at.lambda]), small);
    },
  };
}

/** @param {Piece[]} pieces of a sentence */
const written = (pieces) =>
  pieces.map(({ text, role, verdict }) =>
    role ? html`<strong class=${verdict ? "verdict" : `role-${role}`} data-of=${role}>${text}</strong>` : text,
  );

/** @param {View} view @param {string[]} sentences in small print */
function printed({ explore }, sentences) {
  const tag = html`<button type="button" class="tag" data-testid="explore" data-about="float-inputs">float-model inputs <i class="info" aria-hidden="true">i</i></button>`;
  return [explore ? tag : nothing, sentences.join(" ")];
}

/**
 * Keeps the room of the longest sentence of a view, whichever λ and quantity are shown, so that what stands below never
 * moves; on a narrow screen of the quality that is shown alone.
 * @param {Explorer} explorer
 * @param {WithView} state
 */
function keepRoom(explorer, state) {
  const { view } = state;
  const place = explorer.part("sentence")?.parentElement;
  if (!place?.classList.contains("told")) return;
  const narrow = matchMedia("(max-width: 760px)").matches;
  /** @type {Told[]} */
  const qualities = narrow ? [toldOf(state)] : Object.values(view.told);
  const every = qualities.flatMap(({ sentences }) =>
    sentences.flatMap((row) => row.map((pieces) => html`<div><p class="sentence">${written(pieces)}</p></div>`)),
  );
  const measured = made(html`<div class="told-measured" aria-hidden="true" inert>${every}</div>`);
  place.append(measured);
  const heights = [...measured.children].map((one) => one.getBoundingClientRect().height);
  measured.remove();
  place.toggleAttribute("data-over-lambda", view.lams.length > 1);
  place.style.minHeight = `max(${Math.ceil(Math.max(...heights) - 0.5)}px, var(--least, 0px))`;
}

/**
 * What is said of a point, with what it was measured on and where it is to be seen.
 * @param {WithView} state
 * @param {string} address
 */
export function asText(state, address) {
  const { at, view } = state;
  const { study, line } = view;
  const { sentences, small_print } = toldOf(state);
  return [
    plainText(sentences[at.gamma][at.lambda]),
    ...small_print[at.gamma][at.lambda],
    `${study.model.name}, ${line.title}, ${line.bits} bits, ${line.grid_text}. ${address}`,
  ].join("\n");
}
