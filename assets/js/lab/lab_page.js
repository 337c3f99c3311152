/**
 * The Lab: pickers above, the explorer below, the state in the address bar.
 * @module lab
 */

import { LAB_VIEW, parse, serialise, unknownNames } from "../base/address.js";
import { onReturn, remember, viewPath } from "../base/address_bar.js";
import { asProblem, downloads, holds, request, studyPage } from "../base/client.js";
import { CONTROLS, EVERYWHERE, PANELS } from "../base/contract.js";
import { say } from "../base/dom.js";
import { html, made, nothing, render } from "../base/html.js";
import { link, note } from "../base/link.js";
import { titled } from "../base/page_title.js";
import { problemBlock } from "../base/problem.js";
import { published } from "../base/published.js";
import { shareMenu } from "../base/share.js";
import { shareLink } from "../base/share_link.js";
import { at } from "../base/site.js";
import { siteDownload } from "../base/site_download.js";
import { visitor } from "../base/whoami.js";
import { curvesPart } from "../explorer/curves_part.js";
import { doorsPart } from "../explorer/doors_part.js";
import { equationPart } from "../explorer/equation_part.js";
import { Explorer, fetchLine } from "../explorer/explorer.js";
import { ladderPart } from "../explorer/ladder_part.js";
import { mapPart } from "../explorer/map_part.js";
import { numbersPart } from "../explorer/numbers_part.js";
import { radiusPart } from "../explorer/radius.js";
import { slidersPart } from "../explorer/sliders_part.js";
import { addressOf } from "../explorer/state.js";
import { weightsPart } from "../explorer/weights_part.js";
import { wordsPart } from "../explorer/words_part.js";
import { tryPart } from "../model/try_part.js";
import { compute } from "./compute.js";
import { framedPart } from "./framed_part.js";
import { labLecture } from "./lab_lecture.js";
import { previewKey } from "./preview_key.js";
import { offered } from "./preview_recipe.js";
import * as Lab from "./state.js";
import { recipeAt, useCard } from "./use_card.js";

/** @import { Visitor } from "../base/whoami.js" */

const CURVES = [
  "hero",
  "curves",
  "deciles",
  "plane",
  "gamma_grid",
  "methods",
  "rounding",
  "gap",
  "inspector",
  "ruler",
  "theorem",
];
const HIDEABLE = { ...PANELS, ...EVERYWHERE };

const ALL_TOGETHER = {
  what: "This line is shown with all layers and draws together.",
  where: "the files of this site",
  remedy: "They have single layers and draws of another line alone; the app shows those of every line.",
};

/** @type {ReturnType<typeof firstAnswers>|null} */
let asked = null;

/** Asks for what the page opens with, while Gradio is still starting. */
export function ask() {
  asked = firstAnswers();
  asked.catch(() => {}); // reported where it is awaited
}

/** The studies of the host, what the address asks of them, and the line that it opens. */
async function firstAnswers() {
  /** @type {{studies: Lab.Study[], first: string|null}} */
  const listing = await request("/studies");
  const begin = Lab.opening(listing, parse(location.search, LAB_VIEW).state);
  const line = begin.load && fetchLine(begin.load);
  line?.catch(() => {}); // as above
  return { listing, begin, line };
}

