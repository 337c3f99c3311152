/**
 * The menu that makes a link: what is shown now, with controls locked or hidden by ticking them, for a lesson or a frame.
 * @module share
 */

import { copy, fill, h } from "./dom.js";

/**
 * Wires a button to its menu, which is made anew at each opening.
 * @param {HTMLElement} button
 * @param {object} options
 * @param {Object<string, string>} options.controls names and titles of what can be locked or hidden
 * @param {Object<string, string>} options.panels names and titles of what can only be hidden
 * @param {{hide: string[], lock: string[], embed: boolean}} options.link what the page was opened with
 * @param {(link: object) => string} options.address the whole address of what is shown, for a link
 */
export function shareMenu(button, { controls, panels, link, address }) {
  const chosen = { hide: new Set(link.hide), lock: new Set(link.lock), embed: link.embed };
  const field = h("input", { type: "text", readonly: true, "aria-label": "The link", "data-testid": "share-link" });
  const frame = act(
    "Copy as a frame",
    () =>
      `<iframe src="${address(asLink()).replaceAll("&", "&amp;")}" title="sarqc" width="100%" height="900"></iframe>`,
  );
  const rows = h("tbody");
  const menu = h(
    "div",
    {
      class: "share-menu",
      popover: "auto",
      id: "share-menu",
      role: "dialog",
      "aria-label": "Share what is shown",
      "data-testid": "share-menu",
    },
    h("p", { class: "share-title" }, "A link to what is shown. Tick what it keeps fixed or leaves out."),
    h(
      "div",
      { class: "share-row" },
      field,
      act("Copy link", () => address(asLink())),
    ),
    h(
      "div",
      { class: "share-row" },
      h(
        "label",
        {},
        tick("embed", chosen.embed, (on) => (chosen.embed = on)),
        " For a frame: no bar, no margins",
      ),
      frame,
    ),
    h(
      "div",
      { class: "share-scroll", tabindex: 0, role: "region", "aria-label": "Controls and figures" },
      h(
        "table",
        {},
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            ["", "Lock", "Hide"].map((title) => (title ? h("th", { scope: "col" }, title) : h("td", {}))),
          ),
        ),
        rows,
      ),
    ),
  );
  document.body.append(menu);
  button.setAttribute("aria-haspopup", "dialog");
  button.setAttribute("aria-expanded", "false");
  button.addEventListener("click", () => {
    if (!menu.togglePopover()) return;
    place();
    field.focus();
    field.select();
  });
  menu.addEventListener("beforetoggle", (event) => {
    if (event.newState !== "open") return;
    fill(
      rows,
      Object.entries(controls)
        .filter(isThere)
        .map((one) => row(one, true)),
      Object.entries(panels)
        .filter(isThere)
        .map((one) => row(one, false)),
    );
    write();
  });
  menu.addEventListener("toggle", (event) => button.setAttribute("aria-expanded", String(event.newState === "open")));

  const asLink = () => ({ hide: [...chosen.hide], lock: [...chosen.lock], embed: chosen.embed });

  function write() {
    field.value = address(asLink());
    frame.hidden = !chosen.embed;
  }

  /** Under the button, inside the window. */
  function place() {
    const box = button.getBoundingClientRect();
    menu.style.top = `${box.bottom + 4}px`;
    menu.style.right = `${Math.max(8, document.documentElement.clientWidth - box.right)}px`;
    menu.style.maxHeight = `${Math.max(240, innerHeight - box.bottom - 16)}px`;
  }

  function isThere([name]) {
    if (chosen.hide.has(name)) return true;
    return [...document.querySelectorAll(`[data-control="${name}"]`)].some((one) => one.offsetParent !== null);
  }

  function row([name, title], canLock) {
    const set = (which, other) => (on) => {
      chosen[which][on ? "add" : "delete"](name);
      if (!on) return;
      chosen[other].delete(name);
      const twin = line.querySelector(`[data-tick="${other}"]`);
      if (twin) twin.checked = false;
    };
    const line = h(
      "tr",
      {},
      h("th", { scope: "row" }, title),
      h("td", {}, canLock ? tick("lock", chosen.lock.has(name), set("lock", "hide"), `Lock ${title}`, name) : null),
      h("td", {}, tick("hide", chosen.hide.has(name), set("hide", "lock"), `Hide ${title}`, name)),
    );
    return line;
  }

  function tick(kind, checked, set, label, name = "") {
    const box = h("input", { type: "checkbox", "aria-label": label, dataset: { tick: kind, name } });
    box.checked = checked;
    box.addEventListener("change", () => {
      set(box.checked);
      write();
    });
    return box;
  }

  function act(words, text) {
    const one = h("button", { type: "button", class: "act-quiet" }, words);
    one.addEventListener("click", async () => {
      await copy(text());
      one.textContent = "Copied";
      setTimeout(() => (one.textContent = words), 1500);
    });
    return one;
  }
}
