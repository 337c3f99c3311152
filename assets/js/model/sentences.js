/**
 * Candidate sentences from a text.
 * @module model/sentences
 */

const LEAST = 6; // words of a sentence
const MOST = 24;

/**
 * Whole sentences of moderate length, evenly spread over a text, each once.
 * @param {string} text
 * @param {number} count at most
 */
export function sentencesOf(text, count) {
  const every = text
    .split("\n")
    .flatMap((line) => line.split(/(?<=[.!?]) /))
    .map((sentence) => sentence.trim())
    .filter((sentence) => /^[A-Z].*[.!?]$/.test(sentence))
    .filter((sentence) => {
      const words = sentence.split(" ").length;
      return words >= LEAST && words <= MOST;
    });
  const whole = [...new Set(every)];
  const step = Math.max(1, whole.length / count);
  return Array.from({ length: Math.min(count, whole.length) }, (_, i) => whole[Math.floor(i * step)]);
}
