/**
 * A recipe or a batch as text to take elsewhere, in tabs: YAML, CLI, REST, Python, launch scripts of a batch, and programs
 * for other engines, or why there is none. The server writes the texts, the same for pages, REST and the command line.
 * @module copy_panel
 */

import { asProblem, request } from "./client.js";
import { copyButton } from "./clipboard.js";
import { download } from "./dom.js";
import { html, made, nothing, render } from "./html.js";
import { problemBlock } from "./problem.js";
import { textWords } from "./text_names.js";

/** @import { Fix } from "./client.js" */
/** @import { Trouble } from "./problem.js" */
/** @import { ProgramText, RecipeText } from "./types.d.ts" */

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
const tabAfter = (key, place, count) => (Object.hasOwn(KEYS, key) ? KEYS[key](place, count) : null);

/** @typedef {{study: string, line?: string}} Left the study of a run, where “auto” chose λ, and the name of the line */

/**
 * A folded panel; it asks for texts only while it is open.
 * @param {string} name begins the ids of its parts, so that a page can have several
 * @param {string} title of the fold
 * @param {((fix: Fix) => void) | null} [mend] changes the recipe as a button says, so that another engine can do it
 * @returns {{element: HTMLElement, show: (recipe: object | null, left?: Left | null) => void}} `show` says of which recipe
 * or batch the texts are, with null there are none, and what its run has left
 */
export function copyPanel(name, title, mend = null) {
  const element = made(html`<details class="copy-as" data-testid=${`copy-${name}`}><summary>${title}</summary>
    <div data-part="texts"></div></details>`);
  const fold = /** @type {HTMLDetailsElement} */ (element);
  const place = /** @type {HTMLElement} */ (element.querySelector('[data-part="texts"]'));
  /** @type {object | null} */
  let wanted = null;
  let address = "/recipe-texts";
  let shown = ""; // the recipe whose texts are there
  let number = 0; // an answer to an earlier question comes too late
  /** @type {RecipeText[]} */
  let texts = [];
  /** @type {ProgramText[]} */
  let programs = [];
  /** @type {Trouble | null} */
  let trouble = null;
  let chosen = "yaml"; // stays chosen for another recipe, where it has such a text

  async function fetchTexts() {
    const asked = address + JSON.stringify(wanted);
    number += 1;
    const mine = number;
    place.classList.toggle("is-stale", asked !== shown);
    if (!fold.open || !wanted || asked === shown) return;
    try {
      const answer = await request(address, { method: "POST", body: wanted });
      if (mine !== number) return;
      ({ texts, programs } = answer);
      [trouble, shown] = [null, asked];
    } catch (error) {
      if (mine !== number) return;
      [texts, programs, trouble, shown] = [[], [], asProblem(error), ""];
    }
    draw();
  }

  /** @param {KeyboardEvent} event */
  function step(event) {
    const all = [...texts, ...programs];
    const next = tabAfter(event.key, all.indexOf(current()), all.length);
    if (next === null) return;
    event.preventDefault();
    choose(all[next].name);
    /** @type {HTMLElement | null} */ (place.querySelector('[role="tab"][aria-selected="true"]'))?.focus();
  }

  /** @param {string} one */
  function choose(one) {
    chosen = one;
    draw();
  }

  const current = () => [...texts, ...programs].find((text) => text.name === chosen) ?? texts[0];

  function draw() {
    place.classList.remove("is-stale");
    render(trouble ? problemBlock(trouble) : texts.length ? tabbed(current()) : nothing, place);
  }

  /** @param {RecipeText | ProgramText} now */
  const tabbed = (now) => html`<div class="copy-head">
      <div class="copy-tabs" role="tablist" aria-label="Form of the recipe" @keydown=${step}>
        <span class="switch" role="presentation">${texts.map((text) => tab(text, now))}</span>
        ${
          programs.length
            ? html`<span class="switch" role="presentation" data-testid="programs">${programs.map((text) => tab(text, now))}</span>`
            : nothing
        }
      </div>
      ${
        now.text
          ? html`<span class="copy-buttons">
              <button type="button" class="quiet" @click=${() => download(now.file, now.text, "text/plain;charset=utf-8")}
                >Save as ${now.file}</button>
              ${copyButton("Copy", () => current().text, { testid: "copy-text", kind: "quiet" })}
            </span>`
          : nothing
      }
    </div>
    ${
      "trouble" in now && now.trouble
        ? html`<div role="tabpanel" id=${`${name}-text`} tabindex="0" aria-labelledby=${`${name}-tab-${now.name}`}
            >${problemBlock(/** @type {Trouble} */ (now.trouble), `${name}-trouble`, mend)}</div>`
        : html`<pre class="recipe-text" data-testid="recipe-text" role="tabpanel" id=${`${name}-text`} tabindex="0"
            aria-labelledby=${`${name}-tab-${now.name}`}>${now.text}</pre><p class="small-print">${textWords(now.text ?? "")}</p>`
    }`;

  /** @param {RecipeText} text @param {RecipeText} now */
  const tab = (text, now) =>
    html`<button type="button" role="tab" id=${`${name}-tab-${text.name}`} aria-controls=${`${name}-text`}
      aria-selected=${String(text === now)} tabindex=${text === now ? 0 : -1}
      @click=${() => choose(text.name)}>${text.title}</button>`;

  fold.addEventListener("toggle", () => {
    shown = ""; // what its run has left may be there now
    fetchTexts();
  });
  fold.hidden = true;
  return {
    element,
    show(recipe, left = null) {
      wanted = recipe;
      address = left ? `/recipe-texts?${new URLSearchParams(left)}` : "/recipe-texts";
      fold.hidden = recipe === null;
      fetchTexts();
    },
  };
}
