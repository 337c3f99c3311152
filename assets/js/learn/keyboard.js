/**
 * Keys that lead through the tour.
 * @module learn/keyboard
 */

/**
 * Which way a key leads: 1 for → and space, −1 for ← and shift with space, 0 where it belongs to what has the focus.
 * @param {Pick<KeyboardEvent, "key"|"shiftKey"|"altKey"|"ctrlKey"|"metaKey"|"defaultPrevented"|"target">} event
 */
export function wayOf(event) {
  if (event.defaultPrevented || event.altKey || event.ctrlKey || event.metaKey) return 0;
  const focused = /** @type {Partial<Element>|null} */ (event.target); // the document has no closest
  const own = (/** @type {string} */ selector) => Boolean(focused?.closest?.(selector));
  if (own("input, select, textarea, [contenteditable], [role=slider]")) return 0;
  if (event.key === "ArrowRight" && !event.shiftKey) return 1;
  if (event.key === "ArrowLeft" && !event.shiftKey) return -1;
  if (event.key === " " && !own("button, summary, a, [role=checkbox], .table-scroll")) return event.shiftKey ? -1 : 1;
  return 0;
}
