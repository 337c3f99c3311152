/**
 * The report card of a finished run and the card of its recipe, with the ways to take the recipe elsewhere.
 * @module report
 */

import { copyButton } from "../base/clipboard.js";
import { copyPanel } from "../base/copy_panel.js";
import { download } from "../base/dom.js";
import { count, counted, csv, decimalsFor, format, number, percent, plain } from "../base/format.js";
import { button, html, nothing, render, repeat } from "../base/html.js";
import { RECIPE_FIELDS } from "../base/recipe_contract.js";
import { scrolling, table } from "../base/table.js";
import { withTitles } from "../base/text_names.js";
import { answer } from "./answer.js";
import { judgements, LAYER_COLUMNS, layerRows, pairCounts, worstRows } from "./layer_rows.js";
import { idleFields, methodTitle } from "./recipe_form.js";
import { shade } from "./run_state.js";

const MOST_ROWS = 400; // layers that a table shows; those of a large mixture are too many to read

/** @import { EvidenceDocument, Recipe, RecipeField } from "../base/types.d.ts" */
/** @import { LayerReport } from "./layer_rows.js" */
/** @import { Candidate } from "./run_state.js" */
/** @typedef {Record<string, any>} Summary as a run's end says it */
/** @typedef {{isOpen: (title: string) => boolean, open: (title: string) => void}} Folds which folds were opened */

/**
 * The end of a run: what it gained and lost, how it was measured, what “auto” chose, and every layer.
 * @param {{id: string, evidence?: EvidenceDocument | null}} run
 * @param {Summary} summary
 * @param {LayerReport[]} layers in the order of the model
 * @param {Folds} folds
 * @param {{words: string, href: string | null} | null} next what to try next, and where the form has it
 */
export function reportCard({ id, evidence = null }, summary, layers, folds, next) {
  const test = summary.protocol?.test;
  return html`<div class="report" data-testid="report">${answer(summary, evidence, next ? nextWords(next) : nothing)}${
    test ? html`<p class="protocol">Perplexity on ${facts(test)}.</p>` : nothing
  }${
    summary.experts ? html`<p class="protocol" data-testid="experts">${summary.experts.words}</p>` : nothing
  }${summary.selection?.by === "model" ? chosenForTheModel(summary.selection) : nothing}${chosenByLayer(
    layers,
    folds,
    summary.selection,
  )}${everyLayer(id, layers, folds)}${summary.stamp ? stampFold(summary) : nothing}</div>`;
}

/** @param {{words: string, href: string | null}} next */
const nextWords = ({ words, href }) =>
  html`<p class=${href ? "next-step" : "warning"} data-testid="next-step">${words}${
    href ? html` <a class="act-quiet" href=${href} data-testid="try-it">Try it</a>` : nothing
  }</p>`;

const CHOSEN = "What each layer chose";
const STAMP_DIGITS = 12; // that people read
const VERIFY = "python -m sarqc verify FOLDER";

/**
 * The stamp of a run, and how anyone finds out whether its codes come out again.
 * @param {Summary} summary
 */
const stampFold = ({ stamp, opened }) => html`<details class="layers-fold" data-testid="stamp"
    ><summary>Stamp <code>${stamp.slice(0, STAMP_DIGITS)}…</code> · how to verify</summary>
    <p class="protocol">${
      opened ? "The study of this run has it" : "The study and every export of this run have it"
    }: hashes of the float weights, the calibration tokens and every code. This compares a downloaded folder with it, solves some linears again and compares their codes bit by bit:</p>
    <div class="stamp-command"><code>${VERIFY}</code
      >${copyButton("Copy", () => VERIFY, { testid: "copy-verify", kind: "quiet" })}
    </div></details>`;

/**
 * Perplexity by λ, one cell for each candidate; shown while they are judged and in the report.
 * @param {Candidate[]} candidates
 * @param {number|undefined} chosen
 */
export function candidateStrip(candidates, chosen) {
  // One digit more than elsewhere: neighbours differ by little, and the least is what counts.
  const words = (/** @type {number | null} */ value) => (value === null ? "–" : number(value, decimalsFor(value) + 1));
  return html`<div class="candidates">
    <p class="candidates-title">Perplexity by λ, on the sequences kept for judging</p>
    <ol>${candidates.map(
      ({ lam, perplexity }) =>
        html`<li class=${lam === chosen ? "is-chosen" : nothing}
          ><span>λ ${plain(lam)}</span><strong>${words(perplexity)}</strong
          >${lam === chosen ? html`<span class="visually-hidden">the best</span>` : nothing}</li
        >`,
    )}</ol>
  </div>`;
}

