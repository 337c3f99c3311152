/**
 * What the chosen model suggests and the form does not hold, with one button that puts it there.
 * @module suggestion_note
 */

import { html, nothing } from "../base/html.js";

/** @typedef {{title: string, value: unknown}} Suggestion */

/**
 * @param {string} model as people call it
 * @param {readonly Suggestion[]} left
 * @param {() => void} apply
 */
export function suggestionNote(model, left, apply) {
  if (!left.length) return nothing;
  const words = left.map(({ title, value }) => `${title} ${value === "" || value === null ? "empty" : value}`);
  return html`<p data-testid="suggestions" role="status">${model} suggests ${words.join(", ")}; what you
      have entered stays.</p>
    <button type="button" class="act-quiet" data-testid="apply-suggestions" @click=${apply}
      >Apply ${left.length === 1 ? "the suggestion" : `${left.length} suggestions`}</button>`;
}
