/**
 * The layers of a run as a matrix that fills while they are solved: blocks × kinds of linear. The experts of a block share
 * a cell; below stand those of one block by themselves, of the one that is worked on or of a chosen one.
 * @module run_matrix
 */

import { count, duration, format } from "../base/format.js";
import { html, nothing } from "../base/html.js";
import * as State from "./run_state.js";

/** @import { Layer, RunProgress } from "./run_state.js" */
/** @typedef {ReturnType<typeof State.matrix>} Matrix */
/** @typedef {ReturnType<typeof State.cellFacts>} CellFacts */
/** @typedef {{said: RunProgress, isRunning: boolean}} Now what a run has said, and whether a layer is worked on */

const WIDE = 14; // columns beyond which the matrix has no room for their names
const WIDE_EXPERTS = 40; // experts beyond which their cells touch
const NAMED_EXPERTS = 16; // experts beyond which there is no room for their numbers

/** @type {WeakMap<Layer[], Matrix>} the thousands of layers of a mixture are laid out once */
const laidOut = new WeakMap();

/** @param {Layer[]} layers */
function matrixOf(layers) {
  const matrix = laidOut.get(layers) ?? State.matrix(layers);
  laidOut.set(layers, matrix);
  return matrix;
}

/**
 * The matrix and, for a mixture, the experts of one block.
 * @param {Now & {chosen: number | null, choose: (block: number) => void}} options `chosen`: the block whose experts the
 * person wants to see, instead of the one that is worked on
 */
export function runMatrix({ said, isRunning, chosen, choose }) {
  const now = { said, isRunning };
  const { rows, columns, cells } = matrixOf(said.layers);
  const isPooled = cells.some((row) => row.some((members) => members && members.length > 1));
  const isWide = columns.length > WIDE;
  const names = columns.map((name) => html`<span class="matrix-name">${nameOf(name)}</span>`);
  return html`<div class=${isWide ? "matrix is-wide" : "matrix"} role=${isPooled ? "group" : "img"}
      style=${`--columns: ${columns.length}`} aria-label=${State.describeMatrix(said)} data-testid="matrix"
      >${isWide || !columns.length ? nothing : html`<span></span>${names}`}${rows.map(
        (block, row) =>
          html`<span class="matrix-block">${block}</span>${cells[row].map((members, column) => {
            if (!members) return html`<span class="cell is-none"></span>`;
            if (members.length === 1) return layerCell(now, members[0]);
            return pooledCell(now, members, `block ${block} ${columns[column]}`, () => choose(block));
          })}`,
      )}</div>
    <div data-testid="matrix-experts" ?hidden=${!isPooled}>${isPooled ? expertsOf(now, chosen) : nothing}</div>`;
}

/** @param {Now} now @param {number} index of the layer */
function layerCell(now, index) {
  const { name, style } = look(now, [index], State.cellFacts(now.said, [index]));
  return html`<span class=${name} style=${style} title=${titleOf(now.said, index)}></span>`;
}

/**
 * The layers that share a cell, as a button that shows them by themselves.
 * @param {Now} now
 * @param {number[]} members
 * @param {string} words
 * @param {() => void} choose
 */
function pooledCell(now, members, words, choose) {
  const facts = State.cellFacts(now.said, members);
  const { name, style } = look(now, members, facts);
  const title = pooledTitle(words, members, facts, now.said);
  return html`<button type="button" class=${name} style=${style} title=${title} aria-label=${title}
    @click=${choose}></button>`;
}

/** The experts of the chosen block, or of the block that is worked on. @param {Now} now @param {number | null} chosen */
function expertsOf(now, chosen) {
  const { layers, results } = now.said;
  const block = chosen ?? blockWithExperts(layers, layers[Math.min(results.size, layers.length - 1)].block);
  const { experts, modules, cells } = State.expertMatrix(layers, block);
  const named = experts.length <= NAMED_EXPERTS;
  const numbers = experts.map((expert) => html`<span class="matrix-name">${expert}</span>`);
  const legend = named ? `Experts of block ${block}` : `Experts of block ${block}, 0 to ${experts.at(-1) ?? 0}`;
  return html`<p class="legend">${legend}</p
    ><div class=${`matrix matrix-experts${experts.length > WIDE_EXPERTS ? " is-wide" : ""}`} role="img"
      style=${`--columns: ${experts.length}`} aria-label="${experts.length} experts of block ${block}"
      >${named ? html`<span></span>${numbers}` : nothing}${modules.map(
        (module, line) =>
          html`<span class="matrix-block">${nameOf(module)}</span>${cells[line].map((index) =>
            index === null ? html`<span class="cell is-none"></span>` : layerCell(now, index),
          )}`,
      )}</div>`;
}

/** A block, or the next one that has experts. @param {Layer[]} layers @param {number} from */
function blockWithExperts(layers, from) {
  const { rows, cells } = matrixOf(layers);
  const those = rows.filter((_, row) => cells[row].some((members) => members && members.length > 1));
  return those.find((block) => block >= from) ?? those[0];
}

/**
 * Class and style of a cell: the colour of the mean error, as far as its layers are solved.
 * @param {Now} now
 * @param {number[]} members
 * @param {CellFacts} facts
 */
function look({ said, isRunning }, members, { done, mean }) {
  const isNow = isRunning && members.some((index) => State.isCurrent(said, index));
  const name = `cell${done && mean === null ? " is-starved" : ""}${isNow ? " is-now" : ""}`;
  if (mean === null) return { name, style: nothing };
  const colour = State.shade(State.heat(mean));
  const share = Math.round((100 * done) / members.length);
  const ground = `linear-gradient(to right, ${colour} ${share}%, var(--grid) ${share}%)`;
  return { name, style: `background: ${share === 100 ? colour : ground}` };
}

/** @param {string} module */
const nameOf = (module) => module.replace(/^.*\./, "").replace(/_proj$/, "");

/** @param {RunProgress} said @param {number} index */
function titleOf(said, index) {
  const result = said.results.get(index);
  if (!result) return `${said.layers[index].name}: not yet`;
  const { name, tokens, recon, cached, seconds } = result;
  if (tokens === 0) return `${name}: no calibration token reached it`;
  return `${name}: reconstruction error ${format(recon, "significant")}, ${cached ? "from disk" : duration(seconds)}`;
}

/** @param {string} cell @param {number[]} members @param {CellFacts} facts @param {RunProgress} said */
function pooledTitle(cell, members, { done, mean, worst, at, starved }, said) {
  const total = members.length;
  if (!done) return `${cell}, ${total} experts: not yet`;
  const words = [`${cell}: ${done} of ${total} experts solved`];
  if (at !== null) {
    const [average, largest] = [mean, worst].map((error) => format(error, "significant"));
    words.push(`mean error ${average}, largest ${largest} in expert ${said.layers[at].expert ?? ""}`);
  }
  if (starved) words.push(`${count(starved)} without tokens`);
  return words.join(", ");
}
