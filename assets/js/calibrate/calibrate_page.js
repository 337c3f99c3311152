/**
 * Calibrate: the form's values become a recipe, the recipe a plan, the plan a run. The run's id lives in the address,
 * so that a reload, a closed tab and a second browser find it again.
 * @module calibrate
 */

import {
  CALIBRATE_CONTROLS,
  CALIBRATE_PANELS,
  CALIBRATE_VIEW,
  parse,
  serialise,
  unknownNames,
} from "../base/address.js";
import { asProblem, request } from "../base/client.js";
import { fill, h, problem, ready as rendered, say } from "../base/dom.js";
import { bytes, count, duration, number, percent, plain } from "../base/format.js";
import { link, note } from "../base/link.js";
import { METHODS, RECIPE_FIELDS } from "../base/recipe_contract.js";
import { revealWhenAtRest } from "../base/reveal.js";
import { formatsFold } from "./readers_table.js";
import { autoWords, describe, idleFields, readForm, recipeOf, valuesOf } from "./recipe_form.js";
import { runView } from "./run_view.js";
import { speedCard } from "./speed_card.js";
import { textsCard } from "./texts_card.js";

const PLAN_DELAY = 350;
const side = { element: null, names: [] };
/** @type {CSSStyleSheet | null} */
let offRule = null; // hides the fields that mean nothing
let ready = null;
let values = [];
let models = [];
let corpora = [];
let planNumber = 0;
let planTimer = null;
let recipe = null;
let shown = null;
let lastModel = null;

const part = (name) => side.element.querySelector(`[data-part="${name}"]`);

/** Called with the element of the right column. */
export async function mount(element) {
  await begin(element);
  part("start").addEventListener("click", submit);
  shown = runView({
    card: part("run-card"),
    recipeCard: part("recipe-card"),
    measured: showMeasured,
    names: side.names,
    study: document.querySelector(".run-study"),
    leave: () => showRun(null),
  });
  const { state, problems } = parse(location.search, CALIBRATE_VIEW);
  note(await rendered('[data-part="link-note"]'), [
    ...problems,
    ...link.problems,
    ...unknownNames(link, CALIBRATE_CONTROLS, CALIBRATE_PANELS),
  ]);
  if (state.run) showRun(state.run);
  addEventListener("popstate", () => showRun(runOfAddress(), false));
}

/** The run in the address, or null. */
const runOfAddress = () => parse(location.search, CALIBRATE_VIEW).state.run ?? null;

/** What a run measured beside its numbers, in cards of its own below; none of them without a run. */
async function showMeasured(summary) {
  textsCard(await rendered('[data-part="texts-card"]'), summary?.texts ?? []);
  speedCard(await rendered('[data-part="speed-card"]'), summary?.speed ?? null);
}

/** What form and column both need; asked for once, by whichever of the two comes first. */
function begin(element = document.querySelector(".side")) {
  ready ??= (async () => {
    const found = element?.matches?.(".side")
      ? element
      : (element?.querySelector(".side") ?? (await rendered(".side")));
    side.element = found;
    side.names = JSON.parse(found.dataset.fields);
    [models, corpora] = await Promise.all([ask("/models", "models"), ask("/corpora", "corpora")]);
  })();
  return ready;
}

async function ask(path, name) {
  try {
    const answer = await request(path);
    return Array.isArray(answer) ? answer : (answer[name] ?? []);
  } catch {
    return []; // The plan will say what is wrong; the form stays usable for typing.
  }
}

const update = (change) => ({ __type__: "update", ...change });

/** Gradio asks at load: values and choices of every field, from the run in the address or the first model. */
export async function initialValues() {
  await begin();
  const id = runOfAddress();
  let start = models[0]?.suggested ?? {};
  if (id) {
    const run = await request(`/runs/${encodeURIComponent(id)}`).catch(() => null);
    if (run) start = run.recipe;
  }
  const bench = document.querySelector(".workbench");
  revealWhenAtRest(bench, bench.querySelector(".recipe-form")); // its fields get their values and hints now
  return formFor(start);
}

/** Gradio calls when a field changes to another model: its own suggestions fill the form. */
export async function modelChanged(current) {
  await begin();
  const name = current[side.names.indexOf("model")];
  if (name === lastModel) return current;
  const entry = models.find((model) => model.name === name);
  if (!entry) {
    lastModel = name;
    return current;
  }
  return formFor({ ...entry.suggested, model: name });
}

function formFor(start) {
  lastModel = start.model ?? null;
  values = valuesOf(side.names, start);
  formChanged(values);
  return side.names.map((name, index) => {
    const value = values[index];
    if (name === "model") return update({ value, choices: modelChoices() });
    if (name === "calibration") return update({ value, choices: textChoices(["calibration", "any"], value) });
    if (name === "test") return update({ value, choices: textChoices(["test", "held_out", "any"], value) });
    return value === undefined ? update({}) : value;
  });
}

const modelChoices = () =>
  models.map((model) => [model.title ? `${model.title} · ${model.name}` : model.name, model.name]);

function textChoices(roles, value) {
  const fitting = corpora.filter((corpus) => roles.includes(corpus.role));
  const choices = fitting.map((corpus) => [corpus.title || corpus.name, corpus.name]);
  return value && !fitting.some((corpus) => corpus.name === value) ? [...choices, [value, value]] : choices;
}

