/**
 * The report card of a finished run and the card of its recipe, with the ways to take the recipe elsewhere.
 * @module report
 */

import { copy, fill, h } from "./dom.js";
import { count, format, percent } from "./format.js";
import { asCommand, asPython, asRequest, asYaml, chosenOnly } from "./recipe.js";

/** The end of a run: what it gained and lost, how it was measured, and the recipe to take away. */
export function reportCard(run, summary) {
  const test = summary.protocol?.test;
  const cell = (name, value, note, key) =>
    value === null || value === undefined
      ? null
      : h("div", { class: "score" }, h("span", { class: "score-name" }, name), h("strong", { "data-testid": key }, value), h("span", { class: "score-note" }, note));
  const ppl = (value) => (value === null || value === undefined ? null : format(value, "perplexity"));
  const accuracy = (value, error) =>
    value === null || value === undefined ? null : `${percent(value, 1)}${error ? ` ± ${format(error, "points")}` : ""}`;
  return h(
    "div",
    { class: "report", "data-testid": "report" },
    h(
      "div",
      { class: "scores" },
      cell("Perplexity", ppl(summary.perplexity), `float ${ppl(summary.perplexity_float) ?? "not measured"}`, "perplexity"),
      cell(
        "Accuracy",
        accuracy(summary.accuracy, summary.accuracy_standard_error),
        `float ${accuracy(summary.accuracy_float, summary.accuracy_standard_error_float) ?? "not measured"}`,
        "accuracy",
      ),
      cell("Quantized", percent(summary.share_quantized, 1), "of all parameters", "share"),
    ),
    test ? h("p", { class: "protocol" }, `Perplexity on ${facts(test)}.`) : null,
  );
}

function facts(document) {
  const said = (value) => (value === true ? "yes" : value === false ? "no" : typeof value === "number" ? count(value) : value);
  const { corpus, ...others } = document;
  const rest = Object.entries(others).filter(([, value]) => value !== null);
  return [corpus, ...rest.map(([key, value]) => `${key.replaceAll("_", " ")} ${said(value)}`)].filter(Boolean).join(", ");
}

/** What was asked for, field by field in the words of the form, and ways to take it elsewhere. */
export function recipeCard(place, recipe, fields) {
  const said = (value) => (Array.isArray(value) ? value.join(", ") : value === true ? "yes" : value === false ? "no" : String(value).replace("per_channel", "per channel"));
  const rows = fields
    .map(([, key, , title, unit]) => [title, recipe[key], unit])
    .filter(([, value]) => value !== null && value !== undefined && value !== "" && !(Array.isArray(value) && !value.length));
  fill(
    place,
    h("header", { class: "card-head" }, h("h2", { class: "card-title" }, "The recipe")),
    h(
      "div",
      { class: "run-body" },
      h("dl", { class: "facts recipe-facts" }, rows.map(([title, value, unit]) => [h("dt", {}, title), h("dd", {}, typeof value === "number" && unit && unit !== "bit" ? `${said(value)} ${unit}` : said(value))])),
      copyAs(recipe),
    ),
  );
}

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
    h("div", { class: "copy-head" }, h("div", { class: "switch", role: "group", "aria-label": "Form of the recipe" }, tabs), done),
    text,
  );
}
