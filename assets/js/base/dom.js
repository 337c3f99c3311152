/**
 * Making elements. Text always goes in as text: nothing here parses markup.
 * @module dom
 */

/**
 * An element with attributes and children. `class`, `dataset` and `on` (event → handler) are understood; attributes
 * whose value is null, undefined or false are left out.
 * @param {string} tag
 * @param {Object<string, any>} [attributes]
 * @param {...(Node|string|number|null|undefined|false|Array)} children
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

/** Replaces all children of an element. */
export function fill(element, ...children) {
  element.replaceChildren(...nodes(children));
  return element;
}

const nodes = (children) =>
  children
    .flat(Infinity)
    .filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (child instanceof Node ? child : document.createTextNode(String(child))));

/**
 * As `fill`, for words that change often: where only texts differ, the elements stay and take the new texts. Nothing is
 * then taken out of the page, which would make the browser match all its styles again.
 */
export function refill(element, ...children) {
  const [before, after] = [[...element.childNodes], nodes(children)];
  if (before.length === after.length && before.every((node, index) => alike(node, after[index])))
    before.forEach((node, index) => takeTexts(node, after[index]));
  else element.replaceChildren(...after);
  return element;
}

function alike(a, b) {
  if (a.nodeName !== b.nodeName || a.childNodes.length !== b.childNodes.length) return false;
  if (a.nodeType === Node.TEXT_NODE) return true;
  if (
    a.attributes.length !== b.attributes.length ||
    [...a.attributes].some(({ name, value }) => b.getAttribute(name) !== value)
  )
    return false;
  return [...a.childNodes].every((child, index) => alike(child, b.childNodes[index]));
}

function takeTexts(to, from) {
  if (to.nodeType !== Node.TEXT_NODE) to.childNodes.forEach((child, index) => takeTexts(child, from.childNodes[index]));
  else if (to.data !== from.data) to.data = from.data;
}

/** Sets the text of an element only when it differs, so that screen readers are not told twice. */
export function say(element, text) {
  if (element && element.textContent !== text) refill(element, text);
}

/**
 * Waits for an element that another component renders.
 * @param {string} selector
 * @returns {Promise<HTMLElement>}
 */
export function ready(selector) {
  const found = document.querySelector(selector);
  if (found) return Promise.resolve(found);
  return new Promise((resolve) => {
    const observer = new MutationObserver(() => {
      const element = document.querySelector(selector);
      if (element) {
        observer.disconnect();
        resolve(element);
      }
    });
    observer.observe(document.documentElement, { childList: true, subtree: true });
  });
}

/** True while the person is typing somewhere, so that arrow keys belong to that field. */
export function isTyping(target) {
  if (!(target instanceof HTMLElement)) return false;
  if (target.isContentEditable) return true;
  const tag = target.tagName;
  if (tag === "TEXTAREA" || tag === "SELECT") return true;
  return tag === "INPUT" && !["range", "checkbox", "radio", "button"].includes(target.getAttribute("type") ?? "text");
}

/** Copies text; falls back to a hidden field where the clipboard needs a secure context. */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = h("textarea", { "aria-hidden": "true", style: "position:fixed;left:-9999px;top:0" });
    field.value = text;
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    return done;
  }
}

/** Offers what is at an address as a file to save. */
export function saveAs(name, url) {
  const link = h("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
}

/** Offers a text as a file to save. */
export function download(name, text, type = "text/csv;charset=utf-8") {
  const url = URL.createObjectURL(new Blob([text], { type }));
  saveAs(name, url);
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

/** An error in its three parts, as a block that every page shows alike. */
export function problem({ what, where, remedy }, attributes = {}) {
  return h(
    "div",
    { class: "problem", role: "alert", "data-testid": "problem", ...attributes },
    h("p", { class: "problem-what" }, what || "Something went wrong"),
    where ? h("p", { class: "problem-where" }, where) : null,
    remedy ? h("p", { class: "problem-remedy" }, remedy) : null,
  );
}
