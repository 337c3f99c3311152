/**
 * The explorer: one study's line with its sentence, curves, surfaces and table, and the λ and γ that move through all
 * of it. Used by the Lab and by a finished run. Everything for a line is fetched once; moving λ asks nobody.
 *
 * It has a state (state.js), changed by `dispatch` alone, and parts, each of which owns some cards with figures and
 * some of the marked elements of the page. After each change `render` hands the state to every part, gives the cards
 * whose figure is another one their new figure, and brings the others to the shown point.
 * @module explorer
 */

import { viewPath } from "../base/address_bar.js";
import { arrayBytes, asProblem, request } from "../base/client.js";
import { render } from "../base/html.js";
import { link } from "../base/link.js";
import { problemBlock } from "../base/problem.js";
import { openArray } from "../charts/bind.js";
import { Follower, painted } from "../charts/follow.js";
import { plot } from "../charts/plot_host.js";
import { figureMenus } from "./figure_tables.js";
import { addressOf, carriedOn, initial, reduce } from "./state.js";

/** @import { Action, Figure, State, View, Wanted } from "./state.js" */

const REDRAWN = { quantity: "the map of layers", steps: "the ladder" };

/** @typedef {State & {view: View}} WithView a state in which there is a view */
/** @typedef {Awaited<ReturnType<typeof plot>>} Host of a figure */
/** @typedef {{seen: boolean, near: boolean, step: (at: import("../charts/bind.js").Point) => boolean}} Follows */
/**
 * @typedef {object} Part of an explorer
 * @property {string[]} cards the names of its figures' places on the page
 * @property {(state: WithView, card: string) => string|null} [figure] the name in `view.figures` of what a card shows now;
 *   null where the card is not there
 * @property {(state: WithView, card: string, figure: Figure) => Figure} [over] a card's figure with more drawn over it; the
 *   same object as before while nothing changes
 * @property {(state: WithView, card: string, has: boolean) => string} [note] what stands in a card that has its figure, or has none
 * @property {Follows[]} [follows] what follows a step of λ or γ beside its figures
 * @property {(explorer: Explorer) => void} [wire] its listeners, which live as long as the page
 * @property {(explorer: Explorer, state: WithView, before: State) => void} [render] the rest of what it shows
 */

export class Explorer {
  /**
   * @param {{root: HTMLElement, prefix: string, parts: Part[], onState?: (state: State) => void}} options `prefix` is put
   * before the names of the plots; `root` holds the elements marked data-part; the first card of the first part is the
   * main figure; `onState` hears every new state
   */
  constructor({ root, prefix, parts, onState = () => {} }) {
    this.root = root;
    this.prefix = prefix;
    this.parts = parts;
    this.onState = onState;
    this.state = initial({ locked: link.lock, hidden: link.hide });
    this.rendered = this.state;
    this.requests = 0; // of views
    this.redrawings = 0; // requests of single figures
    /** @type {Object<string, Host>} */
    this.hosts = {};
    /** @type {Map<string, any[]>} the figure and the arrays that each card was given */
    this.given = new Map();
    /** @type {Promise<void>} resolves once what was given last is drawn */
    this.drawing = Promise.resolve();
    this.follower = new Follower(() => this.state.at);
    this.ready = this.begin();
  }

  async begin() {
    const cards = this.parts.flatMap((part) => part.cards);
    const hosts = await Promise.all(cards.map((card) => plot(`${this.prefix}${card}`)));
    this.hosts = Object.fromEntries(cards.map((card, index) => [card, hosts[index]]));
    for (const part of this.parts) part.wire?.(this);
    figureMenus(this);
  }

  /** The state, once there is a view. @returns {WithView|null} */
  get seen() {
    const { view } = this.state;
    return view && { ...this.state, view };
  }

  /** The element of a name within the page. @param {string} name @returns {HTMLElement|null} */
  part(name) {
    return this.root.querySelector(`[data-part="${name}"]`);
  }

  /** The elements that switch something of this explorer, wherever on the page. @param {string} mark @returns {HTMLElement[]} */
  switches(mark) {
    return [...document.querySelectorAll(`[data-${mark}][data-for="${this.prefix}"]`)].filter(
      (element) => element instanceof HTMLElement,
    );
  }

  /** @param {Action} action */
  dispatch(action) {
    this.state = reduce(this.state, action);
    if (this.state !== this.rendered) this.render();
  }

  /**
   * Shows a line. The old picture stays, dimmed, until the new one is there. What goes wrong is part of the state.
   * @param {Wanted} wanted
   * @param {ReturnType<typeof fetchLine>} [answer] what was asked for already
   */
  async load(wanted, answer) {
    this.requests += 1;
    const mine = this.requests;
    await this.ready;
    this.dispatch({ type: "requested" });
    try {
      const { view, arrays } = await (answer ?? fetchLine(wanted));
      if (mine !== this.requests) return;
      this.dispatch({ type: "opened", view, arrays, wanted });
      await this.drawing;
      if (mine === this.requests) this.dispatch({ type: "drawn" });
    } catch (error) {
      const where = `study ${wanted.study}`;
      if (mine === this.requests) this.dispatch({ type: "failed", problem: asProblem(error, where) });
    }
  }

