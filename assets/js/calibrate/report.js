/**
 * The report card of a finished run and the card of its recipe, with the ways to take the recipe elsewhere.
 * @module report
 */

import { copy, download, fill, h } from "../base/dom.js";
import { count, csv, decimalsFor, format, number, percent, plain } from "../base/format.js";
import { RECIPE_FIELDS } from "../base/recipe_contract.js";
import { judgements, LAYER_COLUMNS, layerRows, pairCounts, worstRows } from "./layer_rows.js";
import { asCommand, asPython, asRequest, asYaml, chosenOnly, idleFields } from "./recipe_form.js";

const MOST_ROWS = 400; // layers that a table shows; those of a large mixture are too many to read

/**
 * The end of a run: what it gained and lost, how it was measured, what “auto” chose, and every layer.
 * @param {object} run
 * @param {object} summary
 * @param {Array<{name: string, report: object}>} layers in the order of the model
 */
export function reportCard(run, summary, layers) {
  const test = summary.protocol?.test;
  const cell = (name, value, note, key) =>
    value === null || value === undefined
      ? null
      : h(
          "div",
          { class: "score" },
          h("span", { class: "score-name" }, name),
          h("strong", { "data-testid": key }, value),
          h("span", { class: "score-note" }, note),
        );
  const ppl = (value) => (value === null || value === undefined ? null : format(value, "perplexity"));
  const accuracy = (value, error) =>
    value === null || value === undefined
      ? null
      : `${percent(value, 1)}${error ? ` ± ${format(error, "points")}` : ""}`;
  return h(
    "div",
    { class: "report", "data-testid": "report" },
    h(
      "div",
      { class: "scores" },
      cell(
        "Perplexity",
        ppl(summary.perplexity),
        `float ${ppl(summary.perplexity_float) ?? "not measured"}`,
        "perplexity",
      ),
      cell(
        "Accuracy",
        accuracy(summary.accuracy, summary.accuracy_standard_error),
        `float ${accuracy(summary.accuracy_float, summary.accuracy_standard_error_float) ?? "not measured"}`,
        "accuracy",
      ),
      cell("Quantized", percent(summary.share_quantized, 1), "of all parameters", "share"),
    ),
    test ? h("p", { class: "protocol" }, `Perplexity on ${facts(test)}.`) : null,
    summary.experts ? h("p", { class: "protocol", "data-testid": "experts" }, summary.experts.words) : null,
    summary.selection?.by === "model" ? chosenForTheModel(summary.selection) : null,
    chosenByLayer(layers),
    everyLayer(run, layers),
  );
}

/**
 * Perplexity by λ, one cell for each candidate; shown while they are judged and in the report.
 * @param {Array<{lam: number, perplexity: number|null}>} candidates
 * @param {number|undefined} chosen
 */
export function candidateStrip(candidates, chosen) {
  return h(
    "div",
    { class: "candidates" },
    h("p", { class: "candidates-title" }, "Perplexity by λ, on the sequences kept for judging"),
    h(
      "ol",
      {},
      candidates.map(({ lam, perplexity }) =>
        h(
          "li",
          { class: lam === chosen ? "is-chosen" : null },
          h("span", {}, `λ ${plain(lam)}`),
          // One digit more than elsewhere: neighbours differ by little, and the least is what counts.
          h("strong", {}, perplexity === null ? "–" : number(perplexity, decimalsFor(perplexity) + 1)),
          lam === chosen ? h("span", { class: "visually-hidden" }, "the best") : null,
        ),
      ),
    ),
  );
}

function chosenForTheModel({ lambda, candidates, protocol }) {
  const all = candidates.map((one) => ({ lam: one.lambda, perplexity: one.perplexity }));
  return h(
    "section",
    { class: "selection", "data-testid": "selection" },
    h("h3", {}, `λ = ${plain(lambda)} for the whole model, of ${all.length} candidates`),
    candidateStrip(all, lambda),
    protocol ? h("p", { class: "protocol" }, `Judged on ${facts(protocol)}.`) : null,
  );
}

