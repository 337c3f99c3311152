/**
 * Size against quality of the picked runs, or of all that the list has: a figure that the server makes.
 * @module runs/pareto_card
 */

import { asProblem, request } from "../base/client.js";
import { html, render } from "../base/html.js";
import { problemBlock } from "../base/problem.js";
import { at } from "../base/site.js";
import { drawnTable, figureMenu } from "../charts/figure_menu.js";
import { plot } from "../charts/plot_host.js";

/** @type {{search: URLSearchParams, size: string}} what the figure shows */
const shown = { search: new URLSearchParams(), size: "bits" };
let isReady = false;

/**
 * Shows the card with a figure of some runs.
 * @param {URLSearchParams} search which runs, as the list asks for them
 */
export async function showPareto(search) {
  const section = /** @type {HTMLElement} */ (document.querySelector(".pareto"));
  section.classList.add("is-shown");
  shown.search = search;
  if (!isReady) await prepare(section);
  await draw(section);
}

/** @param {HTMLElement} section */
async function prepare(section) {
  isReady = true;
  for (const button of /** @type {NodeListOf<HTMLElement>} */ (section.querySelectorAll(".switch button")))
    button.addEventListener("click", () => {
      shown.size = button.dataset.size ?? shown.size;
      draw(section);
    });
  const host = await plot("pareto");
  figureMenu(host, { file: () => "size-against-quality", table: () => drawnTable(host.canvas.data) });
  host.onClick(({ points }) => {
    const run = /** @type {any} */ (points[0])?.customdata;
    if (run) location.assign(at(`/calibrate?run=${encodeURIComponent(run)}`));
  });
}

/** @param {HTMLElement} section */
async function draw(section) {
  for (const button of /** @type {NodeListOf<HTMLElement>} */ (section.querySelectorAll(".switch button")))
    button.setAttribute("aria-pressed", String(button.dataset.size === shown.size));
  const words = /** @type {HTMLElement} */ (section.querySelector('[data-part="pareto-words"]'));
  const card = /** @type {HTMLElement} */ (section.querySelector('[data-plot="pareto"]'));
  const search = new URLSearchParams(shown.search);
  search.set("size", shown.size);
  const host = await plot("pareto");
  try {
    const view = await request(`/runs/pareto?${search}`);
    card.classList.remove("is-off");
    render(html`<p>${view.words} A click on a point opens its run.</p>`, words);
    host.show(view.figure);
  } catch (error) {
    host.show(null);
    render(problemBlock(asProblem(error)), words);
  }
}
