/**
 * What a step of the tour lets one set. Every control has a name (data-control), by which a link can hide or lock it.
 * @module learn/controls
 */

import { h, say } from "../base/dom.js";

/**
 * A slider over named positions.
 * @param {{control: string, sign: string, label: string, names: string[], change: (position: number) => void}} options
 * @returns {{element: HTMLElement, at: (position: number) => void, names: (names: string[]) => void}}
 */
export function slider({ control, sign, label, names, change }) {
  let texts = names;
  const input = h("input", {
    type: "range",
    min: 0,
    max: Math.max(0, names.length - 1),
    step: 1,
    "aria-label": label,
    "data-control": control,
    "data-testid": control,
  });
  const output = h("output", {}, "");
  input.addEventListener("input", () => change(Number(input.value)));
  const element = h(
    "label",
    { class: "slider step-slider" },
    h("span", { class: "sign" }, sign),
    h("span", { class: "track" }, input),
    output,
  );
  return {
    element,
    at(position) {
      input.max = String(Math.max(0, texts.length - 1));
      input.value = String(position);
      input.style.setProperty("--filled", `${(100 * position) / Math.max(1, texts.length - 1)}%`);
      input.setAttribute("aria-valuetext", `${sign} = ${texts[position]}`);
      say(output, texts[position] ?? "");
    },
    names(found) {
      texts = found;
    },
  };
}

/**
 * A few choices of which one holds, or none yet.
 * @param {{control: string, label: string, options: [any, string][], change: (value: any) => void}} options
 */
export function choices({ control, label, options, change }) {
  const buttons = options.map(([value, text]) =>
    h(
      "button",
      { type: "button", "data-value": value, "aria-pressed": "false", on: { click: () => change(value) } },
      text,
    ),
  );
  const element = h(
    "div",
    { class: "step-choice", "data-control": control, "data-testid": control },
    h("span", {}, label),
    h("div", { class: "switch", role: "group", "aria-label": label }, buttons),
  );
  return {
    element,
    at(value) {
      for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.value === String(value)));
    },
  };
}

/** A button that does something at once. */
export function action({ control, text, act }) {
  return h(
    "button",
    { type: "button", class: "act-quiet", "data-control": control, "data-testid": control, on: { click: act } },
    text,
  );
}
