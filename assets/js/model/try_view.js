/**
 * The card with the model, drawn from its state.
 * @module model/try_view
 */

import { bytes, number, percent } from "../base/format.js";
import { html, nothing } from "../base/html.js";
import { table } from "../base/table.js";
import { MOST_TOKENS, mean } from "./predictions.js";

/** @import { NextWord, Reading, Written } from "./session.js" */
/** @import { TryState } from "./try_state.js" */

/**
 * @typedef {object} Around what the page says, and what the card's controls do
 * @property {string} model its name
 * @property {number} draw seed of the calibration draw
 * @property {boolean} isMean whether the study has further draws
 * @property {string} size that opening fetches
 * @property {string} further size of the codes of another λ; empty where those of one are kept
 * @property {string[]} lams
 * @property {number} at position of the shown λ
 * @property {boolean} isLocked whether a link keeps λ as it is
 * @property {boolean} isKept whether codes of the shown point are there
 * @property {boolean} canCompute whether a run on this host can give them
 * @property {boolean} isLong whether that takes half an hour
 * @property {boolean} isZero whether the shown λ is 0
 * @property {boolean} hasZero whether codes at λ = 0 are kept beside others
 * @property {boolean} hasLam whether the method of the shown line has a λ
 * @property {string} where points are kept
 * @property {() => void} open
 * @property {() => void} stop
 * @property {(text: string) => void} ask
 * @property {() => void} search
 * @property {(lambda: number) => void} move
 * @property {() => void} show a line whose codes are kept
 * @property {() => void} compute the codes of the shown point
 * @property {() => void} halt that
 */

const LEAST_SCALE = 0.5; // nats of the longest bar, at least
const MOST_LETTERS = 400;

/** @param {TryState} state @param {Around} around */
export function tryCard(state, around) {
  if (!around.isKept) return elsewhere(state, around);
  if (state.phase === "closed") return closed(state, around);
  if (state.phase === "opening") return opening(state, around);
  return opened(state, around);
}

/** @param {TryState} state @param {Around} around */
const elsewhere = (
  { computing, trouble },
  { model, where, canCompute, isLong, show, compute, halt },
) => html`<p class="try-words">
    Codes of ${model} are kept for ${where}.
    ${canCompute ? "Those of this point can be computed by a run on this host." : nothing}
    ${isLong ? "Learned rounding takes about half an hour of a processor." : nothing}
  </p>
  ${computing ? solving(computing, halt) : choices(canCompute, show, compute)}
  ${troubled(trouble)}`;

/** @param {boolean} canCompute @param {() => void} show @param {() => void} compute */
const choices = (canCompute, show, compute) => html`<p class="try-start">
    ${
      canCompute
        ? html`<button type="button" class="act" data-testid="try-compute" @click=${compute}>Compute these codes</button>`
        : nothing
    }
    <button type="button" class="act-quiet" data-testid="try-show" @click=${show}>Show that line</button>
  </p>`;

/** @param {import("./computing.js").Progress} progress @param {() => void} halt */
const solving = ({ done, of }, halt) => html`<p class="try-start" role="status">
    ${
      of
        ? html`<progress max=${of} value=${done} aria-label="The codes are being computed"></progress>
          <span>${done} of ${of} layers</span>`
        : html`<span>Waiting for a device</span>`
    }
    <button type="button" class="quiet" data-testid="try-halt" @click=${halt}>Stop</button>
  </p>`;

/** @param {TryState} state @param {Around} around */
const closed = ({ trouble }, { model, size, further, hasZero, hasLam, open }) => html`<p class="try-words">
    ${introduced(model, hasZero, hasLam)}
  </p>
  <p class="try-start">
    <button type="button" class="act-quiet" data-testid="try-open" @click=${open}>Fetch the model, ${size}</button>
    ${further ? html`<span class="try-note">Each further λ is another ${further}.</span>` : nothing}
  </p>
  ${troubled(trouble)}`;

