/**
 * In which frame each figure follows a step of λ or γ. Those on the screen do so in the frame of the step; then comes what
 * is just off the screen, one figure a frame. Figures further down follow once the page has been left alone for a moment.
 * @module follow
 */

const QUIET_MS = 400;
const LATE = 3; // steps in a row after which those that are behind no longer stand back

/** @import { Point } from "./bind.js" */

/** Resolves once the frame that is being made is on the screen; soon, where a hidden page makes none. */
export function painted() {
  return new Promise((resolve) => {
    const last = setTimeout(resolve, 200);
    requestAnimationFrame(() => {
      clearTimeout(last);
      setTimeout(resolve);
    });
  });
}

/**
 * What follows a step: a figure's host, or what else of a page belongs to a point. `step` says false where it can't be done
 * in the frame; `move` then takes its time. `seen` is on the screen, `near` about to come there.
 * @typedef {{seen: boolean, near: boolean, step: (at: Point) => boolean, move?: (at: Point) => unknown}} Follows
 */

export class Follower {
  /** @param {() => Point} point the shown point, asked whenever something is drawn */
  constructor(point) {
    this.point = point;
    /** @type {CSSNumberish|null} when the frame began for which a step has been drawn */
    this.drawn = null;
    this.stepped = false; // and another one has come
    this.inRow = 0;
    /** @type {Follows[]} */
    this.figures = [];
    /** @type {Set<Follows>} figures that are still at another point */
    this.behind = new Set();
    /** @type {Set<Follows>} and those that nobody sees */
    this.away = new Set();
    this.asked = false;
    this.rest = 0;
    this.soon = new MessageChannel();
    this.soon.port1.onmessage = () => this.afterFrame();
  }

  /**
   * A step has been made. The first one in a frame is drawn at once, what else comes in that frame with the next.
   * @param {Follows[]} figures one that has not been drawn yet is behind until there is time
   */
  follow(figures) {
    this.figures = figures;
    clearTimeout(this.rest);
    if (this.drawn === document.timeline.currentTime) this.stepped = true;
    else this.step();
    this.ask();
  }

  /** Goes on right after the next frame, so that its work lies between two frames and not before the first. */
  ask() {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => this.soon.port2.postMessage(0));
  }

  afterFrame() {
    this.asked = false;
    this.drawn = null;
    if (this.stepped) this.step();
    if (this.drawn === null || this.inRow > LATE) this.catchUp();
    if (this.drawn !== null || this.behind.size) this.ask();
    else if (this.away.size) this.rest = setTimeout(() => this.idle(), QUIET_MS);
  }

  step() {
    this.stepped = false;
    this.drawn = document.timeline.currentTime;
    this.inRow += 1;
    const at = this.point();
    for (const host of this.figures) {
      this.behind.delete(host);
      this.away.delete(host);
      if (host.seen && host.step(at)) continue;
      (host.near ? this.behind : this.away).add(host);
    }
  }

  /** One of those that are behind. */
  catchUp() {
    this.inRow = 0;
    const [host] = this.behind;
    if (!host) return;
    this.behind.delete(host);
    if (!host.step(this.point())) host.move?.(this.point());
  }

  /** What nobody sees, one figure at a time while there is nothing else to do. */
  idle() {
    const [host] = this.away;
    if (!host) return;
    this.away.delete(host);
    if (!host.step(this.point())) host.move?.(this.point());
    if (this.away.size) this.rest = setTimeout(() => this.idle(), 16);
  }
}
