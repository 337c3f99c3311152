/**
 * The questions of a homework link: which there are, and how an address says them. Pure: no DOM.
 * @module base/homework_link
 */

/** @typedef {"best" | "better" | "drift"} QuestionName */
/** @typedef {{homework: QuestionName[], label: string}} Homework */

/** What each question asks for, for the teacher. @type {Readonly<Record<QuestionName, string>>} */
export const QUESTIONS = {
  best: "Which λ is best?",
  better: "Is it significantly better than the baseline?",
  drift: "By how much did drift fall?",
};
/** @type {QuestionName[]} */
export const QUESTION_NAMES = ["best", "better", "drift"];
export const LABEL_LENGTH = 60;
const LABEL = /^[\p{L}\p{M}\p{N}\p{P}\p{S} ]{1,60}$/u; // nothing that turns or hides what stands around it

/**
 * Reads the questions of an address; each once, in the order of the page.
 * @param {URLSearchParams} given
 * @returns {Homework & {problems: string[]}}
 */
export function readHomework(given) {
  /** @type {string[]} */
  const problems = [];
  const wanted = (given.get("homework") ?? "").split(",").filter(Boolean);
  const homework = QUESTION_NAMES.filter((name) => wanted.includes(name));
  if (wanted.some((name) => !QUESTION_NAMES.some((known) => known === name)))
    problems.push(
      `“homework” must be some of ${QUESTION_NAMES.join(", ")}, joined by commas; other names are ignored.`,
    );
  const text = (given.get("label") ?? "").trim();
  const fits = LABEL.test(text);
  if (text && !fits) problems.push(`“label” is ignored: it must be up to ${LABEL_LENGTH} letters, digits and signs.`);
  return { homework, label: fits ? text : "", problems };
}

/**
 * Writes the questions into an address; a label without questions means nothing.
 * @param {URLSearchParams} query
 * @param {Partial<Homework>} link
 */
export function writeHomework(query, { homework = [], label = "" }) {
  if (!homework.length) return;
  query.set("homework", homework.join(","));
  if (LABEL.test(label.trim())) query.set("label", label.trim());
}