/** @param {string} model @param {boolean} hasZero @param {boolean} hasLam */
function introduced(model, hasZero, hasLam) {
  if (!hasLam)
    return (
      `${model} runs in this page, float and with the quantized weights: what does quantization do to the ` +
      "words that it expects?"
    );
  return hasZero
    ? `${model} runs in this page, float and with the quantized weights at the shown λ and at λ = 0: what does ` +
        "λ do to the words that it expects?"
    : `${model} runs in this page, float and with the quantized weights at the shown λ: what does quantization ` +
        "do to the words that it expects?";
}

/** Title of what is shown at a λ. @param {string} lam empty for a method without λ */
const titled = (lam) => (lam ? `λ = ${lam}` : "Quantized");

/** @param {TryState} state @param {Around} around */
const opening = ({ fetched, size }, { stop }) => html`<p class="try-start" role="status">
    <progress max=${size} value=${fetched} aria-label="The model is being fetched"></progress>
    <span>${bytes(fetched)} of ${bytes(size)}</span>
    <button type="button" class="quiet" data-testid="try-stop" @click=${stop}>Stop</button>
  </p>`;

/** @param {TryState} state @param {Around} around */
function opened(state, around) {
  const { text, read, written, trouble, wish } = state;
  const reading = read?.reading ?? null;
  /** Whether an answer is of what is asked now. @param {{lam: string, text: string}|null} answer */
  const isNew = (answer) => wish === null || (answer?.lam === wish.lam && answer.text === text);
  const waiting = (/** @type {boolean} */ isWaiting) => (isWaiting ? "is-waiting" : "");
  return html`<form class="try-form" @submit=${(/** @type {Event} */ event) => event.preventDefault()}>
      <label class="try-field"><span>Sentence</span>
        <input type="text" maxlength=${MOST_LETTERS} autocomplete="off" spellcheck="false" data-testid="try-text"
          .value=${text} @input=${(/** @type {Event} */ event) => around.ask(textOf(event))}></label>
      ${around.hasLam && around.lams.length > 1 ? slider(around) : nothing}
    </form>
    ${troubled(trouble)}
    ${searching(state, around)}
    <div class="try-answer ${waiting(!isNew(read))}">
      ${reading && read ? predicted(reading, read.lam) : read ? html`<p class="try-words">Write a few words.</p>` : nothing}
      <div class="try-halves">
        ${reading && read ? likely(reading.next, read.lam) : nothing}
        ${reading && written ? goingOn(written.written, written.lam, waiting(isNew(read) && !isNew(written))) : nothing}
      </div>
    </div>
    ${small(state, around)}`;
}

/** @param {Around} around */
const slider = ({ lams, at, isLocked, move }) => html`<label class="try-lambda"><span>λ = ${lams[at]}</span>
    <input type="range" min="0" max=${lams.length - 1} step="1" .value=${String(at)} aria-valuetext=${lams[at]}
      ?disabled=${isLocked} data-testid="try-lambda"
      @input=${(/** @type {Event} */ event) => move(Number(textOf(event)))}></label>`;

/** @param {Event} event */
const textOf = ({ currentTarget }) => /** @type {HTMLInputElement} */ (currentTarget).value;

/** @param {string} trouble */
const troubled = (trouble) => (trouble ? html`<p class="try-trouble" role="alert">${trouble}</p>` : nothing);

/** @param {TryState} state @param {Around} around */
function searching({ search, broken }, { isZero, hasZero, hasLam, search: begin }) {
  if (!hasLam) return nothing;
  if (!hasZero)
    return html`<p class="try-note" data-testid="try-alone">No other codes to compare with, at λ = 0, are kept in this study: <code>python -m sarqc gather</code> makes one study of several runs.</p>`;
  const words = search
    ? search.of
      ? `${search.done} of ${search.of} sentences`
      : "Searching"
    : isZero
      ? "At λ = 0 there is nothing to compare with: choose another λ."
      : "";
  return html`<div class="try-search">
    <button type="button" class="act-quiet" data-testid="try-search" ?disabled=${isZero || search !== null}
      @click=${begin}>Find a sentence that breaks it</button>
    <span role="status" data-testid="try-progress">${words}</span>
    ${broken ? html`<p class="try-words" data-testid="try-broken">${brokenWords(broken.broken, broken.lam)}</p>` : nothing}
  </div>`;
}

