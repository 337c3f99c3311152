/**
 * The card “Text side by side”: each prompt as the float and as the quantized model continue it, where they part, and
 * how far apart their predictions are at each token. Texts come from a model: they only ever go in as text.
 * @module texts_card
 */

import { format, plain } from "../base/format.js";
import { html, nothing, render } from "../base/html.js";
import { asSentence } from "../base/problem.js";
import { shade } from "./run_state.js";

/** @typedef {"greedy" | "sampled"} Mode */
/** @typedef {{pieces: string[]}} Continuation */
/** @typedef {{float: Continuation, quantized: Continuation, divergence: number | null, kl: number[]}} Comparison */
/** @typedef {{prompt: string, protocol: Record<string, any>} & Record<Mode, Comparison>} Text */

/** @type {Mode[]} */
const MODES = ["greedy", "sampled"];
const SCALE = [0.001, 10]; // nats, the ends of the colours; the same for every text, so that they compare

/**
 * Where a divergence in nats lies between the ends of the colours, from 0 to 1, on a logarithmic scale.
 * @param {number} kl
 */
export function level(kl) {
  const [low, high] = SCALE.map(Math.log10);
  return kl > 0 ? Math.min(1, Math.max(0, (Math.log10(kl) - low) / (high - low))) : 0;
}

/**
 * A continuation cut where the other one differs: what is the same, the first token that is not, and the rest.
 * @template Piece
 * @param {Piece[]} pieces
 * @param {number|null} divergence
 */
export function cut(pieces, divergence) {
  const at = divergence ?? pieces.length;
  return { same: pieces.slice(0, at), first: pieces[at] ?? null, rest: pieces.slice(at + 1) };
}

/**
 * A token as a reader can name it: line ends and blanks are made visible.
 * @param {string} piece
 */
export const named = (piece) => `“${marked(piece)}”`;

/** @param {string} piece */
const marked = (piece) => piece.replaceAll("\n", "↵").replaceAll("\t", "⇥").replaceAll(" ", "␣");

/**
 * The numbers of one comparison in a sentence.
 * @param {Pick<Comparison, "float" | "divergence" | "kl">} comparison
 */
export function inWords({ float, divergence, kl }) {
  const mean = kl.reduce((sum, value) => sum + value, 0) / kl.length;
  const most = kl.indexOf(Math.max(...kl));
  const apart =
    divergence === null ? "The two texts are the same." : `The texts part at token ${divergence + 1} of ${kl.length}.`;
  return `${apart} KL divergence ${nats(mean)} a token on average, at most ${nats(kl[most])} at token ${most + 1}, ${named(float.pieces[most])}.`;
}

/** @param {number} value */
const nats = (value) => `${format(value, "significant")} nats`;

/**
 * Fills and shows the card, or hides it where there are no texts.
 * @param {HTMLElement} place
 * @param {Text[]} texts as sarqc/events.py, TextsCompared, says them
 */
export function textsCard(place, texts) {
  place.hidden = !texts.length;
  /** @type {{mode: Mode, read: Map<number, number>}} */
  const state = { mode: "greedy", read: new Map() }; // the token that is read, of each text
  const draw = () => render(texts.length ? card(texts, state, act) : nothing, place);
  const act = {
    /** @param {Mode} mode */
    show(mode) {
      Object.assign(state, { mode, read: new Map() });
      draw();
    },
    /** @param {number} text @param {number} token */
    read(text, token) {
      state.read.set(text, token);
      draw();
    },
  };
  draw();
}

/** @typedef {{show: (mode: Mode) => void, read: (text: number, token: number) => void}} Acts */

/** @param {Text[]} texts @param {{mode: Mode, read: Map<number, number>}} state @param {Acts} act */
const card = (texts, { mode, read }, act) =>
  html`<header class="card-head">
      <h2 class="card-title" id="texts-title">Text side by side</h2>
      <div class="switch texts-switch" role="group" aria-label="How tokens are chosen">${MODES.map(
        (name) =>
          html`<button type="button" data-mode=${name} aria-pressed=${String(name === mode)}
            @click=${() => act.show(name)}>${asSentence(name)}</button>`,
      )}</div>
    </header>
    <div class="run-body">${texts.map((text, index) =>
      comparison(text.prompt, text[mode], read.get(index) ?? null, (token) => act.read(index, token)),
    )}${explained(mode, texts[0].protocol)}</div>`;

