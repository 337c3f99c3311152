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
import { copyPanel } from "../base/copy_panel.js";
import { ready, say } from "../base/dom.js";
import { plain } from "../base/format.js";
import { html, nothing, render } from "../base/html.js";
import { link, note } from "../base/link.js";
import { store } from "../base/page_state.js";
import { problemBlock } from "../base/problem.js";
import { calibrateView, recipeIn } from "../base/recipe_address.js";
import { METHODS, RECIPE_FIELDS } from "../base/recipe_contract.js";
import { revealWhenAtRest } from "../base/reveal.js";
import { mayRun, visitor, whyNoRun } from "../base/whoami.js";
import { reduce, START } from "./calibrate_state.js";
import { ownTexts } from "./own_texts.js";
import { planned } from "./plan_facts.js";
import {
  autoWords,
  describe,
  idleFields,
  readForm,
  recipeOf,
  severalValues,
  valuesIn,
  valuesOf,
} from "./recipe_form.js";
import { runView } from "./run_view.js";
import { speedCard } from "./speed_card.js";
import { textsCard } from "./texts_card.js";
import { tuningRecipe, whyNotTuned } from "./tune_form.js";
import { tuningCard } from "./tuning_card.js";
import { valueChips } from "./value_chips.js";

/** @import { CorpusEntry, ModelEntry } from "../base/types.d.ts" */
/** @import { Visitor } from "../base/whoami.js" */
/** @import { CalibrateState } from "./calibrate_state.js" */
/** @import { OwnText } from "./own_texts.js" */
/** @import { Said } from "./recipe_form.js" */

const PLAN_DELAY_MS = 350;
const ROOM_FOR_READERS = "(min-width: 481px)"; // below that width the table of readers is folded at first

/** @type {ReturnType<typeof begin> | null} */
let opened = null;

/** The page; made once, by whichever of its form and its column comes first. */
function page() {
  opened ??= begin();
  return opened;
}

/** Called with the element of the right column. */
export async function mount() {
  (await page()).openAddress();
}

/** Gradio asks at load: values and choices of every field, from the run in the address or the first model. */
export async function initialValues() {
  return (await page()).initialValues();
}

/** Gradio calls when a field changes to another model: its own suggestions fill the form. @param {unknown[]} values */
export async function modelChanged(values) {
  return (await page()).modelChanged(values);
}

/** Gradio calls when the page has changed a field: what it holds now, and the texts to choose from. */
export async function fieldsChanged() {
  return (await page()).fieldsChanged();
}

/** Gradio calls after each change of any field. @param {unknown[]} values */
export async function formChanged(values) {
  (await page()).formChanged(values);
}

