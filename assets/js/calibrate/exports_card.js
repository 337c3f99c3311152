/**
 * What a finished run can be exported as, for its readers. For each format a line saves, follows, downloads or deletes. An export is a run of its own, so its line listens to the stream that every run has.
 * @module exports
 */

import { asProblem, listen, request } from "../base/client.js";
import { AT_REST, FORMAT_WORDS } from "../base/contract.js";
import { bytes, format as formatted } from "../base/format.js";
import { html, nothing, render, repeat } from "../base/html.js";
import { store } from "../base/page_state.js";
import { moreMenu } from "../base/popover.js";
import { problemBlock } from "../base/problem.js";
import { at } from "../base/site.js";
import { keptWords } from "./kept.js";
import { formatTable, loadedBy } from "./readers_table.js";
import * as State from "./run_state.js";

/** @import { Problem } from "../base/client.js" */
/** @import { Carrier, StoredEvent } from "../base/types.d.ts" */
/** @import { Run, RunProgress } from "./run_state.js" */
/** @typedef {{run: Run | null, said: RunProgress, error: Problem | null, isBusy: boolean}} Line an export as its line shows it */
/** @typedef {Record<string, Line>} Lines by format */
/**
 * @typedef {{type: "busy", format: string}
 *   | {type: "made", format: string, run: Run | null}
 *   | {type: "said", format: string, event: StoredEvent}
 *   | {type: "row", format: string, run: Run}
 *   | {type: "refused", format: string, error: Problem}} Action
 */

/** @type {Record<string, {title: string, name: string}>} formats that are the only one of their runs */
const ALONE = {
  "as-found": { title: "The repaired checkpoint as files", name: "the repaired checkpoint" },
};

/** @type {Line} */
const EMPTY = { run: null, said: State.initial(), error: null, isBusy: false };

/**
 * The lines after something was pressed, answered or said. Pure.
 * @param {Lines} lines
 * @param {Action} action
 * @returns {Lines}
 */
export function reduce(lines, action) {
  const line = lines[action.format] ?? EMPTY;
  /** @param {Partial<Line>} change */
  const changed = (change) => ({ ...lines, [action.format]: { ...line, ...change } });
  switch (action.type) {
    case "busy":
      return changed({ isBusy: true });
    case "made":
      return { ...lines, [action.format]: { ...EMPTY, run: action.run } };
    case "said":
      return changed({ said: State.reduce(line.said, action.event) });
    case "row":
      return changed({ run: action.run });
    case "refused":
      return changed({ error: action.error, isBusy: false });
  }
}

/**
 * Where an export stands, in words. `state` is what it has said so far.
 * @param {Pick<Run, "state">} run
 * @param {RunProgress} state
 */
export function exportWords(run, state) {
  const { done, total } = State.progress(state);
  switch (run.state) {
    case "queued":
      return "waiting for a device";
    case "running":
      if (!total || state.ended) return !state.ended && state.stage ? state.stage : "starting";
      if (done < total) return `${done} of ${total} layers fetched`;
      return state.stage || "saving";
    case "cancelling":
      return "cancelling";
    case "cancelled":
      return "cancelled; the run is as it was";
    case "interrupted":
    case "failed":
      return "failed; the run is as it was";
    default:
      return "";
  }
}

/**
 * The section of one finished run, which follows its exports until `close()`.
 * @param {Run & {formats: Carrier[]}} run as GET /runs/{id} gives it
 */
export function exportsCard(run) {
  const alone = ALONE[run.formats[0].format]; // no choice of formats
  const element = document.createElement("section");
  element.className = "files";
  element.dataset.testid = "files";
  /** @type {Map<string, {close: () => void}>} */
  const streams = new Map();
  const lines = store(/** @type {Lines} */ ({}), reduce, (state) =>
    render(
      html`${alone ? html`<h3>${alone.title}</h3><p>${run.formats[0].note}.</p>` : html`<h3>The model as files</h3><details class="formats-fold"><summary>Who can load which format</summary>${formatTable(run.formats)}</details>`}
        <div class="files-lines">${alone ? nothing : saveMenu(run, state, send)}${repeat(
          run.formats.filter(({ format }) => alone || state[format]?.run || state[format]?.error),
          (one) => one.format,
          (one) => lineOf(run, one, state[one.format] ?? EMPTY, send),
        )}</div>`,
      element,
    ),
  );

  /** Shows an export and follows it as long as it goes on. @param {Run} made */
  function take(made) {
    const format = made.format ?? "";
    streams.get(format)?.close();
    lines.dispatch({ type: "made", format, run: made });
    if (AT_REST.includes(made.state)) return;
    const path = `/runs/${encodeURIComponent(made.id)}`;
    const stream = listen(`${path}/events`, {
      message: async (event) => {
        const began = lines.state[format]?.run?.state === "queued";
        lines.dispatch({ type: "said", format, event });
        // The row knows what the events of earlier attempts do not: whether it goes on now.
        if (!began && !AT_REST.includes(event.type)) return;
        const row = await request(path).catch(() => null);
        if (!row || streams.get(format) !== stream) return;
        lines.dispatch({ type: "row", format, run: row });
        if (AT_REST.includes(row.state)) stream.close();
      },
    });
    streams.set(format, stream);
  }

  /** @param {string} format @param {string} path @param {string} [method] */
  async function send(format, path, method = "POST") {
    lines.dispatch({ type: "busy", format });
    try {
      const made = await request(path, { method });
      if (made) take(made);
      else lines.dispatch({ type: "made", format, run: null });
    } catch (error) {
      lines.dispatch({ type: "refused", format, error: asProblem(error) });
    }
  }

  for (const made of run.exports ?? []) take(made);
  lines.draw();
  return {
    element,
    close: () => {
      for (const stream of streams.values()) stream.close();
    },
  };
}

