/**
 * The card of a preview that goes: which layer, how far, and its curves as their points arrive. It lies over the page,
 * so that nothing moves when it opens and closes.
 * @module preview_card
 */

import { format, plain } from "../base/format.js";
import { html, render } from "../base/html.js";
import { axis, curve, endLabels, frame, isMeasured, panel } from "../charts/chart.js";
import { Board, label, mark, ROLES } from "../charts/svg.js";
import { honestRange, sentence, solved, valuesOf, words } from "./preview.js";

/** @typedef {import("./preview.js").Preview} Preview */
/** @typedef {import("./preview.js").Curve} Curve */
/** @typedef {import("../charts/chart.js").Values} Values */
/** @typedef {import("../charts/chart.js").Panel} Panel */
/** @typedef {import("../charts/chart.js").Box} Box */
/** @typedef {import("../charts/svg.js").Role} Role */
/** @typedef {import("../charts/svg.js").Drawn} Drawn */

const STAGGER_MS = 25; // between points that came together
/** @type {Record<Curve, Role>} */
const LOOKS = { recon: ROLES.recon, heldOut: ROLES.heldOut, sar: ROLES.drift };

export class PreviewCard {
  /** @param {() => void} cancel */
  constructor(cancel) {
    this.cancel = cancel;
    /** @type {Preview|null} */
    this.state = null;
    this.drawn = 0; // points of the last drawing
    this.element = document.createElement("section");
    this.element.className = "card preview";
    this.element.setAttribute("aria-labelledby", "preview-title");
    this.element.dataset.testid = "preview";
    this.header = document.createElement("header");
    this.header.className = "preview-head";
    const chart = document.createElement("div");
    chart.className = "preview-chart";
    chart.dataset.testid = "preview-chart";
    this.element.append(this.header, chart);
    this.board = new Board(chart, (size) => (this.state ? this.scene(this.state, size) : []));
    this.board.svg.setAttribute("role", "img");
  }

  /** @param {Preview} state */
  show(state) {
    this.drawn = this.state === null ? 0 : solved(this.state);
    this.state = state;
    render(
      html`<div>
          <h2 class="preview-title" id="preview-title">${state.title}, computed here</h2>
          <p class="preview-words" role="status" data-testid="preview-words">${words(state)}</p>
        </div>
        <button type="button" class="act-quiet" data-testid="preview-cancel" ?disabled=${state.stopping || state.ended !== null}
          @click=${this.cancel}>Cancel</button>`,
      this.header,
    );
    this.element.dataset.points = String(solved(state));
    this.board.describe(sentence(state));
    this.board.redraw();
    this.drawn = solved(state); // a drawing for another size has nothing that is new
  }

  /**
   * @param {Preview} state
   * @param {import("../charts/svg.js").Size} size
   * @returns {Drawn[]}
   */
  scene(state, { width, height }) {
    const beside = width > 600;
    const [left, right] = [52, 88];
    const boxes = beside
      ? [
          { left, right: width / 2 - right, top: 32, bottom: height - 32 },
          { left: width / 2 + left, right: width - right, top: 32, bottom: height - 32 },
        ]
      : [
          { left, right: width - right, top: 32, bottom: height / 2 - 32 },
          { left, right: width - right, top: height / 2 + 32, bottom: height - 32 },
        ];
    return [
      this.panel(state, boxes[0], "Reconstruction error", [
        ["heldOut", "unseen"],
        ["recon", "calibration"],
      ]),
      this.panel(state, boxes[1], "Weight drift (L_sar)", [["sar", "drift"]]),
    ];
  }

  /**
   * One panel: its curves as far as they go, each with its name at its last point.
   * @param {Preview} state
   * @param {Box} box
   * @param {string} title
   * @param {[Curve, string][]} names of its curves, and their words
   * @returns {Drawn}
   */
  panel(state, box, title, names) {
    const { lams } = state;
    const curves = names.map(([name, text]) => ({ role: LOOKS[name], text, values: valuesOf(state, name) }));
    const range = honestRange(
      lams,
      curves.map(({ values }) => values),
    );
    const at = panel(box, lams.length, range);
    const last = Math.max(...curves.map(({ values }) => values.findLastIndex(isMeasured)));
    /** @param {number|null} value */
    const inside = (value) => value === null || (value >= at.range[0] && value <= at.range[1]);
    const ends = curves.flatMap(({ role, text, values }) => {
      const value = values[last];
      return isMeasured(value) && inside(value) ? [{ value, text, role }] : [];
    });
    return [
      last >= 0
        ? frame(at, title, (value) => plain(value))
        : label(at.left - 6, at.top - 14, title, { fill: "var(--ink)", weight: 600 }),
      axis(at, lams.map(plain)),
      curves.map(({ role, values }) => [
        this.line(
          at,
          values.map((value) => (inside(value) ? value : null)),
          role,
        ),
        outside(
          at,
          values.map((value) => (inside(value) ? null : value)),
          role,
        ),
      ]),
      endLabels({ ...at, right: at.x(Math.max(last, 0)) }, ends),
    ];
  }

  /**
   * A curve, whose new points come into sight one after the other.
   * @param {Panel} at
   * @param {Values} values
   * @param {Role} role
   * @returns {Drawn}
   */
  line(at, values, role) {
    const marks = values.map((value, index) => {
      if (!isMeasured(value)) return null;
      const late = STAGGER_MS * (index - this.drawn);
      const arrival = late >= 0 ? { class: "arrives", style: `animation-delay: ${late}ms` } : {};
      return mark(role.shape, at.x(index), at.y(value), 3, { fill: role.color, ...arrival });
    });
    return [curve(at, values, role, { marks: false }), marks];
  }
}

/**
 * Points off the scale, at its edge with their value.
 * @param {Panel} at
 * @param {Values} values
 * @param {Role} role
 * @returns {Drawn}
 */
const outside = (at, values, role) =>
  values.map((value, index) => {
    if (!isMeasured(value)) return null;
    const y = value > at.range[1] ? at.top + 6 : at.bottom - 6;
    return [
      mark(role.shape, at.x(index), y, 3, { fill: role.color }),
      label(at.x(index) + 8, y, format(value, "error"), { fill: role.ink, size: 12 }),
    ];
  });
