/**
 * The tour before a hall: the step fills the screen, and a black screen while somebody speaks.
 * @module lecture/present
 */

const root = () => document.documentElement;
const FIRST = ["keydown", "pointerup"]; // what lets a page fill the screen

/** True while the step fills the screen, or the window where the browser gives no more. */
const isPresenting = () => root().dataset.presenting !== undefined;
/** A lecture fills the window from its beginning. */
const isLecture = () => root().dataset.lecture !== undefined;

/** Fills the screen with the step, or gives it back. */
export async function fill() {
  if (isLecture() ? document.fullscreenElement : isPresenting()) {
    leave();
    return;
  }
  root().dataset.presenting = "";
  // A frame on another's page may be allowed the window only; then that is filled.
  await root()
    .requestFullscreen?.()
    .catch(() => {});
}

/** @param {Element & {blur?: () => void}} touched */
const release = (touched) => touched.matches("input[type=range], [role=slider], button") && touched.blur?.();

function leave() {
  delete root().dataset.presenting;
  if (document.fullscreenElement) document.exitFullscreen();
}

/**
 * Follows what the browser does itself: Escape ends the full screen.
 * @param {HTMLElement} black covers everything while it is not hidden
 * @param {HTMLElement} button that fills the screen
 */
export function presenter(black, button) {
  /** @type {Element|null} */
  let before = null;
  button.addEventListener("click", fill);
  black.addEventListener("click", () => blacken(false));
  document.addEventListener("fullscreenchange", () => {
    if (!document.fullscreenElement) delete root().dataset.presenting;
  });
  // A presenter drags with the mouse and goes on with a remote: nothing that was touched keeps the keys.
  document.addEventListener("pointerup", () => {
    if ((isPresenting() || isLecture()) && document.activeElement instanceof Element) release(document.activeElement);
  });
  new MutationObserver(() => button.setAttribute("aria-pressed", String(isPresenting()))).observe(root(), {
    attributeFilter: ["data-presenting"],
  });

  /** @param {boolean} isOn */
  function blacken(isOn) {
    if (isOn) before = document.activeElement;
    black.hidden = !isOn;
    if (isOn) black.focus();
    else if (before instanceof HTMLElement || before instanceof SVGElement) before.focus({ preventScroll: true });
  }

  /** Fills the screen as soon as the browser allows it: with the first key or press. */
  function fillSoon() {
    /** @param {Event} event */
    const first = (event) => {
      if (event instanceof KeyboardEvent && event.key === "Escape") return;
      for (const name of FIRST) document.removeEventListener(name, first);
      if (!document.fullscreenElement && root().dataset.presenting === undefined) fill();
    };
    for (const name of FIRST) document.addEventListener(name, first);
  }

  return {
    fillSoon,
    isBlack: () => !black.hidden,
    blacken,
    leave,
  };
}
