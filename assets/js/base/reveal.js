/**
 * A part of a page whose pieces come one by one, seen when it is whole: nothing moves under a reader's eyes. What is
 * seen before, the styles say (`:not(.is-built)`); they also show the part after a while if no script ever does.
 * @module reveal
 */

const QUIET_MS = 100; // its size has not changed for so long
const MOST_MS = 4000; // and is shown at the latest then

/**
 * Marks an element as built (class `is-built`) once its size rests.
 * @param {HTMLElement} element what is marked
 * @param {Element} grows what is watched: the part of it that grows
 * @returns {Promise<void>} when it was marked
 */
export function revealWhenAtRest(element, grows) {
  return new Promise((resolve) => {
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    let quiet;
    const show = () => {
      watch.disconnect();
      clearTimeout(quiet);
      clearTimeout(most);
      element.classList.add("is-built");
      resolve();
    };
    const most = setTimeout(show, MOST_MS);
    const watch = new ResizeObserver(() => {
      clearTimeout(quiet);
      quiet = setTimeout(show, QUIET_MS);
    });
    watch.observe(grows); // which tells the first size too
  });
}