/**
 * @param {string} prompt
 * @param {Comparison} said
 * @param {number | null} at the token that is read
 * @param {(token: number) => void} read
 */
function comparison(prompt, said, at, read) {
  const spans = said.float.pieces.map(
    (piece, index) => html`<span class=${index === at ? "is-read" : nothing}>${piece}</span>`,
  );
  return html`<article class="text-pair" data-testid="text-pair">
    <p class="prompt"><span class="prompt-name">Prompt </span>${prompt}</p>
    <div class="text-columns">
      ${column("Float", spans, said.divergence)} ${column("Quantized", said.quantized.pieces, said.divergence)}
    </div>
    ${strip(said, at, read)}
    <p class="text-words" data-testid="text-words">${inWords(said)}</p>
  </article>`;
}

/** @param {string} title @param {unknown[]} tokens @param {number | null} divergence */
function column(title, tokens, divergence) {
  const { same, first, rest } = cut(tokens, divergence);
  const parting =
    first === null
      ? nothing
      : html`<mark title="First different token"
          ><span class="visually-hidden">first different token: </span>${visible(first)}</mark
        >`;
  return html`<section class="text-column"><h3>${title}</h3><p>${same}${parting}${rest}</p></section>`;
}

/**
 * A marked token of blanks or a line's end would show no mark.
 * @param {unknown} token
 */
const visible = (token) => (typeof token === "string" && !token.trim() ? [marked(token), token] : token);

/**
 * One cell for each token of the float text; moving over them, or with the arrow keys, reads one at a time.
 * @param {Comparison} said
 * @param {number | null} at
 * @param {(token: number) => void} read
 */
function strip({ float, divergence, kl }, at, read) {
  const words = at === null ? null : `Token ${at + 1}, ${named(float.pieces[at])}: ${nats(kl[at])}`;
  const within = (/** @type {number} */ index) => Math.min(kl.length - 1, Math.max(0, index));
  /** @type {Record<string, number>} */
  const moves = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, Home: -kl.length, End: kl.length };
  const moved = (/** @type {KeyboardEvent} */ event) => {
    if (!(event.key in moves)) return;
    event.preventDefault();
    event.stopPropagation();
    read(within((at ?? 0) + moves[event.key]));
  };
  return html`<div class="kl-panel">
    <div class="kl-strip" tabindex="0" role="slider" aria-label="KL divergence by token of the float text"
      aria-valuemin="1" aria-valuemax=${kl.length} aria-valuenow=${(at ?? 0) + 1} aria-valuetext=${words ?? nothing}
      data-testid="kl-strip" @focus=${() => read(at ?? 0)} @keydown=${moved}>${kl.map(
        (value, index) =>
          html`<span class=${`kl${index === divergence ? " is-apart" : ""}${index === at ? " is-read" : ""}`}
            style=${`background:${shade(level(value))}`} @pointerover=${() => read(index)}></span>`,
      )}</div>
    <div class="kl-foot">
      <p class="kl-readout">${words ?? "KL at each token of the float text"}</p>
      <p class="legend">KL, nats: ${plain(SCALE[0])} <span class="ramp"></span> ${plain(SCALE[1])} <span
        ><span class="kl-key"></span>first different token</span
      ></p>
    </div>
  </div>`;
}

/** @param {Mode} mode @param {Record<string, any>} protocol */
function explained(mode, { new_tokens: most, sampled, seed, kl, dtype, device }) {
  const how = mode === "sampled" ? `Sampled at ${sampled}; seed ${seed}.` : "Greedy: always the most probable token.";
  return html`<p class="protocol">${how} At most ${most} new tokens. ${kl}. Computed in ${dtype} on ${device}.</p>`;
}
