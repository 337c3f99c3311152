/**
 * Calibrate: the form's values become a recipe, the recipe a plan, the plan a run. The run's id lives in the address,
 * so that a reload, a closed tab and a second browser find it again.
 * @module calibrate
 */

import { CALIBRATE_VIEW, parse, serialise, unknownNames } from "../base/address.js";
import { onReturn, remember } from "../base/address_bar.js";
import { asProblem, request } from "../base/client.js";
import { EVERYWHERE } from "../base/contract.js";
import { copyPanel } from "../base/copy_panel.js";
import { ready, say } from "../base/dom.js";
import { html, nothing, render } from "../base/html.js";
import { link, note } from "../base/link.js";
import { store } from "../base/page_state.js";
import { titled } from "../base/page_title.js";
import { asSentence, problemBlock } from "../base/problem.js";
import { calibrateView, LONGEST, recipeIn, recipeSearch } from "../base/recipe_address.js";
import { AS_FOUND, RECIPE_FIELDS } from "../base/recipe_contract.js";
import { revealWhenAtRest } from "../base/reveal.js";
import { at } from "../base/site.js";
import { mayRun, visitor, whyNoRun } from "../base/whoami.js";
import { boughtBy, boughtIn, budgetNote, budgetOptions, WITHOUT_END } from "./budgets.js";
import { reduce, START } from "./calibrate_state.js";
import { EFFORT_FIELDS, effortChoice, effortOf, effortsOf, keptEffort, withEffort } from "./effort_choice.js";
import { drawFields, isWhole, markWrong, selector, unlikeShown } from "./form_fields.js";
import { ladderCard } from "./ladder_card.js";
import { ladderRecipe, whyNoLadder } from "./ladder_form.js";
import { lamRuler } from "./lam_ruler.js";
import { methodList } from "./method_list.js";
import { openedNote, openedTitle, toOpen } from "./opened_note.js";
import { ownTexts } from "./own_texts.js";
import { planned } from "./plan_facts.js";
import {
  describe,
  formTrouble,
  readForm,
  recipeOf,
  saidBeside,
  severalValues,
  shortModel,
  valuesIn,
  valuesOf,
} from "./recipe_form.js";
import { roundingCard } from "./rounding_card.js";
import { runView } from "./run_view.js";
import { speedCard } from "./speed_card.js";
import { alsoSetNote, changeNote, suggestionNote } from "./suggestion_note.js";
import { alsoSet, altered, refilled, suggestedFor, toTell, unapplied } from "./suggestions.js";
import { ownTitle, questionOf, textQuestion, textsToChoose } from "./text_question.js";
import { textsCard } from "./texts_card.js";
import { tuningRecipe, whyNotTuned } from "./tune_form.js";
import { tuningCard } from "./tuning_card.js";
import { valueChips } from "./value_chips.js";

/** @import { Fix } from "../base/client.js" */
/** @import { CorpusEntry, ModelEntry } from "../base/types.d.ts" */
/** @import { Tuned } from "./budgets.js" */
/** @import { CalibrateState } from "./calibrate_state.js" */
/** @import { Offered } from "./opened_note.js" */
/** @import { OwnText } from "./own_texts.js" */
/** @import { Said } from "./recipe_form.js" */
/** @import { Choice } from "./text_question.js" */

const PLAN_DELAY_MS = 350;
const INSPECT = "#inspect"; // the address of who comes to open a checkpoint
// Fields that only keep the value of a run or an address. What compares models has fields of its own.
const KEPT = Object.values(RECIPE_FIELDS)
  .filter(({ name, form, section }) => form === "none" && section !== "tune" && name !== "effort")
  .map(({ name }) => name);
