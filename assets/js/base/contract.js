/**
 * The names that Python and the browser share. Written by `python docs/make_contract.py`: change it there.
 * @module contract
 */

/**
 * The same data, which nobody can change.
 * @template T
 * @param {T} value
 * @returns {T}
 */
export function frozen(value) {
  for (const part of Object.values(/** @type {object} */ (value))) if (typeof part === "object" && part) frozen(part);
  return Object.freeze(value);
}

/** @import { Control, Door, Drawing, EventType, Panel, PoolingName, Quantity, Role, RoleName, Shown, State } from "./types.d.ts" */

/**
 * Where a run stands, in the words of the page.
 * @type {Readonly<Record<State, string>>}
 */
export const STATE_WORDS = frozen({
  "queued": "waiting",
  "running": "running",
  "cancelling": "cancelling",
  "cancelled": "cancelled",
  "interrupted": "interrupted",
  "failed": "failed",
  "finished": "finished",
});

/**
 * States in which nothing goes on by itself.
 * @type {readonly State[]}
 */
export const AT_REST = frozen(["cancelled", "interrupted", "failed", "finished"]);

/**
 * Events that end a run, named like the state after them.
 * @type {readonly EventType[]}
 */
export const ENDS = frozen(["finished", "failed", "cancelled", "interrupted"]);

/**
 * What runs can be sorted by.
 * @type {readonly string[]}
 */
export const RUN_SORTS = frozen(["created", "name", "model", "method", "state", "bits", "lambda", "gamma", "perplexity", "against_gptq", "accuracy", "size", "bits_per_weight", "duration"]);

/**
 * Bounds of what people write on a run.
 * @type {Readonly<Record<string, number>>}
 */
export const WRITTEN_AT_MOST = frozen({
  "name": 120,
  "note": 4000,
  "tag": 40,
  "tags": 16,
});

/**
 * How many days a share link lasts, by default and to choose from, and how many a run or study has at most.
 * @type {Readonly<{days: number, choices: number[], links: number}>}
 */
export const LINK_LASTS = frozen({
  "days": 30,
  "choices": [1, 7, 30, 90, 365],
  "links": 20,
});

/**
 * How a grid is fitted where it is not plainly: words of each value, or of all with the value in them.
 * @type {Readonly<Record<string, string | Record<string, string>>>}
 */
export const FITTING_WORDS = frozen({
  "warm_start": {"gptq": "started from GPTQ's codes", "column_solver": "started from the column solver's codes"},
  "stopping": {"early": "stopped early"},
  "range": {"search": "searched range", "joint": "jointly searched range"},
  "order": {"activation": "activation order"},
  "refine": "refined × {value}",
  "refit": "scales refitted × {value}",
  "distill": "scales distilled",
  "distill_by": {"block": "block by block"},
  "distill_codes": "codes distilled",
  "distill_norms": "norms distilled",
  "distill_lambda": "distilled at λ = {value}",
  "rotate": {"r1": "residual stream rotated", "r1+r2": "residual stream and values rotated"},
  "expert_damping": "starved experts damped",
  "first_order": "β {value}",
});

/**
 * How people write what “auto” may choose.
 * @type {Readonly<Record<string, string>>}
 */
export const SIGNS = frozen({
  "lam": "λ",
  "gamma": "γ",
  "shift_strength": "α",
});

/**
 * What each format of a checkpoint is.
 * @type {Readonly<Record<string, string>>}
 */
export const FORMAT_WORDS = frozen({
  "plain": "dequantized weights",
  "packed": "compressed-tensors, pack-quantized",
  "gptq": "GPTQ’s format",
  "mlx": "MLX’s format",
});

/**
 * What ends every page's title.
 * @type {Readonly<string>}
 */
export const SITE = frozen("sarqc, quantization of language models");

/**
 * What the map of layers can be coloured by.
 * @type {Readonly<Record<Quantity, string>>}
 */
export const QUANTITIES = frozen({
  "held_out": "error, unseen text",
  "recon": "error, calibration text",
  "drift": "drift",
  "sar": "penalty",
  "lambda": "chosen λ",
  "gamma": "chosen γ",
  "tokens": "tokens",
});

/**
 * Steps of the ladder, in their usual order.
 * @type {readonly string[]}
 */
export const LADDER_STEPS = frozen(["order", "range", "lambda", "refine"]);

/**
 * Ways of pooling ΔW, and their words.
 * @type {Readonly<Record<PoolingName, string>>}
 */
export const POOLINGS = frozen({
  "max": "largest",
  "mean": "mean",
  "max-saliency": "largest, by saliency",
  "mean-saliency": "mean, by saliency",
  "signed": "signed, by saliency",
});