/** What computes the model. @param {boolean} isFast */
export const computedBy = (isFast) =>
  isFast
    ? "Computed in this page with WebAssembly."
    : "Computed in this page in plain JavaScript, since this browser lacks WebAssembly for it: slower, to the same results.";

/**
 * What a search came to.
 * @param {import("./session.js").Broken} broken
 * @param {string} lam
 */
export function brokenWords({ count, wins, own, all }, lam) {
  const gains = own.zero > own.shown;
  const values = { count, lam, zero: nats(own.zero), shown: nats(own.shown) };
  const which = gains
    ? `Of ${values.count} sentences of the held-out text this one is hurt most by leaving λ out: mean KL ` +
      `${values.zero} at λ = 0, ${values.shown} at λ = ${values.lam}.`
    : `In none of ${values.count} sentences of the held-out text is λ = ${values.lam} nearer to the float ` +
      `model; this one comes closest: mean KL ${values.zero} at λ = 0, ${values.shown} at λ = ${values.lam}.`;
  const over =
    `It was chosen for that. Over all of them the means are ${nats(all.zero)} and ${nats(all.shown)}, and λ ` +
    `= ${lam} is nearer to the float model in ${wins}.`;
  return `${which} ${over}`;
}

/** How far the predictions are from the float model's. @param {number[]} shown @param {number[]|null} zero @param {string} lam */
function meanWords(shown, zero, lam) {
  const own = html`<b class="try-shown">${nats(mean(shown))}</b>`;
  if (!lam) return ["Mean KL of the next-token predictions to the float model’s: ", own, " nats."];
  if (!zero)
    return ["Mean KL of the next-token predictions to the float model’s: ", own, " nats at λ = ", html`${lam}`, "."];
  return [
    "Mean KL of the next-token predictions to the float model’s: ",
    own,
    " nats at λ = ",
    html`${lam}`,
    ", ",
    html`<b class="try-zero">${nats(mean(zero))}</b>`,
    " at λ = 0.",
  ];
}

/** @param {Reading} reading @param {string} lam */
function predicted({ pieces, shown, zero }, lam) {
  const longest = Math.max(LEAST_SCALE, ...shown, ...(zero ?? []));
  const bar = (/** @type {number} */ value, /** @type {string} */ kind) =>
    html`<i class="try-bar ${kind}" style="height: ${((100 * value) / longest).toFixed(1)}%"></i>`;
  return html`<p class="try-words" aria-live="polite" aria-atomic="true" data-testid="try-sentence">
      ${meanWords(shown, zero, lam)}
    </p>
    <div class="try-strip" aria-hidden="true" data-testid="try-strip">
      ${pieces.map(
        (piece, i) =>
          html`<span class="try-piece"><span class="try-token">${visible(piece)}</span>
            <span class="try-bars">${bar(shown[i], "of-shown")}${zero ? bar(zero[i], "of-zero") : nothing}</span></span>`,
      )}
    </div>
    <p class="try-legend"><span><i class="try-key of-shown"></i> ${titled(lam)}</span>
      ${zero ? html`<span><i class="try-key of-zero"></i> λ = 0</span>` : nothing}
      <span>KL after each token, longest bar ${nats(longest)} nats</span></p>
    <details class="try-numbers"><summary>KL after each token, as numbers</summary>
      <div class="table-scroll" tabindex="0" role="region" aria-label="Table of the KL after each token">
      ${table({
        rows: pieces.map((piece, i) => ({ piece, shown: shown[i], zero: zero?.[i] ?? 0 })),
        columns: [
          { title: "Token", isHead: true, show: ({ piece }) => visible(piece) },
          { title: lam ? `KL at λ = ${lam}` : "KL", show: (row) => nats(row.shown) },
          ...(zero
            ? [
                {
                  title: `KL at λ = ${0}`,
                  show: (/** @type {{zero: number}} */ row) => nats(row.zero),
                },
              ]
            : []),
        ],
        testid: "try-table",
      })}</div></details>`;
}

