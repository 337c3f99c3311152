/**
 * The Lab: pickers above, the explorer below, the state in the address bar.
 * @module lab
 */

import { asProblem, request } from "./api.js";
import { copy, fill, h } from "./dom.js";
import { MixtureExplorer } from "./expert_views.js";
import { layerChoice } from "./layer_choice.js";
import { LAB_STATE, parse, remember } from "./state.js";
import { ORIGINS } from "./studies.js";

/** Called by the page's js_on_load with the element that holds the pickers and the sentence. */
export async function mount() {
  const root = document.querySelector(".lab");
  const explorer = new MixtureExplorer({ root, prefix: "lab-", onChange: (state, reload) => changed(state, reload) });
  const wanted = parse(location.search, LAB_STATE);
  let studies = [];

  function changed(state, reload) {
    remember(state, LAB_STATE);
    if (reload) open(state);
  }

  async function open(state) {
    try {
      await explorer.load(state);
      pickers();
    } catch {
      // The explorer has shown the error in its three parts; the pickers stay usable.
      pickers();
    }
  }

  function choose(name, options, current) {
    const select = root.querySelector(`[data-pick="${name}"]`);
    fill(
      select,
      options.map(([value, text]) => h("option", { value, selected: String(value) === String(current) }, text)),
    );
    select.value = String(current);
    select.disabled = options.length < 2;
    select.closest("label").hidden = options.length === 0;
  }

  function pickers() {
    const { view } = explorer;
    choose("study", studies.map((study) => [study.id, titleOf(study)]), view?.study.id ?? wanted.study ?? "");
    const download = root.querySelector('[data-part="download"]');
    download.hidden = !view;
    if (!view) return;
    download.href = `/api/studies/${encodeURIComponent(view.study.id)}/download`;
    const { line } = view;
    const widths = [...new Set(view.choices.map((one) => one.bits))].sort((a, b) => a - b);
    choose("bits", widths.map((bits) => [bits, `${bits}-bit`]), line.bits);
    const methods = view.choices.filter((one) => one.bits === line.bits);
    choose("method", methods.map((one) => [one.name, `${one.title} · ${one.method}`]), line.name);
    layers(view);
    const grid = root.querySelector('[data-part="grid"]');
    if (grid) grid.textContent = line.grid_text;
  }

  /** The list of layers; with experts a list of blocks before it, and the layers of the chosen block alone. */
  function layers(view) {
    const { blocks, block, groups, layer } = layerChoice(view);
    choose("block", blocks ?? [], block);
    const select = root.querySelector('[data-pick="layer"]');
    const option = ([value, text]) => h("option", { value, selected: String(value) === layer }, text);
    fill(
      select,
      groups.map(({ title, options }) => (title === null ? options.map(option) : h("optgroup", { label: title }, options.map(option)))),
    );
    select.value = layer;
    select.disabled = view.layers.length < 2;
    select.closest("label").hidden = groups.length === 0; // all layers of a mixture: the list of blocks says so
  }

  for (const select of root.querySelectorAll("[data-pick]")) {
    select.addEventListener("change", () => {
      const name = select.dataset.pick === "block" ? "layer" : select.dataset.pick; // a block leads to its first layer
      const state = { ...explorer.state(), [name]: select.value };
      // Another study has other lines and layers; only the place on the λ axis is worth keeping.
      if (name === "study") open({ study: select.value, lambda: state.lambda, gamma: state.gamma });
      else if (name === "bits" || name === "method") open(withLine(state, explorer.view, name));
      else open(state);
    });
  }

  root.querySelector('[data-part="share"]')?.addEventListener("click", async (event) => {
    const button = event.currentTarget;
    await copy(location.href);
    button.textContent = "Link copied";
    setTimeout(() => (button.textContent = "Share"), 1500);
  });

  try {
    const answer = await request("/studies");
    studies = Array.isArray(answer) ? answer : (answer.studies ?? []);
  } catch (error) {
    explorer.failed(asProblem(error));
  }
  const known = studies.some((study) => study.id === wanted.study);
  if (wanted.study && !known && studies.length) {
    explorer.failed({
      what: `There is no study “${wanted.study}” here.`,
      where: "the address of this page",
      remedy: "Choose one above, or run a calibration to make one.",
    });
    pickers();
    return;
  }
  if (!studies.length) {
    empty(root);
    return;
  }
  // The story is told by λ: without a wish the page opens with a shipped study that has curves over it.
  const shipped = studies.filter((study) => study.shipped);
  const first = shipped.find((study) => study.has_curves) ?? shipped[0] ?? studies[0];
  await open({ ...wanted, study: wanted.study ?? first.id });
}

/** A study's title, with where it comes from when that is not this host's app. */
function titleOf(study) {
  const title = study.title || study.id;
  return ORIGINS[study.origin] ? `${title} · ${ORIGINS[study.origin]}` : title;
}

/** Keeps the method when the width changes, if the study has it there. */
function withLine(state, view, name) {
  const bits = Number(state.bits);
  const has = view.choices.some((one) => one.name === state.method && one.bits === bits);
  return name === "bits" && !has ? { ...state, method: undefined } : state;
}

function empty(root) {
  const place = root.querySelector('[data-part="problem"]');
  if (place.childElementCount) return;
  root.classList.add("is-empty");
  fill(
    place,
    h(
      "div",
      { class: "card empty", "data-testid": "empty" },
      h("p", {}, "There is no study to show yet. Each finished calibration leaves one here."),
      h("a", { class: "act", href: "/calibrate" }, "Start a calibration"),
    ),
  );
}
