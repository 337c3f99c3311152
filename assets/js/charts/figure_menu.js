/**
 * Behind every figure: its numbers as a table and as CSV, its picture as PNG and SVG for slides, and the whole window.
 * @module figure_menu
 */

/** @import { Trace } from "./figure.d.ts" */
/** @import { FlatDrawing } from "./flat/flat_drawing.js" */
/** @import { SurfaceDrawing } from "./surface/surface_drawing.js" */

import { asProblem } from "../base/client.js";
import { download, saveAs } from "../base/dom.js";
import { count, csv, format } from "../base/format.js";
import { html, made, nothing } from "../base/html.js";
import { placeBeside } from "../base/popover.js";
import { scrolling, table } from "../base/table.js";
import { colour } from "../base/theme.js";
import { enlargeButton } from "./enlarge.js";
import { svgPicture } from "./svg_picture.js";

const ROWS = 500; // shown at most; the file has all
const PART = 10_000; // rows of the file that are asked for at once
const SCALE = 3; // pixels of a PNG for each pixel of the screen

/**
 * Numbers as a table: what stands above a column, how its values are written (format.js), and the values by key; of how
 * many rows in all, where these are a part.
 * @typedef {{columns: {key: string, title: string, kind: string}[], rows: Record<string, unknown>[], total?: number}} Numbers
 */
/** @typedef {{model: string, bits: number, method: string, grid: string, text: string}} About what numbers are of */
/** @typedef {(offset: number, limit: number) => Numbers | Promise<Numbers>} Source rows from a place on, or all of them */
/**
 * A card with a figure, such as a PlotHost.
 * @typedef {{name: string, root: HTMLElement, canvas: HTMLElement, heading: HTMLElement|null, tools: HTMLElement,
 *   flat?: FlatDrawing|null, surface?: SurfaceDrawing|null}} Card
 */

/**
 * Gives one figure its menu, and the button that lets it fill the window.
 * @param {Card} card
 * @param {{file: () => string, table: Source, about?: () => About|undefined,
 *   picture?: (kind: "png"|"svg") => Promise<string>}} options the name of what is saved, without its ending, the numbers,
 * what they are of, and the address of a picture, of the card's own drawing if nothing is said
 */
export function figureMenu(
  card,
  { file, table: numbers, about = () => undefined, picture = (kind) => pictureOf(card, kind, about()) },
) {
  const { name, heading } = card;
  const saveCsv = () => saveNumbers(file(), numbers, about());
  const save = async (/** @type {"png"|"svg"} */ kind) => saveAs(`${file()}.${kind}`, await picture(kind));
  /** @type {[name: string, work: () => Promise<void>][]} */
  const ways = [
    ["Table", async () => tableDialog(heading?.textContent ?? "", await numbers(0, ROWS), saveCsv, about())],
    ["CSV", () => saveCsv()],
    ["PNG", () => save("png")],
    ["SVG", () => save("svg")],
  ];
  const attempt = async (/** @type {() => Promise<void>} */ work) => {
    notice.textContent = "";
    try {
      await work();
      menu.hidePopover();
    } catch (error) {
      notice.textContent = `That did not work: ${asProblem(error).what}`;
    }
  };
  const menu = made(html`<div
    class="figure-menu"
    popover="auto"
    id=${`menu-${name}`}
    role="group"
    aria-label="Save ${heading?.textContent ?? "figure"}"
  >
    ${ways.map(
      ([name, work]) =>
        html`<button type="button" class="quiet" data-save=${name} @click=${() => attempt(work)}>${name}</button>`,
    )}
    <p class="figure-note" role="status"></p>
  </div>`);
  const options = card.root.querySelector(".figure-options");
  if (options instanceof HTMLElement) {
    options.hidden = false;
    menu.prepend(options);
  }
  const [first, notice] = ["[data-save]", ".figure-note"].map(
    (part) => /** @type {HTMLElement} */ (menu.querySelector(part)),
  );
  const words = options ? "Settings, numbers and pictures" : "Numbers and pictures";
  if (heading) heading.id ||= `title-${name}`;
  const button = made(html`<button
    type="button"
    class="quiet figure-button"
    id=${`save-${name}`}
    aria-label=${`${words}:`}
    aria-labelledby=${heading ? `save-${name} ${heading.id}` : nothing}
    title=${words}
    aria-expanded="false"
    aria-controls=${menu.id}
    data-testid=${`save-${name}`}
  >⋯</button>`);
  button.addEventListener("click", () => {
    if (!menu.togglePopover()) return;
    placeBeside(button, menu);
    first.focus();
  });
  menu.addEventListener("toggle", (event) =>
    button.setAttribute("aria-expanded", String(/** @type {ToggleEvent} */ (event).newState === "open")),
  );
  enlargeButton(card, options?.querySelector(".figure-enlarge") ?? card.tools);
  card.tools.append(button);
  card.root.append(menu);
}

