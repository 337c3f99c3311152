/**
 * Figures on paper: a sheet has another size than the window, and while it is printed no figure is drawn anew. So a sheet is
 * as wide as the window, which the browser or the printer makes as large as the paper, and each card keeps its height.
 * @module paper
 */

const LONG_SIDE = Math.SQRT2; // of a sheet of a size A, in short ones
const WIDE_FROM = 901; // pixels of the window, as in lab.css
const MARGIN = 16; // pixels

/**
 * The sheet for a window.
 * @param {number} width pixels
 */
export function sheetFor(width) {
  const across = width + 2 * MARGIN;
  const down = Math.round(width < WIDE_FROM ? across * LONG_SIDE : across / LONG_SIDE);
  return `@page { size: ${across}px ${down}px; margin: ${MARGIN}px; }`;
}

/** @param {Iterable<{root: HTMLElement}>} figures all of the page, asked whenever it is printed */
export function keepSizes(figures) {
  const { documentElement: page } = document;
  const sheet = document.createElement("style");
  window.addEventListener("beforeprint", () => {
    const width = page.clientWidth;
    page.dataset.paper = width < WIDE_FROM ? "narrow" : "wide";
    sheet.textContent = sheetFor(width);
    document.head.append(sheet);
    const heights = [...figures].map(({ root }) => /** @type {const} */ ([root, root.offsetHeight]));
    for (const [root, height] of heights) root.style.height = height ? `${height}px` : "";
  });
  window.addEventListener("afterprint", () => {
    sheet.remove();
    delete page.dataset.paper;
    for (const { root } of figures) root.style.height = "";
  });
}
