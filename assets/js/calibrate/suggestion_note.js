/**
 * What the chosen model has changed in the form, and what it suggests and the form does not hold; each with a button.
 * @module suggestion_note
 */

import { html, nothing } from "../base/html.js";
import { tr, trCount } from "../base/messages.js";

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
  const words = left.map(({ title, value }) => `${tr(title)} ${held(value)}`);
  return html`<p data-testid="suggestions" role="status">${tr(
    "{model} suggests {values}; what you have entered stays.",
    { model, values: words.join(", ") },
  )}</p>
    <button type="button" class="act-quiet" data-testid="apply-suggestions" @click=${apply}
      >${trCount("Apply the suggestion", "Apply {count} suggestions", left.length)}</button>`;
}

/**
 * @param {string} model as people call it
 * @param {readonly Altered[]} changes
 * @param {() => void} undo
 */
export function changeNote(model, changes, undo) {
  if (!changes.length) return nothing;
  const words = changes.map(({ title, before, now }) => `${tr(title)} ${held(before)} → ${held(now)}`);
  return html`<p data-testid="changed-with-model" role="status">${tr("Changed for {model}: {changes}.", {
    model,
    changes: words.join(", "),
  })}</p>
    <button type="button" class="act-quiet" data-testid="undo-changes" @click=${undo}>${tr("Change back")}</button>`;
}

/** What a field holds, as it stands there. @param {unknown} value */
function held(value) {
  const text = String(value ?? "");
  if (text === "") return tr("empty");
  return text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text;
}