/** How often each pair was chosen, and the judgement of every layer to unfold. */
function chosenByLayer(layers) {
  const judged = judgements(layers);
  if (!judged.length) return null;
  const { lams, gammas, counts } = pairCounts(layers);
  const most = Math.max(...counts.flat());
  const cell = (times) => {
    const share = Math.round(45 * (times / most));
    return h(
      "td",
      { style: times ? `background: color-mix(in srgb, var(--accent) ${share}%, transparent)` : null },
      times || "–",
    );
  };
  const several = gammas.length > 1;
  const better = (value) => (value === null ? "–" : percent(value, 1));
  const columns = [
    ["λ", (one) => plain(one.lam)],
    ...(judged.some((one) => one.gamma !== null)
      ? [["γ", (one) => (one.gamma === null ? "–" : plain(one.gamma))]]
      : []),
    ["Error when judged", (one) => format(one.validation, "significant")],
    ["Below median", (one) => better(one.overMedian)],
    ["Below worst", (one) => better(one.overWorst)],
  ];
  return h(
    "section",
    { class: "selection", "data-testid": "selection" },
    h("h3", {}, `${several ? "λ and γ" : "λ"} chosen layer by layer`),
    h(
      "div",
      { class: "table-scroll" },
      h(
        "table",
        { class: "pairs" },
        h("caption", {}, "Layers that chose each"),
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            several ? h("td", {}) : null,
            lams.map((lam) => h("th", { scope: "col" }, `λ ${plain(lam)}`)),
          ),
        ),
        h(
          "tbody",
          {},
          gammas.map((gamma, row) =>
            h(
              "tr",
              {},
              several ? h("th", { scope: "row" }, `γ ${gamma === null ? "–" : plain(gamma)}`) : null,
              counts[row].map(cell),
            ),
          ),
        ),
      ),
    ),
    fold("What each layer chose", {}, () => layerTable(judged, columns, "What each layer chose")),
  );
}

function everyLayer(run, layers) {
  const rows = layerRows(layers);
  if (!rows.length) return null;
  const present = LAYER_COLUMNS.filter(({ key }) => rows.some((row) => row[key] !== null && row[key] !== undefined));
  const columns = present.filter((column) => column.title).map(({ title, show }) => [title, show]);
  const save = () => download(`${run.id}-layers.csv`, csv(present, rows));
  return fold("Every layer", { "data-testid": "every-layer" }, () => [
    h(
      "div",
      { class: "layers-tools" },
      h("button", { type: "button", class: "quiet", "data-testid": "layers-csv", on: { click: save } }, "CSV"),
    ),
    layerTable(rows, columns, "Every layer"),
    rows.some((row) => row.lam_low !== null)
      ? h(
          "p",
          { class: "protocol" },
          "Same choice for λ: the interval of λ in which the layer’s search would choose the same scales.",
        )
      : null,
  ]);
}

/** A fold whose content is made when it is opened first. */
function fold(title, attributes, build) {
  const inside = h("div", {});
  const make = () => inside.childElementCount || fill(inside, build());
  return h(
    "details",
    { class: "layers-fold", ...attributes, on: { toggle: make } },
    h("summary", { on: { click: make } }, title),
    inside,
  );
}

/** Rows of layers, of very many those with the largest errors: a table, which on a narrow screen becomes a list with the column's name at each value. */
function layerTable(rows, columns, label) {
  const shown = rows.length > MOST_ROWS ? worstRows(rows, MOST_ROWS) : rows;
  return h(
    "div",
    { class: "table-scroll layers-scroll", tabindex: 0, role: "region", "aria-label": label },
    shown === rows
      ? null
      : h("p", { class: "protocol" }, `The ${MOST_ROWS} with the largest errors, of ${count(rows.length)} layers.`),
    h(
      "table",
      { class: "layers" },
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          h("th", { scope: "col" }, "Layer"),
          columns.map(([title]) => h("th", { scope: "col" }, title)),
        ),
      ),
      h(
        "tbody",
        {},
        shown.map((row) =>
          h(
            "tr",
            {},
            h(
              "th",
              { scope: "row", title: row.name },
              row.short,
              row.flags ? h("span", { class: "layer-flags" }, row.flags) : null,
            ),
            columns.map(([title, show]) => h("td", { dataset: { label: title } }, show(row))),
          ),
        ),
      ),
    ),
  );
}

