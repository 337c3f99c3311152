/**
 * The state of a page or card: changed by a pure reducer alone, drawn from the state alone, once a frame at most.
 * @module page_state
 */

/**
 * A function that draws with the next frame, however often it is called before.
 * @param {() => void} draw
 */
function onNextFrame(draw) {
  let isDue = false;
  return () => {
    if (isDue) return;
    isDue = true;
    requestAnimationFrame(() => {
      isDue = false;
      draw();
    });
  };
}

/**
 * @template State, Action
 * @param {State} initial
 * @param {(state: State, action: Action) => State} reduce pure
 * @param {(state: State) => void} render draws a state
 * @returns {{readonly state: State, dispatch: (action: Action) => void, draw: () => void}} `dispatch` changes the state
 * at once and draws it with the next frame; `draw` draws now
 */
export function store(initial, reduce, render) {
  let state = initial;
  const draw = () => render(state);
  const soon = onNextFrame(draw);
  return {
    get state() {
      return state;
    },
    dispatch(action) {
      const next = reduce(state, action);
      if (next === state) return;
      state = next;
      soon();
    },
    draw,
  };
}