/**
 * What a figure of curves draws, where there is no better table: one row for each point, its value as it is written.
 * @param {Trace[]} data
 * @returns {Numbers}
 */
export function drawnTable(data) {
  const rows = data
    .filter((trace) => trace.mode?.includes("lines") && trace.text?.length)
    .flatMap(({ name, yaxis, x = [], text = [] }) =>
      Array.from(x, (place, index) => ({ curve: name, panel: yaxis ?? "y", x: place, value: text[index] })),
    );
  return { columns: ["curve", "panel", "x", "value"].map((key) => ({ key, title: key, kind: "text" })), rows };
}

/**
 * What a card has drawn, with its title, on its own ground.
 * @param {Card} card
 * @param {"png"|"svg"} kind
 * @param {About} [about]
 */
async function pictureOf({ heading, flat, surface }, kind, about) {
  const drawing = surface?.made ? surface : flat;
  if (!drawing) throw new Error("The figure is not drawn yet.");
  const title = heading ? titleLines(heading) : "";
  const look = { title, foot: about && aboutText(about), ground: colour("--surface"), ink: colour("--ink") };
  return svgPicture(kind, drawing.svgText(look), SCALE);
}

/** @param {About} about */
const aboutText = ({ model, bits, method, grid, text }) =>
  [model, `${bits} bits`, method, grid, text].filter(Boolean).join(" · ");

/** The finding and the name of a figure in lines; a heading without a finding as it is. @param {HTMLElement} heading */
function titleLines(heading) {
  const parts = [...heading.querySelectorAll(".card-finding, .card-name")].map(({ textContent }) => textContent);
  return parts.filter(Boolean).join("\n") || heading.textContent;
}

/**
 * @param {string} file without its ending
 * @param {Source} numbers
 * @param {About} [about]
 */
async function saveNumbers(file, numbers, about) {
  const { columns, rows, total = rows.length } = await numbers(0, PART);
  const all = [...rows];
  while (all.length < total) {
    const { rows: more } = await numbers(all.length, PART);
    if (more.length === 0) break;
    all.push(...more);
  }
  download(`${file}.csv`, csv(columns, all, about));
}

/**
 * The numbers in a window of their own.
 * @param {string} title
 * @param {Numbers} numbers
 * @param {() => void} save as CSV
 * @param {About} [about]
 */
function tableDialog(title, numbers, save, about) {
  const { columns, rows, total = rows.length } = numbers;
  const cells = table({
    name: "numbers",
    columns: columns.map(({ key, title, kind }) => ({
      title,
      show: (/** @type {Record<string, unknown>} */ { [key]: value }) =>
        format(value, typeof value === "string" ? "text" : kind),
    })),
    rows: rows.slice(0, ROWS),
  });
  const dialog = /** @type {HTMLDialogElement} */ (
    made(html`<dialog class="figure-table" aria-label=${title} data-testid="figure-table">
      <header>
        <h2>${title}</h2>
        <button type="button" class="quiet" @click=${save}>Download CSV</button>
        <button type="button" class="quiet" @click=${() => dialog.close()}>Close</button>
      </header>
      ${about ? html`<p class="card-note">${aboutText(about)}</p>` : nothing}
      ${
        total > ROWS
          ? html`<p class="card-note">The first ${ROWS} of ${count(total)} rows; the CSV has all.</p>`
          : nothing
      }
      ${scrolling("Table of the numbers", cells)}
    </dialog>`)
  );
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
