/**
 * The card “Text side by side”: each prompt as the float and as the quantized model continue it, where they part, and
 * how far apart their predictions are at each token. Texts come from a model: they only ever go in as text.
 * @module texts
 */

import { fill, h, say } from "../base/dom.js";
import { format } from "../base/format.js";
import { shade } from "./run_state.js";

const MODES = [
  ["greedy", "Greedy"],
  ["sampled", "Sampled"],
];
const SCALE = [0.001, 10]; // nats, the ends of the colours; the same for every text, so that they compare

/** Where a divergence in nats lies between the ends of the colours, from 0 to 1, on a logarithmic scale. */
export function level(kl) {
  const [low, high] = SCALE.map(Math.log10);
  return kl > 0 ? Math.min(1, Math.max(0, (Math.log10(kl) - low) / (high - low))) : 0;
}

/**
 * A continuation cut where the other one differs: what is the same, the first token that is not, and the rest.
 * @param {string[]} pieces
 * @param {number|null} divergence
 */
export function cut(pieces, divergence) {
  const at = divergence ?? pieces.length;
  return { same: pieces.slice(0, at), first: pieces[at] ?? null, rest: pieces.slice(at + 1) };
}

/** A token as a reader can name it: line ends and blanks are made visible. */
export function named(piece) {
  return `“${piece.replaceAll("\n", "↵").replaceAll("\t", "⇥").replaceAll(" ", "␣")}”`;
}

/** The numbers of one comparison in a sentence. */
export function inWords({ float, divergence, kl }) {
  const mean = kl.reduce((sum, value) => sum + value, 0) / kl.length;
  const most = kl.indexOf(Math.max(...kl));
  const apart =
    divergence === null ? "The two texts are the same." : `The texts part at token ${divergence + 1} of ${kl.length}.`;
  return `${apart} KL divergence ${nats(mean)} a token on average, at most ${nats(kl[most])} at token ${most + 1}, ${named(float.pieces[most])}.`;
}

const nats = (value) => `${format(value, "significant")} nats`;

/**
 * Fills and shows the card, or hides it where there are no texts.
 * @param {HTMLElement} place
 * @param {object[]} texts as sarqc/events.py, TextsCompared, says them
 */
export function textsCard(place, texts) {
  place.hidden = !texts.length;
  if (!texts.length) return fill(place);
  const body = h("div", { class: "run-body" });
  const show = (mode) => {
    fill(
      body,
      texts.map((text) => comparison(text.prompt, text[mode])),
      explained(mode, texts[0].protocol),
    );
    for (const tab of tabs) tab.setAttribute("aria-pressed", String(tab.dataset.mode === mode));
  };
  const tabs = MODES.map(([mode, title]) =>
    h("button", { type: "button", dataset: { mode }, on: { click: () => show(mode) } }, title),
  );
  show("greedy");
  return fill(
    place,
    h(
      "header",
      { class: "card-head" },
      h("h2", { class: "card-title", id: "texts-title" }, "Text side by side"),
      h("div", { class: "switch texts-switch", role: "group", "aria-label": "How tokens are chosen" }, tabs),
    ),
    body,
  );
}

function comparison(prompt, found) {
  const spans = found.float.pieces.map((piece) => h("span", {}, piece));
  return h(
    "article",
    { class: "text-pair", "data-testid": "text-pair" },
    h("p", { class: "prompt" }, h("span", { class: "prompt-name" }, "Prompt "), prompt),
    h(
      "div",
      { class: "text-columns" },
      column("Float", spans, found.divergence),
      column("Quantized", found.quantized.pieces, found.divergence),
    ),
    strip(found, spans),
    h("p", { class: "text-words", "data-testid": "text-words" }, inWords(found)),
  );
}

function column(title, tokens, divergence) {
  const { same, first, rest } = cut(tokens, divergence);
  const marked =
    first === null
      ? null
      : h(
          "mark",
          { title: "First different token" },
          h("span", { class: "visually-hidden" }, "first different token: "),
          visible(first),
        );
  return h("section", { class: "text-column" }, h("h3", {}, title), h("p", {}, same, marked, rest));
}

/** A marked token of blanks or a line's end would show no mark. */
const visible = (token) => (typeof token === "string" && !token.trim() ? [named(token).slice(1, -1), token] : token);

/** One cell for each token of the float text; moving over them, or with the arrow keys, reads one at a time. */
function strip({ float, divergence, kl }, spans) {
  const cells = kl.map((value, index) =>
    h("span", { class: index === divergence ? "kl is-apart" : "kl", style: `background:${shade(level(value))}` }),
  );
  const readout = h("p", { class: "kl-readout" }, "KL at each token of the float text");
  let current = 0;
  const read = (index) => {
    for (const list of [cells, spans]) list[current]?.classList.remove("is-read");
    current = Math.min(kl.length - 1, Math.max(0, index));
    for (const list of [cells, spans]) list[current].classList.add("is-read");
    const words = `Token ${current + 1}, ${named(float.pieces[current])}: ${nats(kl[current])}`;
    say(readout, words);
    row.setAttribute("aria-valuenow", String(current + 1));
    row.setAttribute("aria-valuetext", words);
  };
  const moves = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, Home: -kl.length, End: kl.length };
  const row = h(
    "div",
    {
      class: "kl-strip",
      tabindex: 0,
      role: "slider",
      "aria-label": "KL divergence by token of the float text",
      "aria-valuemin": 1,
      "aria-valuemax": kl.length,
      "aria-valuenow": 1,
      "data-testid": "kl-strip",
      on: {
        focus: () => read(current),
        keydown: (event) => {
          if (!(event.key in moves)) return;
          event.preventDefault();
          event.stopPropagation();
          read(current + moves[event.key]);
        },
        pointerover: (event) => cells.includes(event.target) && read(cells.indexOf(event.target)),
      },
    },
    cells,
  );
  return h(
    "div",
    { class: "kl-panel" },
    row,
    h(
      "div",
      { class: "kl-foot" },
      readout,
      h(
        "p",
        { class: "legend" },
        `KL, nats: ${SCALE[0]} `,
        h("span", { class: "ramp" }),
        ` ${SCALE[1]} `,
        h("span", {}, h("span", { class: "kl-key" }), "first different token"),
      ),
    ),
  );
}

function explained(mode, { new_tokens: most, sampled, seed, kl, dtype, device }) {
  const how = mode === "sampled" ? `Sampled at ${sampled}; seed ${seed}.` : "Greedy: always the most probable token.";
  return h("p", { class: "protocol" }, `${how} At most ${most} new tokens. ${kl}. Computed in ${dtype} on ${device}.`);
}
