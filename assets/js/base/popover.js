/**
 * A card over the page that a button opens, which says to readers of the screen whether it is open.
 * @module base/popover
 */

/**
 * Makes the card, empty and closed. Who opens it puts it in its place: a popover has none of its own.
 * @param {HTMLElement} button that opens it
 * @param {{id: string, label: string, classes?: string}} options
 */
export function popover(button, { id, label, classes = "" }) {
  const card = document.createElement("div");
  Object.assign(card, { className: `share-menu ${classes}`.trim(), popover: "auto", id, role: "dialog" });
  card.setAttribute("aria-label", label);
  card.dataset.testid = id;
  document.body.append(card);
  button.setAttribute("aria-haspopup", "dialog");
  button.setAttribute("aria-expanded", "false");
  card.addEventListener("toggle", (event) => button.setAttribute("aria-expanded", String(event.newState === "open")));
  return card;
}
