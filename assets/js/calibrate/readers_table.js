/**
 * Who can load the model, by the format that it is saved in: rows of sarqc/checkpoints/formats.py.
 * @module readers_table
 */

import { counted } from "../base/format.js";
import { html, nothing } from "../base/html.js";
import { table } from "../base/table.js";

/** @import { Fix } from "../base/client.js" */
/** @import { Answer, Carrier } from "../base/types.d.ts" */

/** @type {[Answer["loads"], string, string][]} what readers made of it, with a mark and in words; the best first */
const KINDS = [
  ["yes", "✓", "loads, same tokens"],
  ["parts", "≈", "loads, other tokens"],
  ["no", "✗", "does not load"],
  ["not_run", "–", "not run here"],
];

/**
 * The readers by what they made of a format, without what none did.
 * @param {Answer[]} readers
 */
export function byAnswer(readers) {
  return KINDS.map(([kind, mark, words]) => ({
    kind,
    mark,
    words,
    readers: readers.filter(({ loads }) => loads === kind),
  })).filter((one) => one.readers.length);
}

/**
 * Who loads a format and who does not, without versions: what is to be known before it is chosen.
 * @param {Answer[]} readers
 */
export function loadedBy(readers) {
  /** @param {Answer["loads"]} kind */
  const names = (kind) => readers.filter(({ loads }) => loads === kind).map(({ reader }) => reader);
  const [loading, refusing] = [names("yes"), names("no")];
  if (!loading.length && !refusing.length) return "no reader was tried";
  const [able, others] = [loading, refusing].map((some) => some.join(", "));
  if (!others) return `loads in ${able}`;
  return able ? `loads in ${able}, not in ${others}` : `loads in no reader that was tried, not in ${others}`;
}

/**
 * A reader with its version, where it has one.
 * @param {Answer} answer
 */
export const withVersion = ({ reader, version }) => (version ? `${reader} ${version}` : reader);

/**
 * A small table: a format, its readers, and below what it needs or why not, with a remedy where there is one.
 * @param {Carrier[]} formats
 * @param {(fix: Fix) => void} [mend] applies a remedy; without it none is offered
 */
export function formatTable(formats, mend) {
  const columns = [{ title: "Saved as" }, { title: "Read by" }];
  const body = formats.map(
    (format) =>
      html`<tbody data-format=${format.format}>
        <tr><th scope="row">${format.format}</th><td>${format.possible ? answers(format.readers) : CANT}${
          mend
            ? format.fixes.map(
                (fix) =>
                  html` <button type="button" class="act-quiet" data-testid="format-fix" @click=${() => mend(fix)}>${fix.words}</button>`,
              )
            : nothing
        }</td></tr>
        <tr class="formats-note"><td colspan=${columns.length}>${format.note}.</td></tr>
      </tbody>`,
  );
  const tried = formats.find((format) => format.tried)?.tried;
  return html`${table({ columns, name: "formats", testid: "formats", body })}${
    tried ? html`<p class="formats-tried">${tried}.</p>` : nothing
  }`;
}

const CANT = html`<span class="loads-no"><span aria-hidden="true">✗ </span>can’t carry this run</span>`;

/** A line for each answer; it opens where there is something to read. @param {Answer[]} readers */
function answers(readers) {
  return byAnswer(readers).map(({ kind, mark, words, readers: some }) => {
    const line = html`<span aria-hidden="true">${mark} </span>${words}: <span class="loads-who">${some.map(withVersion).join(", ")}</span>`;
    const more = some.filter((one) => one.words);
    return html`<div class=${`loads loads-${kind}`} data-loads=${kind}>${
      more.length
        ? html`<details><summary>${line}</summary>
            <ul>${more.map((one) => html`<li>${withVersion(one)}: ${one.words}</li>`)}</ul></details>`
        : line
    }</div>`;
  });
}

/** @typedef {{isOpen: boolean, toggled: (isOpen: boolean) => void}} Fold whether it is open, and what hears that it was opened or closed */

/**
 * The table behind one line.
 * @param {Carrier[]} formats
 * @param {Fold} fold
 * @param {(fix: Fix) => void} [mend]
 */
export function formatsFold(formats, { isOpen, toggled }, mend) {
  if (!formats.length) return nothing;
  /** @param {Event & {currentTarget: HTMLDetailsElement}} event */
  const hear = ({ currentTarget }) => toggled(currentTarget.open);
  return html`<details class="formats-fold" ?open=${isOpen} @toggle=${hear}>
    <summary>${fitting(formats)}</summary>${formatTable(formats, mend)}</details>`;
}

/**
 * The line: how many formats there are, and how many carry the run.
 * @param {Carrier[]} formats
 */
function fitting(formats) {
  const fit = formats.filter(({ possible }) => possible).length;
  return `${fit} of ${counted(formats.length, "export format")} can store this`;
}