/** Called by the page's js_on_load. */
export async function mount() {
  const root = /** @type {HTMLElement} */ (document.querySelector("#content.lab"));
  /** @type {(name: string) => any} */
  const part = (name) => root.querySelector(`[data-part="${name}"]`);
  const explorer = new Explorer({
    root,
    prefix: "lab-",
    parts: [
      curvesPart(CURVES),
      mapPart(),
      ladderPart(),
      wordsPart(),
      equationPart(),
      slidersPart(),
      doorsPart(),
      numbersPart(),
      radiusPart(),
      weightsPart(),
      tryPart(recipeAt, () => {
        const study = Lab.runningModel(state);
        return study ? { title: study.model, address: studyPage(study.id) } : null;
      }),
      ...(link.card ? [framedPart(link.card)] : []),
    ],
    onState: (explored) => dispatch({ type: "explored", explored }),
  });
  const { state: wanted, problems } = parse(location.search, LAB_VIEW);
  let state = Lab.initial({ explored: explorer.state, wanted });

  /** @param {Lab.Action} action */
  function dispatch(action) {
    const before = state;
    state = Lab.reduce(state, action);
    draw(before);
  }

  /** @param {Lab.State} before */
  function draw(before) {
    const { explored, studies, first, remarks } = state;
    const { view, phase } = explored;
    const [open, wasOpen] = [Lab.isOpen(state), Lab.isOpen(before)];
    root.classList.toggle("is-open", open);
    if (open && !wasOpen) document.querySelector(".skeleton")?.remove();
    // While another view is coming the lists say what was chosen, and then what there is.
    const others =
      studies !== before.studies || view !== before.explored.view || explored.problem !== before.explored.problem;
    if (open && phase !== "next" && (!wasOpen || others || phase !== before.explored.phase)) drawPicks(root, state);
    if (view && view !== before.explored.view) document.title = titled(view.title);
    if (view && explored !== before.explored) hall?.show(view, explored.at.gamma);
    if (Lab.isEmpty(state) !== Lab.isEmpty(before)) drawEmpty(root, part("problem"), Lab.isEmpty(state));
    if (Lab.isLost(state) !== Lab.isLost(before)) drawWays(root, part("ways"), state);
    if (remarks !== before.remarks) note(part("link-note"), remarks);
    drawPreview(before);
    const preview = Lab.previewOf(state);
    if (phase === "drawn" && view && (explored !== before.explored || preview !== Lab.previewOf(before))) {
      const address = { ...addressOf({ ...explored, view }), preview };
      remember(serialise(address, LAB_VIEW, { standard: Lab.standard(view, first), link }), Lab.stepOf(address));
    }
    explorer.dispatch({ type: "overlaid", overlay: overlayOf(state) }); // last: it comes back here
  }

  const button = /** @type {HTMLButtonElement} */ (part("compute"));
  const preview = compute({
    state: () => state,
    dispatch,
    gone: () => button.focus(),
  });
  const overlayOf = Lab.overlays();
  const key = made(html`<div></div>`);
  /** @type {ReturnType<typeof labLecture>|null} */
  let hall = null;
  explorer.ready.then(() => {
    explorer.hosts.hero.frame.before(key);
    if (link.lecture) hall = labLecture(root, explorer.hosts.hero);
  });

  /** @param {Lab.State} before */
  function drawPreview(before) {
    const { trouble, explored } = state;
    button.hidden = offered(state) === null;
    button.disabled = state.preview !== null && !state.preview.ended;
    if (trouble !== before.trouble) render(trouble && problemBlock(trouble, "compute-problem"), part("computing"));
    if (state.preview === before.preview && explored === before.explored) return;
    const shown = state.preview && previewKey(state.preview, explored.view, Lab.previewFacts(state), preview);
    render(shown ?? nothing, key);
  }

  /** @type {Visitor | null} */
  let who = null;
  visitor().then(
    (known) => {
      who = known;
    },
    () => {}, // then nothing is offered
  );
  button.addEventListener("click", preview.start);
  request("/models").then(
    ({ models }) => dispatch({ type: "offered", models }),
    () => {}, // then nothing is offered
  );

  for (const select of root.querySelectorAll("select[data-pick]")) {
    select.addEventListener("change", () => {
      const { dataset, value } = /** @type {HTMLSelectElement} */ (select);
      const wish = Lab.fetchedFor(state.explored, dataset.pick ?? "", value);
      if (wish && "load" in wish) show(wish.load);
      else if (wish) explorer.redraw("quantity", wish.recolour);
    });
  }

  /**
   * Shows what was chosen in a list; where that line has no such layer or draw, all of them.
   * @param {import("../explorer/state.js").Wanted} wanted
   */
  async function show(wanted) {
    const together = /** @type {const} */ ({ layer: "all", draw: "all" });
    const whole = holds(viewPath(wanted)) ? wanted : { ...wanted, ...together };
    await explorer.load(whole);
    if (whole !== wanted && state.explored.view) explorer.dispatch({ type: "troubled", problem: ALL_TOGETHER });
  }

  useCard(part("use"), () => {
    const { view, at } = state.explored;
    return view && { view, at };
  });

  shareMenu(part("share"), {
    controls: CONTROLS,
    panels: HIDEABLE,
    hasPresets: true,
    link,
    // A link that is sent says all: what opens without a wish may be another study tomorrow.
    address: (given) => {
      const query = serialise(explorer.seen ? addressOf(explorer.seen) : {}, LAB_VIEW, { link: given });
      return `${location.origin}${location.pathname}${query}`;
    },
    further: () => {
      const [shared, written] = who ? [Lab.toShare(state, who), Lab.toPublish(state, who)] : [null, null];
      if (!shared && !written) return null;
      return made(html`<div>${shared && shareLink("study", shared)}${written && siteDownload(written)}</div>`);
    },
  });

  const answers = await (asked ?? firstAnswers()).catch((error) => {
    explorer.dispatch({ type: "failed", problem: asProblem(error) });
    return null;
  });
  if (!answers) return;
  const { listing, begin, line } = answers;
  dispatch({ type: "listed", ...listing });
  if (!listing.studies.length) return;
  const unknown = unknownNames(link, CONTROLS, HIDEABLE);
  dispatch({ type: "remarked", remarks: [...problems, ...link.problems, ...unknown, ...begin.remarks] });
  if (begin.problem) explorer.dispatch({ type: "failed", problem: begin.problem });
  // Back and forward, also to an entry that opened nothing; what the person has seen of remarks stays.
  onReturn((search) => {
    const { load, problem } = Lab.opening(listing, parse(search, LAB_VIEW).state);
    if (problem) explorer.dispatch({ type: "failed", problem });
    else if (load) explorer.load(load);
  });
  if (wanted.preview) preview.resume(wanted.preview);
  if (!begin.load || !line) return;
  await explorer.load(begin.load, line);
  const { view, at } = state.explored;
  if (view) dispatch({ type: "remarked", remarks: Lab.elsewhere(begin.load, { view, at }) });
}

