/**
 * The table of runs: its columns, the rows of runs and of groups, and the fields in which a run gets its name.
 * @module runs/runs_table
 */

import { SIGNS, WRITTEN_AT_MOST } from "../base/contract.js";
import { bytes, counted, decimalsFor, duration, format, number, when } from "../base/format.js";
import { html, nothing, repeat } from "../base/html.js";
import { moreMenu } from "../base/popover.js";
import { METHODS } from "../base/recipe_contract.js";
import { at } from "../base/site.js";
import { stateChip } from "../base/state_chip.js";
import { table } from "../base/table.js";
import { mayChange } from "../base/whoami.js";
import { fittingWords, gridWords, methodTitle, modelWords, shortModel } from "../calibrate/recipe_form.js";
import { deeds, manyTexts, perplexity, plusMinus, rows, seconds, shownRuns, sortedBy, testName } from "./runs_state.js";

/**
 * @import { Group, Row, Run, RunsAction, RunsState, Spread } from "./types.d.ts"
 * @typedef {(action: RunsAction) => void} Dispatch
 * @typedef {Object<string, (run: Run) => void>} Deeds what the buttons of a row do, by name
 * @typedef {{save: (run: Run, written: Written) => void, leave: (run: Run) => void, unfold: (group: Group) => void}} Acts
 * @typedef {{name: string, note: string, tags: string[]}} Written
 *
 * @typedef {object} Column
 * @property {string} key
 * @property {string} title
 * @property {string} [about] what the title stands for
 * @property {string} [sort] the name by which the list is sorted
 * @property {boolean} [isNumber]
 * @property {boolean} [isSpare] whether it is left out where it holds nothing
 * @property {(run: Run) => unknown} run what a run's cell holds
 * @property {(group: Group) => unknown} group what a group's holds
 */

/** @type {Object<string, string>} */
export const SORT_WORDS = {
  created: "Date",
  name: "Name",
  model: "Model",
  method: "Method",
  state: "State",
  bits: "Bits",
  lambda: SIGNS.lam,
  gamma: SIGNS.gamma,
  perplexity: "Perplexity",
  against_gptq: "Against GPTQ 1 %",
  accuracy: "Accuracy",
  size: "Size",
  bits_per_weight: "Bits per weight",
  duration: "Duration",
};

/** @type {Object<string, string>} */
const WORDS = {
  batch: "Show its batch",
  cancel: "Cancel",
  continue: "Continue",
  delete: "Delete",
  "delete-yes": "Delete for good",
  "delete-no": "Keep",
};

/**
 * @param {RunsState} state
 * @param {Dispatch} dispatch
 * @param {Deeds} does
 * @param {Acts} acts
 */
export function runsTable(state, dispatch, does, acts) {
  const columns = columnsOf(state, dispatch, does, acts).filter((column) => !isEmpty(column, state));
  const cells = (/** @type {Row} */ row) =>
    columns.map(({ key, title, isNumber, run, group }) => {
      const content = row.run ? run(row.run) : group(row.group);
      const kind = `run-${key}${isNumber ? " is-number" : ""}${content === NOTHING ? " is-nothing" : ""}`;
      return html`<td class=${kind} data-label=${title}>${content}</td>`;
    });
  return table({
    columns: [],
    head: headLine(columns, state, dispatch),
    rows: rows(state),
    name: "runs runs-list",
    key: (row) => row.run?.id ?? row.group?.key,
    line: (row) =>
      row.run
        ? html`<tr class=${rowClass(state, row.run, row.isInner)} data-testid="row" data-run=${row.run.id}>${cells(row)}</tr>
            ${state.editing === row.run.id ? editor(row.run, columns.length, acts) : nothing}`
        : html`<tr class="is-group" data-testid="group" data-group=${row.group.key}>${cells(row)}</tr>`,
  });
}

const NOTHING = "–"; // was not measured, or means nothing there

/** Whether a column may be left out: one by which the list is sorted stays. @param {Column} column @param {RunsState} state */
const isEmpty = ({ isSpare, sort, run, group }, state) =>
  isSpare &&
  state.query.sort.replace(/^-/, "") !== sort &&
  rows(state).every((row) => (row.run ? run(row.run) : group(row.group)) === NOTHING);

