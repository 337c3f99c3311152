/**
 * The page of a phone in a lecture: the ring of the tour on an axis of λ, and the answer once the lecturer shows it. It asks
 * for nothing beside its lecture, and keeps a random number in its tab, so that it counts once.
 * @module lecture/join_page
 */

import { plain } from "../base/format.js";
import { html, nothing, render } from "../base/html.js";
import { store } from "../base/page_state.js";
import { axis, guessGlyph, heaps, panel, upright } from "../charts/chart.js";
import { Board, label, s } from "../charts/svg.js";
import { reduce, ringOf, START, status, WORDS } from "./phone_state.js";
import { follow } from "./stream.js";

/** @import { PhoneState } from "../base/types.d.ts" */
/** @import { Panel } from "../charts/chart.js" */
/** @import { Drawn, Size } from "../charts/svg.js" */
/** @import { State } from "./phone_state.js" */

const KEPT = "sarqc-phone";
const FULL = 503;

/** The random number of this tab. */
function phone() {
  const made = [...crypto.getRandomValues(new Uint8Array(16))]
    .map((byte) => byte.toString(16).padStart(2, "0"))
    .join("");
  try {
    const before = sessionStorage.getItem(KEPT);
    if (before && /^[0-9a-f]{32}$/.test(before)) return before;
    sessionStorage.setItem(KEPT, made);
  } catch {
    // Without storage a page that is loaded again is another phone.
  }
  return made;
}

/** @param {HTMLElement} root with the address of the lecture and the words of its stops */
export function mount(root) {
  const { address = "", stops = "{}" } = root.dataset;
  /** @type {Record<string, {title: string, ask: string}>} */
  const words = JSON.parse(stops);
  const part = (/** @type {string} */ name) => /** @type {HTMLElement} */ (root.querySelector(`[data-part="${name}"]`));
  const [question, place, below] = [part("question"), part("axis"), part("below")];
  const id = phone();
  const state = store(START, reduce, draw);
  const { dispatch } = state;
  const board = new Board(place, (size) => drawn(size));
  const ring = board.handle({
    control: "guess",
    label: "Your guess of λ",
    glyph: guessGlyph(),
    drag: (x) => moved((at) => at.position(x)),
    step: (dx) => {
      const { heard } = state.state;
      if (heard) moved((at) => Math.max(0, Math.min(at.count - 1, ringOf(state.state, heard) + dx)));
    },
  });

  /** @param {Size} size */
  const panelOf = ({ width, height }) =>
    panel({ left: 40, right: width - 24, top: 24, bottom: height - 84 }, state.state.heard?.lams.length ?? 0, [0, 1]);

  /** @param {(at: Panel) => number} position */
  function moved(position) {
    if (state.state.heard?.phase === "open") dispatch({ type: "moved", guess: position(panelOf(board.size)) });
  }

  /** @param {Size} size @returns {Drawn[]} */
  function drawn(size) {
    const { heard, sent } = state.state;
    if (!heard?.lams.length) return [];
    const at = panelOf(size);
    const [own, isOpen] = [ringOf(state.state, heard), heard.phase === "open"];
    const shown = isOpen ? own : sent;
    ring.at(at.x(shown ?? own), at.bottom + 48, heard.lams[shown ?? own], `λ = ${plain(heard.lams[shown ?? own])}`);
    ring.show(shown !== null);
    ring.still(!isOpen);
    return [
      heard.phase === "revealed" && truth(at, heard),
      s("line", { x1: at.left - 8, x2: at.right + 8, y1: at.bottom, y2: at.bottom, stroke: "var(--line-2)" }),
      axis(at, heard.lams.map(plain)),
      heaps(at, heard.counts),
      shown !== null && upright(at, shown, { stroke: "var(--series-4)", dash: "4 4" }),
    ];
  }

  /** @param {State} now */
  function draw(now) {
    const { heard, link, isBusy, trouble, guess, sent } = now;
    const stop = heard?.stop ? words[heard.stop] : undefined;
    const instead = link === "joining" || link === "full" || link === "gone" ? link : heard?.stop ? null : "waiting";
    render(
      instead
        ? html`<h1>sarqc</h1><p role="status" data-testid="phone-words">${WORDS[instead]}</p>`
        : html`<h1>${stop?.title ?? "Guess along"}</h1><p>${stop?.ask ?? "Drag the ring to the best λ."}</p>`,
      question,
    );
    place.hidden = instead !== null;
    board.redraw();
    board.describe(heard && !instead ? status(now, heard) : "");
    const canSend = heard?.phase === "open" && !(sent !== null && (guess === null || guess === sent));
    render(
      html`${
        heard && !instead ? html`<p role="status" data-testid="phone-status">${status(now, heard)}</p>` : nothing
      }${
        heard?.phase === "open" && !instead
          ? html`<button type="button" class="act" data-testid="send-guess" ?disabled=${isBusy || !canSend}
              @click=${() => send(heard)}>${sent === null ? "Send my guess" : "Send the new guess"}</button>`
          : nothing
      }${trouble ? html`<p class="problem" role="alert">${trouble}</p>` : nothing}${
        link === "lost"
          ? html`<p class="problem" role="alert">The connection is lost. The page tries again by itself.</p>`
          : nothing
      }`,
      below,
    );
  }

  /** @param {PhoneState} heard */
  async function send({ stop, lams }) {
    const { heard } = state.state;
    if (!heard || !lams.length) return;
    const guess = ringOf(state.state, heard);
    dispatch({ type: "asked" });
    try {
      const response = await fetch(`${address}/guess`, {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify({ phone: id, stop, guess }),
      });
      if (response.ok) dispatch({ type: "sent", guess });
      else dispatch({ type: "trouble", trouble: refusal(await response.json().catch(() => null)) });
    } catch {
      dispatch({ type: "trouble", trouble: "The guess did not arrive. Send it again." });
    }
  }

  follow(
    `${address}/events?phone=${id}`,
    {},
    {
      hear(/** @type {PhoneState} */ heard) {
        dispatch({ type: "heard", heard });
        return heard.phase !== "ended";
      },
      lost: (isLost) => {
        if (isLost) dispatch({ type: "link", link: "lost" });
      },
      refused: (code) => dispatch({ type: "link", link: code === FULL ? "full" : code === 404 ? "gone" : "lost" }),
    },
  );
  state.draw();
}

/** @param {{error?: {what: string, remedy: string}}|null} document */
function refusal(document) {
  const { what = "The server did not take the guess", remedy = "Send it again." } = document?.error ?? {};
  return `${what[0].toUpperCase()}${what.slice(1)}. ${remedy}`;
}

/**
 * The answer behind everything: the band of the best λ, or the best alone.
 * @type {(at: Panel, heard: PhoneState) => Drawn}
 */
function truth(at, { best, band }) {
  if (best === null) return null;
  const half = at.count > 1 ? (at.x(1) - at.x(0)) / 2 : 30;
  const [first, last] = band ?? [best, best];
  const x = at.x(first) - half;
  return [
    s("rect", { x, y: at.top, width: at.x(last) + half - x, height: at.bottom - at.top, fill: "var(--band)" }),
    s("rect", { x, y: at.bottom - 2, width: at.x(last) + half - x, height: 4, fill: "var(--band-strong)" }),
    label((at.x(first) + at.x(last)) / 2, at.top - 10, "best", {
      at: "middle",
      fill: "var(--quality-ink)",
      weight: 600,
    }),
  ];
}
