/** What several of the scripts' tests are given: random numbers, events of a run, and what they read of an answer. */

/** Numbers from 0 to 1 that look random, the same in every run. */
export function numbersFrom(seed) {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

/** A property of each; of several properties a list for each. */
export const each = (list, ...names) =>
  Array.from(list, (one) => (names.length > 1 ? names.map((name) => one[name]) : one[names[0]]));

/** With blanks that break in place of those that keep a number and its unit together. */
export const plain = (text) => text.replaceAll("\u00a0", " ");

/** The first event of a run. */
export const started = (layers, more = {}) => ({
  type: "started",
  seq: 1,
  model: "toy",
  device: "cpu",
  layers,
  share_quantized: 0.9,
  finished_layers: 0,
  ...more,
});

export const layerDone = (seq, index, report, more = {}) => ({
  type: "layer_done",
  seq,
  name: `l.${index}`,
  index,
  report,
  seconds: 1,
  from_cache: false,
  ...more,
});

/** Texts of a model: one to calibrate on, and the held-out and the test text beside it. */
export const TEXTS = ["calibration", "held-out", "test"].map((name) => ({
  name: `toy-${name}`,
  role: name.replace("-", "_"),
  source: "toy",
}));