/** @param {RunsState} state @param {Run} run @param {boolean} isInner */
const rowClass = (state, run, isInner) =>
  [state.picked.has(run.id) ? "is-picked" : "", isInner ? "is-inner" : ""].filter(Boolean).join(" ") || nothing;

/**
 * @param {Column[]} columns
 * @param {RunsState} state
 * @param {Dispatch} dispatch
 */
function headLine(columns, state, dispatch) {
  const { sort } = state.query;
  const shown = shownRuns(state);
  const allPicked = shown.length > 0 && shown.every(({ id }) => state.picked.has(id));
  const pickAll = (/** @type {Event} */ { target }) =>
    dispatch({ type: "picked", runs: shown, isPicked: target instanceof HTMLInputElement && target.checked });
  return html`<tr>${columns.map(({ key, title, about, sort: name, isNumber }) => {
    if (key === "pick")
      return html`<td class="run-pick"><input type="checkbox" aria-label="Pick all shown" data-testid="pick-all"
        ?disabled=${!shown.length} .checked=${allPicked} @change=${pickAll} /></td>`;
    if (!name)
      return title ? html`<th scope="col" class=${`run-${key}`}>${title}</th>` : html`<td class=${`run-${key}`}></td>`;
    const isSorted = sort.replace(/^-/, "") === name;
    const direction = sort.startsWith("-") ? "descending" : "ascending";
    return html`<th scope="col" class=${`run-${key}${isNumber ? " is-number" : ""}`} aria-sort=${isSorted ? direction : nothing}
      ><button type="button" class="sorts" title=${about ?? nothing} data-sort=${name}
        @click=${() => dispatch({ type: "asked", query: { sort: sortedBy(sort, name) } })}
      >${title}<span aria-hidden="true">${isSorted ? (direction === "descending" ? " ↓" : " ↑") : ""}</span></button></th>`;
  })}</tr>`;
}

/**
 * @param {RunsState} state
 * @param {Dispatch} dispatch
 * @param {Deeds} does
 * @param {Acts} acts
 * @returns {Column[]}
 */
function columnsOf(state, dispatch, does, acts) {
  return [
    { key: "pick", title: "", run: (run) => pickBox(state, run, dispatch), group: () => nothing },
    {
      key: "name",
      title: "Run",
      sort: "name",
      run: (run) => nameCell(state, run, dispatch),
      group: (group) => groupCell(state, group, acts),
    },
    {
      key: "state",
      title: "State",
      sort: "state",
      run: (run) => html`${stateChip(run.state)}${progress(run)}`,
      group: ({ states }) =>
        html`<span class="states">${Object.entries(states).map(
          ([one, amount]) => html`<span>${amount} ${stateChip(/** @type {Run["state"]} */ (one))}</span>`,
        )}</span>`,
    },
    {
      key: "bits",
      title: "Bits",
      sort: "bits",
      isNumber: true,
      run: ({ recipe }) => recipe.bits,
      group: (group) => common(group, "bits", group.run.recipe.bits),
    },
    {
      key: "method",
      title: "Method",
      sort: "method",
      run: ({ recipe }) => methodWords(recipe),
      group: (group) => common(group, "method", methodWords(group.run.recipe)),
    },
    taken("lambda"),
    { ...taken("gamma"), isSpare: true },
    {
      key: "perplexity",
      title: "Perplexity",
      sort: "perplexity",
      isNumber: true,
      run: (run) => perplexityCell(state, run),
      group: (group) => over(group, "perplexity", (value) => decimalsFor(value), number),
    },
    {
      key: "against",
      title: "Against GPTQ 1 %",
      about: "Perplexity beside that of GPTQ 1 % on the same texts, with the 95 % interval and what it is over",
      sort: "against_gptq",
      isSpare: true,
      run: againstCell,
      group: (group) => (group.varies.length ? html`<span class="several">several</span>` : againstCell(group.run)),
    },
    {
      key: "accuracy",
      title: "Accuracy",
      sort: "accuracy",
      isNumber: true,
      isSpare: true,
      run: ({ summary }) => format(summary?.accuracy ?? null, "share"),
      group: (group) => over(group, "accuracy", () => 1, share, 100),
    },
    {
      key: "size",
      title: "Size",
      about: "Of the quantized model",
      sort: "size",
      isNumber: true,
      run: ({ summary }) => sizeWords(summary?.bytes_after, summary?.bits_per_weight),
      group: ({ measures: { size, bits_per_weight: bits } }) =>
        size && size.least === size.most ? sizeWords(size.mean, bits?.mean) : NOTHING,
    },
    {
      key: "duration",
      title: "Duration",
      sort: "duration",
      isNumber: true,
      run: (run) => shortDuration(seconds(run)),
      group: ({ measures }) => shortDuration(measures.duration?.mean ?? null),
    },
    {
      key: "created",
      title: "When",
      sort: "created",
      run: ({ created, owner }) => html`<span title=${state.who?.public ? owner : nothing}>${when(created)}</span>`,
      group: ({ run }) => when(run.created),
    },
    {
      key: "deeds",
      title: "",
      run: (run) => html`<span class="row-buttons">${buttons(state, run, does)}</span>`,
      group: () => nothing,
    },
  ];
}

