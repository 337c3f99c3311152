/**
 * Motion on a page: none under reduced motion, none in a hidden tab.
 * @module motion
 */

/** True where what changes is at its new place at once. */
export const isStill = () => document.hidden || matchMedia("(prefers-reduced-motion: reduce)").matches;

/** How a page scrolls to a place. @returns {"auto" | "smooth"} */
export const scrollBehavior = () => (isStill() ? "auto" : "smooth");

/**
 * Calls back in each frame with the share of the way, fast at first and slower towards the end; the last share is 1.
 * @param {number} milliseconds of the way
 * @param {(share: number) => void} step
 * @returns {() => void} stops on the way
 */
export function onTheWay(milliseconds, step) {
  const start = performance.now();
  let frame = requestAnimationFrame(function next(now) {
    const share = Math.min(1, Math.max(0, (now - start) / milliseconds));
    if (share < 1) frame = requestAnimationFrame(next);
    step(1 - (1 - share) ** 3);
  });
  return () => cancelAnimationFrame(frame);
}
