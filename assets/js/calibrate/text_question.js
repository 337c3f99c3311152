/**
 * On what text a model will be used: asked for a model that suggests none, in place of a plan.
 * @module calibrate/text_question
 */

import { button, html } from "../base/html.js";

/** @import { CorpusEntry } from "../base/types.d.ts" */
/** @typedef {Pick<CorpusEntry, "name" | "title" | "role" | "where" | "source" | "here">} Corpus */
/** @typedef {{title: string, calibration: string, test: string}} Choice a text to calibrate on, and the one to test on */

/**
 * The texts that are on this host and were not written by a model: one's own, those of its folders and its data sets. A data set
 * without a part for testing is taken in halves, as a text of one's own is.
 * @param {readonly {name: string, title: string}[]} own
 * @param {readonly Corpus[]} corpora
 * @returns {Choice[]}
 */
export function textsToChoose(own, corpora) {
  const whole = (/** @type {string} */ name, /** @type {string} */ title) => ({ title, calibration: name, test: name });
  const offered = corpora.filter(({ where, role, here }) => where !== "embedded" && here && role !== "test");
  return [
    ...own.map(({ name, title }) => whole(name, ownTitle(title))),
    ...offered
      .filter(({ role }) => role === "any" || role === "calibration")
      .map(({ name, title, source, role }) => {
        const test = corpora.find((other) => other.source === source && other.role === "test" && other.here);
        return role === "any" || !test ? whole(name, title) : { title, calibration: name, test: test.name };
      }),
  ];
}

/** What a text of one's own is called beside those of the host. @param {string} title */
export const ownTitle = (title) => `${title} · yours`;

/** @param {string} model as people call it; may be empty */
export const questionOf = (model) => `On what text will ${model || "the model"} be used?`;

/**
 * @param {string} model as people call it
 * @param {readonly Choice[]} choices
 * @param {{choose: (choice: Choice) => void, bring: () => void}} acts
 */
export const textQuestion = (model, choices, { choose, bring }) =>
  html`<div class="text-question" data-testid="text-question" role="status">
    <h3>${questionOf(model)}</h3>
    <p>λ and perplexity are those of a text. Choose text like what the model will read: one part calibrates, the other tests.</p>
    <div class="text-choices">${choices.map(
      (choice) =>
        html`<button type="button" class="act-quiet" data-testid="text-choice" data-text=${choice.calibration}
          @click=${() => choose(choice)}>${choice.title}</button>`,
    )}${button("Upload your text", "text-bring", bring, "act-quiet")}</div>
    <p class="small-print">Or choose any other under “On what text”.</p>
  </div>`;
