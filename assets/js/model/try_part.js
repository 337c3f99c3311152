/**
 * The card with the model itself: its predictions along a sentence at the shown λ and at λ = 0, beside the float model's.
 * Nothing is fetched before it is asked for; everything is computed in a worker, so that no slider waits.
 * @module model/try_part
 */

import { modelFile } from "../base/client.js";
import { bytes } from "../base/format.js";
import { render } from "../base/html.js";
import { RemoteModel } from "./remote.js";
import { comparedAt, firstFiles, INITIAL, reduce } from "./try_state.js";
import { tryCard } from "./try_view.js";

/** @import { Compared, TryAction, TryState } from "./try_state.js" */
/** @typedef {import("../explorer/explorer.js").WithView} WithView */

/** @returns {import("../explorer/explorer.js").Part} */
export function tryPart() {
  /** @type {TryState} */
  let state = INITIAL;
  /** @type {RemoteModel|null} */
  let remote = null;
  /** @type {WithView|null} */
  let shown = null; // in the explorer
  /** @type {import("../explorer/explorer.js").Explorer|null} */
  let owner = null;
  let frame = 0;

  /** @param {TryAction} action */
  function dispatch(action) {
    state = reduce(state, action);
    frame ||= requestAnimationFrame(draw);
    if (action.type === "answered" && action.answer.kind === "opened") ask();
    if (action.type === "answered" && action.answer.kind === "broken") ask();
    if (action.type === "answered" && action.answer.kind === "failed" && action.answer.number === null) close();
  }

  const compared = () => shown && comparedAt(shown.view, shown.at);
  const lam = () => (shown ? shown.view.lam_texts[shown.at.lambda] : "");

  function open() {
    const points = compared();
    const kept = shown?.view.study.kept;
    if (!shown || !points || !kept || remote) return;
    const { id } = shown.view.study;
    const place = (/** @type {import("../base/types.d.ts").ModelFile} */ file) => ({
      name: file.name,
      bytes: file.bytes,
      address: modelFile(id, file),
    });
    const every = [...kept.files, ...kept.points.map(({ file }) => file)];
    const { files, size } = firstFiles(kept, points);
    const given = { places: every.map(place), first: files.map(place), bits: points.shown.bits };
    dispatch({ type: "opened", size });
    try {
      remote = new RemoteModel(given, (answer) => dispatch({ type: "answered", answer }));
    } catch (error) {
      dispatch({ type: "failed", what: error instanceof Error ? error.message : String(error) });
    }
  }

  function close() {
    remote?.close();
    remote = null;
  }

  /** Asks anew about the text at the shown λ. */
  function ask(text = state.text) {
    const points = compared();
    if (state.phase !== "open" || !remote || !points) return;
    dispatch({ type: "asked", number: remote.ask(text, filesOf(points)), text, lam: lam() });
  }

  function search() {
    const points = compared();
    if (state.phase !== "open" || !remote || !points) return;
    dispatch({ type: "searched", number: remote.search(filesOf(points)), lam: lam() });
  }

  function draw() {
    cancelAnimationFrame(frame);
    frame = 0;
    const place = owner?.part("try");
    if (!owner || !place || !shown) return;
    const { view, at, locked } = shown;
    const { kept } = view.study;
    const points = compared();
    const explorer = owner;
    render(
      kept &&
        tryCard(state, {
          model: kept.model,
          draw: kept.draw,
          size: points ? bytes(firstFiles(kept, points).size) : "",
          further: bytes(kept.points[0].file.bytes),
          lams: view.lam_texts,
          at: at.lambda,
          isLocked: locked.includes("lambda"),
          isKept: points !== null,
          isZero: points !== null && points.shown === points.zero,
          where: keptAt(kept),
          open,
          stop: () => {
            close();
            dispatch({ type: "closed" });
          },
          ask,
          search,
          move: (lambda) => explorer.move({ lambda }),
          show: () => {
            const [{ method, bits, gamma, lam: least }] = kept.points;
            explorer.pick({
              method,
              bits,
              layer: "all",
              gamma: gamma ?? undefined,
              lambda: shown?.sought.lambda ?? least,
            });
          },
        }),
      place,
    );
  }

  return {
    cards: [],

    wire(explorer) {
      owner = explorer;
    },

    render(explorer, now, before) {
      const isOther = now.view.study.id !== before.view?.study.id;
      const isMoved = now.view !== before.view || now.at !== before.at;
      shown = now;
      if (isOther) {
        close();
        state = { ...INITIAL, text: state.text };
        explorer.part("try-card")?.classList.toggle("is-off", now.view.study.kept === null);
      }
      if (!isMoved) return;
      ask();
      draw();
    },
  };
}

/** @param {Compared} points */
const filesOf = ({ shown, zero }) => ({ shown: shown.file.name, zero: zero.file.name });

/** Which points are kept, in words. @param {import("../base/types.d.ts").KeptCodes} kept */
function keptAt({ points }) {
  const [{ bits, gamma }] = points;
  return `${bits} bits${gamma === null ? "" : `, γ = ${gamma}`}`;
}