/**
 * The lists, and what else depends on the shown line alone.
 * @param {HTMLElement} root
 * @param {Lab.State} state
 */
function drawPicks(root, state) {
  for (const pick of Lab.picks(state, (wanted) => holds(viewPath(wanted)))) {
    const select = /** @type {HTMLSelectElement} */ (root.querySelector(`[data-pick="${pick.name}"]`));
    /** @param {Lab.Option} option */
    const option = ([value, text]) =>
      html`<option value=${value} ?selected=${String(value) === pick.value}>${text}</option>`;
    render(
      pick.groups.map(({ title, options }) =>
        title === null ? options.map(option) : html`<optgroup label=${title}>${options.map(option)}</optgroup>`,
      ),
      select,
    );
    select.value = pick.value;
    select.disabled = pick.disabled;
    /** @type {HTMLElement} */ (select.closest("label")).hidden = pick.groups.length === 0;
  }
  const { view } = state.explored;
  const files = view ? downloads(view.study.id) : [];
  render(files.map(downloadLink), /** @type {HTMLElement} */ (root.querySelector('[data-part="downloads"]')));
  if (!view) return;
  /** @type {HTMLElement} */ (root.querySelector('[data-part="use"]')).hidden = published !== null; // nothing begins a run
  const { study, line } = view;
  const what = { what: study.model.name, "what-bits": String(line.bits), grid: line.grid_text };
  for (const [name, text] of Object.entries(what)) say(root.querySelector(`[data-part="${name}"]`), text);
}

/** @param {{name: string, address: string}} file */
const downloadLink = ({ name, address }) =>
  html`<a class="quiet" data-testid="download" data-control="download" href=${address} download>Download ${name}</a>`;

/**
 * @param {HTMLElement} root
 * @param {HTMLElement} place
 * @param {boolean} empty
 */
function drawEmpty(root, place, empty) {
  root.classList.toggle("is-empty", empty);
  const card = html`<div class="card empty" data-testid="empty">
    <p>No studies yet. Each finished calibration adds one here.</p>
    <a class="act" href=${at("/calibrate")}>Start a calibration</a>
  </div>`;
  render(empty ? card : null, place);
}

/**
 * Where the address leads to nothing: the studies that there are, and none of the empty figures.
 * @param {HTMLElement} root
 * @param {HTMLElement} place
 * @param {Lab.State} state
 */
function drawWays(root, place, state) {
  const lost = Lab.isLost(state);
  root.classList.toggle("is-lost", lost);
  const links = (state.studies ?? []).map(
    ({ id, title }) => html`<li><a href=${studyPage(id)}>${title || id}</a></li>`,
  );
  render(lost ? html`<ul class="ways" data-testid="ways">${links}</ul>` : nothing, place);
}
