/**
 * The objective above the page, which is also its control: λ and γ in it are dragged and typed, and a term that is
 * pointed at, focused or tapped stands out on the whole page. The bar stays in sight, with play and the quality shown, once
 * the main figure has left the screen.
 * @module equation_part
 */

import { nearest } from "../base/address_bar.js";
import { say } from "../base/dom.js";
import { format } from "../base/format.js";
import { html, nothing, render } from "../base/html.js";
import { termsOf } from "../charts/terms.js";
import { ERRORS, PENALTY, spoken, WEIGHINGS, weighingOf } from "./typeset.js";

/** @import { Term } from "../charts/terms.js" */
/** @import { Explorer, Part, WithView } from "./explorer.js" */

/** @typedef {"lambda"|"gamma"} Axis */
/** @typedef {import("../base/types.d.ts").SecondAxis["name"]} Second */

const DRAGGED = 4; // pixels after which a press is a drag
const PER_STEP = 16; // pixels of a drag from one value to the next
const LAMBDA = { sign: "λ", words: "λ, weight of the penalty" };
/** What the second axis says. @type {Record<Second, string>} */
const SECONDS = {
  gamma: "γ, how saliency mixes activations and weights",
  shift_strength: "α, how far the shift goes towards the float model’s inputs",
  first_order: "β, how far compensation is pulled back to the original weights",
};
/** Cards that show one term as a whole, or both, whatever the colours in them. @type {Record<string, Term[]>} */
const WHOLE = { surfaces: ["drift"], surfaces_flat: ["drift"], inspector: ["drift"], plane: ["recon", "drift"] };
/** What the main figure shows once a term is pressed. @type {Record<Term, import("../base/types.d.ts").Shown>} */
const CURVES = { recon: "error", drift: "drift" };
/** @type {Record<string, Term>} */
const QUANTITIES = { recon: "recon", held_out: "recon", drift: "drift", sar: "drift" };

/**
 * What asks for a term: the mouse, the keyboard's focus, a tap until the next one elsewhere. The first goes first.
 * @typedef {{pointed: Term|null, focused: Term|null, tapped: Term|null}} Asked
 */

/** @returns {Part} */
export function equationPart() {
  /** @type {Asked} */
  const asked = { pointed: null, focused: null, tapped: null };
  let isEmpty = true; // but for what the page came with

  return {
    cards: [],
    wire(explorer) {
      if (!explorer.part("equation")) return;
      document.addEventListener("pointerdown", ({ target }) => {
        const isTerm = target instanceof Element && target.closest("button.term");
        if (asked.tapped && !isTerm) ask(explorer, asked, { tapped: null });
      });
      new IntersectionObserver((entries) =>
        explorer.root.classList.toggle("is-away", !entries[entries.length - 1].isIntersecting),
      ).observe(explorer.hosts.hero.root);
    },
    render(explorer, state, before) {
      const place = explorer.part("equation");
      if (!place) return;
      const isNew = state.view !== before.view;
      if (isNew) {
        if (isEmpty) place.replaceChildren();
        isEmpty = false;
        draw(explorer, place, state, asked);
      }
      if (isNew || state.playing !== before.playing) play(place, state);
      if (isNew || state.at !== before.at || state.shown !== before.shown) values(place, state);
      if (isNew || state.lit !== before.lit || state.shown !== before.shown) light(explorer, place, state);
    },
  };
}

/**
 * @param {Explorer} explorer
 * @param {HTMLElement} place
 * @param {WithView} state
 * @param {Asked} asked
 */
function draw(explorer, place, { view }, asked) {
  const { equation } = view.line;
  place.classList.toggle("is-off", !equation);
  explorer.root.classList.toggle("has-equation", Boolean(equation));
  if (!equation) return;
  const { aim, weighing, lam } = equation;
  const error = ERRORS[aim];
  const hasSecond = weighing === "gamma" || view.second.name !== "gamma";
  place.setAttribute("aria-label", spoken(equation));
  const penalty =
    weighing &&
    html`<span class="plus">+</span>
      ${lam === null ? knob(explorer, view, "lambda") : html`<span class="knob is-still"><i>λ</i><output>${lam}</output></span>`}
      ${term(explorer, asked, PENALTY.term, PENALTY.set, WEIGHINGS[weighing].name, PENALTY.said)} ${weighingOf(equation)}
      ${hasSecond && view.gammas[0] !== null ? knob(explorer, view, "gamma") : nothing}`;
  render(
    html`<span class="objective"><span class="min" aria-hidden="true">min<sub><i>Ŵ</i></sub></span>
        ${term(explorer, asked, error.term, error.set, error.name, error.said)} ${penalty}</span>
      <span class="status"><button type="button" class="quiet bar-play" data-testid="bar-play" data-control="play"
          @click=${() => explorer.togglePlay()}></button>
        <span class="quality"><span class="quality-name"></span>
          <output data-part="bar-quality" data-testid="bar-quality"></output></span></span>`,
    place,
  );
}