/** @param {Record<string, any>} selection */
function chosenForTheModel({ lambda, candidates, protocol, edge }) {
  /** @type {Candidate[]} */
  const all = candidates.map((/** @type {any} */ one) => ({ lam: one.lambda, perplexity: one.perplexity }));
  return html`<section class="selection" data-testid="selection">
    <h3>λ = ${plain(lambda)} for the whole model, of ${all.length} candidates</h3>
    ${candidateStrip(all, lambda)}${edgeLine(edge)}${protocol ? html`<p class="protocol">Judged on ${facts(protocol)}.</p>` : nothing}
  </section>`;
}

/** @param {string | undefined} edge what it means that an end of the candidates was chosen */
const edgeLine = (edge) => (edge ? html`<p class="edge" data-testid="edge">${edge}</p>` : nothing);

/**
 * How often each pair was chosen, and the judgement of every layer to unfold.
 * @param {LayerReport[]} layers
 * @param {Folds} folds
 * @param {{edge?: string} | null | undefined} selection
 */
function chosenByLayer(layers, folds, selection) {
  const judged = judgements(layers);
  if (!judged.length) return nothing;
  const { across, down, counts } = pairCounts(layers);
  const most = Math.max(...counts.flat());
  /** @param {number} times */
  const cell = (times) => {
    const share = times / most;
    const colours = `background: ${shade(share)}; color: ${share < 0.6 ? "#fff" : "#111"}`;
    return html`<td style=${times ? colours : nothing}>${times || "–"}</td>`;
  };
  /** @typedef {typeof judged[0]} Judged */
  const better = (/** @type {number | null} */ value) => (value === null ? "–" : percent(value, 1));
  const gamma = { title: "γ", show: (/** @type {Judged} */ one) => (one.gamma === null ? "–" : plain(one.gamma)) };
  const alpha = { title: "α", show: (/** @type {Judged} */ one) => plain(one.shift_strength) };
  const columns = [
    { title: "λ", show: (/** @type {Judged} */ one) => plain(one.lam) },
    ...(judged.some((one) => one.gamma !== null) ? [gamma] : []),
    ...(judged.some((one) => one.shift_strength !== null) ? [alpha] : []),
    { title: "Error when judged", show: (/** @type {Judged} */ one) => format(one.validation, "significant") },
    { title: "Below median", show: (/** @type {Judged} */ one) => better(one.overMedian) },
    { title: "Below worst", show: (/** @type {Judged} */ one) => better(one.overWorst) },
  ];
  const pairs = table({
    columns: [
      ...(down
        ? [{ isHead: true, show: (/** @type {number} */ row) => `${down.sign} ${plain(down.values[row])}` }]
        : []),
      ...across.values.map((value, column) => ({
        title: `${across.sign} ${plain(value)}`,
        cell: (/** @type {number} */ row) => cell(counts[row][column]),
      })),
    ],
    rows: [...counts.keys()].reverse(), // the largest on top, as in the Lab's map
    name: "pairs",
    caption: "Layers that chose each",
  });
  return html`<section class="selection" data-testid="selection">
    <h3>${across.sign}${down ? ` and ${down.sign}` : ""} chosen layer by layer</h3>
    <div class="table-scroll">${pairs}</div>${edgeLine(selection?.edge)}
    ${fold(CHOSEN, folds, () => layerTable(judged, columns, CHOSEN))}
  </section>`;
}

/** @param {string} id @param {LayerReport[]} layers @param {Folds} folds */
function everyLayer(id, layers, folds) {
  const rows = layerRows(layers);
  if (!rows.length) return nothing;
  const present = LAYER_COLUMNS.filter(({ key }) => rows.some((row) => row[key] !== null && row[key] !== undefined));
  const columns = present.filter((column) => column.title);
  const save = () => download(`${id}-layers.csv`, csv(present, rows));
  return fold(
    "Every layer",
    folds,
    () => html`<div class="layers-tools"
        >${button("CSV", "layers-csv", save)}</div
      >${layerTable(rows, columns, "Every layer")}${
        rows.some((row) => row.lam_low !== null)
          ? html`<p class="protocol"
              >Same choice for λ: the interval of λ in which the layer’s search would choose the same scales.</p
            >`
          : nothing
      }`,
    "every-layer",
  );
}

/**
 * A fold whose content is made when it is opened first.
 * @param {string} title
 * @param {Folds} folds
 * @param {() => unknown} content
 * @param {string} [testid]
 */
function fold(title, folds, content, testid) {
  const open = () => folds.open(title);
  return html`<details class="layers-fold" data-testid=${testid ?? nothing} @toggle=${open}
    ><summary @click=${open}>${title}</summary><div>${folds.isOpen(title) ? content() : nothing}</div></details
  >`;
}

