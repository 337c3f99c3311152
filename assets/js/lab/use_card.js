/**
 * Use these settings: the point that the Lab shows as a run, in the form of Calibrate or as text to take elsewhere.
 * @module use_card
 */

import { copyPanel } from "../base/copy_panel.js";
import { html, nothing, render } from "../base/html.js";
import { popover } from "../base/popover.js";
import { calibrateLink } from "../base/recipe_address.js";
import { describe } from "../calibrate/recipe_form.js";

/** @import { Point } from "../charts/bind.js" */
/** @import { View } from "../explorer/state.js" */

/**
 * The recipe of a point; null where no run can be made of its line.
 * @param {Pick<View, "as_recipe">} view
 * @param {Point} at
 * @returns {Record<string, any> | null}
 */
export function recipeAt({ as_recipe: { recipe, lams, gammas, second } }, at) {
  if (!recipe) return null;
  const [lambda, gamma] = [lams[at.lambda] ?? null, gammas[at.gamma] ?? null];
  return { ...recipe, ...(lambda === null ? {} : { lambda }), ...(gamma === null ? {} : { [second]: gamma }) };
}

/**
 * Wires the button to its card, which takes at each opening what is shown then.
 * @param {HTMLElement} button
 * @param {() => {view: View, at: Point} | null} shown
 */
export function useCard(button, shown) {
  const texts = copyPanel("use", "As text, to run elsewhere");
  const card = popover(button, { id: "use-card", label: "Use these settings", classes: "use-card" });
  button.addEventListener("click", () => {
    const now = shown();
    if (!now || card.matches(":popover-open")) return;
    draw(now);
    card.showPopover();
    place();
    card.querySelector("a")?.focus();
  });

  /** @param {{view: View, at: Point}} now */
  function draw({ view, at }) {
    const recipe = recipeAt(view, at);
    const { effort, left } = view.as_recipe;
    const run = recipe && describe({ bits: view.line.bits, method: view.line.method, ...recipe });
    texts.show(recipe, { study: view.study.id, line: view.line.name });
    render(
      html`<p class="share-title">${run ? `A run of ${run}${effort ? `; effort: ${effort}` : ""}.` : nothing}</p>
        ${left.length ? html`<div class="link-note"><ul>${left.map((words) => html`<li>${words}</li>`)}</ul></div>` : nothing}
        ${recipe ? html`<p><a class="act" href=${calibrateLink(recipe)} data-testid="use-form">Open in Calibrate</a></p>` : nothing}
        ${texts.element}`,
      card,
    );
  }

  /** Under the button, inside the window. */
  function place() {
    const box = button.getBoundingClientRect();
    const wide = document.documentElement.clientWidth;
    const top = Math.max(8, Math.min(box.bottom + 4, innerHeight - card.offsetHeight - 8));
    card.style.top = `${top}px`;
    card.style.maxHeight = `${innerHeight - top - 8}px`; // more text is scrolled to
    card.style.right = `${Math.max(8, Math.min(wide - box.right, wide - card.offsetWidth - 8))}px`;
  }
}
