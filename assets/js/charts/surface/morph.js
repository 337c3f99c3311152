/**
 * Values on their way to others: fast at first and slower towards the end. Another target on the way begins from where
 * they are.
 * @module surface/morph
 */

export const DURATION = 200; // milliseconds

export class Morph {
  /** @param {Float32Array} values that are changed in place */
  constructor(values) {
    this.values = values;
    this.from = values.slice();
    this.to = values.slice();
    this.start = 0;
    this.isUnderWay = false;
  }

  /**
   * Sets where the values go, from where they are.
   * @param {number} now milliseconds
   */
  begin(now) {
    this.from.set(this.values);
    this.start = now;
    this.isUnderWay = this.values.some((value, at) => value !== this.to[at]);
  }

  /**
   * Moves the values to where they are at a time.
   * @param {number} now milliseconds
   */
  advance(now) {
    if (!this.isUnderWay) return;
    const share = Math.min(1, Math.max(0, (now - this.start) / DURATION));
    if (share === 1) {
      this.finish();
      return;
    }
    const way = 1 - (1 - share) ** 3;
    const { values, from, to } = this;
    for (let at = 0; at < values.length; at += 1) values[at] = from[at] + way * (to[at] - from[at]);
  }

  /** Puts the values where they go, at once. */
  finish() {
    this.values.set(this.to);
    this.isUnderWay = false;
  }
}
