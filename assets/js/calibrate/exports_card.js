/**
 * The model of a finished run as files: who can load them, and for each format a line that saves, follows, downloads
 * or deletes. An export is a run of its own, so its line listens to the stream that every run has.
 * @module exports
 */

import { asProblem, listen, request } from "../base/client.js";
import { AT_REST } from "../base/contract.js";
import { fill, h, problem } from "../base/dom.js";
import { bytes, format as formatted } from "../base/format.js";
import { formatTable, isImpossible } from "./readers_table.js";
import * as State from "./run_state.js";

/** Where an export stands, in words. `state` is what it has said so far. */
export function exportWords(run, state) {
  const { done, total } = State.progress(state);
  switch (run.state) {
    case "queued":
      return "waiting for a device";
    case "running":
      if (!total || state.ended) return "starting";
      return done < total ? `${done} of ${total} layers fetched` : state.stage || "saving";
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

/** The section of one finished run. `close` ends its streams. */
export class Exports {
  /** @param {object} run with `formats` and `exports`, as GET /runs/{id} gives it */
  constructor(run) {
    this.run = run;
    this.lines = new Map(); // format → {run, state, stream, error}
    this.list = h("div", { class: "files-lines" });
    this.element = h(
      "section",
      { class: "files", "data-testid": "files" },
      h("h3", {}, "The model as files"),
      formatTable(run.formats),
      this.list,
    );
    for (const made of run.exports ?? []) this.take(made);
    this.draw();
  }

  close() {
    for (const line of this.lines.values()) line.stream?.close();
  }

  /** Shows an export and follows it as long as it goes on. */
  take(made) {
    const line = { run: made, state: State.initial(), stream: null, error: null };
    this.lines.get(made.format)?.stream?.close();
    this.lines.set(made.format, line);
    if (AT_REST.includes(made.state)) return;
    const path = `/runs/${encodeURIComponent(made.id)}`;
    line.stream = listen(`${path}/events`, {
      message: async (event) => {
        const began = line.run.state === "queued";
        line.state = State.reduce(line.state, event);
        // The row knows what the events of earlier attempts do not: whether it goes on now.
        if (began || AT_REST.includes(event.type)) line.run = await request(path).catch(() => line.run);
        if (AT_REST.includes(line.run.state)) line.stream.close();
        this.soon();
      },
    });
  }

  soon() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      this.draw();
    });
  }

  draw() {
    const focused = document.activeElement?.dataset?.file;
    fill(
      this.list,
      this.run.formats.map((one) => this.line(one)),
    );
    if (focused) this.list.querySelector(`[data-file="${focused}"]`)?.focus({ preventScroll: true });
  }

  line(one) {
    const name = one.format;
    const { run, state, error } = this.lines.get(name) ?? {};
    const path = run && `/runs/${encodeURIComponent(run.id)}`;
    const again = () => request(`/runs/${encodeURIComponent(this.run.id)}/export?format=${name}`, { method: "POST" });
    const parts = [];
    if (!run) {
      const impossible = isImpossible(one);
      parts.push(
        this.button(`Save as checkpoint (${name})`, `save-${name}`, name, again, {
          disabled: impossible,
          title: impossible ? one.note : null,
        }),
        impossible ? h("span", { class: "files-words" }, "This format can’t carry the run; above is why.") : null,
      );
    } else if (run.state === "finished") {
      const href = `/api/runs/${encodeURIComponent(this.run.id)}/checkpoint?format=${name}`;
      parts.push(
        h(
          "a",
          { class: "act", href, download: "", "data-testid": `download-${name}`, dataset: { file: `save-${name}` } },
          `Download ${name}`,
        ),
        h("span", { class: "files-words" }, `${bytes(run.bytes)}, one tar file`),
        this.button("Delete the files", `delete-${name}`, name, () => request(path, { method: "DELETE" })),
      );
    } else {
      const live = !AT_REST.includes(run.state);
      parts.push(
        live
          ? this.button("Cancel", `cancel-${name}`, name, () => request(`${path}/cancel`, { method: "POST" }), {
              disabled: run.state === "cancelling",
            })
          : this.button(`Save as checkpoint (${name})`, `save-${name}`, name, again),
        h(
          "span",
          { class: "files-words", role: "status", "data-testid": `export-${name}` },
          `${name}: ${exportWords(run, state)}`,
        ),
      );
    }
    const failure = error ?? (["failed", "interrupted"].includes(run?.state) ? run.error : null);
    return h(
      "div",
      { class: "files-line", dataset: { format: name, state: run?.state ?? "none" } },
      parts,
      this.differs(run),
      failure ? problem(failure) : null,
    );
  }

  /** An export solves again what is no longer on disk; if that came out otherwise, it is said. */
  differs(run) {
    const [made, own] = [run?.summary?.perplexity, this.run.summary?.perplexity];
    if (run?.state !== "finished" || made === own) return null;
    const text = `This checkpoint has perplexity ${formatted(made, "significant")}, the run had ${formatted(own, "significant")}: layers were solved again, on another device or by another version.`;
    return h("p", { class: "warning" }, text);
  }

  button(text, name, format, send, attributes = {}) {
    const act = async (event) => {
      event.currentTarget.disabled = true;
      try {
        const made = await send();
        if (made) this.take(made);
        else this.lines.delete(format);
      } catch (error) {
        this.lines.set(format, { ...this.lines.get(format), error: asProblem(error) });
      }
      this.draw();
    };
    const kind = name.startsWith("delete") ? "quiet" : "act-quiet";
    return h(
      "button",
      { type: "button", class: kind, "data-testid": name, dataset: { file: name }, on: { click: act }, ...attributes },
      text,
    );
  }
}
