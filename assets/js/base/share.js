/**
 * The menu that makes a link: what is shown now, with controls locked or hidden by ticking them, for a lesson or a frame.
 * @module share
 */

import { copyButton } from "./clipboard.js";
import { html, nothing, render } from "./html.js";
import { popover } from "./popover.js";
import { cardLines, cardsHere } from "./share_card.js";
import { PRESETS, presetLink, presetOf } from "./share_presets.js";
import { table } from "./table.js";

/** @import { Link } from "./address.js" */
/** @import { Preset } from "./share_presets.js" */

/**
 * The link after a tick: what is locked is not hidden, and the other way round.
 * @param {Link} link
 * @param {"lock" | "hide"} which
 * @param {string} name
 * @param {boolean} isOn
 * @returns {Link}
 */
function ticked(link, which, name, isOn) {
  const other = which === "lock" ? "hide" : "lock";
  const without = link[which].filter((one) => one !== name);
  if (!isOn) return { ...link, [which]: without };
  return { ...link, [which]: [...without, name], [other]: link[other].filter((one) => one !== name) };
}

/**
 * Wires a button to its menu, which looks at each opening for what there is.
 * @param {HTMLElement} button
 * @param {object} options
 * @param {Readonly<Record<string, string>>} options.controls names and titles of what can be locked or hidden
 * @param {Readonly<Record<string, string>>} options.panels names and titles of what can only be hidden
 * @param {Link} options.link what the page was opened with
 * @param {(link: Link) => string} options.address the whole address of what is shown, for a link
 * @param {boolean} [options.hasPresets] whether the presets make sense on this page
 * @param {() => HTMLElement | null} options.further what else belongs to sharing, asked for at each opening
 */
export function shareMenu(button, { controls, panels, link, address, further, hasPresets = false }) {
  const names = [...Object.keys(controls), ...Object.keys(panels)];
  let isPreviewed = false;
  /** @type {string[]} cards that can stand alone in a frame */
  let cards = [];
  let card = "";
  /** @type {Link} */
  let chosen = { hide: link.hide, lock: link.lock, embed: link.embed };
  /** @type {{name: string, title: string, canLock: boolean}[]} */
  let rows = [];
  /** @type {HTMLElement | null} */
  let more = null;
  const menu = popover(button, { id: "share-menu", label: "Share what is shown" });
  button.addEventListener("click", () => {
    if (!menu.togglePopover()) return;
    place();
    const field = menu.querySelector("input");
    field?.focus();
    field?.setSelectionRange(0, field.value.length, "backward"); // its beginning stays in sight
  });
  menu.addEventListener("beforetoggle", (event) => {
    if (event.newState !== "open") return;
    rows = [...offered(controls, true), ...offered(panels, false)];
    more = further();
    cards = hasPresets ? cardsHere() : [];
    if (!cards.includes(card)) [card = ""] = cards;
    isPreviewed = false;
    draw();
  });
  /** @param {Readonly<Record<string, string>>} all @param {boolean} canLock */
  const offered = (all, canLock) =>
    Object.entries(all)
      .filter(([name]) => chosen.hide.includes(name) || isSeen(name))
      .map(([name, title]) => ({ name, title, canLock }));

  /** Under the button or above it, where there is more room, inside the window. */
  function place() {
    const box = button.getBoundingClientRect();
    const isAbove = box.top > innerHeight - box.bottom;
    menu.style.top = isAbove ? "auto" : `${box.bottom + 4}px`;
    menu.style.bottom = isAbove ? `${innerHeight - box.top + 4}px` : "auto";
    const { clientWidth } = document.documentElement;
    menu.style.right = `${Math.max(8, Math.min(clientWidth - box.right, clientWidth - menu.offsetWidth - 8))}px`;
    menu.style.maxHeight = `${Math.max(240, (isAbove ? box.top : innerHeight - box.bottom) - 16)}px`;
  }

  /** @param {Link} next */
  function choose(next) {
    chosen = next;
    draw();
  }

  /** @param {string} name */
  function chooseCard(name) {
    card = name;
    draw();
  }

  function draw() {
    const frame = () =>
      `<iframe src="${address(chosen).replaceAll("&", "&amp;")}" title="sarqc" width="100%" height="900"></iframe>`;
    render(
      html`<p class="share-title">A link to what is shown.</p>
        ${hasPresets ? presets() : nothing}
        <div class="share-row"><input type="text" readonly aria-label="The link" data-testid="share-link"
          .value=${address(chosen)} />${copyButton("Copy link", () => address(chosen))}</div>
        ${chosen.embed ? html`<div class="share-row">${copyButton("Copy as a frame", frame)}</div>` : nothing}
        ${cards.length ? cardLines({ cards, card, choose: chooseCard, address }) : nothing}
        ${hasPresets ? preview() : nothing}
        ${more ?? nothing}
        <details class="share-each" ?open=${!hasPresets}><summary>What it keeps fixed or leaves out, one by one</summary>
        <div class="share-scroll" tabindex="0" role="region" aria-label="Controls and figures">
          ${table({
            columns: [
              { isHead: true, show: (row) => row.title },
              { title: "Lock", show: (row) => (row.canLock ? tickOf("lock", row) : nothing) },
              { title: "Hide", show: (row) => tickOf("hide", row) },
            ],
            rows,
            key: (row) => row.name,
          })}
        </div></details>`,
      menu,
    );
  }

  function presets() {
    const now = presetOf(chosen, names);
    const all = /** @type {Preset[]} */ (Object.keys(PRESETS));
    return html`<div class="switch share-presets" role="group" aria-label="What the link is for">${all.map(
      (preset) =>
        html`<button type="button" data-preset=${preset} aria-pressed=${String(preset === now)}
          @click=${() => choose(presetLink(preset, names))}>${preset}</button>`,
    )}</div>
    <p class="share-words" role="status">${now ? PRESETS[/** @type {Preset} */ (now)] : "As ticked below."}</p>`;
  }

  /** The page that the link opens, in small. */
  function preview() {
    const toggle = () => {
      isPreviewed = !isPreviewed;
      draw();
    };
    return html`<div><button type="button" class="act-quiet" data-testid="preview" aria-expanded=${String(isPreviewed)}
        @click=${toggle}>${isPreviewed ? "Close the preview" : "Preview"}</button></div>
      ${
        isPreviewed
          ? html`<div class="share-preview"><iframe title="Preview of the link" tabindex="-1" inert
              src=${address(chosen)}></iframe></div>`
          : nothing
      }`;
  }

  /** @param {"lock" | "hide"} which @param {{name: string, title: string}} row */
  const tickOf = (which, { name, title }) =>
    html`<input type="checkbox" aria-label=${`${which === "lock" ? "Lock" : "Hide"} ${title}`} data-tick=${which}
      data-name=${name} .checked=${chosen[which].includes(name)}
      @change=${(/** @type {Event & {currentTarget: HTMLInputElement}} */ event) =>
        choose(ticked(chosen, which, name, event.currentTarget.checked))} />`;
}

/** @param {string} name */
function isSeen(name) {
  /** @type {NodeListOf<HTMLElement>} */
  const controls = document.querySelectorAll(`[data-control="${name}"]`);
  return [...controls].some((one) => one.offsetParent !== null);
}