const BELOW_THEM = ["lambda", "gamma"]; // fields whose refusals stand right below them

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
    tuned,
    ladderColumn,
    roundingColumn,
    notes,
    texts,
    speed,
    ownPlace,
    chips,
    suggestionsPlace,
    openedPlace,
    methodsPlace,
    rulerPlace,
    effortsPlace,
    settingsToggle,
    alsoSetPlace,
    models,
    corpora,
    ownAtFirst,
    who,
  ] = await Promise.all([
    ready(".side"),
    ready(".tuning-run"),
    ready(".ladder-run"),
    ready(".rounding-run"),
    ready('[data-part="link-note"]'),
    ready('[data-part="texts-card"]'),
    ready('[data-part="speed-card"]'),
    ready('[data-part="own-texts"]'),
    ready('[data-part="several-values"]'),
    ready('[data-part="suggestions"]'),
    ready('[data-part="opened"]'),
    ready('[data-part="methods"]'),
    ready('[data-part="ruler"]'),
    ready('[data-part="efforts"]'),
    ready('[data-part="settings-toggle"]'),
    ready('[data-part="also-set"]'),
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
  const startLadder = /** @type {HTMLButtonElement} */ (part("ladder"));
  const ladderBudget = /** @type {HTMLSelectElement} */ (part("ladder-budget"));
  const elsewhere = copyPanel("plan", "This recipe, to run elsewhere", (fix) => mend(fix));
  part("plan-texts").append(elsewhere.element);
  /** @type {string[]} */
  const fields = JSON.parse(side.dataset.fields ?? "");
  const names = [...fields, ...KEPT];
  const view = store(START, reduce, drawPage);
  const { dispatch } = view;
  const off = new CSSStyleSheet(); // hides the fields that mean nothing
  document.adoptedStyleSheets.push(off);
  const cards = runView({
    card: runCard,
    recipeCard,
    names,
    tuning: tuningCard({ root: tuned, corpora, go: (id) => showRun(id) }),
    rounding: roundingCard(roundingColumn),
    ladder: ladderCard({ root: ladderColumn, corpora, go: (id) => showRun(id) }),
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
  /** @type {Map<number, unknown>} values by position that the page has changed and Gradio has not taken up yet */
  const onTheirWay = new Map();
  let isRead = false; // the address, which may be written from then on

  /** @param {CalibrateState} state */
  function drawPage({
    model,
    values,
    altered,
    plan,
    tuned,
    minutes,
    ladder,
    ladderMinutes,
    refusal,
    isTextAsked,
    isStale,
    checking,
    canStart,
    efforts,
    isUnfolded,
    isAdvanced,
    run,
    runTitle,
    runCompares,
  }) {
    const [opened, method, test] = ["quantized_checkpoint", "method", "test"].map(textOf);
    if (values !== drawnValues) {
      drawFields(names, values, off);
      render(
        methodList(method, opened !== "", (name) =>
          putInto({ method: name, ...keptEffort(readForm(names, values), name) }),
        ),
        methodsPlace,
      );
      const isSought = location.hash === INSPECT;
      const offered = toOpen(models, isSought ? null : model);
      const { folders = "" } = side.dataset;
      render(
        openedNote({ offered, opened, method, isSought, folders }, { open: openCheckpoint, close: closeCheckpoint }),
        openedPlace,
      );
      const apart = [...EFFORT_FIELDS, "calibration", "test"]; // chosen by themselves
      const suggested = model === null || opened ? [] : unapplied(names, values, suggestedFor(model, models));
      const left = suggested.filter(({ name }) => !apart.includes(name));
      render(
        altered.length
          ? changeNote(shortModel(model), toTell(altered, method), changeBack)
          : suggestionNote(shortModel(model), left, () => take(left)),
        suggestionsPlace,
      );
    }
    drawnValues = values;
    const said = readForm(names, values);
    const trouble = refusal && problemBlock(refusal, "refusal", mend);
    const isBelow = BELOW_THEM.includes(refusal?.field ?? "");
    render(isBelow ? trouble : valueChips(severalValues(names, values), takeAway), chips);
    render(lamRuler(isBelow ? { ...said, lambda: "auto" } : said), rulerPlace);
    const ofEfforts = effortsOf(said, efforts);
    const usual = { ...suggestedFor(model ?? "", models, method), ...ofEfforts[effortOf(said, ofEfforts) ?? ""] };
    const kept = values.length ? alsoSet(names, values, usual) : [];
    render(
      alsoSetNote(kept, () => take(kept.map(({ index, usual }) => ({ index, value: usual })))),
      alsoSetPlace,
    );
    render(effortChoice(said, efforts, putInto), effortsPlace);
    effortsPlace.classList.toggle("is-checking", isStale);
    settingsToggle.setAttribute("aria-expanded", String(isAdvanced));
    bench.classList.toggle("is-advanced", isAdvanced);
    const fold = {
      isOpen: isUnfolded,
      toggled: (/** @type {boolean} */ isOpen) => dispatch({ type: "unfolded", isUnfolded: isOpen }),
    };
    const content =
      who && !mayPlan
        ? html`<p class="no-run" data-testid="no-run">${whyNoRun(who)}</p>`
        : refusal
          ? isBelow
            ? html`<p class="no-run">${asSentence(refusal.what)}.</p>`
            : trouble
          : plan
            ? planned(plan, fold, mend)
            : isTextAsked
              ? textQuestion(shortModel(model), textsToChoose(own, corpora), { choose: takeText, bring: bringText })
              : nothing;
    render(content, planPlace);
    planPlace.classList.toggle("is-stale", isStale);
    say(part("checking"), isStale ? `Checking ${checking} …` : "");
    markWrong(names, isStale ? "" : (refusal?.field ?? ""));
    start.disabled = !canStart;
    say(start, isTextAsked ? "Choose a text first" : startWords((!refusal && plan?.runs) || 1, opened, method));
    const why = whyNotTuned(method, opened);
    tune.disabled = !canStart || why !== "" || (tuned !== null && "refusal" in tuned);
    tune.title = why;
    render(budgetOptions(boughtIn(tuned), minutes), budget);
    budget.value = minutes;
    const isTuned = !why && plan !== null && refusal === null;
    render(why || (isTuned ? budgetNote(tuned, minutes, plan.warnings, mend) : nothing), part("tune-note"));
    part("tune-note").classList.toggle("is-stale", isStale);
    const whyNot = whyNoLadder(opened, test);
    startLadder.disabled = !canStart || whyNot !== "" || (ladder !== null && "refusal" in ladder);
    startLadder.title = whyNot;
    render(budgetOptions(boughtIn(ladder), ladderMinutes, "for all draws"), ladderBudget);
    ladderBudget.value = ladderMinutes;
    const warnings = [...(plan?.warnings ?? []), ...(tuned && "plan" in tuned ? tuned.plan.warnings : [])];
    const hasLadder = !whyNot && plan !== null && refusal === null;
    render(
      whyNot ||
        (hasLadder
          ? budgetNote(ladder, ladderMinutes, warnings, mend, startLadder.textContent ?? "", "ladder")
          : nothing),
      part("ladder-note"),
    );
    part("ladder-note").classList.toggle("is-stale", isStale);
    const asked = isTextAsked ? questionOf(shortModel(model)) : "";
    say(part("budget-words"), isTuned ? boughtBy(tuned, minutes) : refusal ? asSentence(refusal.what) : asked);
    planCard.hidden = run !== null;
    runCard.hidden = recipeCard.hidden = run === null;
    // While a run is shown the form makes room: what is in it would not change the run any more.
    bench.classList.toggle("is-run", run !== null);
    bench.classList.toggle("is-tune", runCompares);
    document.title = titled(runTitle ?? document.querySelector("h1")?.textContent ?? "");
  }

  async function plan() {
    const { values } = view.state;
    if (!values.length || !mayPlan) return;
    isAskedAnew();
    const trouble = formTrouble(names, values);
    if (trouble) {
      dispatch({ type: "refused", refusal: trouble });
      elsewhere.show(null);
      return;
    }
    const mine = new AbortController();
    question = mine;
    view.draw();
    const recipe = recipeOf(names, values);
    try {
      if (textOf("calibration") === "") {
        await request(`/model?${modelQuery()}`, { signal: mine.signal }); // which needs no text to be refused
        if (mine !== question) return;
        dispatch({ type: "text asked" });
        elsewhere.show(null);
        question = null;
        return;
      }
      const [answer, tuned, ladder] = await Promise.all([
        request("/plan", { method: "POST", body: recipe, signal: mine.signal }),
        planOfTuning(mine.signal),
        planOfLadder(mine.signal),
        planOfEfforts(recipe, mine),
      ]);
      if (mine !== question) return;
      dispatch({ type: "planned", plan: answer, tuned, ladder });
      elsewhere.show(recipe);
    } catch (error) {
      if (mine !== question) return;
      dispatch({ type: "refused", refusal: asProblem(error) });
      elsewhere.show(null);
    }
    question = null;
  }

  /**
   * The plan of finding λ within the budget that will be preselected; null where λ can't be found.
   * @param {AbortSignal} signal
   */
  const planOfTuning = (signal) =>
    whyNotTuned(textOf("method"), textOf("quantized_checkpoint"))
      ? null
      : budgeted(tuningOf, view.state.minutes, view.state.isBudgetChosen, signal);

  /**
   * Plans each effort of a recipe; those that are refused have none. Many runs at once are not planned three times.
   * @param {Said} recipe
   * @param {AbortController} mine
   */
  async function planOfEfforts(recipe, mine) {
    const asked = severalValues(names, view.state.values).length ? [] : Object.keys(effortsOf(recipe));
    const plans = await Promise.all(
      asked.map((effort) =>
        request("/plan", { method: "POST", body: withEffort(recipe, effort), signal: mine.signal }).catch(() => null),
      ),
    );
    const known = asked.flatMap((effort, index) => (plans[index] ? [[effort, plans[index]]] : []));
    if (mine === question) dispatch({ type: "efforts planned", efforts: Object.fromEntries(known) });
  }

  /** The same of the ladder. @param {AbortSignal} signal */
  const planOfLadder = (signal) =>
    whyNoLadder(textOf("quantized_checkpoint"), textOf("test"))
      ? null
      : budgeted(ladderOf, view.state.ladderMinutes, view.state.isLadderBudgetChosen, signal);

  /**
   * The plan of a run with a budget: the chosen one, or the shortest sensible one.
   * @param {(minutes: string) => Said} recipe
   * @param {string} minutes
   * @param {boolean} isChosen
   * @param {AbortSignal} signal
   * @returns {Promise<Tuned>}
   */
  async function budgeted(recipe, minutes, isChosen, signal) {
    const asked = (/** @type {string} */ budget) => request("/plan", { method: "POST", body: recipe(budget), signal });
    try {
      const plan = await asked(minutes);
      const sensible = boughtIn({ plan })?.sensible_minutes;
      if (isChosen || sensible === undefined || String(sensible) === minutes) return { plan };
      return { plan: await asked(String(sensible)) }; // its warnings are those of that budget
    } catch (error) {
      return { refusal: asProblem(error) };
    }
  }

  /** The form's model as the server is asked about it. */
  function modelQuery() {
    const [name, revision] = [textOf("model"), textOf("revision")];
    return new URLSearchParams(revision ? { name, revision } : { name });
  }

  /** @param {Choice} choice */
  const takeText = ({ calibration, test }) => putInto({ calibration, test });

  const bringText = () => /** @type {HTMLElement | null} */ (ownPlace.querySelector("[type=file]"))?.click();

  /** From now on whatever is answered to an earlier question comes too late. @param {string} [model] that is typed */
  function isAskedAnew(model) {
    clearTimeout(timer);
    timer = undefined;
    question?.abort();
    question = null;
    if (!view.state.values.length || !mayPlan) return;
    dispatch({ type: "planning", model: shortModel(model ?? String(view.state.values[names.indexOf("model")] ?? "")) });
  }

  /** @param {() => object} recipe of the form's values */
  async function submit(recipe) {
    say(part("plan-note"), "");
    if (!isAsSeen()) return;
    dispatch({ type: "starting" });
    try {
      const answer = await request("/runs", { method: "POST", body: recipe() });
      if (answer.batch) location.assign(at(`/runs?filter=${encodeURIComponent(answer.batch)}`));
      else showRun(answer.id);
    } catch (error) {
      dispatch({ type: "not started", refusal: asProblem(error) });
    }
  }

  /** Whether the form shows what its plan was made of; if not, what is seen is planned first. */
  function isAsSeen() {
    const { values } = view.state;
    const choiceOf = (/** @type {string} */ name, /** @type {string} */ title) =>
      choicesFor(name, values[names.indexOf(name)])?.find(([words]) => words === title)?.[1] ?? title;
    const unlike = unlikeShown(bench, names, values, choiceOf);
    if (!unlike.length) return true;
    change(values.map((value, index) => unlike.find((one) => one.index === index)?.value ?? value));
    const fields = unlike.map(({ index }) => RECIPE_FIELDS[names[index]].title).join(", ");
    say(part("plan-note"), `${fields} had changed unnoticed: this is the plan of what the form shows.`);
    return false;
  }

  /** The column shows a run, or with null the plan again. @param {string | null} id */
  function showRun(id, isNew = true) {
    dispatch({ type: "run shown", id });
    view.draw();
    if (isNew) rememberThis();
    if (id)
      cards.open(id, ({ recipe }) =>
        dispatch({ type: "run arrived", title: describe(recipe), compares: recipe.kind !== "run" }),
      );
    else {
      cards.close();
      plan();
    }
  }

  /** The recipe that finds the form's λ within a budget. @param {string} minutes */
  const tuningOf = (minutes) => tuningRecipe(names, view.state.values, minutesIn(minutes), corpora);

  /** The recipe of the ladder of the form's model within a budget. @param {string} minutes */
  const ladderOf = (minutes) => ladderRecipe(names, view.state.values, minutesIn(minutes), corpora);

  function openAddress() {
    const { state, problems } = parse(location.search, calibrateView(names));
    note(notes, [...problems, ...link.problems, ...unknownNames(link, {}, EVERYWHERE)]);
    start.addEventListener("click", () => submit(() => recipeOf(names, view.state.values)));
    tune.addEventListener("click", () => submit(() => tuningOf(view.state.minutes)));
    startLadder.addEventListener("click", () => submit(() => ladderOf(view.state.ladderMinutes)));
    ladderBudget.addEventListener("change", () => {
      dispatch({ type: "ladder budget chosen", minutes: ladderBudget.value });
      planSoon();
    });
    budget.addEventListener("change", () => {
      dispatch({ type: "budget chosen", minutes: budget.value });
      planSoon();
    });
    onReturn(() => {
      const run = runOfAddress();
      const said = recipeIn(parse(location.search, calibrateView(names)).state, names);
      if (!run && said?.model) change(valuesOf(names, said));
      showRun(run, false);
    });
    const form = /** @type {HTMLElement} */ (bench.querySelector(".recipe-form"));
    form.addEventListener("input", entered, true);
    form.addEventListener("focusin", ({ target }) => {
      if (target instanceof HTMLInputElement && target.role === "combobox") target.select(); // to type another at once
    });
    form.addEventListener("focusout", () => {
      if (view.state.isStale && !question && timer === undefined) planSoon(); // typed, and taken back
    });
    settingsToggle.addEventListener("click", () => dispatch({ type: "advanced", isAdvanced: !view.state.isAdvanced }));
    isRead = true;
    if (state.run) showRun(state.run);
    else rememberThis();
  }

  /** @param {Event} event of a key, a paste, a drop, dictation or the browser's own filling in: one event is enough */
  function entered(event) {
    const field = event.target;
    if (!(field instanceof HTMLInputElement || field instanceof HTMLTextAreaElement) || field.type === "file") return;
    say(part("plan-note"), "");
    isAskedAnew(field.closest(selector("model")) ? field.value : undefined);
    if (["radio", "checkbox"].includes(field.type)) return; // Gradio says itself that they have changed
    if (field.role !== "combobox") setTimeout(() => document.getElementById("fields-entered")?.click());
    // A name is whole when its field is left, unless it came as one.
    else if (isWhole(event)) setTimeout(() => field.dispatchEvent(new FocusEvent("blur")));
  }

  /** The address says what the page shows: a run, or what fills the form as it is. */
  function rememberThis() {
    const { run, values } = view.state;
    if (!isRead) return;
    if (run) remember(serialise({ run }, CALIBRATE_VIEW, { link }), run);
    else if (values.length && values.every((value) => String(value ?? "").length <= LONGEST)) {
      const asItComes = recipeSearch(saidBeside(names, valuesOf(names, firstRecipe())), link);
      const search = recipeSearch(saidBeside(names, values), link);
      remember(search === asItComes ? recipeSearch({}, link) : search, "form");
    }
  }

  /** What a field of text holds. @param {string} name */
  const textOf = (name) => String(view.state.values[names.indexOf(name)] ?? "");

  /** A quantized checkpoint, in place of the model. @param {Offered} chosen */
  const openCheckpoint = ({ model, name }) => putInto({ model, quantized_checkpoint: name, method: AS_FOUND.name });

  const closeCheckpoint = () => putInto({ quantized_checkpoint: null, method: RECIPE_FIELDS.method.default });

  /** What the form holds when nobody has asked for anything. */
  const firstRecipe = () => suggestedFor(models[0]?.name ?? "", models);

  async function initialValues() {
    const id = runOfAddress();
    const run = id && (await request(`/runs/${encodeURIComponent(id)}`).catch(() => null));
    const isForLadder = parse(location.search, CALIBRATE_VIEW).state.kind === "ladder";
    // Its fields get their values and hints now.
    const form = /** @type {Element} */ (bench.querySelector(".recipe-form"));
    revealWhenAtRest(bench, form).then(() => {
      if (location.hash === INSPECT) openedPlace.querySelector("select")?.focus();
      if (isForLadder) ladderBudget.focus();
    });
    const said = recipeIn(parse(location.search, calibrateView(names)).state, names);
    // A link that names no text is a short one: what it leaves out is what the page would take by itself.
    const isShort = !run && said?.[RECIPE_FIELDS.calibration.key] === undefined;
    const model = said?.model ?? firstRecipe().model;
    const recipe = run ? run.recipe : isShort ? { ...suggestedFor(model, models, said?.method), ...said } : said;
    return fill(String(recipe.model ?? ""), valuesOf(names, recipe), []);
  }

  /** All values, of which Gradio knows those of its fields. @param {unknown[]} ofFields */
  const whole = (ofFields) => [...ofFields, ...view.state.values.slice(fields.length)];

  /** @param {unknown[]} ofFields */
  function modelChanged(ofFields) {
    const values = whole(ofFields);
    const model = String(values[names.indexOf("model")] ?? "");
    if (model === view.state.model) return ofFields;
    const filled = refilled(values, view.state.filled, valuesOf(names, suggestedFor(model, models)));
    const now = withoutThatOf(view.state.model, model, filled);
    return fill(model, now, altered(names, values, now));
  }

  /**
   * The form without the checkpoint that others made of the model before.
   * @param {string | null} before
   * @param {string} model
   * @param {unknown[]} values
   */
  function withoutThatOf(before, model, values) {
    const opened = String(values[names.indexOf("quantized_checkpoint")] ?? "");
    const isOf = (/** @type {string | null} */ one) =>
      one !== null && toOpen(models, one).some(({ name }) => name === opened);
    if (!isOf(before) || isOf(model)) return values;
    /** @type {Record<string, unknown>} */
    const closed = { quantized_checkpoint: "", method: RECIPE_FIELDS.method.default };
    return values.map((value, index) => closed[names[index]] ?? value);
  }

  /**
   * The form gets values for a model.
   * @param {string} model
   * @param {unknown[]} values
   * @param {ReturnType<typeof altered>} changes of untouched fields
   */
  function fill(model, values, changes) {
    const suggested = valuesOf(names, suggestedFor(model, models));
    dispatch({ type: "filled", model, values, filled: suggested, altered: changes });
    planSoon();
    return fieldsOf(values);
  }

  /** Titles and values to choose among in a field; null for one that has none. @param {string} name @param {unknown} value */
  const choicesFor = (name, value) => {
    if (name === "quantized_checkpoint")
      return toOpen(models, view.state.model).map((one) => [openedTitle(one.name), one.name]);
    const yours = own.map((text) => ({ name: text.name, title: ownTitle(text.title), role: "any" }));
    return choicesOf(name, String(value ?? ""), models, [...corpora, ...yours]);
  };

  /** What Gradio sets the fields to. @param {unknown[]} values */
  const fieldsOf = (values) =>
    fields.map((name, index) => {
      const value = values[index];
      const choices = choicesFor(name, value);
      if (choices) return { __type__: "update", value, choices };
      return value === undefined ? { __type__: "update" } : value;
    });

  if (mayPlan)
    ownTexts({
      place: ownPlace,
      texts: ownAtFirst,
      changed(texts, brought) {
        const suggested = suggestedFor(view.state.model ?? "", models);
        const isGone = (/** @type {unknown} */ value) =>
          own.some(({ name }) => name === value) && !texts.some(({ name }) => name === value);
        const values = view.state.values.map((value, index) => {
          if (names[index] === "calibration" && brought) return brought;
          // A text of one's own is for both, but for a test text of one's own: one half calibrates, the other tests.
          if (names[index] === "test" && brought && !own.some(({ name }) => name === value)) return brought;
          return isGone(value) ? (suggested[/** @type {keyof Said} */ (names[index])] ?? "") : value;
        });
        own = texts;
        change(values);
      },
    });

  /** The page itself changes fields. @param {unknown[]} values */
  function change(values) {
    values.forEach((value, index) => {
      if (value !== view.state.values[index]) onTheirWay.set(index, value);
    });
    dispatch({ type: "changed", values });
    document.getElementById("fields-changed")?.click(); // Gradio's fields are changed by Gradio alone
  }

  /** Takes one of several values out of a field. @param {string} name @param {number | string} gone */
  function takeAway(name, gone) {
    const left = (/** @type {unknown} */ text) => valuesIn(String(text)).filter((value) => value !== gone);
    change(view.state.values.map((value, index) => (names[index] === name ? left(value).join(", ") : value)));
  }

  function fieldsChanged() {
    onTheirWay.clear();
    planSoon();
    return fieldsOf(view.state.values);
  }

  /** Undoes what the model has changed. */
  function changeBack() {
    dispatch({ type: "changed back" });
    change(view.state.values);
  }

  /** Puts what is suggested into these fields. @param {{index: number, value: unknown}[]} left */
  function take(left) {
    change(
      view.state.values.map((value, index) => {
        const one = left.find((other) => other.index === index);
        return one ? one.value : value;
      }),
    );
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

  /** @param {unknown[]} ofFields as Gradio gathered them, perhaps before the page changed some */
  function formChanged(ofFields) {
    dispatch({
      type: "changed",
      values: whole(ofFields).map((value, index) => (onTheirWay.has(index) ? onTheirWay.get(index) : value)),
    });
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

/** The minutes of a choice in a menu of budgets; null: without an end. @param {string} chosen */
const minutesIn = (chosen) => (chosen === WITHOUT_END ? null : Number(chosen));

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

/** A title with the name where it does not begin with it. @param {string} title @param {string} name */
const namedTitle = (title, name) => (title.startsWith(name) ? title : title ? `${title} · ${name}` : name);

/**
 * Titles and values to choose among in a field whose choices the host offers; null for any other field.
 * @param {string} name of the field
 * @param {string} value
 * @param {ModelEntry[]} models
 * @param {Pick<CorpusEntry, "name" | "title" | "role">[]} corpora
 * @returns {[string, string][] | null}
 */
function choicesOf(name, value, models, corpora) {
  if (name === "model") return models.map(({ title, name }) => [namedTitle(title, name), name]);
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
 * What the button begins.
 * @param {number} runs
 * @param {string} opened
 * @param {string} method
 */
function startWords(runs, opened, method) {
  if (!opened) return runs > 1 ? `Start ${runs} calibrations` : "Start calibration";
  if (method === AS_FOUND.name) return runs > 1 ? `Start ${runs} measurements` : "Start measuring";
  return runs > 1 ? `Start ${runs} repairs` : "Start the repair";
}

/** @type {Record<string, string[]>} what a text must be for, by the field that takes it */
const ROLES = { calibration: ["calibration", "any"], test: ["test", "held_out", "any"] };
