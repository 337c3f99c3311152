/**
 * The tour: which step is open, the way from one to the next, and the note of what the address got wrong.
 * @module learn/learn_page
 */

import { LAB_VIEW, parse, serialise } from "../base/address.js";
import { isLocked, link, note } from "../base/link.js";
import { onTheme } from "../base/theme.js";
import { common, unknownHere } from "./address.js";
import * as channels from "./channels.js";
import * as knobs from "./knobs.js";
import * as lattice from "./lattice.js";
import * as layer from "./layer.js";
import * as model from "./model.js";
import * as paper from "./paper.js";
import { Stage, within } from "./stage.js";
import * as tokens from "./tokens.js";
import * as weight from "./weight.js";

/** @type {Object<string, import("./types.d.ts").AnyStep>} */
export const MODULES = { weight, lattice, tokens, channels, layer, model, knobs, paper };
const COMMON = common(Object.keys(MODULES).length);

/**
 * Called by the page's js_on_load with the element that holds the tour.
 * @param {HTMLElement} element
 */
export function mount(element) {
  const root = within(element, ".tour", HTMLElement);
  const part = (/** @type {string} */ name) => within(root, `[data-part="${name}"]`, HTMLElement);
  const [back, next] = ["back", "next"].map((name) => within(root, `[data-part="${name}"]`, HTMLButtonElement));
  const lab = within(root, '[data-part="lab"]', HTMLAnchorElement);
  const ways = [...root.querySelectorAll("button[data-go]")].filter((button) => button instanceof HTMLButtonElement);
  /** @type {import("./types.d.ts").Given} */
  const given = { study: JSON.parse(root.dataset.study ?? ""), published: JSON.parse(root.dataset.published ?? "") };
  const tour = {
    step: Number(parse(location.search, COMMON).state.step ?? 1) - 1,
    notes: /** @type {string[]} */ ([]),
  };

  const tell = (/** @type {string[]} */ sentences) => {
    tour.notes = [...tour.notes, ...sentences];
    note(part("link-note"), tour.notes);
  };
  const stages = [...root.querySelectorAll(".step")]
    .filter((section) => section instanceof HTMLElement)
    .map((section) => new Stage(section, MODULES[section.dataset.name ?? ""], COMMON, given, tell));

  /** Brings the page to the step that is open. */
  function render() {
    const last = tour.step === stages.length - 1;
    stages.forEach(({ section }, step) => {
      section.hidden = step !== tour.step;
    });
    for (const button of ways) {
      const step = Number(button.dataset.go) - 1;
      button.parentElement?.classList.toggle("is-done", step <= tour.step);
      if (step === tour.step) button.setAttribute("aria-current", "step");
      else button.removeAttribute("aria-current");
    }
    back.disabled = tour.step === 0;
    next.disabled = last;
    next.hidden = last && !isLocked("next");
    lab.hidden = !last || isLocked("next");
    stages[tour.step].open();
  }

  /** @param {number} step counted from 0; nothing happens beyond the ends */
  function go(step) {
    if (step < 0 || step >= stages.length) return;
    tour.step = step;
    render();
    tour.notes = []; // what the address got wrong was said of the step that it opened
    tell([]);
    within(stages[step].section, ".step-title", HTMLElement).focus({ preventScroll: true });
    window.scrollTo(0, 0);
  }

  back.addEventListener("click", () => go(tour.step - 1));
  next.addEventListener("click", () => go(tour.step + 1));
  for (const button of ways) button.addEventListener("click", () => go(Number(button.dataset.go) - 1));
  document.addEventListener("keydown", (event) => {
    const way = wayOf(event);
    if (!way) return;
    event.preventDefault();
    if (!isLocked(way > 0 ? "next" : "back")) go(tour.step + way);
  });
  const { id, bits, saliency } = given.study;
  lab.href = `/${serialise({ study: id, method: saliency, bits }, LAB_VIEW, { link: { embed: link.embed } })}`;
  onTheme(() => stages[tour.step].render());
  stages[tour.step].read(location.search);
  tell(unknownHere(link));
  render();
}

/**
 * Which way a key leads: 1 for → and space, −1 for ← and shift with space, 0 where it belongs to what has the focus.
 * @param {Pick<KeyboardEvent, "key"|"shiftKey"|"altKey"|"ctrlKey"|"metaKey"|"defaultPrevented"|"target">} event
 */
export function wayOf(event) {
  if (event.defaultPrevented || event.altKey || event.ctrlKey || event.metaKey) return 0;
  const focused = /** @type {Partial<Element>|null} */ (event.target); // the document has no closest
  const own = (/** @type {string} */ selector) => Boolean(focused?.closest?.(selector));
  if (own("input, select, textarea, [contenteditable], [role=slider]")) return 0;
  if (event.key === "ArrowRight" && !event.shiftKey) return 1;
  if (event.key === "ArrowLeft" && !event.shiftKey) return -1;
  if (event.key === " " && !own("button, summary, a, [role=checkbox], .table-scroll")) return event.shiftKey ? -1 : 1;
  return 0;
}