/** Gradio calls after each change of any field. */
export async function formChanged(current) {
  await begin();
  values = current;
  recipe = recipeOf(side.names, values);
  showWhatCounts();
  clearTimeout(planTimer);
  planTimer = setTimeout(plan, PLAN_DELAY);
}

const selector = (name) => `#field-${name.replaceAll("_", "-")}`;

/** Only what means something to the method is asked for, and λ and γ say what they are when left empty. */
function showWhatCounts() {
  const said = readForm(side.names, values);
  const method = METHODS[said.method];
  const idle = idleFields(said);
  // A rule rather than a class: fields in a closed part of the form are only made when it is opened.
  if (offRule === null) {
    offRule = new CSSStyleSheet();
    document.adoptedStyleSheets.push(offRule);
  }
  offRule.replaceSync(idle.length ? `${idle.map(selector).join(", ")} { display: none !important }` : "");
  for (const name of side.names) {
    const { key, kind, title } = RECIPE_FIELDS[name];
    const field = kind === "number or word" && document.querySelector(selector(name));
    if (!field) continue;
    const own = method?.defaults[name];
    const input = field.querySelector("input");
    if (input) {
      input.placeholder = own === null || own === undefined ? "" : `${plain(own)}, the method’s own`;
      input.setAttribute("aria-label", title); // the label around it belongs to the button
    }
    field.classList.toggle("is-auto", said[key] === "auto");
    field.classList.toggle("has-no-auto", !method?.auto);
  }
  const note = document.querySelector(".auto-note");
  const words = autoWords(said);
  note?.classList.toggle("is-off", !words);
  say(note, words);
}

async function plan() {
  const mine = ++planNumber;
  const place = part("plan");
  place.classList.add("is-stale");
  part("start").disabled = true;
  try {
    const answer = await request("/plan", { method: "POST", body: recipe });
    if (mine !== planNumber) return;
    fill(
      place,
      planRows(answer),
      formatsFold(answer.formats),
      (answer.warnings ?? []).map((text) => h("p", { class: "warning" }, text)),
    );
    part("start").disabled = false;
  } catch (error) {
    if (mine !== planNumber) return;
    fill(place, problem(asProblem(error), { "data-testid": "refusal" }));
  } finally {
    if (mine === planNumber) place.classList.remove("is-stale");
  }
}

function planRows(answer) {
  const known = (value, text) => (value === null || value === undefined ? null : text(value));
  const rows = [
    ["Model", answer.family ? `${answer.model} (${answer.family})` : answer.model],
    [
      "Quantized",
      known(
        answer.share_quantized,
        (share) =>
          `${percent(share, 1)} of ${count(answer.parameters)} parameters, ${answer.layers} layers${answer.experts ? `, up to ${answer.experts} experts in a block` : ""}`,
      ),
    ],
    ["Bits per weight", known(answer.bits_per_weight, (bits) => `${number(bits, 2)}, scales and zero points included`)],
    ["Size", known(answer.bytes_after, (after) => `${bytes(answer.bytes_before)} → ${bytes(after)} once packed`)],
    ["Memory", known(answer.memory_bytes, () => memoryText(answer))],
    ["Calibration", known(answer.calibration_tokens, (tokens) => `${count(tokens)} tokens`)],
    ["Test", known(answer.test_tokens, (tokens) => `${count(tokens)} tokens`)],
    [
      "Time",
      known(answer.minutes, (minutes) =>
        minutes < 1 ? "under a minute on two CPU cores" : `at most ${duration(60 * minutes)} on two CPU cores`,
      ),
    ],
  ];
  return h(
    "dl",
    { class: "facts" },
    rows.filter(([, text]) => text).map(([name, text]) => [h("dt", {}, name), h("dd", {}, text)]),
  );
}

function memoryText({ memory_bytes, host_bytes, streamed }) {
  const where = host_bytes ? ` on the device, ${bytes(host_bytes)} beside it` : "";
  return `about ${bytes(memory_bytes)}${where}${streamed ? ", one block at a time" : ""}`;
}

async function submit() {
  const button = part("start");
  button.disabled = true;
  try {
    const run = await request("/runs", { method: "POST", body: recipe });
    showRun(run.id);
  } catch (error) {
    fill(part("plan"), problem(asProblem(error), { "data-testid": "refusal" }));
    button.disabled = false;
  }
}

/** The column shows a run, or with null the plan again. */
function showRun(id, remember = true) {
  part("plan-card").hidden = Boolean(id);
  part("run-card").hidden = !id;
  part("recipe-card").hidden = !id;
  // While a run is shown the form makes room: what is in it would not change the run any more.
  document.querySelector(".workbench").classList.toggle("is-run", Boolean(id));
  if (remember) {
    const search = serialise({ run: id }, CALIBRATE_VIEW, { link });
    history.replaceState(history.state, "", `${location.pathname}${search}`);
  }
  document.title = "sarqc · Calibrate";
  if (id) shown.open(id, (run) => (document.title = `sarqc · ${describe(run.recipe)}`));
  else {
    shown.close();
    part("start").disabled = false;
    plan();
  }
}