// --- Terms ----------------------------------------------------------------------------------------------------------

/** @param {Explorer} explorer @param {Asked} asked @param {Partial<Asked>} change */
function ask(explorer, asked, change) {
  Object.assign(asked, change);
  explorer.dispatch({ type: "lit", term: asked.pointed ?? asked.focused ?? asked.tapped });
}

/**
 * @param {Explorer} explorer
 * @param {Asked} asked
 * @param {Term} name
 * @param {unknown} set
 * @param {string} title
 * @param {string} said
 */
function term(explorer, asked, name, set, title, said) {
  const to = (/** @type {Partial<Asked>} */ change) => ask(explorer, asked, change);
  const isTouch = (/** @type {PointerEvent} */ event) => event.pointerType === "touch";
  return html`<button type="button" class="term" data-term=${name} data-testid=${`term-${name}`} aria-pressed="false"
    @pointerenter=${(/** @type {PointerEvent} */ event) => isTouch(event) || to({ pointed: name })}
    @pointerleave=${() => to({ pointed: null })}
    @focus=${(/** @type {FocusEvent} */ { target }) =>
      to({ focused: target instanceof Element && target.matches(":focus-visible") ? name : null })}
    @blur=${() => to({ focused: null })}
    @click=${(/** @type {PointerEvent} */ event) => {
      const isShown = explorer.state.shown === CURVES[name];
      explorer.dispatch({ type: "shown", name: isShown ? "perplexity" : CURVES[name] });
      to({ tapped: isTouch(event) && !isShown && asked.tapped !== name ? name : null });
    }}
    @keydown=${(/** @type {KeyboardEvent} */ event) => {
      if (event.key !== "Escape" || !explorer.state.lit) return;
      event.preventDefault();
      to({ tapped: null, focused: null, pointed: null });
    }}
    ><span class="set" aria-hidden="true">${set}</span><span class="caption">${title}</span
    ><span class="visually-hidden">: ${said}. Show it over λ.</span></button>`;
}

/**
 * Makes a term stand out: the styles fade what is not of it.
 * @param {Explorer} explorer
 * @param {HTMLElement} place
 * @param {WithView} state
 */
function light({ root, hosts, parts }, place, state) {
  const { lit, view, shown } = state;
  if (lit) root.dataset.lit = lit;
  else delete root.dataset.lit;
  for (const button of place.querySelectorAll("button.term"))
    button.setAttribute(
      "aria-pressed",
      String(button instanceof HTMLElement && CURVES[/** @type {Term} */ (button.dataset.term)] === shown),
    );
  if (!lit) return;
  for (const [card, { root: element }] of Object.entries(hosts)) {
    const name = parts.find(({ cards }) => cards.includes(card))?.figure?.(state, card) ?? null;
    const figure = name === null ? null : view.figures[name]; // the host gets it only afterwards
    const whole = card.startsWith("map") ? [QUANTITIES[view.quantity ?? ""]] : WHOLE[card];
    element.dataset.terms = (whole ?? (figure ? termsOf(figure) : [])).join(" ");
    element.toggleAttribute("data-whole", whole !== undefined);
  }
}

// --- Values ---------------------------------------------------------------------------------------------------------

/** @param {Explorer} explorer @param {Axis} axis @returns {(number|null)[]} */
const valuesOf = (explorer, axis) => explorer.state.view?.[axis === "lambda" ? "lams" : "gammas"] ?? [];

/** Sign and words of the knob of an axis. @param {Pick<WithView, "view">} state @param {Axis} axis */
const knobOf = ({ view: { second } }, axis) =>
  axis === "lambda" ? LAMBDA : { sign: second.sign, words: SECONDS[second.name] };

/** What the knob of an axis says. @param {WithView} state @param {Axis} axis */
const textOf = ({ view, at }, axis) => (axis === "lambda" ? view.lam_texts : view.gamma_texts)[at[axis]];

/**
 * A value in the equation: dragged sideways, stepped by arrow keys, or typed, and then the nearest that there is.
 * @param {Explorer} explorer
 * @param {WithView["view"]} view
 * @param {Axis} axis
 */
