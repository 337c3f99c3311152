/**
 * The tour: which step is open, the way from one to the next, and the note of what the address got wrong.
 * @module learn/learn_page
 */

import { LAB_VIEW, parse, serialise } from "../base/address.js";
import { onReturn } from "../base/address_bar.js";
import { EVERYWHERE } from "../base/contract.js";
import { isLocked, link, note } from "../base/link.js";
import { titled } from "../base/page_title.js";
import { published } from "../base/published.js";
import { shareMenu } from "../base/share.js";
import { at } from "../base/site.js";
import { onTheme } from "../base/theme.js";
import { backToPage } from "../charts/enlarge.js";
import { lecture } from "../lecture/lecture.js";
import { notesWindow } from "../lecture/notes_window.js";
import { fill, presenter } from "../lecture/present.js";
import { meaningOf } from "../lecture/remote_keys.js";
import { CONTROLS, common, unknownHere } from "./address.js";
import * as channels from "./channels.js";
import * as column_by_column from "./column_by_column.js";
import * as knobs from "./knobs.js";
import * as lattice from "./lattice.js";
import * as layer from "./layer.js";
import * as model from "./model.js";
import * as new_text from "./new_text.js";
import * as paper from "./paper.js";
import { DRAWN, Stage, within } from "./stage.js";
import * as tokens from "./tokens.js";
import * as weight from "./weight.js";

/** @type {Object<string, import("./types.d.ts").AnyStep>} */
export const MODULES = {
  weight,
  lattice,
  column_by_column,
  new_text,
  tokens,
  channels,
  layer,
  model,
  knobs,
  paper,
};
const COMMON = common(Object.keys(MODULES).length);

/**
 * Called by the page's js_on_load with the element that holds the tour.
 * @param {HTMLElement} element
 */
export function mount(element) {
  const root = within(element, ".tour", HTMLElement);
  if (link.notes) {
    notesWindow(root, link.notes);
    return;
  }
  const part = (/** @type {string} */ name) => within(root, `[data-part="${name}"]`, HTMLElement);
  const [back, next, share, whole, black] = ["back", "next", "share", "fill", "black"].map((name) =>
    within(root, `[data-part="${name}"]`, HTMLButtonElement),
  );
  const lab = within(root, '[data-part="lab"]', HTMLAnchorElement);
  const toLecture = within(root, '[data-part="lecture"]', HTMLAnchorElement);
  const ways = [...root.querySelectorAll("button[data-go]")].filter((button) => button instanceof HTMLButtonElement);
  /** @type {import("./types.d.ts").Given} */
  const given = {
    study: JSON.parse(root.dataset.study ?? ""),
    pretrained: JSON.parse(root.dataset.pretrained ?? ""),
    published: JSON.parse(root.dataset.published ?? ""),
  };
  const stepOf = (/** @type {string} */ search) => Number(parse(search, COMMON).state.step ?? 1) - 1;
  const tour = {
    step: stepOf(location.search),
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
    toLecture.href = stages[tour.step].query({ ...link, lecture: true });
    document.title = titled(within(stages[tour.step].section, ".step-title", HTMLElement).textContent ?? "");
  }

  /** @param {number} step counted from 0; nothing happens beyond the ends */
  function go(step) {
    if (step < 0 || step >= stages.length) return;
    tour.step = step;
    arrive();
  }

  /** Shows the step that is open now, from its beginning. */
  function arrive() {
    backToPage(); // the figure of another step may fill the window
    render();
    tour.notes = []; // what the address got wrong was said of the step that it opened
    tell([]);
    within(stages[tour.step].section, ".step-title", HTMLElement).focus({ preventScroll: true });
    window.scrollTo(0, 0);
  }

  back.addEventListener("click", () => go(tour.step - 1));
  next.addEventListener("click", () => go(tour.step + 1));
  for (const button of ways) button.addEventListener("click", () => go(Number(button.dataset.go) - 1));
  const screen = presenter(black, whole);
  const hall = link.lecture
    ? lecture(root, {
        stop: () => stages[tour.step].stop,
        act: (meaning) => acts[meaning](),
        event: DRAWN,
        tools: within(root, ".tour-tools", HTMLElement),
      })
    : null;
  /** @type {Record<import("../lecture/remote_keys.js").Meaning, () => void>} */
  const acts = {
    on: () => {
      const stage = stages[tour.step];
      if (hall?.showsGuesses()) return;
      if (!stage.answered && !isKept("show")) stage.answer();
      else if (!isLocked("next")) go(tour.step + 1);
    },
    back: () => {
      if (!isLocked("back")) go(tour.step - 1);
    },
    fill: () => {
      if (!isLocked("fill")) fill();
    },
    black: () => screen.blacken(!screen.isBlack()),
    notes: () => hall?.openNotes(),
    code: () => hall?.toggleCode(),
  };
  document.addEventListener("keydown", (event) => {
    const meaning = meaningOf(event);
    if (screen.isBlack()) {
      if (!meaning && !["Escape", " ", "Enter"].includes(event.key)) return;
      event.preventDefault();
      if (!event.repeat) screen.blacken(false);
    } else if (meaning) {
      event.preventDefault();
      if (!event.repeat) acts[meaning](); // a key that is held down does not run through the lesson
    } else if (event.key === "Escape" && !document.querySelector(OVER)) screen.leave();
  });
  onReturn((search) => {
    tour.step = stepOf(search);
    stages[tour.step].read(search);
    arrive();
  });
  shareMenu(share, {
    controls: CONTROLS,
    panels: EVERYWHERE,
    link,
    address: (given) => `${location.origin}${location.pathname}${stages[tour.step].query(given)}`,
    further: () => null,
  });
  const { id, bits, saliency } = given.pretrained;
  const query = serialise({ study: id, method: saliency, bits }, LAB_VIEW, { link: { embed: link.embed } });
  lab.href = `${published?.site.folders[id] ?? new URL(at("/"), location.href).pathname}${query}`; // which says the language
  onTheme(() => stages[tour.step].render());
  // One main button: first that of the answer, then the way on.
  root.addEventListener(DRAWN, () => {
    const isMain = stages[tour.step].answered || isKept("show");
    for (const way of [next, lab]) way.className = isMain ? "act" : "act-quiet";
  });
  stages[tour.step].read(location.search);
  tell(unknownHere(link));
  render();
  if (link.lecture) screen.fillSoon();
}

const OVER = ".is-enlarged, dialog[open], :popover-open"; // what Escape closes first

/** True for a control that a link locks or leaves out. @param {string} name */
const isKept = (name) => isLocked(name) || link.hide.includes(name);
