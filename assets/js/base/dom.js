/**
 * What pages do with the document beside drawing: waiting for an element, saying a word, saving a file.
 * @module dom
 */

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
 * Offers a text, or a file that is in memory, to save.
 * @param {string} name
 * @param {string|Blob} text
 * @param {string} [type]
 */
export function download(name, text, type = "text/csv;charset=utf-8") {
  const url = URL.createObjectURL(new Blob([text], { type }));
  saveAs(name, url);
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
