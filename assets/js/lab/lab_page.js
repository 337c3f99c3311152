/**
 * The Lab: pickers above, the explorer below, the state in the address bar.
 * @module lab
 */

import { fit, LAB_VIEW, parse, serialise, unknownNames } from "../base/address.js";
import { remember } from "../base/address_bar.js";
import { asProblem, request } from "../base/client.js";
import { CONTROLS, EVERYWHERE, PANELS } from "../base/contract.js";
import { fill, h } from "../base/dom.js";
import { ORIGINS } from "../base/format.js";
import { isLocked, link, note } from "../base/link.js";
import { shareMenu } from "../base/share.js";
import { MixtureExplorer } from "../explorer/experts_part.js";
import { layerChoice } from "../explorer/layer_choice.js";
import { radiusLine } from "../explorer/radius.js";
import { Compute } from "./compute.js";

/** Called by the page's js_on_load with the element that holds the pickers and the sentence. */
export async function mount() {
  const root = document.querySelector(".lab");
  const explorer = new MixtureExplorer({ root, prefix: "lab-", onChange: (state, reload) => changed(state, reload) });
  const { state: wanted, problems } = parse(location.search, LAB_VIEW);
  const place = root.querySelector('[data-part="link-note"]');
  const told = [...problems, ...link.problems, ...unknownNames(link, CONTROLS, { ...PANELS, ...EVERYWHERE })];
  let studies = [];
  let first = null; // the study that opens without a wish

  function changed(state, reload) {
    if (!reload) compute.offer(explorer.view, explorer.at);
    if (reload) open(state);
    else if (explorer.view) remember(serialise(state, LAB_VIEW, { standard: standard(explorer.view, first), link }));
  }

  async function open(state) {
    try {
      await explorer.load(state);
    } catch {
      // The explorer has shown the error in its three parts; the pickers stay usable.
    }
    pickers();
    root.classList.add("is-open");
  }

  function choose(name, options, current) {
    const select = root.querySelector(`[data-pick="${name}"]`);
    fill(
      select,
      options.map(([value, text]) => h("option", { value, selected: String(value) === String(current) }, text)),
    );
    select.value = String(current);
    select.disabled = options.length < 2 || isLocked(name === "block" ? "layer" : name);
    select.closest("label").hidden = options.length === 0;
  }

  function pickers() {
    const { view } = explorer;
    choose(
      "study",
      studies.map((study) => [study.id, titleOf(study)]),
      view?.study.id ?? wanted.study ?? "",
    );
    const download = root.querySelector('[data-part="download"]');
    download.hidden = !view;
    if (!view) return;
    download.href = `/api/studies/${encodeURIComponent(view.study.id)}/download`;
    const { line } = view;
    const widths = [...new Set(view.choices.map((one) => one.bits))].sort((a, b) => a - b);
    choose(
      "bits",
      widths.map((bits) => [bits, `${bits}-bit`]),
      line.bits,
    );
    const methods = view.choices.filter((one) => one.bits === line.bits);
    choose(
      "method",
      methods.map((one) => [one.name, `${one.title} · ${one.method}`]),
      line.name,
    );
    layers(view);
    choose(
      "scale",
      view.scales.length > 1 ? view.scales.map((one) => [one.name, `scale: ${one.title}`]) : [],
      view.scale,
    );
    const draws = view.draws.map((seed) => [seed, `draw ${seed}`]);
    choose("draw", draws.length > 1 ? [["all", `${draws.length} draws`], ...draws] : [], view.draw ?? "all");
    choose(
      "quantity",
      view.quantities.map((one) => [one.name, one.title]),
      view.quantity,
    );
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
      groups.map(({ title, options }) =>
        title === null ? options.map(option) : h("optgroup", { label: title }, options.map(option)),
      ),
    );
    select.value = layer;
    select.disabled = view.layers.length < 2 || isLocked("layer");
    select.closest("label").hidden = groups.length === 0; // all layers of a mixture: the list of blocks says so
  }

  for (const select of root.querySelectorAll("[data-pick]")) {
    select.addEventListener("change", () => {
      const name = select.dataset.pick === "block" ? "layer" : select.dataset.pick; // a block leads to its first layer
      const state = { ...explorer.state(), [name]: LAB_VIEW[name].read(select.value) };
      // Another study has other lines and layers; only the place on the λ axis is worth keeping.
      const { lambda, gamma, scale, drawing, quantity } = state;
      if (name === "study") open({ study: state.study, lambda, gamma, scale, drawing, quantity });
      else if (name === "quantity") explorer.setQuantity(quantity).then(pickers);
      else if (name === "bits" || name === "method") open(withLine(state, explorer.view, name));
      else open(state);
    });
  }

  const compute = new Compute({
    button: root.querySelector('[data-part="compute"]'),
    place: root.querySelector('[data-part="computing"]'),
    show: async (study) => {
      studies = (await request("/studies")).studies;
      await open({ study, lambda: explorer.view?.lams[explorer.at.lambda] });
    },
  });

  shareMenu(root.querySelector('[data-part="share"]'), {
    controls: CONTROLS,
    panels: { ...PANELS, ...EVERYWHERE },
    link,
    // A link that is sent says all: what opens without a wish may be another study tomorrow.
    address: (given) =>
      `${location.origin}${location.pathname}${serialise(explorer.state(), LAB_VIEW, { link: given })}`,
  });
  explorer.ready.then(() => {
    radiusLine(explorer);
    const seen = new MutationObserver(() => {
      seen.disconnect();
      pickers();
      root.classList.add("is-open");
    });
    seen.observe(explorer.hosts.hero.root, { attributes: true, attributeFilter: ["data-drawn"] });
  });

  try {
    const answer = await request("/studies");
    studies = Array.isArray(answer) ? answer : (answer.studies ?? []);
  } catch (error) {
    explorer.failed(asProblem(error));
  }
  const known = studies.find((study) => study.id === wanted.study);
  if (wanted.study && !known && studies.length) {
    explorer.failed({
      what: `There is no study “${wanted.study}” here.`,
      where: "the address of this page",
      remedy: "Choose one above, or run a calibration to make one.",
    });
    pickers();
    root.classList.add("is-open");
    note(place, told);
    return;
  }
  if (!studies.length) {
    root.classList.add("is-open");
    empty(root);
    return;
  }
  // The story is told by λ: without a wish the page opens with a shipped study that has curves over it.
  const shipped = studies.filter((study) => study.shipped).sort((a, b) => (a.id < b.id ? -1 : 1));
  const story = shipped.find((study) => study.has_curves) ?? shipped[0] ?? studies[0];
  first = story.id;
  const fitting = fit({ ...wanted, study: wanted.study ?? first }, known ?? story);
  note(place, [...told, ...fitting.problems]);
  await open(fitting.state);
  if (explorer.view) note(place, [...told, ...fitting.problems, ...elsewhere(fitting.state, explorer)]);
}

