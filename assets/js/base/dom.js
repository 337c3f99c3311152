/**
 * Making elements. Text always goes in as text: nothing here parses markup.
 * @module dom
 */

export { copy } from "./clipboard.js";

/**
 * An element with attributes and children. `class`, `dataset` and `on` (event → handler) are understood; attributes
 * whose value is null, undefined or false are left out.
 * @param {string} tag
 * @param {Object<string, any>} [attributes]
 * @param {...any} children
 * @returns {HTMLElement}
 */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") for (const [event, handler] of Object.entries(value)) element.addEventListener(event, handler);
    else if (name === "dataset") Object.assign(element.dataset, value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  fill(element, ...children);
  return element;
}

/**
 * Replaces all children of an element.
 * @template {Element} E
 * @param {E} element
 * @param {...any} children
 * @returns {E}
 */
export function fill(element, ...children) {
  element.replaceChildren(...nodes(children));
  return element;
}

/** @param {any[]} children @returns {Node[]} */
const nodes = (children) =>
  children
    .flat(Infinity)
    .filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (child instanceof Node ? child : document.createTextNode(String(child))));

/**
 * As `fill`, for words that change often: where only texts differ, the elements stay and take the new texts. Nothing is
 * then taken out of the page, which would make the browser match all its styles again.
 * @template {Element} E
 * @param {E} element
 * @param {...any} children
 * @returns {E}
 */
export function refill(element, ...children) {
  const [before, after] = [[...element.childNodes], nodes(children)];
  if (before.length === after.length && before.every((node, index) => alike(node, after[index])))
    before.forEach((node, index) => takeTexts(node, after[index]));
  else element.replaceChildren(...after);
  return element;
}

/** @param {Node} a @param {Node} b @returns {boolean} */
function alike(a, b) {
  if (a.nodeName !== b.nodeName || a.childNodes.length !== b.childNodes.length) return false;
  if (!(a instanceof Element && b instanceof Element)) return true;
  if (
    a.attributes.length !== b.attributes.length ||
    [...a.attributes].some(({ name, value }) => b.getAttribute(name) !== value)
  )
    return false;
  return [...a.childNodes].every((child, index) => alike(child, b.childNodes[index]));
}

/** @param {Node} to @param {Node} from */
function takeTexts(to, from) {
  if (!(to instanceof Text && from instanceof Text))
    to.childNodes.forEach((child, index) => takeTexts(child, from.childNodes[index]));
  else if (to.data !== from.data) to.data = from.data;
}

/**
 * Sets the text of an element only when it differs, so that screen readers are not told twice.
 * @param {Element | null | undefined} element
 * @param {string} text
 */
export function say(element, text) {
  if (!element || element.textContent === text) return;
  const [first, ...more] = element.childNodes;
  // A text that stays in its place keeps the browser from matching all styles again.
  if (first instanceof Text && !more.length) first.data = text;
  else element.textContent = text;
}

/**
 * Waits for an element that another component renders.
 * @param {string} selector
 * @returns {Promise<HTMLElement>}
 */
export function ready(selector) {
  /** @type {HTMLElement | null} */
  const there = document.querySelector(selector);
  if (there) return Promise.resolve(there);
  return new Promise((resolve) => {
    const observer = new MutationObserver(() => {
      /** @type {HTMLElement | null} */
      const element = document.querySelector(selector);
      if (element) {
        observer.disconnect();
        resolve(element);
      }
    });
    observer.observe(document.documentElement, { childList: true, subtree: true });
  });
}

/**
 * True while the person is typing somewhere, so that arrow keys belong to that field.
 * @param {EventTarget | null} target
 */
export function isTyping(target) {
  if (!(target instanceof HTMLElement)) return false;
  if (target.isContentEditable) return true;
  const tag = target.tagName;
  if (tag === "TEXTAREA" || tag === "SELECT") return true;
  return tag === "INPUT" && !["range", "checkbox", "radio", "button"].includes(target.getAttribute("type") ?? "text");
}

/**
 * Offers what is at an address as a file to save.
 * @param {string} name
 * @param {string} url
 */
export function saveAs(name, url) {
  const link = document.createElement("a");
  Object.assign(link, { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
}

/**
 * Offers a text as a file to save.
 * @param {string} name
 * @param {string} text
 * @param {string} [type]
 */
export function download(name, text, type = "text/csv;charset=utf-8") {
  const url = URL.createObjectURL(new Blob([text], { type }));
  saveAs(name, url);
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

/**
 * An error in its three parts, as a block that every page shows alike.
 * @param {import("./problem.js").Trouble} trouble
 * @param {Object<string, any>} [attributes]
 */
export function problem({ what, where, remedy }, attributes = {}) {
  return h(
    "div",
    { class: "problem", role: "alert", "data-testid": "problem", ...attributes },
    h("p", { class: "problem-what" }, what || "Something went wrong"),
    where ? h("p", { class: "problem-where" }, where) : null,
    remedy ? h("p", { class: "problem-remedy" }, remedy) : null,
  );
}
