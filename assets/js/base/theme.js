/**
 * Light and dark: the person's choice if there is one, else the system's. In a frame it is that of the link, else of the
 * page around it. Gradio's `dark` class follows.
 * @module theme
 */

import { link } from "./link.js";

const KEY = "sarqc-theme";
const system = () => matchMedia("(prefers-color-scheme: dark)");
/** @type {Set<(isDark: boolean) => void>} */
const listeners = new Set();

function chosen() {
  if (link.embed) return link.theme || null;
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
}

let isPrinting = false;

/** True while the page is dark, which paper never is. */
function isDark() {
  if (isPrinting) return false;
  const choice = chosen();
  return choice ? choice === "dark" : system().matches;
}

/** Puts the theme on the document and tells those who draw with colours. */
function apply() {
  const dark = isDark();
  const changed = document.documentElement.dataset.theme !== (dark ? "dark" : "light");
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  document.body.classList.toggle("dark", dark);
  if (changed) for (const listener of listeners) listener(dark);
}

/**
 * Calls back after each change of theme.
 * @param {(isDark: boolean) => void} listener
 */
export function onTheme(listener) {
  listeners.add(listener);
}

/** The other theme, remembered. */
export function toggle() {
  try {
    localStorage.setItem(KEY, isDark() ? "light" : "dark");
  } catch {
    // Without storage the choice holds for this page only.
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  }
  apply();
}

/**
 * Value of a colour of base.css, e.g. colour("--quality").
 * @param {string} name
 */
export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim() || "#808080";
}

/**
 * Wires the top bar's button; called once per page.
 * @param {Element} element
 */
export function mount(element) {
  apply();
  system().addEventListener("change", apply);
  for (const [event, now] of /** @type {const} */ ([
    ["beforeprint", true],
    ["afterprint", false],
  ])) {
    window.addEventListener(event, () => {
      isPrinting = now;
      apply();
    });
  }
  // Gradio sets the class by itself once it has started; ours decides.
  new MutationObserver(() => {
    if (document.body.classList.contains("dark") !== isDark()) document.body.classList.toggle("dark", isDark());
  }).observe(document.body, { attributes: true, attributeFilter: ["class"] });
  element.querySelector("[data-action=theme]")?.addEventListener("click", toggle);
}