/**
 * Rows of layers, of very many those with the largest errors: a table, which on a narrow screen becomes a list with the
 * column's name at each value.
 * @template {{name: string, short: string, flags?: string | null}} Row
 * @param {Row[]} rows
 * @param {{title?: string, show?: (row: Row) => unknown}[]} columns
 * @param {string} label
 */
function layerTable(rows, columns, label) {
  const listed = rows.length > MOST_ROWS ? worstRows(rows, MOST_ROWS) : rows;
  const name = (/** @type {Row} */ row) =>
    html`<th scope="row" title=${row.name}>${row.short}${
      row.flags ? html`<span class="layer-flags">${row.flags}</span>` : nothing
    }</th>`;
  const content = table({
    columns: [
      { title: "Layer", cell: name },
      ...columns.map(({ title, show }) => ({
        title,
        cell: (/** @type {Row} */ row) => html`<td data-label=${title ?? nothing}>${show?.(row)}</td>`,
      })),
    ],
    rows: listed,
    name: "layers",
  });
  const few =
    listed === rows
      ? nothing
      : html`<p class="protocol">The ${MOST_ROWS} with the largest errors, of ${count(rows.length)} layers.</p>`;
  return scrolling(label, [few, content], "layers-scroll");
}

/** The facts of a protocol in words. @param {Record<string, unknown>} document */
function facts(document) {
  /** @param {unknown} value */
  const said = (value) =>
    typeof value === "boolean" ? yesOrNo(value) : typeof value === "number" ? count(value) : String(value);
  const { corpus, ...others } = document;
  const rest = Object.entries(others).filter(([, value]) => value !== null && typeof value !== "object");
  return [corpus, ...rest.map(([key, value]) => `${key.replaceAll("_", " ")} ${said(value)}`)]
    .filter(Boolean)
    .join(", ");
}

/** @param {boolean} value */
const yesOrNo = (value) => (value ? "yes" : "no");

/**
 * Fills the card of the recipe: what was asked for beside the defaults, field by field in the words and the order of the
 * form, all that counts behind a line, and ways to take it elsewhere.
 * @param {HTMLElement} place
 * @param {string} id of the run: another run's card begins anew
 * @param {Recipe} recipe
 * @param {string[]} names
 */
export function recipeCard(place, id, recipe, names) {
  const idle = idleFields(recipe);
  const rows = names
    .filter((name) => !idle.includes(name))
    .map((name) => RECIPE_FIELDS[name])
    .map((field) => ({ ...field, value: /** @type {Record<string, any>} */ (recipe)[field.key] }))
    .filter(({ value }) => value !== null && value !== undefined && value !== "" && value.length !== 0);
  const said = rows.filter(({ name, value, default: own }) => ALWAYS.includes(name) || !isEqual(value, own));
  const texts = copyPanel("run", "Recipe, to run again elsewhere");
  texts.show(recipe, { study: id });
  render(
    repeat(
      [id],
      (one) => one,
      () => html`<header class="card-head"><h2 class="card-title">The recipe</h2></header>
        <div class="run-body">
          ${recipeFacts(said)}
          ${
            said.length < rows.length
              ? html`<details class="layers-fold" data-testid="all-settings"><summary>All ${rows.length} settings</summary>${recipeFacts(rows)}</details>`
              : nothing
          }
          ${texts.element}
        </div>`,
    ),
    place,
  );
}

const ALWAYS = ["model", "bits", "method", "calibration"]; // what a run is known by

const isEqual = (/** @type {unknown} */ one, /** @type {unknown} */ other) =>
  JSON.stringify(one) === JSON.stringify(other);

/** @param {(RecipeField & {value: any})[]} rows */
const recipeFacts = (rows) =>
  html`<dl class="facts recipe-facts">${rows.map(({ key, title, kind, value, unit }) => [
    html`<dt>${title}</dt>`,
    html`<dd>${kind === "lines" ? lines(value) : key === "method" ? methodTitle(value) : valueWords(value, unit)}</dd>`,
  ])}</dl>`;

/** @param {any} value of a recipe's field @param {string} unit such as “passes”; empty where it has none */
function valueWords(value, unit) {
  if (Array.isArray(value)) return value.join(", ");
  if (typeof value === "boolean") return yesOrNo(value);
  if (typeof value !== "number") return withTitles(String(value)).replace(/^(per|full)_/, "$1 ");
  if (!unit) return String(value);
  return counted(value, unit.replace(/(?<=ss)es$|s$/, ""), Number.isInteger(value) ? count(value) : value);
}

/**
 * Texts that may hold commas, each in a line.
 * @param {string[]} texts
 */
const lines = (texts) => html`<ul class="recipe-lines">${texts.map((text) => html`<li>${text}</li>`)}</ul>`;
