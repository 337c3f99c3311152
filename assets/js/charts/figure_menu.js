/**
 * Behind every figure: its numbers as a table and as CSV, and its picture as PNG and SVG for slides.
 * @module figure_menu
 */

import { request } from "../base/client.js";
import { download, fill, h, saveAs } from "../base/dom.js";
import { csv, format } from "../base/format.js";
import { colour } from "../base/theme.js";
import { scenesOf } from "./plotly_internals.js";

const ROWS = 500; // shown at most; the file has all
const SCALE = 3; // pixels of a PNG for each pixel of the screen
const TITLE = 30; // pixels above the picture for the card's title
const FROM_SCREEN = ["surfaces", "surfaces_flat"]; // their numbers are the array that the page holds

/**
 * Gives every figure of an explorer its menu.
 * @param {object} explorer
 */
export function figureMenus(explorer) {
  for (const [name, host] of Object.entries(explorer.hosts)) {
    figureMenu(host, {
      file: () => {
        const { study, line } = explorer.view;
        return `${study.id}-${line.name}-${line.bits}bit-${name.replace("_flat", "")}`;
      },
      table: () => (FROM_SCREEN.includes(name) ? cells(explorer) : asked(explorer.view, name)),
    });
  }
}

/**
 * Gives one figure its menu.
 * @param {object} host of plot_host.js
 * @param {{file: () => string, table: () => {columns: object[], rows: object[]} | Promise<object>,
 *   picture?: (kind: "png"|"svg") => Promise<string>}} options the name of what is saved, without its ending, the numbers,
 * and the address of a picture, of plotly's drawing if nothing is said
 */
export function figureMenu(host, { file, table, picture = (kind) => plotlyPicture(host, kind) }) {
  const id = `menu-${host.name}`;
  const notice = h("p", { class: "figure-note", role: "status" });
  const doing = (work) => async () => {
    fill(notice);
    try {
      await work();
      menu.hidePopover();
    } catch (error) {
      fill(notice, `That did not work: ${error.what ?? error.message}`);
    }
  };
  const save = async (kind) => saveAs(`${file()}.${kind}`, await picture(kind));
  const item = (words, work) =>
    h("button", { type: "button", class: "quiet", dataset: { save: words }, on: { click: doing(work) } }, words);
  const svg = item("SVG", () => save("svg"));
  const menu = h(
    "div",
    {
      class: "figure-menu",
      popover: "auto",
      id,
      role: "group",
      "aria-label": `Save ${host.heading?.textContent ?? "figure"}`,
    },
    item("Table", async () => tableDialog(host.heading?.textContent ?? "", await table(), file())),
    item("CSV", async () => {
      const { columns, rows } = await table();
      download(`${file()}.csv`, csv(columns, rows));
    }),
    item("PNG", () => save("png")),
    svg,
    notice,
  );
  const button = h(
    "button",
    {
      type: "button",
      class: "quiet figure-button",
      "aria-label": "Numbers and pictures of this figure",
      title: "Numbers and pictures of this figure",
      "aria-expanded": "false",
      "aria-controls": id,
      "data-testid": `save-${host.name}`,
    },
    "⋯",
  );
  button.addEventListener("click", () => {
    if (!menu.togglePopover()) return;
    const box = button.getBoundingClientRect();
    const fits = box.bottom + 4 + menu.offsetHeight <= innerHeight;
    menu.style.top = `${fits ? box.bottom + 4 : Math.max(8, box.top - 4 - menu.offsetHeight)}px`;
    menu.style.right = `${Math.max(8, document.documentElement.clientWidth - box.right)}px`;
    menu.querySelector("button").focus();
  });
  menu.addEventListener("beforetoggle", () => {
    svg.hidden = scenesOf(host.canvas).length > 0; // three dimensions are pixels in any case
  });
  menu.addEventListener("toggle", (event) => button.setAttribute("aria-expanded", String(event.newState === "open")));
  host.tools.append(button);
  host.root.append(menu);
}

