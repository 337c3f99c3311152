/**
 * Shapes of the documents that cross to the browser. Written by `python -m sarqc.web.browser_contract --write`: change it there.
 */

/** Where a run stands. */
export type State = "queued" | "running" | "cancelling" | "cancelled" | "interrupted" | "failed" | "finished";

/** How urgent a run is. */
export type Lane = "preview" | "batch";

/** Scale of the main figure's errors. */
export type Scale = "raw" | "paper" | "ratio";

/** What the map of layers is coloured by. */
export type Quantity = "held_out" | "recon" | "drift" | "sar" | "lambda" | "gamma" | "tokens";

/** How ΔW is pooled. */
export type PoolingName = "max" | "mean" | "max-saliency" | "mean-saliency" | "signed";

/** What the main figure shows as quality. */
export type Quality = "perplexity" | "accuracy";

/** How the weights are drawn. */
export type Drawing = "surface" | "flat" | "difference";

/** Column of the table of numbers. */
export type ColumnKey =
  | "lambda"
  | "gamma"
  | "perplexity"
  | "perplexity_difference"
  | "perplexity_error"
  | "sweet_spot"
  | "accuracy"
  | "accuracy_difference"
  | "accuracy_error"
  | "recon"
  | "held_out"
  | "sar"
  | "drift";

/** How a number is written. */
export type ColumnKind = "plain" | "perplexity" | "difference" | "flag" | "share" | "points" | "error";

/** What a link can lock or hide. */
export type Control =
  | "study"
  | "bits"
  | "method"
  | "layer"
  | "show"
  | "scale"
  | "draw"
  | "drawing"
  | "pool"
  | "quantity"
  | "lambda"
  | "gamma"
  | "play"
  | "compute"
  | "download"
  | "copy"
  | "share";

/** What a link can only hide. */
export type Panel =
  | "sentence"
  | "hero"
  | "surfaces"
  | "deciles"
  | "sliders"
  | "map"
  | "plane"
  | "gamma_grid"
  | "methods"
  | "selection"
  | "gap"
  | "inspector"
  | "tokens"
  | "tokens_error"
  | "measured"
  | "numbers";

/** Quantity with a colour of its own. */
export type RoleName = "quality" | "recon" | "held_out" | "drift";

/** What a run says. */
export type EventType =
  | "started"
  | "stage"
  | "layer_done"
  | "point_done"
  | "epoch_done"
  | "candidate_done"
  | "measured"
  | "texts_compared"
  | "speed_measured"
  | "saved"
  | "warned"
  | "finished"
  | "failed"
  | "cancelled"
  | "interrupted";

/** How a quantity is drawn, in plotly's words. */
export interface Role {
  color: string;
  dash: string;
  symbol: string;
}

/** A field of a recipe: its names in Python and in documents (`key`), how the form reads it, and its words. */
export interface RecipeField {
  name: string;
  key: string;
  kind: "truth" | "whole" | "number" | "number or word" | "list" | "lines" | "text";
  title: string;
  unit: string;
  default?: boolean | number | string | string[] | null;
}

/** A method as the form knows it. */
export interface FormMethod {
  name: string;
  title: string;
  baseline: string;
  unit: string;
  needs: string[];
  tunes: string[];
  options: string[];
  defaults: Record<string, boolean | number | string | null>;
  auto: Auto | null;
  unasked: Unasked;
}

/** What “auto” chooses among, for each layer or for the whole model. */
export interface Auto {
  by: "layer" | "model";
  lams: number[];
  gammas: number[];
}

/** Names of the fields that the form leaves out, with λ and γ given or chosen by “auto”. */
export interface Unasked {
  given: string[];
  auto: string[];
}

/** One quantization of one model: model, grid, method, calibration, evaluation. */
export interface Recipe {
  model: string;
  revision: string | null;
  bits: number;
  grid: "symmetric" | "full_range" | "asymmetric";
  group_size: number | string;
  indivisible: "refuse" | "per_channel";
  method: string;
  lambda: number | "auto" | null;
  gamma: number | "auto" | null;
  validation_share: number;
  channel_fraction: number;
  mode: "per_linear" | "foldable";
  epochs: number | null;
  normalise: "initial" | "none";
  include_identity: boolean;
  static_groups: boolean;
  calibration: string;
  samples: number;
  length: number;
  sampling: "sequential" | "random";
  held_out_samples: number;
  inputs_from: "quantized" | "float";
  seed: number;
  test: string | null;
  window: number | null;
  test_tokens: number | null;
  tasks: string[];
  task_limit: number | null;
  prompts: string[];
  new_tokens: number;
  speed: boolean;
  only: string | null;
  sweep: number[];
}