async function begin() {
  const [side, study, tuned, notes, texts, speed, ownPlace, chips, models, corpora, ownAtFirst, who] =
    await Promise.all([
      ready(".side"),
      ready(".run-study"),
      ready(".tuning-run"),
      ready('[data-part="link-note"]'),
      ready('[data-part="texts-card"]'),
      ready('[data-part="speed-card"]'),
      ready('[data-part="own-texts"]'),
      ready('[data-part="several-values"]'),
      /** @type {Promise<ModelEntry[]>} */ (offered("models")),
      /** @type {Promise<CorpusEntry[]>} */ (offered("corpora")),
      /** @type {Promise<OwnText[]>} */ (offered("texts")),
      visitor().catch(() => null), // the plan will say what is wrong
    ]);
  const bench = /** @type {HTMLElement} */ (side.closest(".workbench"));
  const part = (/** @type {string} */ name) => /** @type {HTMLElement} */ (side.querySelector(`[data-part="${name}"]`));
  const [planCard, planPlace, runCard, recipeCard] = ["plan-card", "plan", "run-card", "recipe-card"].map(part);
  const start = /** @type {HTMLButtonElement} */ (part("start"));
  const tune = /** @type {HTMLButtonElement} */ (part("tune"));
  const budget = /** @type {HTMLSelectElement} */ (part("budget"));
  const elsewhere = copyPanel("plan", "This recipe, to run elsewhere");
  part("plan-texts").append(elsewhere.element);
  /** @type {string[]} */
  const names = JSON.parse(side.dataset.fields ?? "");
  const view = store({ ...START, isUnfolded: matchMedia(ROOM_FOR_READERS).matches }, reduce, drawPage);
  const { dispatch } = view;
  const off = new CSSStyleSheet(); // hides the fields that mean nothing
  document.adoptedStyleSheets.push(off);
  const cards = runView({
    card: runCard,
    recipeCard,
    names,
    study,
    tuning: tuningCard({ root: tuned, corpora, go: (id) => showRun(id) }),
    measured(summary) {
      textsCard(texts, summary?.texts ?? []);
      speedCard(speed, summary?.speed ?? null);
    },
    leave: () => showRun(null),
    who,
  });
  const mayPlan = who === null || mayRun(who);
  /** @type {readonly OwnText[]} */
  let own = ownAtFirst;
  let drawnValues = START.values;
  let planNumber = 0; // an answer to an earlier question comes too late
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;

  /** @param {CalibrateState} state */
  function drawPage({ values, plan, refusal, isStale, canStart, isUnfolded, run, runTitle, runTunes }) {
    if (values !== drawnValues) {
      drawForm(names, values, off);
      render(valueChips(severalValues(names, values), takeAway), chips);
    }
    drawnValues = values;
    const fold = {
      isOpen: isUnfolded,
      toggled: (/** @type {boolean} */ isOpen) => dispatch({ type: "unfolded", isUnfolded: isOpen }),
    };
    const content =
      who && !mayPlan
        ? watching(who)
        : refusal
          ? problemBlock(refusal, "refusal")
          : plan
            ? planned(plan, fold)
            : nothing;
    render(content, planPlace);
    planPlace.classList.toggle("is-stale", isStale);
    start.disabled = !canStart;
    say(start, plan && plan.runs > 1 ? `Start ${plan.runs} calibrations` : "Start calibration");
    const why = whyNotTuned(values[names.indexOf("method")]);
    tune.disabled = !canStart || why !== "";
    tune.title = why;
    say(part("tune-note"), why);
    planCard.hidden = run !== null;
    runCard.hidden = recipeCard.hidden = run === null;
    // While a run is shown the form makes room: what is in it would not change the run any more.
    bench.classList.toggle("is-run", run !== null);
    bench.classList.toggle("is-tune", runTunes);
    document.title = `sarqc · ${runTitle ?? "Calibrate"}`;
  }

  async function plan() {
    const { values } = view.state;
    if (!values.length || !mayPlan) return;
    planNumber += 1;
    const mine = planNumber;
    dispatch({ type: "planning" });
    view.draw();
    const recipe = recipeOf(names, values);
    try {
      const answer = await request("/plan", { method: "POST", body: recipe });
      if (mine !== planNumber) return;
      dispatch({ type: "planned", plan: answer });
      elsewhere.show(recipe);
    } catch (error) {
      if (mine !== planNumber) return;
      dispatch({ type: "refused", refusal: asProblem(error) });
      elsewhere.show(null);
    }
  }

  /** @param {object} recipe */
  async function submit(recipe) {
    dispatch({ type: "starting" });
    try {
      const answer = await request("/runs", { method: "POST", body: recipe });
      if (answer.batch) location.assign(`/runs?filter=${encodeURIComponent(answer.batch)}`);
      else showRun(answer.id);
    } catch (error) {
      dispatch({ type: "not started", refusal: asProblem(error) });
    }
  }

  /** The column shows a run, or with null the plan again. @param {string | null} id */
  function showRun(id, remember = true) {
    dispatch({ type: "run shown", id });
    view.draw();
    if (remember) {
      const search = serialise({ run: id }, CALIBRATE_VIEW, { link });
      history.replaceState(history.state, "", `${location.pathname}${search}`);
    }
    if (id)
      cards.open(id, ({ recipe }) =>
        dispatch({ type: "run arrived", title: describe(recipe), tunes: recipe.kind === "tune" }),
      );
    else {
      cards.close();
      plan();
    }
  }

  function openAddress() {
    const { state, problems } = parse(location.search, calibrateView(names));
    note(notes, [...problems, ...link.problems, ...unknownNames(link, CALIBRATE_CONTROLS, CALIBRATE_PANELS)]);
    start.addEventListener("click", () => submit(recipeOf(names, view.state.values)));
    tune.addEventListener("click", () => {
      const minutes = budget.value === "" ? null : Number(budget.value);
      submit(tuningRecipe(names, view.state.values, minutes, corpora));
    });
    addEventListener("popstate", () => showRun(runOfAddress(), false));
    if (state.run) showRun(state.run);
  }

  async function initialValues() {
    const id = runOfAddress();
    const run = id && (await request(`/runs/${encodeURIComponent(id)}`).catch(() => null));
    // Its fields get their values and hints now.
    revealWhenAtRest(bench, /** @type {Element} */ (bench.querySelector(".recipe-form")));
    const said = recipeIn(parse(location.search, calibrateView(names)).state, names);
    // A link that names no model means the first, with its texts.
    return fieldsFor(run ? run.recipe : said?.model ? said : { ...models[0]?.suggested, ...said });
  }

  /** @param {unknown[]} values */
  function modelChanged(values) {
    const model = String(values[names.indexOf("model")] ?? "");
    if (model === view.state.model) return values;
    const entry = models.find(({ name }) => name === model);
    if (entry) return fieldsFor({ ...entry.suggested, model });
    dispatch({ type: "filled", model, values });
    return values;
  }

  /** What Gradio sets the fields to for a recipe. @param {Said} recipe */
  function fieldsFor(recipe) {
    const values = valuesOf(names, recipe);
    dispatch({ type: "filled", model: recipe.model ?? null, values });
    planSoon();
    return names.map((name, index) => {
      const value = values[index];
      const choices = choicesOf(name, value, models, [...corpora, ...own.map(asCorpus)]);
      if (choices) return { __type__: "update", value, choices };
      return value === undefined ? { __type__: "update" } : value;
    });
  }

  if (mayPlan)
    ownTexts({
      place: ownPlace,
      texts: ownAtFirst,
      changed(texts, chosen) {
        const suggested = models.find(({ name }) => name === view.state.model)?.suggested ?? {};
        const isGone = (/** @type {unknown} */ value) =>
          own.some(({ name }) => name === value) && !texts.some(({ name }) => name === value);
        const values = view.state.values.map((value, index) => {
          if (names[index] === chosen?.field) return chosen.name;
          return isGone(value) ? (suggested[/** @type {keyof Said} */ (names[index])] ?? "") : value;
        });
        own = texts;
        change(values);
      },
    });

  /** The page itself changes fields. @param {unknown[]} values */
  function change(values) {
    dispatch({ type: "changed", values });
    document.getElementById("fields-changed")?.click(); // Gradio's fields are changed by Gradio alone
  }

  /** Takes one of several values out of a field. @param {string} name @param {number | string} gone */
  function takeAway(name, gone) {
    const left = (/** @type {unknown} */ text) => valuesIn(String(text)).filter((value) => value !== gone);
    change(view.state.values.map((value, index) => (names[index] === name ? left(value).join(", ") : value)));
  }

  function fieldsChanged() {
    planSoon();
    return names.map((name, index) => {
      const value = String(view.state.values[index] ?? "");
      if (RECIPE_FIELDS[name].kind === "number or word") return value;
      if (!ROLES[name]) return { __type__: "update" };
      return { __type__: "update", value, choices: choicesOf(name, value, [], [...corpora, ...own.map(asCorpus)]) };
    });
  }

  /** @param {unknown[]} values */
  function formChanged(values) {
    dispatch({ type: "changed", values });
    planSoon();
  }

  function planSoon() {
    view.draw(); // the form answers at once
    clearTimeout(timer);
    timer = setTimeout(plan, PLAN_DELAY_MS);
  }

  return { openAddress, initialValues, modelChanged, formChanged, fieldsChanged };
}