/** The table of a figure as the server makes it from the facts, at full precision. */
function asked(view, name) {
  const { study, line, layer, draw } = view;
  const query = new URLSearchParams({ method: line.name, bits: line.bits });
  if (layer !== null) query.set("layer", layer);
  if (draw !== null) query.set("draw", draw);
  return request(`/studies/${encodeURIComponent(study.id)}/tables/${name}?${query}`);
}

/** The cells of |Ŵ − W| at the smallest and at the shown λ, as they are drawn. */
export function cells({ arrays, at, view, shownArray = "surface" }) {
  const first = arrays[shownArray].matrix(at.gamma, 0);
  const shown = arrays[shownArray].matrix(at.gamma, at.lambda);
  const what = shownArray === "surface_signed" ? "Ŵ − W" : "|Ŵ − W|";
  const name = (lambda) => view.lam_texts[lambda] ?? "";
  const rows = [];
  shown.forEach((line, row) =>
    line.forEach((value, column) => rows.push({ row, column, first: first[row][column], shown: value })),
  );
  const columns = [
    { key: "row", title: "Output cell", kind: "plain" },
    { key: "column", title: "Input cell", kind: "plain" },
    { key: "first", title: `${what}, λ = ${name(0)}`, kind: "significant" },
    { key: "shown", title: `${what}, λ = ${name(at.lambda)}`, kind: "significant" },
  ];
  return { columns, rows };
}

/**
 * What a figure of curves draws, where there is no better table: one row for each point, its value as it is written.
 * @param {object[]} data plotly's traces
 */
export function drawnTable(data) {
  const rows = data
    .filter((trace) => trace.mode?.includes("lines") && trace.text?.length)
    .flatMap((trace) =>
      Array.from(trace.x, (x, index) => ({
        curve: trace.name,
        panel: trace.yaxis ?? "y",
        x,
        value: trace.text[index],
      })),
    );
  const columns = ["curve", "panel", "x", "value"].map((key) => ({ key, title: key, kind: "text" }));
  return { columns, rows };
}

/** What plotly has drawn, with the card's title, on the card's own ground. */
function plotlyPicture(host, kind) {
  const { data, layout } = host.canvas;
  const ground = colour("--surface");
  const title = {
    text: host.heading?.textContent ?? "",
    x: 0,
    xref: "container",
    xanchor: "left",
    pad: { l: 12 },
    y: 1,
    yref: "container",
    yanchor: "top",
    yshift: 0,
    font: { size: 14, color: colour("--ink") },
  };
  const margin = { ...layout.margin, t: (layout.margin?.t ?? 0) + TITLE };
  title.pad.t = 10;
  const size = { width: host.canvas.clientWidth, height: host.canvas.clientHeight + TITLE };
  const figure = { data, layout: { ...layout, ...size, title, margin, paper_bgcolor: ground } };
  return window.Plotly.toImage(figure, { format: kind, ...size, scale: kind === "png" ? SCALE : 1 });
}

/** The numbers in a window of their own. */
function tableDialog(title, { columns, rows }, file) {
  const cell = (row, { key, kind }) => h("td", {}, format(row[key], typeof row[key] === "string" ? "text" : kind));
  const dialog = h(
    "dialog",
    { class: "figure-table", "aria-label": title, "data-testid": "figure-table" },
    h(
      "header",
      {},
      h("h2", {}, title),
      h(
        "button",
        { type: "button", class: "quiet", on: { click: () => download(`${file}.csv`, csv(columns, rows)) } },
        "Download CSV",
      ),
      h("button", { type: "button", class: "quiet", on: { click: () => dialog.close() } }, "Close"),
    ),
    rows.length > ROWS
      ? h("p", { class: "card-note" }, `The first ${ROWS} of ${rows.length} rows; the CSV has all.`)
      : null,
    h(
      "div",
      { class: "table-scroll", tabindex: 0, role: "region", "aria-label": "Table of the numbers" },
      h(
        "table",
        { class: "numbers" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            columns.map((column) => h("th", { scope: "col" }, column.title)),
          ),
        ),
        h(
          "tbody",
          {},
          rows.slice(0, ROWS).map((row) =>
            h(
              "tr",
              {},
              columns.map((column) => cell(row, column)),
            ),
          ),
        ),
      ),
    ),
  );
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}
