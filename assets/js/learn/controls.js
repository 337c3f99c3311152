/**
 * What a step of the tour lets one set, as templates. Every control has a name (data-control), by which a link can hide
 * or lock it.
 * @module learn/controls
 */

import { plain } from "../base/format.js";
import { html } from "../base/html.js";

/**
 * A slider over named positions.
 * @param {{control: string, sign: string, label: string, names: string[], position: number,
 *   change: (position: number) => void}} options
 */
export function slider({ control, sign, label, names, position, change }) {
  const last = Math.max(0, names.length - 1);
  const name = names[position] ?? "";
  const take = (/** @type {Event} */ { target }) => {
    if (target instanceof HTMLInputElement) change(target.valueAsNumber);
  };
  return html`<label class="slider step-slider">
    <span class="sign" aria-hidden="true">${sign}</span>
    <span class="track">
      <input type="range" min="0" max=${last} step="1" style="--filled: ${(100 * position) / Math.max(1, last)}%"
        aria-label=${label} aria-valuetext="${sign} = ${name}" data-control=${control} data-testid=${control}
        .value=${String(position)} @input=${take} />
    </span>
    <output aria-hidden="true">${name}</output>
  </label>`;
}

/**
 * The slider of λ.
 * @param {{lams: readonly number[], position: number, change: (lam: number) => void}} options
 */
export const lambdaSlider = ({ lams, position, change }) =>
  slider({
    control: "lambda",
    sign: "λ",
    label: "λ, weight of the penalty",
    names: lams.map(plain),
    position,
    change: (to) => change(lams[to]),
  });

/**
 * A few choices of which at most one holds.
 * @template {number|string} V
 * @param {{control: string, label: string, options: [V, string][], value: V|undefined, change: (value: V) => void}} options
 */
export function choices({ control, label, options, value, change }) {
  const button = (/** @type {[V, string]} */ [option, text]) =>
    html`<button type="button" data-value=${option} aria-pressed=${String(option === value)}
      @click=${() => change(option)}>${text}</button>`;
  return html`<div class="step-choice" data-control=${control} data-testid=${control}>
    <span aria-hidden="true">${label}</span>
    <div class="switch" role="group" aria-label=${label}>${options.map(button)}</div>
  </div>`;
}

/**
 * A button that does something at once.
 * @param {{control: string, text: string, act: () => void}} options
 */
export const action = ({ control, text, act }) =>
  html`<button type="button" class="act-quiet" data-control=${control} data-testid=${control}
    @click=${act}>${text}</button>`;
