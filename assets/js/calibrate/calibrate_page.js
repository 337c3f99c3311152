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
import { onReturn, remember } from "../base/address_bar.js";
import { asProblem, request } from "../base/client.js";
import { copyPanel } from "../base/copy_panel.js";
import { ready, say } from "../base/dom.js";
import { plain } from "../base/format.js";
import { html, nothing, render } from "../base/html.js";
import { link, note } from "../base/link.js";
import { store } from "../base/page_state.js";
import { titled } from "../base/page_title.js";
import { problemBlock } from "../base/problem.js";
import { calibrateView, recipeIn, recipeSearch } from "../base/recipe_address.js";
import { AS_FOUND, RECIPE_FIELDS } from "../base/recipe_contract.js";
import { revealWhenAtRest } from "../base/reveal.js";
import { at } from "../base/site.js";
import { mayRun, visitor, whyNoRun } from "../base/whoami.js";
import { reduce, START } from "./calibrate_state.js";
import { methodList } from "./method_list.js";
import { openedNote } from "./opened_note.js";
import { ownTexts } from "./own_texts.js";
import { planned } from "./plan_facts.js";
import {
  autoWords,
  describe,
  idleFields,
  methodOf,
  readForm,
  recipeOf,
  saidBeside,
  severalValues,
  shortModel,
  valuesIn,
  valuesOf,
} from "./recipe_form.js";
import { runView } from "./run_view.js";
import { speedCard } from "./speed_card.js";
import { suggestionNote } from "./suggestion_note.js";
import { refilled, suggestedFor, unapplied } from "./suggestions.js";
import { textsCard } from "./texts_card.js";
import { tuningRecipe, whyNotTuned } from "./tune_form.js";
import { tuningCard } from "./tuning_card.js";
import { valueChips } from "./value_chips.js";

