/**
 * What the chosen model has changed in the form, and what it suggests and the form does not hold; each with a button.
 * @module suggestion_note
 */

import { button, html, nothing } from "../base/html.js";

/** @import { Altered } from "./suggestions.js" */
/** @typedef {{title: string, value: unknown}} Suggestion */

const LONGEST = 24; // characters of a value in the note

/**
 * @param {string} model as people call it
 * @param {readonly Suggestion[]} left
 * @param {() => void} apply
 */
export function suggestionNote(model, left, apply) {
  if (!left.length) return nothing;
  const words = left.map(({ title, value }) => `${title} ${held(value)}`);
  return html`<p data-testid="suggestions" role="status">${model} suggests ${words.join(", ")}; what you have entered stays.</p>
    ${button(left.length === 1 ? "Apply the suggestion" : `Apply ${left.length} suggestions`, "apply-suggestions", apply, "act-quiet")}`;
}

/**
 * @param {string} model as people call it
 * @param {readonly Altered[]} changes
 * @param {() => void} undo
 */
export function changeNote(model, changes, undo) {
  if (!changes.length) return nothing;
  const words = changes.map(({ title, before, now }) => `${title} ${held(before)} → ${held(now)}`);
  return html`<p data-testid="changed-with-model" role="status">Changed for ${model}: ${words.join(", ")}.</p>
    ${button("Change back", "undo-changes", undo, "act-quiet")}`;
}

/**
 * What the form keeps beside its fields, with a button that takes it out.
 * @param {readonly Suggestion[]} kept
 * @param {() => void} remove
 */
export const alsoSetNote = (kept, remove) =>
  kept.length
    ? html`<p>Also set: ${kept.map(({ title, value }) => `${title} ${held(value)}`).join(", ")}.</p>
        ${button("Use the defaults", "also-set-remove", remove, "act-quiet")}`
    : nothing;

/** What a field holds, as it stands there. @param {unknown} value */
function held(value) {
  const text = String(value ?? "");
  if (text === "") return "empty";
  return text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text;
}
