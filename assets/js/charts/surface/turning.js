/**
 * Turning and zooming a surface: a drag turns it, two fingers or the wheel with Ctrl zoom, a double click turns it back,
 * and so do keys where a cell of it has the focus. A finger that moves up or down scrolls the page.
 * @module surface/turning
 */

const PER_NOTCH = 0.0015; // of the wheel
const STILL = 4; // pixels that a click may move

/** @type {Record<string, [dx: number, dy: number]>} turns by keys, as drags in pixels */
const TURNS = { ArrowLeft: [-24, 0], ArrowRight: [24, 0], ArrowUp: [0, -24], ArrowDown: [0, 24] };

/**
 * @typedef {object} Turnable
 * @property {(dx: number, dy: number) => void} turn by a drag, in pixels
 * @property {(times: number) => void} zoom
 * @property {() => void} turnBack
 * @property {(event: PointerEvent) => void} hover
 * @property {() => void} leave
 * @property {(event: MouseEvent) => void} choose
 */

/**
 * Lets a surface be turned.
 * @param {HTMLElement} place of the drawing
 * @param {HTMLElement} card around it, in which a cell may have the focus
 * @param {Turnable} surface
 */
export function turnable(place, card, surface) {
  place.classList.add("is-turn");
  /** @type {Map<number, {x: number, y: number}>} pressed pointers */
  const pressed = new Map();
  let moved = 0; // pixels since the pointer was pressed
  const distance = () => {
    const [one, other] = [...pressed.values()];
    return Math.hypot(one.x - other.x, one.y - other.y);
  };
  const follow = (/** @type {PointerEvent} */ event) => {
    const last = pressed.get(event.pointerId);
    if (!last) return;
    const before = pressed.size === 2 ? distance() : 0;
    const [dx, dy] = [event.clientX - last.x, event.clientY - last.y];
    pressed.set(event.pointerId, { x: event.clientX, y: event.clientY });
    moved += Math.abs(dx) + Math.abs(dy);
    if (pressed.size === 1) surface.turn(dx, dy);
    else if (before) surface.zoom(distance() / before);
  };
  const release = (/** @type {PointerEvent} */ event) => {
    pressed.delete(event.pointerId);
    if (pressed.size) return;
    window.removeEventListener("pointermove", follow);
    window.removeEventListener("pointerup", release);
    window.removeEventListener("pointercancel", release);
  };
  place.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    if (!pressed.size) {
      moved = 0;
      window.addEventListener("pointermove", follow);
      window.addEventListener("pointerup", release);
      window.addEventListener("pointercancel", release);
    }
    pressed.set(event.pointerId, { x: event.clientX, y: event.clientY });
    surface.leave();
  });
  place.addEventListener("pointermove", (event) => {
    if (!event.buttons) surface.hover(event);
  });
  place.addEventListener("pointerleave", () => surface.leave());
  place.addEventListener("click", (event) => {
    if (moved <= STILL) surface.choose(event);
  });
  place.addEventListener("dblclick", () => surface.turnBack());
  place.addEventListener(
    "wheel",
    (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      surface.zoom(Math.exp(-event.deltaY * PER_NOTCH));
    },
    { passive: false },
  );
  card.addEventListener("keydown", (event) => {
    const isHeld = event.target instanceof Element && event.target.matches(".cells");
    if (!isHeld || event.altKey || event.ctrlKey || event.metaKey) return;
    const way = event.shiftKey ? TURNS[event.key] : undefined;
    if (way) surface.turn(...way);
    else if (event.key === "Home") surface.turnBack();
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
}