  /**
   * Draws the map of layers by another quantity of the shown line, or the ladder in another order; nothing else is drawn
   * anew.
   * @param {"quantity"|"steps"} name
   * @param {string} value
   */
  async redraw(name, value) {
    const { seen } = this;
    if (!seen || seen.locked.includes(name)) return;
    this.redrawings += 1;
    const mine = this.redrawings;
    try {
      const answer = await request(viewPath({ ...addressOf(seen), [name]: value }));
      // Anything newer that is on its way, or another view, goes before this answer.
      if (mine !== this.redrawings || seen.view !== this.state.view) return;
      this.dispatch({ type: "redrawn", name, answer });
    } catch (error) {
      this.dispatch({ type: "troubled", problem: asProblem(error, REDRAWN[name]) });
    }
  }

  /** Shows another line or layer in the place of the shown one, if the link lets that be chosen. @param {Partial<Wanted>} change */
  pick(change) {
    const { seen } = this;
    if (seen && !Object.keys(change).some((name) => seen.locked.includes(name)))
      this.load({ ...carriedOn(seen), ...change });
  }

  /** Another line of the same width, where there is one of that name. @param {string} name */
  pickLine(name) {
    const { line, choices } = this.state.view ?? {};
    if (name !== line?.name && choices?.some((choice) => choice.name === name && choice.bits === line?.bits))
      this.pick({ method: name });
  }

  /** The layer that a point of a figure leads to. @param {any} event */
  pickLayer(event) {
    const layer = event.points[0]?.customdata?.[0];
    if (Number.isInteger(layer) && layer >= 0) this.pick({ layer });
  }

  /** Another λ or γ of the shown line: in the browser, from what is already here. @param {{gamma?: number, lambda?: number}} to */
  move(to) {
    this.dispatch({ type: "moved", ...to });
  }

  stop() {
    this.dispatch({ type: "stopped" });
  }

  togglePlay() {
    this.dispatch({ type: this.state.playing === null ? "played" : "stopped" });
  }

  render() {
    const [state, before] = [this.state, this.rendered];
    this.rendered = state;
    this.root.classList.toggle("is-loading", state.phase === "next");
    if (state.problem !== before.problem) this.report(state.problem);
    if (this.seen) this.renderView(this.seen, before);
    this.onState(state);
  }

  /** @param {import("../base/problem.js").Trouble|null} trouble */
  report(trouble) {
    const place = this.part("problem");
    if (place) render(trouble && problemBlock(trouble), place);
  }

  /** @param {WithView} state @param {State} before */
  renderView(state, before) {
    for (const part of this.parts) part.render?.(this, state, before);
    const changed = this.parts.flatMap((part) => part.cards.filter((card) => this.give(part, card, state)));
    if (changed.length) this.drawing = this.draw(changed);
    if (state.at !== before.at && state.view === before.view) this.follow(state);
  }

  /**
   * Gives a card its figure, none where it is not there, and says whether it is another one than it had.
   * @param {Part} part
   * @param {string} card
   * @param {WithView} state
   */
  give(part, card, state) {
    const host = this.hosts[card];
    const name = part.figure?.(state, card) ?? null;
    const plain = (name !== null && state.view.figures[name]) || null;
    const figure = (plain && part.over?.(state, card, plain)) ?? plain;
    host.root.classList.toggle("is-off", name === null);
    const [last, arrays] = this.given.get(card) ?? [];
    if (figure === last && state.arrays === arrays) return false;
    this.given.set(card, [figure, state.arrays]);
    const note = (name !== null && part.note?.(state, card, figure !== null)) || "";
    host.take(figure, state.at, state.arrays, note);
    if (figure && note) host.say(note);
    return true;
  }

  /**
   * Draws cards that were given another figure: the main figure, which is seen before the others are made, then these.
   * @param {string[]} cards
   */
  async draw(cards) {
    const [main] = this.parts[0].cards;
    if (cards.includes(main)) {
      this.hosts[main].draw();
      this.dispatch({ type: "pictured" });
      await painted();
    }
    for (const card of cards) if (card !== main) this.hosts[card].draw();
  }

  /** Brings every figure to the shown point, see follow.js. @param {WithView} state */
  follow(state) {
    const cards = this.parts.flatMap((part) => part.cards.filter((card) => part.figure?.(state, card) != null));
    this.follower.follow([
      ...this.parts.flatMap((part) => part.follows ?? []),
      ...cards.map((card) => this.hosts[card]),
    ]);
  }
}

/**
 * A line and its numbers, as the server has them.
 * @param {Wanted} wanted
 */
export async function fetchLine(wanted) {
  /** @type {View} */
  const view = await request(viewPath(wanted));
  return { view, arrays: await openedArrays(view) };
}

/** The arrays of a view by name, opened. @param {View} view */
async function openedArrays(view) {
  const opened = Object.entries(view.arrays).map(async ([name, info]) => [
    name,
    openArray(await arrayBytes(view.study.id, info), info),
  ]);
  return Object.fromEntries(await Promise.all(opened));
}
