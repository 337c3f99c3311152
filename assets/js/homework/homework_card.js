/**
 * The card of a homework in the Lab: its questions, the answers with their verdicts, and the receipt. Nothing is sent.
 * @module homework/homework_card
 */

import { copyFrom } from "../base/clipboard.js";
import { html, nothing, render } from "../base/html.js";
import { store } from "../base/page_state.js";
import { askable, factsOf, isAnswer, questionText, VERDICTS, verdictOf } from "./answers.js";
import { receiptOf, STANDINGS, standingOf } from "./receipt.js";

/** @import { Homework, QuestionName } from "../base/homework_link.js" */
/** @import { Answers, Facts } from "./answers.js" */
/**
 * @typedef {object} State
 * @property {Facts|null} facts null before there is a line with answers
 * @property {boolean} isShown whether a line is there
 * @property {Answers} answers
 * @property {Answers|null} checked the answers that were judged last
 * @property {number} tries
 * @property {string} pasted a receipt to check
 */
/**
 * @typedef {{type: "shown", facts: Facts|null} | {type: "answered", name: QuestionName, answer: string}
 *   | {type: "checked"} | {type: "pasted", text: string}} Action
 */

/** @type {State} */
export const START = { facts: null, isShown: false, answers: {}, checked: null, tries: 0, pasted: "" };

/**
 * @param {State} state
 * @param {Action} action
 * @returns {State}
 */
export function reduce(state, action) {
  switch (action.type) {
    case "shown": {
      const isSame = JSON.stringify(action.facts) === JSON.stringify(state.facts);
      if (isSame) return state.isShown ? state : { ...state, isShown: true };
      return { ...START, pasted: state.pasted, facts: action.facts, isShown: true }; // other questions
    }
    case "answered":
      return { ...state, answers: { ...state.answers, [action.name]: action.answer } };
    case "checked":
      return { ...state, checked: state.answers, tries: state.tries + 1 };
    case "pasted":
      return { ...state, pasted: action.text };
  }
}

/**
 * @param {HTMLElement} place
 * @param {Homework} homework
 */
export function homeworkCard(place, { homework, label }) {
  const { dispatch, draw } = store(START, reduce, drawn);

  /** @param {State} state */
  function drawn(state) {
    const { facts, isShown, pasted } = state;
    const standing = standingOf(pasted);
    render(
      html`<section class="card homework" data-testid="homework" aria-labelledby="homework-title">
        <h2 id="homework-title">${label || "Homework"}</h2>
        ${facts ? questions(state, facts) : isShown ? html`<p>This line has no perplexity over several λ: it can’t answer the questions.</p>` : nothing}
        <details class="homework-check"><summary>Check a receipt</summary>
          <label>Paste it here<textarea rows="8" maxlength="4000" spellcheck="false" data-testid="paste-receipt" .value=${pasted}
            @input=${(/** @type {Event & {currentTarget: HTMLTextAreaElement}} */ event) =>
              dispatch({ type: "pasted", text: event.currentTarget.value })}></textarea></label>
          <p role="status" data-testid="receipt-standing">${STANDINGS[standing]}</p>
        </details>
      </section>`,
      place,
    );
  }

  /** @param {State} state @param {Facts} facts */
  function questions({ answers, checked, tries }, facts) {
    const names = askable(homework, facts);
    const isWhole = names.every((name) => isAnswer(name, answers[name], facts));
    const isCurrent = checked !== null && names.every((name) => checked[name] === answers[name]);
    const answered = names.map((name) => ({
      name,
      answer: worded(name, answers[name] ?? ""),
      isRight: isWhole && verdictOf(name, answers[name] ?? "", facts).isRight,
    }));
    const receipt = isCurrent ? receiptOf({ label, facts, answered, tries }) : "";
    return html`<p class="homework-about">Find the answers in the figures. They are checked in this page, and nothing is sent.</p>
      <ol class="homework-questions">${names.map(
        (name) => html`<li>
        <label><span>${questionText(name, facts)}</span>${field(name, answers[name] ?? "", facts)}</label>
        ${verdict(name, isCurrent ? (answers[name] ?? "") : null, facts)}
      </li>`,
      )}</ol>
      <button type="button" class="act" data-testid="check-homework" ?disabled=${!isWhole || isCurrent}
        @click=${() => dispatch({ type: "checked" })}>Check my answers</button>
      ${
        receipt
          ? html`<div class="homework-receipt"><p>The receipt, for a form of your teacher’s:</p>
              <pre tabindex="0" role="region" aria-label="Receipt" data-testid="receipt">${receipt}</pre>
              <button type="button" class="act-quiet" data-testid="copy-receipt"
                @click=${(/** @type {Event & {currentTarget: HTMLElement}} */ event) =>
                  copyFrom(event.currentTarget, receipt)}>Copy the receipt</button></div>`
          : nothing
      }`;
  }

  /** @param {QuestionName} name @param {string} value @param {Facts} facts */
  function field(name, value, facts) {
    const set = (/** @type {Event & {currentTarget: HTMLSelectElement | HTMLInputElement}} */ { currentTarget }) =>
      dispatch({ type: "answered", name, answer: currentTarget.value });
    if (name === "drift")
      return html`<span class="homework-percent"><input type="text" inputmode="decimal" maxlength="12" autocomplete="off"
        data-answer=${name} .value=${value} @input=${set} /> %</span>`;
    const options = name === "best" ? facts.names.map((text) => [text, `λ = ${text}`]) : Object.entries(VERDICTS);
    return html`<select class="field-select" data-answer=${name} @change=${set}>
      <option value="" ?selected=${value === ""}>Choose</option>${options.map(
        ([key, text]) => html`<option value=${key} ?selected=${key === value}>${text}</option>`,
      )}</select>`;
  }

  draw();
  return {
    /** @param {import("../explorer/state.js").View} view @param {number} gamma position */
    show: (view, gamma) => dispatch({ type: "shown", facts: factsOf(view, gamma) }),
  };
}

/** An answer as the receipt has it. @param {QuestionName} name @param {string} answer */
function worded(name, answer) {
  if (name === "best") return `λ = ${answer}`;
  return name === "better" ? (VERDICTS[answer] ?? "") : `${answer.replace("%", "").trim()} %`;
}

/** @param {QuestionName} name @param {string|null} answer null before it is checked @param {Facts} facts */
function verdict(name, answer, facts) {
  const found = answer === null ? null : verdictOf(name, answer, facts);
  return html`<p class="homework-verdict ${found ? (found.isRight ? "is-right" : "is-open") : ""}" role="status"
    data-testid=${`verdict-${name}`}>${found ? `${found.isRight ? "Right." : "Not yet."} ${found.words}` : ""}</p>`;
}
