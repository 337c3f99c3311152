/**
 * The card of a preview that goes: which layer, how far, and its curves as their points arrive. It lies over the page,
 * so that nothing moves when it opens and closes.
 * @module preview_card
 */

import { fill, h, say } from "../base/dom.js";
import { format, plain } from "../base/format.js";
import { axis, curve, endLabels, frame, panel } from "../charts/chart.js";
import { Board, label, mark, ROLES } from "../charts/svg.js";
import { honestRange, sentence, solved, valuesOf, words } from "./preview.js";

const LOOKS = { recon: ROLES.recon, heldOut: ROLES.heldOut, sar: ROLES.drift };
const STAGGER_MS = 25; // between points that came together

export class PreviewCard {
  /**
   * @param {{place: HTMLElement, cancel: () => void}} options
   */
  constructor({ place, cancel }) {
    this.state = null;
    this.drawn = 0; // points of the last drawing
    this.title = h("h2", { class: "preview-title", id: "preview-title" });
    this.words = h("p", { class: "preview-words", role: "status", "data-testid": "preview-words" });
    this.button = h(
      "button",
      { type: "button", class: "act-quiet", "data-testid": "preview-cancel", on: { click: cancel } },
      "Cancel",
    );
    const chart = h("div", { class: "preview-chart", "data-testid": "preview-chart" });
    this.element = h(
      "section",
      { class: "card preview", "aria-labelledby": "preview-title", "data-testid": "preview" },
      h("header", { class: "preview-head" }, h("div", {}, this.title, this.words), this.button),
      chart,
    );
    fill(place, this.element);
    this.board = new Board(chart, (size) => this.scene(size));
    this.board.svg.setAttribute("role", "img");
  }

  /** Shows a state of preview.js. */
  show(state) {
    this.drawn = this.state === null ? 0 : solved(this.state);
    this.state = state;
    say(this.title, `${state.title}, computed here`);
    say(this.words, words(state));
    this.button.disabled = state.ended !== null;
    this.element.dataset.points = String(solved(state));
    this.board.describe(sentence(state));
    this.board.redraw();
    this.drawn = solved(state); // a drawing for another size has nothing that is new
  }

  /** While the server is asked to stop. */
  stopping() {
    this.button.disabled = true;
    say(this.words, "stopping");
  }

  scene({ width, height }) {
    if (!this.state) return [];
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
      this.panel(boxes[0], "Reconstruction error", [
        ["heldOut", "unseen"],
        ["recon", "calibration"],
      ]),
      this.panel(boxes[1], "Weight drift (L_sar)", [["sar", "drift"]]),
    ];
  }

  /** One panel: its curves as far as they go, each with its name at its last point. */
  panel(box, title, curves) {
    const { lams } = this.state;
    const known = curves.map(([name, text]) => ({ role: LOOKS[name], text, values: valuesOf(this.state, name) }));
    const at = panel(
      box,
      lams.length,
      honestRange(
        lams,
        known.map(({ values }) => values),
      ),
    );
    const any = known.some(({ values }) => values.some(Number.isFinite));
    const last = Math.max(...known.map(({ values }) => values.findLastIndex(Number.isFinite)));
    const inside = (value) => value === null || (value >= at.range[0] && value <= at.range[1]);
    const ends = known.filter(({ values }) => last >= 0 && Number.isFinite(values[last]) && inside(values[last]));
    return [
      any
        ? frame(at, title, (value) => plain(value))
        : label(at.left - 6, at.top - 14, title, { fill: "var(--ink)", weight: 600 }),
      axis(at, lams.map(plain)),
      known.map(({ role, values }) => [
        this.line(
          at,
          values.map((value) => (inside(value) ? value : null)),
          role,
        ),
        this.outside(at, values, inside, role),
      ]),
      endLabels(
        { ...at, right: at.x(Math.max(last, 0)) },
        ends.map(({ role, text, values }) => ({ value: values[last], text, role })),
      ),
    ];
  }

  /** A curve, whose new points come into sight one after the other. */
  line(at, values, role) {
    const [path, , marks] = curve(at, values, role, { size: 3 });
    marks.forEach((one, index) => {
      if (!one || index < this.drawn) return;
      one.setAttribute("class", "arrives");
      one.style.animationDelay = `${STAGGER_MS * (index - this.drawn)}ms`;
    });
    return [path, marks];
  }

  /** Points off the scale, at its edge with their value. */
  outside(at, values, inside, role) {
    return values.map((value, index) => {
      if (inside(value)) return null;
      const y = value > at.range[1] ? at.top + 6 : at.bottom - 6;
      return [
        mark(role.shape, at.x(index), y, 3, { fill: role.color }),
        label(at.x(index) + 8, y, format(value, "error"), { fill: role.ink, size: 12 }),
      ];
    });
  }
}