const share = (/** @type {number} */ value, /** @type {number} */ decimals) => `${number(value, decimals)}\u00a0%`;

const MOODS = { better: "is-better", worse: "is-worse", equal: nothing, unknown: nothing };

/** The comparison with GPTQ 1 %, with a colour where the draws show it. @param {Run} run */
function againstCell({ evidence }) {
  if (!evidence) return NOTHING;
  const { verdict, lead, size, bounds, words } = evidence;
  const beside = [lead, bounds].filter(Boolean).join(", ");
  return html`<span class=${MOODS[verdict]} title=${words}>${size}</span><small class="beside">${beside}</small>`;
}

/**
 * A perplexity; where the list has several texts also on which of them.
 * @param {RunsState} state
 * @param {Run} run
 */
function perplexityCell(state, run) {
  const value = perplexity(run);
  if (value === null) return NOTHING;
  const whose = run.tuned ? `of λ = ${String(run.tuned.best)}, mean over its draws; ` : "";
  const text = manyTexts(state) ? html`<small class="beside">${testName(run)}</small>` : nothing;
  return html`<span data-value=${String(value)} title=${`${whose}on ${run.test}`}>${format(value, "perplexity")}</span>${text}`;
}

/** What tuning came to, and which λ are as good; or why there is none. @param {Run} run */
function tunedCell({ tuned }) {
  if (!tuned) return NOTHING;
  const { lam, words, band } = tuned;
  const beside = lam === null ? words : band && `as good: ${band}`;
  return html`<span data-testid="tuned">${lam === null ? NOTHING : words}</span>${
    beside ? html`<small class="beside">${beside}</small>` : nothing
  }`;
}

/**
 * λ or γ as they were taken, where an empty field means the method's own; of a tuning run as it came to them.
 * @param {string} name
 * @returns {Column}
 */
function taken(name) {
  const own = name === "lambda" ? "lam" : "gamma";
  const text = (/** @type {Run} */ run) => {
    const { recipe, tuned } = run;
    if (recipe.kind === "tune") return own === "lam" ? tunedCell(run) : format(tuned?.gamma ?? null, "plain");
    if (recipe.kind === "ladder") return format(null, "plain"); // its λ is that of a step alone
    const value = /** @type {Record<string, any>} */ (recipe)[name];
    return Array.isArray(value) || value === "auto"
      ? String(value)
      : format(value ?? METHODS[recipe.method]?.defaults[own], "plain");
  };
  return {
    key: name,
    title: SIGNS[own],
    sort: name,
    isNumber: true,
    run: text,
    group: (group) => common(group, name, text(group.run)),
  };
}

/** What all runs of a group have, or that they differ. @param {Group} group @param {string} name @param {unknown} value */
const common = ({ varies }, name, value) =>
  varies.includes(name) ? html`<span class="several">several</span>` : value;

/**
 * A quantity over a group: mean ± standard error of runs that only differ in chance, from least to most of others.
 * @param {Group} group
 * @param {string} name
 * @param {(value: number) => number} decimals
 * @param {(value: number, decimals: number) => string} write
 * @param {number} [unit] in which it is written
 */
