/**
 * A recipe or a batch as text to take elsewhere, in tabs: YAML, CLI, REST, Python, and launch scripts of a batch. The
 * server writes the texts, the same for pages, REST and the command line.
 * @module copy_panel
 */

import { asProblem, request } from "./client.js";
import { copyFrom } from "./clipboard.js";
import { download } from "./dom.js";
import { html, made, nothing, render } from "./html.js";
import { problemBlock } from "./problem.js";

/** @import { RecipeText } from "./types.d.ts" */
/** @import { Trouble } from "./problem.js" */

/** @type {Record<string, (place: number, count: number) => number>} where a key leads among the tabs */
const KEYS = {
  ArrowRight: (place, count) => (place + 1) % count,
  ArrowLeft: (place, count) => (place + count - 1) % count,
  Home: () => 0,
  End: (_, count) => count - 1,
};

/**
 * The tab after a key, or null for a key that means nothing to tabs.
 * @param {string} key
 * @param {number} place of the chosen tab
 * @param {number} count
 */
export const tabAfter = (key, place, count) => (Object.hasOwn(KEYS, key) ? KEYS[key](place, count) : null);

/**
 * A folded panel; it asks for texts only while it is open.
 * @param {string} name begins the ids of its parts, so that a page can have several
 * @param {string} title of the fold
 * @returns {{element: HTMLElement, show: (recipe: object | null) => void}} `show` says of which recipe or batch the texts
 * are; with null there are none
 */
export function copyPanel(name, title) {
  const element = made(html`<details class="copy-as" data-testid=${`copy-${name}`}><summary>${title}</summary>
    <div data-part="texts"></div></details>`);
  const fold = /** @type {HTMLDetailsElement} */ (element);
  const place = /** @type {HTMLElement} */ (element.querySelector('[data-part="texts"]'));
  /** @type {object | null} */
  let wanted = null;
  let shown = ""; // the recipe whose texts are there
  let number = 0; // an answer to an earlier question comes too late
  /** @type {RecipeText[]} */
  let texts = [];
  /** @type {Trouble | null} */
  let trouble = null;
  let chosen = "yaml"; // stays chosen for another recipe, where it has such a text

  async function fetchTexts() {
    const asked = JSON.stringify(wanted);
    number += 1;
    const mine = number;
    place.classList.toggle("is-stale", asked !== shown);
    if (!fold.open || !wanted || asked === shown) return;
    try {
      const answer = await request("/recipe-texts", { method: "POST", body: wanted });
      if (mine !== number) return;
      [texts, trouble, shown] = [answer.texts, null, asked];
    } catch (error) {
      if (mine !== number) return;
      [texts, trouble, shown] = [[], asProblem(error), ""];
    }
    draw();
  }

  /** @param {KeyboardEvent} event */
  function step(event) {
    const at = texts.findIndex((text) => text.name === current().name);
    const next = tabAfter(event.key, at, texts.length);
    if (next === null) return;
    event.preventDefault();
    choose(texts[next].name);
    /** @type {HTMLElement | null} */ (place.querySelector('[role="tab"][aria-selected="true"]'))?.focus();
  }

  /** @param {string} one */
  function choose(one) {
    chosen = one;
    draw();
  }

  const current = () => texts.find((text) => text.name === chosen) ?? texts[0];

  /** @param {Event & {currentTarget: HTMLElement}} event */
  const copied = (event) => copyFrom(event.currentTarget, current().text);

  function draw() {
    place.classList.remove("is-stale");
    render(trouble ? problemBlock(trouble) : texts.length ? tabbed(current()) : nothing, place);
  }

  /** @param {RecipeText} now */
  const tabbed = (now) => html`<div class="copy-head">
      <div class="switch" role="tablist" aria-label="Form of the recipe" @keydown=${step}>${texts.map(
        (text) =>
          html`<button type="button" role="tab" id=${`${name}-tab-${text.name}`} aria-controls=${`${name}-text`}
            aria-selected=${String(text === now)} tabindex=${text === now ? 0 : -1}
            @click=${() => choose(text.name)}>${text.title}</button>`,
      )}</div>
      <span class="copy-buttons">
        <button type="button" class="quiet" @click=${() => download(now.file, now.text, "text/plain;charset=utf-8")}
          >Save as ${now.file}</button>
        <button type="button" class="quiet" data-testid="copy-text" @click=${copied}>Copy</button>
      </span>
    </div>
    <pre class="recipe-text" data-testid="recipe-text" role="tabpanel" id=${`${name}-text`} tabindex="0"
      aria-labelledby=${`${name}-tab-${now.name}`}>${now.text}</pre>`;

  fold.addEventListener("toggle", fetchTexts);
  fold.hidden = true;
  return {
    element,
    show(recipe) {
      wanted = recipe;
      fold.hidden = recipe === null;
      fetchTexts();
    },
  };
}