function knob(explorer, view, axis) {
  const { sign, words } = knobOf({ view }, axis);
  /** @param {number} position */
  const move = (position) => {
    explorer.stop();
    explorer.move({ [axis]: position });
  };
  const shown = () => (explorer.seen ? textOf(explorer.seen, axis) : "");
  /** @param {HTMLInputElement} input */
  const commit = (input) => {
    const typed = Number(input.value.trim().replace(",", ".") || Number.NaN);
    const position = Number.isFinite(typed) ? nearest(valuesOf(explorer, axis), typed) : null;
    if (position !== null) move(position);
    write(input, shown());
  };
  /** @param {KeyboardEvent} event */
  const key = (event) => {
    const input = /** @type {HTMLInputElement} */ (event.currentTarget);
    const isTyped = input.value !== input.dataset.shown;
    if (event.key === "Enter" || (event.key === "Escape" && isTyped)) {
      event.preventDefault();
      if (event.key === "Enter") commit(input);
      else write(input, shown());
      input.select();
      return;
    }
    const sideways = event.key === "ArrowLeft" || event.key === "ArrowRight";
    const step = STEPS[event.key];
    if (!step || (sideways && isTyped) || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    move(explorer.state.at[axis] + step);
    write(input, shown());
    input.select();
  };
  return html`<label class="knob" @pointerdown=${(/** @type {PointerEvent} */ event) => drag(event, explorer, axis, move)}
    ><i>${sign}</i><span class="knob-field" data-control=${axis}><input type="text" inputmode="decimal" autocomplete="off"
      spellcheck="false" role="spinbutton" aria-label=${words} data-knob=${axis} data-testid=${`knob-${axis}`}
      ?disabled=${explorer.state.locked.includes(axis) || valuesOf(explorer, axis).length < 2}
      @focus=${(/** @type {FocusEvent} */ { target }) => target instanceof HTMLInputElement && target.select()}
      @keydown=${key} @change=${(/** @type {Event} */ { target }) => target instanceof HTMLInputElement && commit(target)} /></span></label>`;
}

/** @param {HTMLInputElement} input @param {string} text what it shows while nobody types in it */
function write(input, text) {
  input.value = text;
  input.dataset.shown = text;
}

/** @type {Record<string, number>} */
const STEPS = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1 };

/**
 * A drag from a knob: every few pixels the next value. A press that goes nowhere is a click into the field.
 * @param {PointerEvent} event
 * @param {Explorer} explorer
 * @param {Axis} axis
 * @param {(position: number) => void} move
 */
function drag(event, explorer, axis, move) {
  const label = /** @type {HTMLElement} */ (event.currentTarget);
  const input = label.querySelector("input");
  if (event.button !== 0 || !input || input.disabled) return;
  event.preventDefault(); // no selection on the way
  const start = { x: event.clientX, position: explorer.state.at[axis] };
  let isDrag = false;
  label.setPointerCapture(event.pointerId);
  const follow = (/** @type {PointerEvent} */ { clientX }) => {
    isDrag ||= Math.abs(clientX - start.x) > DRAGGED;
    if (isDrag) move(start.position + Math.round((clientX - start.x) / PER_STEP));
  };
  const end = (/** @type {Event} */ { type }) => {
    label.removeEventListener("pointermove", follow);
    if (type === "pointerup" && !isDrag) input.focus();
  };
  label.addEventListener("pointermove", follow);
  label.addEventListener("pointerup", end, { once: true });
  label.addEventListener("lostpointercapture", end, { once: true });
}

/**
 * Brings knobs and the quality shown to the shown point; a field that is being typed in is left alone.
 * @param {HTMLElement} place
 * @param {WithView} state
 */
function values(place, state) {
  const { view, at } = state;
  const shown = state.shown === "accuracy" ? "accuracy" : "perplexity";
  for (const input of place.querySelectorAll("input")) {
    const axis = /** @type {Axis} */ (input.dataset.knob);
    const text = textOf(state, axis);
    if (input !== document.activeElement || input.value === input.dataset.shown) write(input, text);
    input.setAttribute("aria-valuenow", String((axis === "lambda" ? view.lams : view.gammas)[at[axis]]));
    input.setAttribute("aria-valuetext", `${knobOf(state, axis).sign} = ${text}`);
  }
  const row = view.table.rows.find(({ at: [gamma, lambda] }) => gamma === at.gamma && lambda === at.lambda);
  const quality = place.querySelector('[data-part="bar-quality"]');
  const value = row?.[shown] ?? null;
  if (quality?.parentElement) quality.parentElement.hidden = value === null;
  say(place.querySelector(".quality-name"), shown === "accuracy" ? "accuracy" : "perplexity");
  say(quality, format(value, shown === "accuracy" ? "share" : "perplexity"));
}

/** @param {HTMLElement} place @param {WithView} state */
function play(place, { playing, view, locked }) {
  const button = /** @type {HTMLButtonElement|null} */ (place.querySelector(".bar-play"));
  if (!button) return;
  button.hidden = view.lams.length < 2;
  button.disabled = locked.includes("lambda");
  const isPlaying = playing !== null;
  say(button, isPlaying ? "❚❚" : "▶");
  button.setAttribute("aria-label", isPlaying ? "Pause" : "Play: λ moves by itself");
  button.setAttribute("aria-pressed", String(isPlaying));
}