function over({ varies, measures }, name, decimals, write, unit = 1) {
  /** @type {Spread | undefined} */
  const found = measures[name];
  if (!found) return NOTHING;
  const { count } = found;
  const [mean, least, most] = [found.mean * unit, found.least * unit, found.most * unit];
  const error = found.error === null ? null : found.error * unit;
  if (varies.length && least !== most)
    return html`<span title=${counted(count, "run")}
      >${write(least, decimals(least))} to ${write(most, decimals(most))}</span>`;
  return html`<span title="Mean of ${count} runs${error === null ? "" : " ± its standard error"}"
    >${plusMinus(mean, error, write, decimals(mean))}</span>`;
}

/** A run by what tells it from others, for those who hear one name after the other. @param {Run} run */
function runWords({ id, name, recipe, created }) {
  const { bits, method, lambda } = recipe;
  const lam = lambda === null || lambda === undefined ? "" : `, λ ${lambda}`;
  return `${name || modelWords(recipe)}, ${bits} bits, ${methodTitle(method)}${lam}, ${when(created)}, run ${id.slice(-4)}`;
}

/** @param {Run["recipe"]} recipe */
function methodWords(recipe) {
  const kind =
    recipe.kind && recipe.kind !== "run"
      ? html`<span class="kind">${recipe.kind === "tune" ? "tuning" : recipe.kind}</span> `
      : nothing;
  const grid = gridWords(recipe);
  return html`${kind}${[methodTitle(recipe.method), ...(grid ? [`${grid} grid`] : []), ...fittingWords(recipe)].join(", ")}`;
}

/** @param {number | null | undefined} size @param {number | null | undefined} bits */
const sizeWords = (size, bits) =>
  size === null || size === undefined
    ? NOTHING
    : html`<span title=${
        bits ? `${number(bits, 2)} bits per quantized weight, scales and zero points or biases included` : nothing
      }>${bytes(size)}</span>`;

/** @param {number | null} value */
const shortDuration = (value) => (value === null ? NOTHING : duration(value));

/** @param {Run} run */
const progress = ({ state, progress: made, stepped_aside: isAside, waits_for_room: lacksRoom }) => {
  const layers = made?.total ? `${made.done} of ${made.total}` : "";
  if (lacksRoom) return ` waits for room on the disk${layers && `, ${layers}`}`;
  if (!layers || (!isAside && !["running", "cancelling"].includes(state))) return "";
  return ` ${isAside ? "stepped aside at " : ""}${layers}`;
};

/**
 * @param {RunsState} state
 * @param {Run} run
 * @param {Dispatch} dispatch
 */
function pickBox(state, run, dispatch) {
  const change = (/** @type {Event} */ { target }) =>
    dispatch({ type: "picked", runs: [run], isPicked: target instanceof HTMLInputElement && target.checked });
  return html`<input type="checkbox" aria-label="Pick ${runWords(run)}" data-testid="pick"
    .checked=${state.picked.has(run.id)} @change=${change} />`;
}

/**
 * The name, or the model where it has none; below it the model, tags and the beginning of the note.
 * @param {RunsState} state
 * @param {Run} run
 * @param {Dispatch} dispatch
 */
function nameCell(state, run, dispatch) {
  const { id, name, note, tags, recipe, owner } = run;
  const model = modelWords(recipe);
  const found = (/** @type {string} */ tag) =>
    dispatch({ type: "asked", query: { filter: state.query.filter.trim() === `#${tag}` ? "" : `#${tag}` } });
  const edit = () => dispatch({ type: "editing", id: state.editing === id ? null : id });
  const words = name || tags.length || note ? "Change name, note and tags" : "Give it a name, a note or tags";
  return html`<div class="run-named"><a href=${at(`/calibrate?run=${encodeURIComponent(id)}`)} title=${recipe.quantized_checkpoint ?? recipe.model}>${name || model}</a>${
    mayChange(state.who, owner)
      ? html`<button type="button" class="quiet run-edit" data-testid="edit" aria-label=${`${words}: ${name || model}`}
          title=${words} aria-expanded=${String(state.editing === id)} @click=${edit}>✎</button>`
      : nothing
  }</div>${
    name || tags.length || note
      ? html`<div class="run-under">${name ? html`<span>${model}</span>` : nothing}${tags.map(
          (tag) =>
            html`<button type="button" class="tag" title="Runs tagged ${tag}" @click=${() => found(tag)}>${tag}</button>`,
        )}${note ? html`<span class="run-note" title=${note}>${note.split("\n", 1)[0]}</span>` : nothing}</div>`
      : nothing
  }`;
}