/**
 * What the main figure can show.
 * @type {Readonly<Record<Shown, string>>}
 */
export const SHOWN = frozen({
  "perplexity": "Perplexity",
  "accuracy": "Accuracy",
  "error": "Error",
  "drift": "Drift",
});

/**
 * Parts of the Lab below its main figure.
 * @type {Readonly<Record<Door, string>>}
 */
export const DOORS = frozen({
  "where": "Where",
  "trade_off": "Trade-off",
  "steps": "Steps",
  "text": "Text",
  "proof": "Proof",
});

/**
 * How the weights can be drawn.
 * @type {Readonly<Record<Drawing, string>>}
 */
export const DRAWINGS = frozen({
  "surface": "3-D",
  "flat": "flat",
});

/**
 * The script that runs a model beside the page.
 * @type {Readonly<string>}
 */
export const WORKER = frozen("model_worker.js");

/**
 * Standard errors to be clear, by degrees of freedom from 1.
 * @type {readonly number[]}
 */
export const CLEAR_FROM = frozen([12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.306, 2.2622, 2.2281, 2.201, 2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.093, 2.086, 2.0796, 2.0739, 2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452, 2.0423]);

/**
 * What a link can lock or hide, in the Lab's order.
 * @type {Readonly<Record<Control, string>>}
 */
export const CONTROLS = frozen({
  "study": "Study",
  "bits": "Bits",
  "method": "Method",
  "layer": "Layer",
  "show": "Quantity of the main figure",
  "draw": "Calibration draw",
  "drawing": "Drawing of the weights",
  "pool": "What a cell of it says",
  "quantity": "Quantity of the map",
  "steps": "Order of the ladder’s steps",
  "lambda": "λ",
  "gamma": "γ",
  "play": "Play",
  "compute": "Compute here",
  "use": "Use these settings",
  "download": "Download",
  "copy": "Copy as text",
  "share": "Share",
});

/**
 * What a link can only hide.
 * @type {Readonly<Record<Panel, string>>}
 */
export const PANELS = frozen({
  "equation": "The equation",
  "sentence": "The sentence",
  "hero": "Curve over λ",
  "band": "The λ that may be the best",
  "surfaces": "|Ŵ − W|",
  "deciles": "Drift by saliency decile",
  "sliders": "Slider",
  "continued": "A sentence continued",
  "doors": "The parts below",
  "map": "Every layer",
  "curves": "Perplexity, error and drift over λ",
  "ruler": "You already regularise",
  "plane": "Error against drift",
  "gamma_grid": "λ × γ",
  "ladder": "What each step is worth",
  "methods": "Every method",
  "rounding": "Learned rounding, step by step",
  "gap": "Amount of text",
  "theorem": "What the calibration text can’t see",
  "inspector": "Weight by weight",
  "try": "The model on a sentence",
  "measured": "How this was measured",
  "numbers": "The numbers",
});

/**
 * What can stand alone in a frame.
 * @type {Readonly<Record<string, string>>}
 */
export const CARDS = frozen({
  "hero": "Curve over λ",
  "surfaces": "|Ŵ − W|",
  "deciles": "Drift by saliency decile",
  "map": "Every layer",
  "curves": "Perplexity, error and drift over λ",
  "ruler": "You already regularise",
  "plane": "Error against drift",
  "gamma_grid": "λ × γ",
  "ladder": "What each step is worth",
  "methods": "Every method",
  "rounding": "Learned rounding, step by step",
  "gap": "Amount of text",
  "theorem": "What the calibration text can’t see",
  "inspector": "Weight by weight",
  "try": "The model on a sentence",
  "measured": "How this was measured",
  "numbers": "The numbers",
});

/**
 * What a link can hide on every page.
 * @type {Readonly<Record<string, string>>}
 */
export const EVERYWHERE = frozen({
  "bar": "The bar above",
});

/**
 * Colour, dash and marker of each quantity, as plotly says.
 * @type {Readonly<Record<RoleName, Role>>}
 */
export const ROLES = frozen({
  "quality": {"color": "var(--quality)", "dash": "solid", "symbol": "diamond"},
  "recon": {"color": "var(--recon)", "dash": "dot", "symbol": "circle"},
  "held_out": {"color": "var(--held-out)", "dash": "solid", "symbol": "circle"},
  "drift": {"color": "var(--drift)", "dash": "solid", "symbol": "square"},
  "penalty": {"color": "var(--penalty)", "dash": "dash", "symbol": "circle"},
});

/**
 * The shades of all maps at five places, dark to light, as RGB.
 * @type {readonly number[][]}
 */
export const CIVIDIS = frozen([[0, 32, 76], [61, 78, 107], [124, 123, 120], [186, 174, 108], [255, 233, 69]]);