/** @import { Fix } from "../base/client.js" */
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
  const [
    side,
    study,
    tuned,
    notes,
    texts,
    speed,
    ownPlace,
    chips,
    suggestionsPlace,
    openedPlace,
    methodsPlace,
    models,
    corpora,
    ownAtFirst,
    who,
  ] = await Promise.all([
    ready(".side"),
    ready(".run-study"),
    ready(".tuning-run"),
    ready('[data-part="link-note"]'),
    ready('[data-part="texts-card"]'),
    ready('[data-part="speed-card"]'),
    ready('[data-part="own-texts"]'),
    ready('[data-part="several-values"]'),
    ready('[data-part="suggestions"]'),
    ready('[data-part="opened"]'),
    ready('[data-part="methods"]'),
    /** @type {Promise<ModelEntry[]>} */ (offered("models")),
    /** @type {Promise<CorpusEntry[]>} */ (offered("corpora")),
    /** @type {Promise<OwnText[]>} */ (offered("texts")),
    visitor().catch(() => null), // the plan will say what is wrong
  ]);
  const bench = /** @type {HTMLElement} */ (side.closest(".workbench"));
  const part = (/** @type {string} */ name) => /** @type {HTMLElement} */ (side.querySelector(`[data-part="${name}"]`));
  const [planCard, planPlace, runCard, recipeCard, logCard] = [
    "plan-card",
    "plan",
    "run-card",
    "recipe-card",
    "log-card",
  ].map(part);
  const start = /** @type {HTMLButtonElement} */ (part("start"));
  const tune = /** @type {HTMLButtonElement} */ (part("tune"));
  const budget = /** @type {HTMLSelectElement} */ (part("budget"));
  const elsewhere = copyPanel("plan", "This recipe, to run elsewhere", (fix) => mend(fix));
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
    logCard,
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
  /** @type {AbortController | null} the question that waits for its answer */
  let question = null;
  /** @type {ReturnType<typeof setTimeout> | undefined} until the next one is asked */
  let timer;
  let isRead = false; // the address, which may be written from then on

  /** @param {CalibrateState} state */
  function drawPage({
    model,
    values,
    plan,
    refusal,
    isStale,
    checking,
    canStart,
    isUnfolded,
    run,
    runTitle,
    runTunes,
  }) {
    if (values !== drawnValues) {
      drawForm(names, values, off);
      render(valueChips(severalValues(names, values), takeAway), chips);
      const [method, opened] = [textOf("method"), textOf("opened")];
      render(
        methodList(method, opened !== "", (name) => putInto({ method: name })),
        methodsPlace,
      );
      const offered = openedOf(model, models);
      render(openedNote({ offered, opened, method }, { open: openCheckpoint, close: closeCheckpoint }), openedPlace);
      const left = model === null || opened ? [] : unapplied(names, values, suggestedFor(model, models));
      render(
        suggestionNote(shortModel(model), left, () => take(left)),
        suggestionsPlace,
      );
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
          ? problemBlock(refusal, "refusal", mend)
          : plan
            ? planned(plan, fold)
            : nothing;
    render(content, planPlace);
    planPlace.classList.toggle("is-stale", isStale);
    say(part("checking"), isStale ? `Checking ${checking} …` : "");
    markWrong(names, isStale ? "" : (refusal?.field ?? ""));
    start.disabled = !canStart;
    say(start, startWords(plan?.runs ?? 1, values[names.indexOf("opened")], values[names.indexOf("method")]));
    const why = whyNotTuned(values[names.indexOf("method")], values[names.indexOf("opened")]);
    tune.disabled = !canStart || why !== "";
    tune.title = why;
    say(part("tune-note"), why);
    planCard.hidden = run !== null;
    runCard.hidden = recipeCard.hidden = run === null;
    if (run === null) logCard.hidden = true;
    // While a run is shown the form makes room: what is in it would not change the run any more.
    bench.classList.toggle("is-run", run !== null);
    bench.classList.toggle("is-tune", runTunes);
    document.title = titled(runTitle ?? document.querySelector("h1")?.textContent ?? "");
  }

  async function plan() {
    const { values } = view.state;
    if (!values.length || !mayPlan) return;
    isAskedAnew();
    const mine = new AbortController();
    question = mine;
    view.draw();
    const recipe = recipeOf(names, values);
    try {
      const answer = await request("/plan", { method: "POST", body: recipe, signal: mine.signal });
      if (mine !== question) return;
      dispatch({ type: "planned", plan: answer });
      elsewhere.show(recipe);
    } catch (error) {
      if (mine !== question) return;
      dispatch({ type: "refused", refusal: asProblem(error) });
      elsewhere.show(null);
    }
    question = null;
  }

  /** From now on whatever is answered to an earlier question comes too late. @param {string} [model] that is typed */
  function isAskedAnew(model) {
    clearTimeout(timer);
    timer = undefined;
    question?.abort();
    question = null;
    if (!view.state.values.length || !mayPlan) return;
    dispatch({ type: "planning", model: shortModel(model ?? String(view.state.values[names.indexOf("model")] ?? "")) });
  }

  /** @param {object} recipe */
  async function submit(recipe) {
    dispatch({ type: "starting" });
    try {
      const answer = await request("/runs", { method: "POST", body: recipe });
      if (answer.batch) location.assign(at(`/runs?filter=${encodeURIComponent(answer.batch)}`));
      else showRun(answer.id);
    } catch (error) {
      dispatch({ type: "not started", refusal: asProblem(error) });
    }
  }

  /** The column shows a run, or with null the plan again. @param {string | null} id */
  function showRun(id, isNew = true) {
    dispatch({ type: "run shown", id });
    view.draw();
    if (isNew) rememberThis();
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
    onReturn(() => {
      const run = runOfAddress();
      const said = recipeIn(parse(location.search, calibrateView(names)).state, names);
      if (!run && said?.model) change(valuesOf(names, said));
      showRun(run, false);
    });
    const form = /** @type {HTMLElement} */ (bench.querySelector(".recipe-form"));
    form.addEventListener("input", typed, true);
    form.addEventListener("focusin", ({ target }) => {
      if (target instanceof HTMLInputElement && target.role === "combobox") target.select(); // to type another at once
    });
    form.addEventListener("focusout", () => {
      if (view.state.isStale && !question && timer === undefined) planSoon(); // typed, and taken back
    });
    isRead = true;
    if (state.run) showRun(state.run);
    else rememberThis();
  }

  /** @param {Event} event Gradio says what a field holds when it is left, and this is the first keystroke */
  function typed({ target }) {
    const field = target instanceof HTMLInputElement && target.closest(selector("model"));
    isAskedAnew(field ? /** @type {HTMLInputElement} */ (target).value : undefined);
  }

  /** The address says what the page shows: a run, or what fills the form as it is. */
  function rememberThis() {
    const { run, values } = view.state;
    if (!isRead) return;
    if (run) remember(serialise({ run }, CALIBRATE_VIEW, { link }), run);
    else if (values.length) {
      const asItComes = recipeSearch(saidBeside(names, valuesOf(names, firstRecipe())), link);
      const search = recipeSearch(saidBeside(names, values), link);
      remember(search === asItComes ? recipeSearch({}, link) : search, "form");
    }
  }

  /** What a field of text holds. @param {string} name */
  const textOf = (name) => String(view.state.values[names.indexOf(name)] ?? "");

  /** A checkpoint that others have quantized, in place of the model. @param {string} name */
  const openCheckpoint = (name) => putInto({ opened: name, method: AS_FOUND.name });

  const closeCheckpoint = () => putInto({ opened: null, method: RECIPE_FIELDS.method.default });

  /** What the form holds when nobody has asked for anything. */
  const firstRecipe = () => suggestedFor(models[0]?.name ?? "", models);

  async function initialValues() {
    const id = runOfAddress();
    const run = id && (await request(`/runs/${encodeURIComponent(id)}`).catch(() => null));
    // Its fields get their values and hints now.
    revealWhenAtRest(bench, /** @type {Element} */ (bench.querySelector(".recipe-form")));
    const said = recipeIn(parse(location.search, calibrateView(names)).state, names);
    // A link that names no model means the first, with its texts.
    const recipe = run ? run.recipe : said?.model ? said : { ...firstRecipe(), ...said };
    return fill(String(recipe.model ?? ""), valuesOf(names, recipe));
  }

  /** @param {unknown[]} values */
  function modelChanged(values) {
    const model = String(values[names.indexOf("model")] ?? "");
    if (model === view.state.model) return values;
    const filled = refilled(values, view.state.filled, valuesOf(names, suggestedFor(model, models)));
    return fill(model, withoutThatOf(view.state.model, model, filled));
  }

  /**
   * The form without the checkpoint that others made of the model before.
   * @param {string | null} before
   * @param {string} model
   * @param {unknown[]} values
   */
  function withoutThatOf(before, model, values) {
    const opened = String(values[names.indexOf("opened")] ?? "");
    if (!openedOf(before, models).includes(opened) || openedOf(model, models).includes(opened)) return values;
    /** @type {Record<string, unknown>} */
    const closed = { opened: "", method: RECIPE_FIELDS.method.default };
    return values.map((value, index) => closed[names[index]] ?? value);
  }

  /** The form gets values for a model. @param {string} model @param {unknown[]} values */
  function fill(model, values) {
    dispatch({ type: "filled", model, values, filled: valuesOf(names, suggestedFor(model, models)) });
    planSoon();
    return fieldsOf(values);
  }

  /** What Gradio sets the fields to. @param {unknown[]} values */
  const fieldsOf = (values) =>
    names.map((name, index) => {
      const value = values[index];
      const choices =
        name === "opened"
          ? openedOf(view.state.model, models).map((one) => [one, one])
          : choicesOf(name, String(value ?? ""), models, [...corpora, ...own.map(asCorpus)]);
      if (choices) return { __type__: "update", value, choices };
      return value === undefined ? { __type__: "update" } : value;
    });

  if (mayPlan)
    ownTexts({
      place: ownPlace,
      texts: ownAtFirst,
      changed(texts, chosen) {
        const suggested = suggestedFor(view.state.model ?? "", models);
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
    return fieldsOf(view.state.values);
  }

  /** Puts what the model suggests into these fields. @param {ReturnType<typeof unapplied>} left */
  function take(left) {
    change(view.state.values.map((value, index) => left.find((one) => one.index === index)?.value ?? value));
  }

  /** Changes the form as a refusal proposes. @param {Fix} fix */
  const mend = ({ values }) => putInto(values);

  /** Puts values into fields. @param {Record<string, any>} wanted under the public names */
  function putInto(wanted) {
    const fixed = (/** @type {string} */ name) => valuesOf([name], wanted)[0];
    change(
      view.state.values.map((value, index) =>
        RECIPE_FIELDS[names[index]].key in wanted ? fixed(names[index]) : value,
      ),
    );
  }

  /** @param {unknown[]} values */
  function formChanged(values) {
    dispatch({ type: "changed", values });
    planSoon();
  }

  function planSoon() {
    isAskedAnew();
    view.draw(); // the form answers at once
    if (!view.state.run) rememberThis();
    timer = setTimeout(plan, PLAN_DELAY_MS);
  }

  return { openAddress, initialValues, modelChanged, formChanged, fieldsChanged };
}

/**
 * What this host has of a model that others quantized.
 * @param {string | null} model
 * @param {readonly ModelEntry[]} models
 */
const openedOf = (model, models) => models.find(({ name }) => name === model)?.opened ?? [];

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

/**
 * What the button begins.
 * @param {number} runs
 * @param {unknown} opened
 * @param {unknown} method
 */
function startWords(runs, opened, method) {
  const [one, several] = !opened
    ? ["calibration", "calibrations"]
    : method === AS_FOUND.name
      ? ["measuring", "measurements"]
      : ["the repair", "repairs"];
  return runs > 1 ? `Start ${runs} ${several}` : `Start ${one}`;
}

/** Instead of a plan, for somebody who can't begin a run. @param {Visitor} who */
const watching = (who) => html`<p class="no-run" data-testid="no-run">${whyNoRun(who)}</p>`;

/** @type {Record<string, string[]>} what a text must be for, by the field that takes it */
const ROLES = { calibration: ["calibration", "any"], test: ["test", "held_out", "any"] };

/**
 * The field that a refusal is about says so, to the eye and to a screen reader.
 * @param {string[]} names
 * @param {string} wrong public name of the field, or empty
 */
function markWrong(names, wrong) {
  for (const name of names) {
    const field = document.querySelector(selector(name));
    const isWrong = wrong !== "" && RECIPE_FIELDS[name].key === wrong;
    if (!field || field.classList.contains("is-wrong") === isWrong) continue;
    field.classList.toggle("is-wrong", isWrong);
    for (const input of field.querySelectorAll("input, textarea")) {
      input.toggleAttribute("aria-invalid", isWrong);
      if (isWrong) {
        input.setAttribute("aria-invalid", "true");
        input.setAttribute("aria-describedby", "refusal");
      } else input.removeAttribute("aria-describedby");
    }
  }
}

const selector = (/** @type {string} */ name) => `#field-${name.replaceAll("_", "-")}`;

/**
 * Only what means something to the method is asked for, and λ and γ say what they are when left empty.
 * @param {string[]} names
 * @param {unknown[]} values
 * @param {CSSStyleSheet} off a rule rather than a class: fields in a closed part of the form are only made when it is opened
 */
function drawForm(names, values, off) {
  const said = readForm(names, values);
  const method = methodOf(said.method);
  const idle = idleFields(said);
  const unseen = [...idle.map(selector), ...(said.opened ? [] : [".opened-alone"])];
  off.replaceSync(unseen.length ? `${unseen.join(", ")} { display: none !important }` : "");
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