/**
 * The formats that the model is not saved in yet; those that can't carry it are there with the reason.
 * @param {Run & {formats: Carrier[]}} own
 * @param {Lines} lines
 * @param {(format: string, path: string) => void} send
 */
function saveMenu(own, lines, send) {
  const left = own.formats.filter(({ format }) => !lines[format]?.run);
  if (!left.length) return nothing;
  const items = left.map(
    ({ format, possible, note, readers }) =>
      html`<button type="button" class="quiet" data-testid=${`save-${format}`} title=${possible ? nothing : note}
        ?disabled=${!possible || lines[format]?.isBusy}
        @click=${() => send(format, `/runs/${encodeURIComponent(own.id)}/export?format=${format}`)}
        >${format}<span class="files-words">${FORMAT_WORDS[format]}; ${possible ? loadedBy(readers) : "can’t carry this run"}</span></button>`,
  );
  return html`<div class="files-line">${moreMenu({
    id: `save-as-${own.id}`,
    label: "Save as checkpoint: formats",
    words: "Save as checkpoint ▾",
    kind: "act-quiet",
    testid: "save-as",
    items,
  })}</div>`;
}

/**
 * @param {Run} own the run whose model it is
 * @param {Carrier} carrier
 * @param {Line} line
 * @param {(format: string, path: string, method?: string) => void} send
 */
function lineOf(own, carrier, { run, said, error, isBusy }, send) {
  const { format } = carrier;
  const words = ALONE[format]?.name ?? format;
  const save = `/runs/${encodeURIComponent(own.id)}/export?format=${format}`;
  const path = run && `/runs/${encodeURIComponent(run.id)}`;
  /** @param {string} text @param {string} name @param {() => void} act @param {{disabled?: boolean, title?: string}} [more] */
  const button = (text, name, act, { disabled = false, title } = {}) =>
    html`<button type="button" class=${name.startsWith("delete") ? "quiet" : "act-quiet"} data-testid=${name}
      title=${title ?? nothing} ?disabled=${disabled || isBusy} @click=${act}>${text}</button>`;
  const saving = (/** @type {{disabled?: boolean, title?: string}} */ more = {}) =>
    button(
      `Save ${words === format ? `as checkpoint (${format})` : words}`,
      `save-${format}`,
      () => send(format, save),
      more,
    );
  const keep = keptWords(run?.kept);
  let parts;
  if (!run || !path) {
    const isOut = !carrier.possible;
    parts = [
      saving({ disabled: isOut, title: isOut ? carrier.note : undefined }),
      isOut ? html`<span class="files-words">This format can’t carry the run; the table says why.</span>` : nothing,
    ];
  } else if (run.state === "finished") {
    const href = at(`/api/runs/${encodeURIComponent(own.id)}/checkpoint?format=${format}`);
    parts = [
      html`<a class="act" href=${href} download data-testid=${`download-${format}`}>Download ${words}</a>`,
      html`<span class="files-words">${bytes(run.bytes)}, one tar file${keep ? `, kept ${keep}` : ""}</span>`,
      button("Delete the files", `delete-${format}`, () => send(format, path, "DELETE")),
    ];
  } else {
    const isStopping = run.state === "cancelling";
    parts = [
      AT_REST.includes(run.state)
        ? saving()
        : button("Cancel", `cancel-${format}`, () => send(format, `${path}/cancel`), { disabled: isStopping }),
      html`<span class="files-words" role="status" data-testid=${`export-${format}`}>${words}: ${exportWords(run, said)}</span>`,
    ];
  }
  const failure = error ?? (run && ["failed", "interrupted"].includes(run.state) ? run.error : null);
  return html`<div class="files-line" data-format=${format} data-state=${run?.state ?? "none"}>
    ${parts}${run ? differs(own, run) : nothing}${run ? readAgain(run) : nothing}${failure ? problemBlock(failure) : nothing}
  </div>`;
}

/**
 * What its files are when they are read again: the model that was measured, or where not.
 * @param {Run} made
 */
function readAgain(made) {
  const written = made.state === "finished" ? made.summary?.written : null;
  if (!written) return nothing;
  const isSame = !written.other_tensors.length && written.parts_at === null;
  return html`<p class=${isSame ? "files-same" : "warning"} data-testid="read-again">${
    isSame ? html`<span aria-hidden="true">✓ </span>` : nothing
  }${written.words}</p>`;
}

/**
 * An export solves again what is no longer on disk; if that came out otherwise, it is said.
 * @param {Run} own
 * @param {Run} made
 */
function differs(own, made) {
  const [now, before] = [made.summary?.perplexity, own.summary?.perplexity];
  if (made.state !== "finished" || now === before) return nothing;
  const [is, was] = [now, before].map((value) => formatted(value, "significant"));
  return html`<p class="warning">This checkpoint has perplexity ${is}, the run had ${was}: layers were solved again, on another device or by another version.</p>`;
}