function facts(document) {
  const said = (value) =>
    value === true ? "yes" : value === false ? "no" : typeof value === "number" ? count(value) : value;
  const { corpus, ...others } = document;
  const rest = Object.entries(others).filter(([, value]) => value !== null && typeof value !== "object");
  return [corpus, ...rest.map(([key, value]) => `${key.replaceAll("_", " ")} ${said(value)}`)]
    .filter(Boolean)
    .join(", ");
}

/** What was asked for and counts, field by field in the words and the order of the form, and ways to take it elsewhere. */
export function recipeCard(place, recipe, names) {
  const said = (value) =>
    value instanceof Node
      ? value
      : Array.isArray(value)
        ? value.join(", ")
        : value === true
          ? "yes"
          : value === false
            ? "no"
            : String(value).replace(/^(per|full)_/, "$1 ");
  const idle = idleFields(recipe);
  const rows = names
    .filter((name) => !idle.includes(name))
    .map((name) => RECIPE_FIELDS[name])
    .map(({ key, kind, title, unit }) => [title, kind === "lines" ? lines(recipe[key]) : recipe[key], unit])
    .filter(
      ([, value]) => value !== null && value !== undefined && value !== "" && !(Array.isArray(value) && !value.length),
    );
  fill(
    place,
    h("header", { class: "card-head" }, h("h2", { class: "card-title" }, "The recipe")),
    h(
      "div",
      { class: "run-body" },
      h(
        "dl",
        { class: "facts recipe-facts" },
        rows.map(([title, value, unit]) => [
          h("dt", {}, title),
          h("dd", {}, typeof value === "number" && unit && unit !== "bit" ? `${said(value)} ${unit}` : said(value)),
        ]),
      ),
      copyAs(recipe),
    ),
  );
}

/** Texts that may hold commas, each in a line. */
const lines = (texts) =>
  texts?.length
    ? h(
        "ul",
        { class: "recipe-lines" },
        texts.map((text) => h("li", {}, text)),
      )
    : null;

/** The recipe as text of four kinds, one shown at a time. */
function copyAs(recipe) {
  const chosen = chosenOnly(recipe, {});
  const forms = [
    ["YAML", asYaml(chosen)],
    ["CLI", asCommand(chosen)],
    ["REST", asRequest(chosen, location.origin)],
    ["Python", asPython(chosen)],
  ];
  const text = h("pre", { class: "recipe-text", "data-testid": "recipe-text", tabindex: 0 }, forms[0][1]);
  const done = h("button", { type: "button", class: "quiet", on: { click: () => take() } }, "Copy");
  const take = async () => {
    await copy(text.textContent);
    done.textContent = "Copied";
    setTimeout(() => (done.textContent = "Copy"), 1500);
  };
  const tabs = forms.map(([name, content], index) =>
    h(
      "button",
      {
        type: "button",
        "aria-pressed": String(index === 0),
        on: {
          click: (event) => {
            text.textContent = content;
            for (const tab of tabs) tab.setAttribute("aria-pressed", String(tab === event.currentTarget));
          },
        },
      },
      name,
    ),
  );
  return h(
    "details",
    { class: "copy-as" },
    h("summary", {}, "Recipe, to run again elsewhere"),
    h(
      "div",
      { class: "copy-head" },
      h("div", { class: "switch", role: "group", "aria-label": "Form of the recipe" }, tabs),
      done,
    ),
    text,
  );
}
