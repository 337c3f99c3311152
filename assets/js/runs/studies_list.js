/**
 * Studies that no run of this host owns: those of the command line and those opened from a file.
 * @module studies
 */

import { asProblem, request } from "../base/client.js";
import { fill, h, problem, ready } from "../base/dom.js";
import { ORIGINS, when } from "../base/format.js";
import { shortModel } from "../calibrate/recipe_form.js";

let root = null;
let studies = [];
let asked = null; // the id whose deletion waits for a second click

/** Called with the element of the list. */
export async function mount(element) {
  root = element;
  const button = await ready('[data-part="open-study"]');
  const file = await ready('[data-part="study-file"]');
  button.addEventListener("click", () => file.click());
  file.addEventListener("change", () => open(button, file));
  await load();
}

async function load() {
  try {
    const answer = await request("/studies");
    studies = answer.studies.filter((study) => ORIGINS[study.origin]);
  } catch (error) {
    trouble(error);
  }
  draw();
}

const trouble = (error) => fill(document.querySelector('[data-part="study-problem"]'), problem(asProblem(error)));

/** Sends the chosen file; a study that was taken is shown in the Lab. */
async function open(button, file) {
  const [chosen] = file.files;
  file.value = ""; // the same file may be chosen again
  if (!chosen) return;
  const words = button.textContent;
  button.disabled = true;
  button.textContent = "Sending";
  try {
    const study = await request("/studies", { method: "POST", body: chosen });
    location.assign(`/?study=${encodeURIComponent(study.id)}`);
  } catch (error) {
    trouble(error);
  } finally {
    button.disabled = false;
    button.textContent = words;
  }
}

function draw() {
  root.querySelector(".studies").hidden = !studies.length;
  fill(
    root.querySelector('[data-part="studies"]'),
    h(
      "table",
      { class: "runs studies-list" },
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          ["Study", "Model", "From", "When", ""].map((title) => h("th", { scope: "col" }, title)),
        ),
      ),
      h("tbody", {}, studies.map(row)),
    ),
  );
}

function row(study) {
  const id = encodeURIComponent(study.id);
  return h(
    "tr",
    { "data-testid": "study", dataset: { study: study.id } },
    h("td", { class: "study-title", title: study.id }, h("a", { href: `/?study=${id}` }, study.title || study.id)),
    h("td", { class: "run-model", title: study.model }, shortModel(study.model)),
    h("td", {}, ORIGINS[study.origin]),
    h("td", {}, when(study.created)),
    h(
      "td",
      {},
      h(
        "span",
        { class: "row-buttons" },
        h("a", { class: "quiet", href: `/api/studies/${id}/download`, download: "" }, "Download"),
        asked === study.id
          ? [
              act("Delete for good", "study-delete-yes", () => remove(study.id), "quiet danger"),
              act("Keep", "study-keep", () => ask(null)),
            ]
          : act("Delete", "study-delete", () => ask(study.id)),
      ),
    ),
  );
}

const act = (text, name, handler, kind = "quiet") =>
  h("button", { type: "button", class: kind, "data-testid": name, on: { click: handler } }, text);

function ask(id) {
  asked = id;
  draw();
  root.querySelector('[data-testid="study-delete-yes"]')?.focus();
}

async function remove(id) {
  try {
    await request(`/studies/${encodeURIComponent(id)}`, { method: "DELETE" });
    studies = studies.filter((study) => study.id !== id);
  } catch (error) {
    trouble(error);
  }
  ask(null);
}