/** The run in the address, or null. @returns {string | null} */
const runOfAddress = () => parse(location.search, CALIBRATE_VIEW).state.run ?? null;

/**
 * What this host offers; nothing where it does not answer: the plan will say what is wrong, and the form stays usable
 * for typing.
 * @param {"models" | "corpora" | "texts"} kind
 */
const offered = (kind) =>
  request(`/${kind}`).then(
    (answer) => answer[kind],
    () => [],
  );

/**
 * Titles and values to choose among in a field whose choices the host offers; null for any other field.
 * @param {string} name of the field
 * @param {string} value
 * @param {ModelEntry[]} models
 * @param {Pick<CorpusEntry, "name" | "title" | "role">[]} corpora
 * @returns {[string, string][] | null}
 */
function choicesOf(name, value, models, corpora) {
  if (name === "model") return models.map(({ title, name }) => [title ? `${title} · ${name}` : name, name]);
  const roles = ROLES[name];
  if (!roles) return null;
  const fitting = corpora.filter(({ role }) => roles.includes(role));
  const isOffered = !value || fitting.some((corpus) => corpus.name === value);
  return [...fitting, ...(isOffered ? [] : [{ title: "", name: value }])].map(({ title, name }) => [
    title || name,
    name,
  ]);
}

/**
 * One's own text beside those of the host: good for everything.
 * @param {OwnText} text
 */
const asCorpus = ({ name, title }) => ({ name, title: `${title} · yours`, role: "any" });

/** Instead of a plan, for somebody who can't begin a run. @param {Visitor} who */
const watching = (who) => html`<p class="no-run" data-testid="no-run">${whyNoRun(who)}</p>`;

/** @type {Record<string, string[]>} what a text must be for, by the field that takes it */
const ROLES = { calibration: ["calibration", "any"], test: ["test", "held_out", "any"] };

const selector = (/** @type {string} */ name) => `#field-${name.replaceAll("_", "-")}`;

/**
 * Only what means something to the method is asked for, and λ and γ say what they are when left empty.
 * @param {string[]} names
 * @param {unknown[]} values
 * @param {CSSStyleSheet} off a rule rather than a class: fields in a closed part of the form are only made when it is opened
 */
function drawForm(names, values, off) {
  const said = readForm(names, values);
  const method = METHODS[said.method];
  const idle = idleFields(said);
  off.replaceSync(idle.length ? `${idle.map(selector).join(", ")} { display: none !important }` : "");
  for (const name of names) {
    const { key, kind, title } = RECIPE_FIELDS[name];
    const field = kind === "number or word" && document.querySelector(selector(name));
    if (!field) continue;
    const own = method?.defaults[name];
    const input = field.querySelector("input");
    if (input) {
      input.placeholder = typeof own === "number" ? `${plain(own)}, the method’s own` : "";
      input.setAttribute("aria-label", title); // the label around it belongs to the button
    }
    field.classList.toggle("is-auto", said[/** @type {keyof Said} */ (key)] === "auto");
    field.classList.toggle("has-no-auto", !method?.auto);
  }
  const words = autoWords(said);
  const place = document.querySelector(".auto-note");
  place?.classList.toggle("is-off", !words);
  say(place, words);
}
