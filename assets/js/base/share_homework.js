/**
 * The panel of the Share menu where a teacher chooses the questions of a homework link.
 * @module base/share_homework
 */

import { LABEL_LENGTH, QUESTION_NAMES, QUESTIONS } from "./homework_link.js";
import { html } from "./html.js";

/** @import { Homework, QuestionName } from "./homework_link.js" */

/**
 * @param {Homework} chosen
 * @param {(change: Partial<Homework>) => void} choose
 */
export function homeworkPanel({ homework, label }, choose) {
  /** @param {QuestionName} name @param {boolean} isOn */
  const toggle = (name, isOn) =>
    choose({ homework: QUESTION_NAMES.filter((one) => (one === name ? isOn : homework.includes(one))) });
  return html`<fieldset class="share-homework" data-testid="share-homework">
    <legend>Questions that the page asks and checks</legend>
    ${QUESTION_NAMES.map(
      (name) => html`<label><input type="checkbox" data-question=${name} .checked=${homework.includes(name)}
        @change=${(/** @type {Event & {currentTarget: HTMLInputElement}} */ event) =>
          toggle(name, event.currentTarget.checked)} /> ${QUESTIONS[name]}</label>`,
    )}
    <label class="share-label">Name of the task <input type="text" maxlength=${LABEL_LENGTH} data-testid="homework-label"
      .value=${label} ?disabled=${!homework.length}
      @input=${(/** @type {Event & {currentTarget: HTMLInputElement}} */ event) =>
        choose({ label: event.currentTarget.value })} /></label>
  </fieldset>`;
}