/**
 * @param {RunsState} state
 * @param {Group} group
 * @param {Acts} acts
 */
function groupCell(state, group, acts) {
  const { key, count, run, varies } = group;
  const isOpen = state.unfolded.has(key);
  const model = varies.includes("model") ? "several models" : shortModel(run.recipe.model);
  return html`<button type="button" class="quiet unfold" data-testid="unfold" aria-expanded=${String(isOpen)}
    @click=${() => acts.unfold(group)}
    ><span aria-hidden="true">${isOpen ? "▾" : "▸"}</span> ${model}, ${counted(count, state.query.group === "seeds" ? "seed" : "run")}</button>`;
}

/**
 * @param {Run} run
 * @param {number} width columns
 * @param {Acts} acts
 */
function editor(run, width, acts) {
  const leave = () => acts.leave(run);
  const submit = (/** @type {SubmitEvent} */ event) => {
    event.preventDefault();
    const form = new FormData(/** @type {HTMLFormElement} */ (event.target));
    const text = (/** @type {string} */ name) => String(form.get(name) ?? "");
    acts.save(run, {
      name: text("name"),
      note: text("note"),
      tags: tagsIn(form.get("tags")),
    });
  };
  const keys = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Escape") leave();
    else if (event.key === "Enter" && (event.ctrlKey || event.metaKey))
      /** @type {HTMLElement} */ (event.currentTarget).querySelector("form")?.requestSubmit();
  };
  return html`<tr class="run-editor" data-testid="editor" @keydown=${keys}><td colspan=${width}>
    <form @submit=${submit}>
      <label>Name <input name="name" value=${run.name} maxlength=${WRITTEN_AT_MOST.name} data-testid="edit-name" autocomplete="off" /></label>
      <label>Tags <input name="tags" value=${run.tags.join(", ")} maxlength=${WRITTEN_AT_MOST.tags * (WRITTEN_AT_MOST.tag + 2)} placeholder="baseline, paper" data-testid="edit-tags" autocomplete="off" /></label>
      <label>Note <textarea name="note" rows="3" maxlength=${WRITTEN_AT_MOST.note} data-testid="edit-note" .defaultValue=${run.note}></textarea></label>
      <span class="row-buttons"><button type="submit" class="act-quiet" data-testid="edit-save">Save</button>
        <button type="button" class="quiet" data-testid="edit-leave" @click=${leave}>Leave as it was</button></span>
    </form>
  </td></tr>`;
}

/** Tags as they are typed, with commas between them. @param {unknown} typed */
export const tagsIn = (typed) =>
  String(typed ?? "")
    .split(",")
    .map((tag) => tag.trim())
    .filter(Boolean);

const IN_MENU = ["batch", "delete"]; // what is done seldom, or can't be undone

/**
 * @param {RunsState} state
 * @param {Run} run
 * @param {Deeds} does
 */
function buttons(state, run, does) {
  const all = deeds(state, run);
  const hidden = all.filter((deed) => IN_MENU.includes(deed));
  const button = (/** @type {string} */ deed) =>
    html`<button type="button" class=${deed.startsWith("delete") && deed !== "delete-no" ? "quiet danger" : "quiet"} data-testid=${deed}
      aria-label=${`${WORDS[deed]}: ${runWords(run)}`} @click=${() => does[deed](run)}>${WORDS[deed]}</button>`;
  const shown = repeat(
    all.filter((deed) => !IN_MENU.includes(deed)),
    (deed) => deed, // a button is never taken for another, least of all by a second press
    (deed) =>
      deed === "lab"
        ? html`<a class="quiet" aria-label=${`Lab: ${runWords(run)}`} href=${at(`/?study=${encodeURIComponent(run.study_id ?? "")}`)}>Lab</a>`
        : button(deed),
  );
  return html`${shown}${
    hidden.length
      ? moreMenu({ id: `more-${run.id}`, label: `More: ${runWords(run)}`, items: hidden.map(button) })
      : nothing
  }`;
}