/** What a run will do and cost. `None`: can't be known before the model is on this costs. */
export interface Plan {
  model: string;
  family: string | null;
  parameters: number | null;
  share_quantized: number | null;
  layers: number | null;
  experts: number;
  per_channel_layers: string[];
  bits_per_weight: number | null;
  bytes_before: number | null;
  bytes_after: number | null;
  memory_bytes: number | null;
  host_bytes: number | null;
  streamed: boolean;
  calibration_tokens: number;
  test_tokens: number | null;
  minutes: number | null;
  formats: Carrier[];
  warnings: string[];
}

/** One row of “who can load it”: does this format carry the run, and who reads it; None: it was not tried. */
export interface Carrier {
  format: "plain" | "packed";
  transformers: boolean;
  vllm: boolean | null;
  note: string;
}

/** One model as a form offers it; `suggested` is a recipe to begin with. */
export interface ModelEntry {
  name: string;
  title: string;
  description: string;
  family: string;
  parameters: number;
  where: string;
  suggested: Record<string, unknown>;
}

/** One text as a form offers it. */
export interface CorpusEntry {
  name: string;
  title: string;
  role: string;
  where: string;
}

/** The model is loaded and the work is known. */
export interface Started {
  type: "started";
  model: string;
  device: string;
  layers: Record<string, unknown>[];
  share_quantized: number;
  finished_layers: number;
}

/** A new phase: loading, statistics, solving, evaluating, saving. */
export interface Stage {
  type: "stage";
  name: string;
  detail: string;
}

/** One linear is solved (or was found on disk). */
export interface LayerDone {
  type: "layer_done";
  name: string;
  index: number;
  total: number;
  report: Record<string, unknown>;
  seconds: number;
  from_cache: boolean;
}

/** One λ of the curve of a run's only layer is solved; a run of several layers does not say so. */
export interface PointDone {
  type: "point_done";
  name: string;
  index: number;
  total: number;
  lam: number;
  relative_recon: number;
  relative_held_out: number | null;
  relative_sar: number;
  relative_drift: number;
}

/** One pass of a method that learns over the calibration sequences of a block. */
export interface EpochDone {
  type: "epoch_done";
  block: number;
  epoch: number;
  epochs: number;
  objective: number;
  recon: number;
  sar: number;
}

/** One candidate of “auto” for the whole model was judged. */
export interface CandidateDone {
  type: "candidate_done";
  lam: number;
  index: number;
  total: number;
  perplexity: number;
}

/** One number of the whole model, with the protocol that produced it. */
export interface Measured {
  type: "measured";
  quantity: string;
  which: string;
  value: number;
  standard_error: number | null;
  protocol: Record<string, unknown>;
}

/** One prompt was continued by the float and by the quantized model. */
export interface TextsCompared {
  type: "texts_compared";
  prompt: string;
  index: number;
  total: number;
  greedy: Record<string, unknown>;
  sampled: Record<string, unknown>;
  protocol: Record<string, unknown>;
}

/** Tokens per second of the float model and, where a kernel takes its codes, of the quantized one. */
export interface SpeedMeasured {
  type: "speed_measured";
  float: Record<string, unknown> | null;
  quantized: Record<string, unknown> | null;
  kernel: string | null;
  reason: string;
  protocol: Record<string, unknown>;
}

/** Something durable was written: a study or a checkpoint. */
export interface Saved {
  type: "saved";
  what: string;
  path: string;
}

/** Something was done otherwise than asked, or deserves a second look. Never silent. */
export interface Warned {
  type: "warned";
  what: string;
  where: string;
}

/** The end of a run that succeeded; `summary` is what `--json` prints. */
export interface Finished {
  type: "finished";
  summary: Record<string, unknown>;
  seconds: number;
}

/** The end of a run that did not; the three parts of a SarqcError. */
export interface Failed {
  type: "failed";
  kind: string;
  what: string;
  where: string;
  remedy: string;
}

/** The end of a run that somebody stopped. */
export interface Cancelled {
  type: "cancelled";
}

/** The process was lost; finished layers are kept and the run can be continued. */
export interface Interrupted {
  type: "interrupted";
  what: string;
}

/** Whatever a run says. */
export type RunEvent =
  | Started
  | Stage
  | LayerDone
  | PointDone
  | EpochDone
  | CandidateDone
  | Measured
  | TextsCompared
  | SpeedMeasured
  | Saved
  | Warned
  | Finished
  | Failed
  | Cancelled
  | Interrupted;

/** A line of a run's log. */
export type StoredEvent = RunEvent & { seq: number; at: string };