/** @param {Reading["next"]} next @param {string} lam */
function likely(next, lam) {
  const known = next.float.map(({ text }) => text);
  const { zero } = next;
  const cell = (/** @type {NextWord} */ { text, probability }) =>
    html`<td class=${known.includes(text) ? "" : "is-other"}><span class="try-token">${visible(text).trim()}</span>
      <span class="try-share">${percent(probability)}</span></td>`;
  return html`<section class="try-half"><h3 class="try-title">What comes next</h3>
    ${table({
      name: "try-next",
      testid: "try-next",
      caption: html`<span class="visually-hidden">The five likeliest next tokens</span>`,
      rows: next.float.map((float, i) => ({ float, shown: next.shown[i], zero: (zero ?? next.shown)[i] })),
      columns: [
        { title: "Float", cell: ({ float }) => cell(float) },
        { title: titled(lam), cell: ({ shown }) => cell(shown) },
        ...(zero ? [{ title: "λ = 0", cell: (/** @type {{zero: NextWord}} */ row) => cell(row.zero) }] : []),
      ],
    })}
    <p class="try-note">Dotted: not among the float model’s five.</p></section>`;
}

/** @param {Written} written @param {string} lam @param {string} kind class of what is of a former text */
function goingOn({ float, shown, zero, parts }, lam, kind) {
  const text = (/** @type {string[]} */ tokens) => visible(tokens.join(""));
  const line = (
    /** @type {string} */ title,
    /** @type {string[]} */ tokens,
    /** @type {number|null} */ part,
    words = "",
  ) =>
    html`<dt>${title} <span class="try-note">${words}</span></dt>
      <dd>${
        part === null ? text(tokens) : html`${text(tokens.slice(0, part))}<mark>${text(tokens.slice(part))}</mark>`
      }</dd>`;
  return html`<section class="try-half ${kind}"><h3 class="try-title">How each goes on, always with its likeliest token</h3>
    <dl class="try-written" data-testid="try-written">
      ${line("Float", float, null)}
      ${line(titled(lam), shown, parts.shown, parted(parts.shown, float.length))}
      ${zero ? line("λ = 0", zero, parts.zero, parted(parts.zero, float.length)) : nothing}
    </dl></section>`;
}

/** @param {number|null} place @param {number} count */
function parted(place, count) {
  if (place === null) return `the same ${count} tokens`;
  return place === 0 ? "another first token" : `parts at token ${place + 1}`;
}

/** @param {TryState} state @param {Around} around */
const small = ({ isFast, read }, { draw, isMean, stop }) => html`<p class="try-note">
    ${read?.reading?.isCut ? `The first ${MOST_TOKENS} tokens are read.` : ""}
    ${
      isMean
        ? `Codes of calibration draw ${draw}; the study’s curves are means over all draws.`
        : `Codes of calibration draw ${draw}.`
    }
    ${computedBy(isFast)}
    <button type="button" class="quiet" data-testid="try-stop" @click=${stop}>Close the model</button>
  </p>`;

/** @param {number} value */
const nats = (value) => number(value, value >= 10 ? 1 : value >= 0.995 ? 2 : 3);

/** Tokens that can be seen: a line’s end, a broken character and a blank alone are signs. @param {string} text */
const visible = (text) => {
  const signed = text.replaceAll("\n", "↵").replaceAll("\ufffd", "▯");
  return signed.trim() || !signed ? signed : "␣".repeat(signed.length);
};