/** What needs not stand in the address of a view: the first study, its first line, and the point where a line opens. */
function standard({ line, default: usual, lams, gammas, start, quantities }, first) {
  const isUsual = line.name === usual.method && line.bits === usual.bits;
  return {
    study: first,
    ...(isUsual ? { method: line.name, bits: line.bits } : {}),
    lambda: lams[start.lambda],
    gamma: gammas[start.gamma],
    quantity: quantities[0]?.name,
  };
}

/** Values of a link that the shown line does not have, and what is shown instead. */
export function elsewhere({ lambda, gamma, scale, quantity }, { view, at }) {
  const nearby = (name, sign, values, texts, place) =>
    name === undefined || values.includes(name)
      ? []
      : [
          `${sign} = ${name} is not in this line: ${texts[place] ? `${sign} = ${texts[place]} is shown` : "it has none"}.`,
        ];
  return [
    ...nearby(lambda, "λ", view.line.has_lam ? view.lams : [], view.line.has_lam ? view.lam_texts : [], at.lambda),
    ...nearby(gamma, "γ", view.gammas, view.gamma_texts, at.gamma),
    ...(scale !== undefined && scale !== view.scale
      ? [`This line can't be drawn on the scale “${scale}”: it is shown raw.`]
      : []),
    ...(quantity !== undefined && quantity !== view.quantity
      ? [`This line has no map of “${quantity}”: the first it has is shown.`]
      : []),
  ];
}

/** A study's title, with where it comes from when that is not this host's app. */
function titleOf(study) {
  const title = study.title || study.id;
  return ORIGINS[study.origin] ? `${title} · ${ORIGINS[study.origin]}` : title;
}

/** Keeps the method when the width changes, if the study has it there. */
function withLine(state, view, name) {
  const has = view.choices.some((one) => one.name === state.method && one.bits === state.bits);
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
