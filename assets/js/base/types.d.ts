/**
 * Shapes of the documents that cross to the browser. Written by `python docs/make_contract.py`: change it there.
 */

/** Where a run stands. */
export type State = "queued" | "running" | "cancelling" | "cancelled" | "interrupted" | "failed" | "finished";

/** What the map of layers is coloured by. */
export type Quantity = "held_out" | "recon" | "drift" | "sar" | "lambda" | "gamma" | "tokens";

/** How ΔW is pooled. */
export type PoolingName = "max" | "mean" | "max-saliency" | "mean-saliency" | "signed";

/** What the main figure shows. */
export type Shown = "perplexity" | "accuracy" | "error" | "drift";

/** Part of the Lab below its main figure. */
export type Door = "where" | "trade_off" | "steps" | "text" | "proof";

/** How the weights are drawn. */
export type Drawing = "surface" | "flat";

/** What a link can lock or hide. */
export type Control = "study" | "bits" | "method" | "layer" | "show" | "draw" | "drawing" | "pool" | "quantity" | "steps" | "lambda" | "gamma" | "play" | "compute" | "use" | "download" | "copy" | "share";

/** What a link can only hide. */
export type Panel = "equation" | "sentence" | "hero" | "band" | "surfaces" | "deciles" | "sliders" | "continued" | "doors" | "map" | "curves" | "ruler" | "plane" | "gamma_grid" | "ladder" | "methods" | "rounding" | "gap" | "theorem" | "inspector" | "try" | "measured" | "numbers";

/** Quantity with a colour of its own. */
export type RoleName = "quality" | "recon" | "held_out" | "drift" | "penalty";

/** What a run says. */
export type EventType = "started" | "stage" | "dry_run" | "advanced" | "layer_done" | "point_done" | "epoch_done" | "rounding_checked" | "block_rounded" | "scales_distilled" | "block_distilled" | "candidate_done" | "tuning_standing" | "ladder_standing" | "measured" | "diverged" | "compared" | "texts_compared" | "speed_measured" | "saved" | "warned" | "finished" | "failed" | "cancelled" | "yielded" | "interrupted";

/** Place of a field in the form. */
export type Form = "first" | "fold" | "given" | "none";

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
  section: string;
  form: "first" | "fold" | "given" | "none";
  default?: boolean | number | string | string[] | null;
}

/** An effort beside plain GPTQ 1 % on one model, over the draws of both. */
export interface MeasuredEffort {
  model: string;
  bits: number;
  effort: "quick" | "balanced" | "best";
  draws: number;
  change: number;
  time: number;
}

/** A method as the form knows it. */
export interface FormMethod {
  name: string;
  title: string;
  baseline: string;
  unit: string;
  tunes: string[];
  options: string[];
  defaults: Record<string, boolean | number | string | null>;
  auto: Auto | null;
  efforts: Record<string, Record<string, string | number | boolean>>;
  unasked: Unasked;
  can_tune: boolean;
  about: string;
  also: string;
  penalty: "" | "identity" | "saliency";
  conditions: Record<string, [string, string, string]>;
}

/** Candidates of “auto”, for each layer or for the whole model. */
export interface Auto {
  by: "layer" | "model";
  lams: number[];
  gammas: number[];
  strengths: number[];
}

/** Names of the fields that the form leaves out, with λ and γ given or chosen by “auto”. */
export interface Unasked {
  given: string[];
  auto: string[];
}

/** The λ of a line, at one γ, that are not significantly worse than its best one. */
export interface StudiedBand {
  study: string;
  model: string;
  bits: number;
  grid: string;
  group_size: number | null;
  method: string;
  fitting: Record<string, number | string>;
  gamma: number | null;
  low: number;
  high: number;
  best: number;
  draws: number;
}

/** One quantization of one model: model, grid, method, calibration, evaluation. */
export interface Recipe {
  model: string;
  revision: string | null;
  quantized_checkpoint: string | null;
  kind: "run" | "tune" | "ladder";
  bits: number;
  grid: "symmetric" | "full_range" | "asymmetric" | "affine";
  group_size: number | string;
  indivisible: "refuse" | "per_channel";
  blocks: number[];
  block_fraction: number | null;
  exclude: string[];
  include: string[];
  method: string;
  effort: "quick" | "balanced" | "best" | null;
  lambda: number | "auto" | null;
  gamma: number | "auto" | null;
  shift_strength: number | "auto" | null;
  from_block: number | null;
  then_lambda: number | null;
  then_gamma: number | null;
  validation_share: number;
  channel_fraction: number;
  mode: "per_linear" | "foldable";
  epochs: number | null;
  steps: number;
  warm_start: "none" | "gptq" | "column_solver";
  stopping: "none" | "early";
  normalise: "initial" | "none";
  include_identity: boolean;
  static_groups: boolean;
  range: "minmax" | "search" | "joint";
  order: "natural" | "activation";
  refine: number;
  refit: number;
  distill: number;
  distill_by: "model" | "block";
  distill_codes: boolean;
  distill_norms: boolean;
  distill_lambda: number | null;
  rotate: "none" | "r1" | "r1+r2";
  expert_damping: "plain" | "damped";
  first_order: number;
  calibration: string;
  samples: number;
  length: number;
  sampling: "sequential" | "random";
  begin: "auto" | "bos" | "none";
  held_out_samples: number;
  inputs_from: "quantized" | "float";
  seed: number;
  test: string | null;
  window: number | null;
  test_tokens: number | null;
  baseline: boolean;
  tasks: string[];
  task_limit: number | null;
  prompts: string[];
  new_tokens: number;
  speed: boolean;
  layer: string | null;
  sweep: number[];
  minutes: number | null;
  draws: number;
  band: number | null;
}

/** The work and the cost of a run, or of a batch of them. `None`: can't be known before the model is on this host, or is not the same for all runs. */
export interface Plan {
  runs: number;
  model: string;
  opened: string;
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
  disk_bytes: number | null;
  streamed: boolean;
  calibration_tokens: number;
  calibration_text: string;
  test_text: string;
  begin: string;
  test_tokens: number | null;
  minutes: number | null;
  minutes_on: string;
  load: number;
  formats: Carrier[];
  warnings: string[];
  effort: "quick" | "balanced" | "best" | null;
  fitting: Record<string, string | number | boolean>;
  comparing: BudgetPlan | null;
}

/** One row of “who can load it”: whether this format carries the run, and what its readers made of its kind. */
export interface Carrier {
  format: "plain" | "packed" | "gptq" | "mlx" | "as-found";
  possible: boolean;
  readers: Answer[];
  note: string;
  tried: string;
  fixes: Fix[];
}

/** The result of one reader with a small checkpoint of this kind; `words`: where tokens part, its complaint, or why it was not run. */
export interface Answer {
  reader: string;
  version: string;
  loads: "yes" | "parts" | "no" | "not_run";
  words: string;
}

/** A change of a recipe that would mend it. */
export interface Fix {
  words: string;
  values: Record<string, unknown>;
}

/** Budgets to choose from, and the shortest one that is enough. */
export interface BudgetPlan {
  budgets: BudgetChoice[];
  sensible_minutes: number;
}

/** A budget and what it buys. */
export interface BudgetChoice {
  minutes: number;
  draws: number;
  models: number;
  enough: boolean;
  words: string;
}

/** A model as offered by the form; `suggested` is a recipe to begin with. */
export interface ModelEntry {
  name: string;
  title: string;
  description: string;
  family: string;
  parameters: number;
  where: string;
  suggested: Record<string, unknown>;
  opened: string[];
}

/** One text as a form offers it. */
export interface CorpusEntry {
  name: string;
  title: string;
  role: string;
  where: string;
  source: string;
  here: boolean;
}

/** All that the Lab shows of one line and layer, for every γ and λ. */
export interface View {
  title: string;
  study: ViewStudy;
  line: ViewLine;
  layer: number | null;
  layers: LayerChoice[];
  blocks: [number, number][] | null;
  quantity: string | null;
  quantities: Choice[];
  draw: number | null;
  draws: number[];
  default: LineKey;
  choices: LineChoice[];
  lams: number[];
  gammas: (number | null)[];
  second: SecondAxis;
  lam_texts: string[];
  lam_flags: string[];
  gamma_texts: string[];
  start: Point;
  told: Partial<Record<"perplexity" | "accuracy", Told>>;
  figures: Record<string, Figure | null>;
  arrays: Record<string, ArrayPlace>;
  poolings: PoolingChoice[];
  surface_layer: number;
  table: DataTable;
  ladder: LadderWords | null;
  measured: Fact[];
  explore: boolean;
  as_recipe: AsRecipe;
}

/** What the Lab says of the study as a whole. */
export interface ViewStudy {
  id: string;
  title: string;
  created: string;
  prefix: string;
  texts: string;
  unseen: string | null;
  model: ViewModel;
  recipe: Record<string, unknown> | null;
  flags: string[];
  kept: KeptCodes | null;
}

/** The float model; null was not measured. */
export interface ViewModel {
  name: string;
  parameters: number;
  share_quantized: number;
  perplexity: number | null;
  accuracy: number | null;
  accuracy_standard_error: number | null;
}

/** Content of `codes.json`. */
export interface KeptCodes {
  model: string;
  draw: number;
  files: ModelFile[];
  points: KeptPoint[];
}

/** A file that pages fetch. */
export interface ModelFile {
  name: string;
  bytes: number;
  version: string;
}

/** A point whose codes are kept. */
export interface KeptPoint {
  method: string;
  bits: number;
  gamma: number | null;
  lam: number | null;
  file: ModelFile;
}

/** The line that is shown. */
export interface ViewLine {
  name: string;
  method: string;
  title: string;
  has_lam: boolean;
  baseline: string;
  bits: number;
  grid: string;
  grid_text: string;
  group_size: number | null;
  fitting: Record<string, string | number>;
  equation: Equation | null;
  draws: number[];
  continued: Record<string, unknown> | null;
}

/** min error + λ · penalty, or the error alone where the method has no λ. */
export interface Equation {
  aim: "weights" | "outputs" | "float outputs" | "block outputs";
  weighing: "one" | "gamma" | "ratio" | "root" | null;
  lam: string | null;
}

/** A layer that can be chosen next. */
export interface LayerChoice {
  index: number;
  label: string;
  name: string;
  block: number;
  expert: number | null;
}

/** A name in an address, and how the page says it. */
export interface Choice {
  name: string;
  title: string;
}

/** The method and width of a line. */
export interface LineKey {
  method: string;
  bits: number;
}

/** A line that can be chosen. */
export interface LineChoice {
  name: string;
  method: string;
  title: string;
  bits: number;
}

/** What the axis “gamma” holds: a field of the recipe, and its sign. */
export interface SecondAxis {
  name: "gamma" | "shift_strength" | "first_order";
  sign: string;
}

/** Positions of a λ and a γ on the axes of a line. */
export interface Point {
  lambda: number;
  gamma: number;
}

/** What is said of a quality at every point: γ, then λ. */
export interface Told {
  best: (BestPoint | null)[];
  sentences: Piece[][][];
  small_print: string[][][];
}

/** The best λ of a γ, and its comparison with the baseline, which allows for the choice. */
export interface BestPoint {
  at: number;
  words: string;
}

/** A part of a sentence; `role` is the quantity that it speaks of. */
export interface Piece {
  text: string;
  role: string;
  verdict: boolean;
}

/** A drawing in plotly's words, with what changes with γ and λ. `narrow` is what belongs at its paths on a screen narrower than `narrow_below`; `aria` is the drawing in words, `finding` what it shows at a point, as a heading above the title. */
export interface Figure {
  data: Record<string, unknown>[];
  layout: Record<string, unknown>;
  bindings: (BoundValues | BoundArray)[];
  narrow?: Record<string, unknown>;
  narrow_bindings?: (BoundValues | BoundArray)[];
  narrow_below?: number;
  finding?: BoundValues;
  title?: string;
  subtitle?: string;
  aria?: string;
  radius?: Radius;
}

/** What belongs at a path of a figure: `values` is nested by the axes in `over`. */
export interface BoundValues {
  path: string;
  over: ("gamma" | "lambda")[];
  values: unknown;
}

/** An array of the study that belongs at a path: at `lambda`, or at the shown λ. */
export interface BoundArray {
  lambda?: number;
  path: string;
  array: string;
}

/** What the page's line R chooses among: drift, error and name of each point, and the text of the error. */
export interface Radius {
  drift: ((number | null)[])[];
  error: ((number | null)[])[];
  names: string[];
  on: string;
}

/** Where the numbers of one layer's picture are: bytes of a file of the study, their form, and their unit. */
export interface ArrayPlace {
  file: string;
  version: string;
  dtype: string;
  axes: string[];
  shape: number[];
  offset: number;
  length: number;
  scale: number;
  zero: number;
}

/** A way of pooling that a page offers; `by_saliency`: inputs from the least to the most salient. */
export interface PoolingChoice {
  name: string;
  title: string;
  by_saliency: boolean;
}

/** Numbers behind a figure: a row has a value for the key of each column; null was not measured. */
export interface DataTable {
  columns: Column[];
  rows: Record<string, unknown>[];
}

/** A column of a table: its key in the rows, its heading, and how its numbers are written. */
export interface Column {
  key: string;
  title: string;
  kind: string;
}

/** Of a ladder what is not drawn: its steps in their order, what each is worth before and after all the others, and a sentence on λ. */
export interface LadderWords {
  steps: LadderStep[];
  alone: EvidenceDocument[];
  last: EvidenceDocument[];
  words: string;
}

/** A step that can be taken earlier or later. */
export interface LadderStep {
  name: string;
  title: string;
}

/** A comparison with a baseline on the same texts, see `study.evidence`. */
export interface EvidenceDocument {
  quantity: "perplexity" | "accuracy" | "KL";
  change: number;
  low: number | null;
  high: number | null;
  over: "draws" | "draws and items" | "windows" | "items" | "nothing";
  count: number;
  among: number;
  reference: string;
  text: string;
  verdict: "better" | "worse" | "equal" | "unknown";
  lead: string;
  size: string;
  bounds: string;
  words: string;
}

/** A heading and a plain text. */
export interface Fact {
  name: string;
  text: string;
}

/** A line as a recipe. */
export interface AsRecipe {
  recipe: Record<string, unknown> | null;
  lams: number[];
  gammas: (number | null)[];
  second: "gamma" | "shift_strength" | "first_order";
  effort: "quick" | "balanced" | "best" | null;
  left: string[];
}

/** Studies side by side. */
export interface StudyComparison {
  studies: StudyName[];
  differences: RecipeDifference[];
  numbers: ComparedNumber[];
  layers: ComparedNumber[];
  layers_on: string;
  texts: TextColumn[];
  figure: Figure;
}

/** A study by its id, and by its letter and title. */
export interface StudyName {
  id: string;
  name: string;
}

/** A field in which recipes are not equal, with the value of each study. */
export interface RecipeDifference {
  field: string;
  title: string;
  values: unknown[];
}

/** A quantity at the chosen point of each study; null where it was not measured. Of a quality also its comparisons: with the first study, or with GPTQ 1 % where that is the quantity. */
export interface ComparedNumber {
  title: string;
  kind: string;
  values: (number | null)[];
  evidence?: (EvidenceDocument | null)[];
}

/** A prompt that all studies went on with: mean KL to the float model's continuation, and the first token that differs; null where none does. */
export interface TextColumn {
  prompt: string;
  kl: (number | null)[];
  divergence: (number | null)[];
}

/** The state of a tuning run, drawn and in words. */
export interface TuningView {
  tuning: Tuning;
  figure: Figure;
  table: DataTable;
  legend: LegendEntry[];
  log: LogLine[];
  standing: string;
  sentence: Piece[];
  small_print: string[];
}

/** State of tuning, or its end. */
export interface Tuning {
  method: string;
  gamma: number | null;
  gammas: (number | null)[];
  gamma_errors: number[];
  screened: number[];
  rows: TuningRow[];
  best: number | null;
  band: number[][];
  suggested: number[][];
  one_draw: DrawGain[];
  draws: number;
  measured: number;
  reused?: number;
  planned: number;
  seconds: number;
  budget: number | null;
  turns?: TuningTurn[];
  blocks: number[] | null;
  end: "" | "yardstick" | "verdict" | "known" | "narrow" | "budget" | "draws";
  next: "" | "run" | "keep" | "go_on";
  evidence?: EvidenceDocument | null;
  more_minutes: number | null;
  recipe: Record<string, unknown> | null;
}

/**  */
export interface TuningRow {
  method: string;
  lambda: number | null;
  gamma: number | null;
  standing: "best" | "as_good" | "worse" | "ruled_out" | "not_reached" | "baseline";
  draws: number;
  layer_error: number | null;
  log_ratio: number | null;
  log_ratio_error: number | null;
  perplexity: number | null;
  worse: number | null;
  worse_low: number | null;
  worse_high: number | null;
  kl: number | null;
  kl_error: number | null;
  better: number | null;
  better_low: number | null;
  better_high: number | null;
  better_by_draw: number[];
}

/** Gain of the λ that leads in a single draw: ln perplexity of GPTQ 1 % less its own, over windows. */
export interface DrawGain {
  row: number;
  draw: number;
  better: number;
  low: number | null;
  high: number | null;
}

/** A turning point of tuning, on the run's own clock. */
export interface TuningTurn {
  seconds: number;
  what: "screening" | "screened" | "draw" | "tasks" | "end";
  draws: number;
  leading: number | null;
  left: number[];
  out: number[];
}

/** A mark of the figure and its meaning. */
export interface LegendEntry {
  mark: "best" | "as_good" | "worse" | "measured" | "not_reached" | "ruled_out";
  text: string;
}

/** A turning point in words. */
export interface LogLine {
  seconds: number;
  text: string;
}

/** Where the ladder of a model stands, and what is drawn and said of it. */
export interface LadderView {
  ladder: LadderRun;
  figure: Figure;
  table: DataTable;
  sentence: Piece[];
  small_print: string[];
}

/** State of the ladder of a model, or its end. Differences follow from the rows, paired by draws. */
export interface LadderRun {
  model: string;
  bits: number;
  rows: LadderRow[];
  left_out: LeftOutStep[];
  perplexity_float: number | null;
  draws: number;
  measured: number;
  planned: number;
  seconds: number;
  budget: number | null;
  blocks: number[] | null;
  end: "" | "draws" | "budget";
  next: "" | "run" | "go_on";
  best: number | null;
  more_minutes: number | null;
  recipe: Record<string, unknown> | null;
}

/**  */
export interface LadderRow {
  step: string;
  method: string;
  fitting: Record<string, string | number>;
  lambda: number | null;
  perplexity: (number | null)[];
  kl: (number | null)[];
  grid?: string;
  bits_per_weight?: number;
}

/** A step that changes nothing for this recipe. */
export interface LeftOutStep {
  step: string;
  why: string;
}

/** The steps of the blocks that are done: drawn, as numbers and in words. */
export interface RoundingView {
  figure: Figure;
  table: DataTable;
  words: string[];
}

/** The studies of a host, newest first, and those that can't be read. */
export interface StudyListing {
  studies: StudySummary[];
  damaged: DamagedStudy[];
  first: string | null;
}

/** A study in short. */
export interface StudySummary {
  id: string;
  title: string;
  created: string;
  shipped: boolean;
  origin: "shipped" | "run" | "command_line" | "uploaded";
  has_curves: boolean;
  has_codes: boolean;
  prefix: string;
  model: string;
  layers: number;
  lines: LineSummary[];
}

/** A line of a study in short. */
export interface LineSummary {
  name: string;
  method: string;
  bits: number;
  grid: string;
  group_size: number | null;
  draws: number[];
  lambdas: number;
  lam: number | null;
}

/** A study that can't be read, and why. */
export interface DamagedStudy {
  id: string;
  origin: "shipped" | "run" | "command_line" | "uploaded";
  error: Record<string, string>;
}

/** A lecture as its lecturer's page is told of it once. */
export interface LectureBegun {
  code: string;
  secret: string;
  address: string;
  qr: string[];
}

/** The state of the lecturer's page; a stop of null asks nothing. */
export interface LectureWish {
  stop: string | null;
  lams: number[];
  phase: "open" | "closed" | "revealed";
  best: number | null;
  band: [number, number] | null;
}

/** A lecture as its lecturer hears it. */
export interface HallState {
  phase: "waiting" | "open" | "closed" | "revealed" | "ended";
  stop: string | null;
  phones: number;
  guesses: number;
  counts: number[];
}

/** A position among the values of λ at a stop, and the phone that says it. */
export interface PhoneGuess {
  phone: string;
  stop: string;
  guess: number;
}

/** A lecture as its phones hear it: of the others' guesses nothing before the answer is shown. */
export interface PhoneState {
  phase: "waiting" | "open" | "closed" | "revealed" | "ended";
  stop: string | null;
  lams: number[];
  counts: number[] | null;
  best: number | null;
  band: [number, number] | null;
}

/** One text: its name and title, what it would be called as a file, and itself. */
export interface RecipeText {
  name: string;
  title: string;
  file: string;
  text: string;
}

/** A program, or in its place, with an empty text, why there is none: an error as `SarqcError.to_json` says it. */
export interface ProgramText {
  name: string;
  title: string;
  file: string;
  text: string;
  trouble: Record<string, unknown> | null;
}

/** The public form of a run: times in ISO 8601 (UTC), progress in one object, no process id. */
export interface Run {
  id: string;
  state: "queued" | "running" | "cancelling" | "cancelled" | "interrupted" | "failed" | "finished";
  recipe: Record<string, unknown>;
  fingerprint: string;
  owner: string;
  lane: string;
  attempt: number;
  created: string;
  queued: string;
  started: string | null;
  ended: string | null;
  progress: Progress;
  device: string | null;
  study_id: string | null;
  summary: Record<string, unknown> | null;
  tuned: Tuned | null;
  evidence: EvidenceDocument | null;
  test: string;
  error: ErrorDocument | null;
  revision: number;
  batch: string | null;
  parent: string | null;
  format: string | null;
  bytes: number | null;
  name: string;
  note: string;
  tags: string[];
  stepped_aside: boolean;
  waits_for_room: boolean;
}

/** Linears solved in this attempt, of all. */
export interface Progress {
  done: number;
  total: number;
}

/** The end of a tuning run. None: not known. */
export interface Tuned {
  lam: number | null;
  gamma: number | null;
  words: string;
  band: string;
  best: number | null;
  perplexity: number | null;
  log_ratio: number | null;
}

/** An error in the parts in which everybody reads it. */
export interface ErrorDocument {
  kind: string;
  what: string;
  where: string;
  remedy: string;
}

/** The model is loaded and the work is known. */
export interface Started {
  type: "started";
  model: string;
  device: string;
  layers: LayerEntry[];
  share_quantized: number;
  finished_layers: number;
  phases: Phase[];
}

/** One linear of a model, as `models.families.LayerInfo` says it. */
export interface LayerEntry {
  name: string;
  block: number;
  module: string;
  shape: number[];
  expert: number | null;
}

/** A part of a run as its plan counts it; the events `Stage` of these names begin it. */
export interface Phase {
  stage: string;
  detail: string;
  seconds: number;
}

/** A new phase: loading, statistics, solving, evaluating, saving. */
export interface Stage {
  type: "stage";
  name: string;
  detail: string;
}

/** The largest block and the largest linear were run once on random numbers, and the device had room for them. */
export interface DryRun {
  type: "dry_run";
  block: string;
  layer: string;
  peak_bytes: number | null;
  device_bytes: number | null;
  seconds: number;
}

/** Progress of a stage that takes long and says nothing else: now and then, not after every step. */
export interface Advanced {
  type: "advanced";
  done: number;
  total: number;
  what: string;
}

/** One linear is solved (or was found on disk). */
export interface LayerDone {
  type: "layer_done";
  name: string;
  index: number;
  total: number;
  report: LayerReportDocument;
  seconds: number;
  from_cache: boolean;
}

/** Report of one layer, as `quantization.LayerReport` says it. */
export interface LayerReportDocument {
  recon_loss: number;
  sar_loss: number;
  drift: number;
  relative_recon: number | null;
  relative_sar: number | null;
  relative_drift: number;
  held_out_loss: number | null;
  relative_held_out: number | null;
  chosen: Record<string, unknown>;
  diagonal_floor: number;
  n_tokens: number;
  flags: string[];
  candidates: CandidateReport[];
  checks?: RoundingCheck[];
}

/** A candidate of “auto” for a layer: relative reconstruction errors where it was solved and where it was judged. */
export interface CandidateReport {
  lam: number;
  gamma: number | null;
  train: number;
  validation: number;
  relative_drift: number;
  shift_strength?: number;
}

/** A block at one of the checked steps of learned rounding. */
export interface RoundingCheck {
  step: number;
  steps: number;
  error: number;
  held_out_error: number;
  drift: number;
}

/** One λ of the curve of a run's only layer is solved; a run of several layers does not say so. */
export interface PointDone {
  type: "point_done";
  name: string;
  index: number;
  total: number;
  lam: number;
  relative_recon: number | null;
  relative_held_out: number | null;
  relative_sar: number | null;
  relative_drift: number | null;
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

/** A block whose rounding is learned was measured at a checked step; see `RoundingCheck`. */
export interface RoundingChecked {
  type: "rounding_checked";
  block: number;
  step: number;
  steps: number;
  error: number;
  held_out_error: number;
  drift: number;
}

/** A block whose rounding is learned kept one of its checked states; a block that is on disk says so again. */
export interface BlockRounded {
  type: "block_rounded";
  block: number;
  kept: number;
  checks: RoundingCheck[];
}

/** One pass over the calibration sequences that tunes the scales of the whole model; see `DistilledEpoch`. */
export interface ScalesDistilled {
  type: "scales_distilled";
  epoch: number;
  epochs: number;
  calibration_kl: number | null;
  held_out_kl: number | null;
  drift: number | null;
}

/** The scales of one block were tuned to the float block's outputs; see `DistilledBlock`. */
export interface BlockDistilled {
  type: "block_distilled";
  block: number;
  blocks: number;
  epochs: number;
  kept: number;
  held_out_before: number | null;
  held_out: number | null;
  drift_before: number | null;
  drift: number | null;
}

/** One candidate of “auto” for the whole model was judged. */
export interface CandidateDone {
  type: "candidate_done";
  lam: number;
  index: number;
  total: number;
  perplexity: number;
}

/** State of tuning: after the errors of layers are known, after each measurement, and at its end. */
export interface TuningStanding {
  type: "tuning_standing";
  tuning: Tuning;
}

/** State of a ladder: at its beginning, after each measurement, and at its end. */
export interface LadderStanding {
  type: "ladder_standing";
  ladder: LadderRun;
}

/** One number of the whole model, with the protocol that produced it. */
export interface Measured {
  type: "measured";
  quantity: string;
  which: "float" | "quantized";
  value: number;
  standard_error: number | null;
  protocol: PerplexityProtocol | AccuracyProtocol;
}

/** Conditions of a perplexity. */
export interface PerplexityProtocol {
  corpus: string;
  window: number;
  windows: number;
  predicted_tokens: number;
  dtype: string;
  device?: string;
  part?: string;
  written_by?: string;
  begin?: string;
  only_the_first_tokens?: number;
  calibrated_on?: number;
  judged_on?: number;
}

/** Conditions of an accuracy; what differs between two models is not required. */
export interface AccuracyProtocol {
  task: string;
  items: number;
  limit: number | null;
  metric: string;
  few_shot: number;
  lm_eval: string;
  rows_from: string;
  acc_norm?: number;
  acc_norm_standard_error?: number;
  subjects?: Record<string, number>;
  limit_for_each?: string;
  outcomes?: Record<string, number>;
}

/** Distance of the quantized model's predictions from the float model's, from the passes of its perplexity. */
export interface Diverged {
  type: "diverged";
  divergences: Divergences;
}

/** Distances of a quantized model's predictions from the float model's on the test text; errors are over windows. */
export interface Divergences {
  log_ratio: number | null;
  log_ratio_standard_error: number | null;
  kl: number | null;
  kl_standard_error: number | null;
  kl_99: number | null;
  same_top: number | null;
  same_top_standard_error: number | null;
}

/** The run was compared with GPTQ on the same texts, or could not be. */
export interface Compared {
  type: "compared";
  baseline: Baseline;
}

/** GPTQ 1 % beside a run: same grid, calibration text, prefix and test text. */
export interface Baseline {
  log_ratio: number | null;
  log_ratio_standard_error: number | null;
  kl: number | null;
  kl_standard_error: number | null;
  kl_99: number | null;
  same_top: number | null;
  same_top_standard_error: number | null;
  method: string;
  reason: string;
  perplexity: number | null;
  difference: number | null;
  difference_standard_error: number | null;
  evidence?: EvidenceDocument | null;
  words: string;
}

/** One prompt was continued by the float and by the quantized model: most probable tokens, and sampled ones. */
export interface TextsCompared {
  type: "texts_compared";
  prompt: string;
  index: number;
  total: number;
  greedy: Continuations;
  sampled: Continuations;
  protocol: TextProtocol;
}

/** A prompt continued by both models in one way. */
export interface Continuations {
  float: TokenText;
  quantized: TokenText;
  divergence: number | null;
  kl: number[];
}

/** A continuation: token ids and the text of each token. */
export interface TokenText {
  ids: number[];
  pieces: string[];
}

/** Conditions of two continuations of a prompt and of their comparison. */
export interface TextProtocol {
  prompt_tokens: number;
  new_tokens: number;
  kl: string;
  sampled: string;
  seed: number;
  dtype: string;
  device: string;
}

/** Tokens per second of the float model and, where a kernel takes its codes, of the quantized one. */
export interface SpeedMeasured {
  type: "speed_measured";
  float: Rates | null;
  quantized: Rates | null;
  kernel: string | null;
  reason: string;
  protocol: SpeedProtocol;
}

/** Tokens per second: medians, and the smallest and largest of the repeats. */
export interface Rates {
  prefill: number;
  prefill_spread: number[];
  decode: number;
  decode_spread: number[];
}

/** Conditions of a speed; only the device where it was not. */
export interface SpeedProtocol {
  sequence_length?: number;
  prompt_tokens?: number;
  decoded_tokens?: number;
  batch?: number;
  repeats?: number;
  of_repeats?: string;
  dtype?: string;
  device?: string;
  threads?: number | null;
  float_model?: string;
  torch?: string;
  fed?: string;
  largest_relative_difference?: number;
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

/** The end of a run that succeeded. What happened to each layer is in the study, and in `LayerDone`. */
export interface Finished {
  type: "finished";
  summary: Summary;
  seconds: number;
}

/** Results of a run, as `Finished` says them. None: not measured. */
export interface Summary {
  log_ratio: number | null;
  log_ratio_standard_error: number | null;
  kl: number | null;
  kl_standard_error: number | null;
  kl_99: number | null;
  same_top: number | null;
  same_top_standard_error: number | null;
  recipe: Record<string, unknown>;
  device: string;
  share_quantized: number;
  quantized_layers: number;
  bits_per_weight: number | null;
  bytes_before: number | null;
  bytes_after: number | null;
  selection: Selection | null;
  perplexity: number | null;
  perplexity_float: number | null;
  vocabulary: number;
  baseline: Baseline | null;
  protocol: RunProtocol;
  tasks: Record<string, TaskResult>;
  accuracy: number | null;
  accuracy_standard_error: number | null;
  accuracy_float: number | null;
  accuracy_standard_error_float: number | null;
  texts: ComparedText[];
  speed: Speed | null;
  experts: ExpertCounts | null;
  tuning: Tuning | null;
  ladder: LadderRun | null;
  written: Written | null;
  stamp: string | null;
  opened: OpenedCheckpoint | null;
  repair: Repair | null;
  distillation: Distillation | null;
  rotation: ResidualRotation | null;
  derived: string | null;
}

/**  */
export interface Selection {
  by: "layer" | "model";
  lambda?: number;
  candidates?: CandidateRow[];
  protocol?: PerplexityProtocol;
  edge?: string;
}

/**  */
export interface CandidateRow {
  lambda: number;
  perplexity: number;
}

/** Foundations of the numbers of a run. */
export interface RunProtocol {
  weights?: string;
  feeding?: Record<string, string>;
  calibration: CalibrationProtocol;
  test: PerplexityProtocol | null;
  versions: Record<string, string>;
}

/** Origin of calibration sequences. */
export interface CalibrationProtocol {
  corpus?: string;
  sha256?: string;
  samples?: number;
  length?: number;
  tokens?: number;
  held_out_samples?: number;
  sampling?: string;
  seed?: number | null;
  validation_samples?: number;
  unseen?: CalibrationProtocol;
  written_by?: string;
  begin?: string;
}

/** Both models' accuracies on a task; the protocol is of the measuring alone. */
export interface TaskResult {
  float: TaskAccuracy;
  quantized: TaskAccuracy;
  protocol: Record<string, unknown>;
}

/** One model's accuracy on a task, with what its protocol holds of the model. */
export interface TaskAccuracy {
  accuracy: number;
  standard_error: number;
  acc_norm?: number;
  acc_norm_standard_error?: number;
  subjects?: Record<string, number>;
  outcomes?: Record<string, number>;
}

/** A comparison with its prompt. */
export interface ComparedText {
  greedy: Continuations;
  sampled: Continuations;
  protocol: TextProtocol;
  prompt: string;
}

/** Tokens per second of the float and of the quantized model. */
export interface Speed {
  float: Rates | null;
  quantized: Rates | null;
  kernel: string | null;
  reason: string;
  protocol: SpeedProtocol;
}

/** Numbers of experts of a mixture that saw few calibration tokens. */
export interface ExpertCounts {
  experts: number;
  no_tokens: number;
  fewer_tokens_than_channels: number;
  channels: number;
  tokens: number;
  words: string;
}

/** Files of an exported model, read again, beside the model that was measured. */
export interface Written {
  other_tensors: string[];
  tokens: number;
  parts_at: number | null;
  words: string;
}

/** A checkpoint that others quantized, as it says of itself and as it was found. */
export interface OpenedCheckpoint {
  name: string;
  format: string;
  made_by: string;
  layers: number;
  fingerprint: string;
  words: string;
}

/** A repaired checkpoint beside the same as it was found, on the same windows of the test text; None: not measured. */
export interface Repair {
  layers: number;
  kept: number;
  worse: number;
  perplexity_found: number | null;
  kl_found: number | null;
  kl_found_standard_error: number | null;
  kl_difference: number | null;
  kl_difference_standard_error: number | null;
  log_ratio_difference: number | null;
  log_ratio_difference_standard_error: number | null;
  verdict: -1 | 0 | 1 | null;
  words: string;
  layers_words: string;
}

/** Tuning of a model's scales, by its predictions or block by block. */
export interface Distillation {
  epochs: DistilledEpoch[];
  kept: number;
  blocks?: DistilledBlock[];
  words: string;
}

/** The scales of a model after an epoch of their distillation; None: not finite. */
export interface DistilledEpoch {
  epoch: number;
  calibration_kl: number | null;
  held_out_kl: number | null;
  drift: number | null;
}

/** The scales of a block before and after their distillation; None: not finite. */
export interface DistilledBlock {
  block: number;
  epochs: number;
  kept: number;
  held_out_before: number | null;
  held_out: number | null;
  drift_before: number | null;
  drift: number | null;
}

/** A rotation before a run, of the residual stream (“r1”) or also of the heads’ values (“r1+r2”), and its effect. */
export interface ResidualRotation {
  kind: "r1" | "r1+r2";
  seed: number;
  matrix: string;
  added_bytes: number;
  logit_difference: number;
  rounded_logit_difference: number | null;
  modules: RotatedModule[];
  words: string;
}

/** Linears of one name before and after a rotation of the residual stream, means over blocks; None: unknown. */
export interface RotatedModule {
  module: string;
  layers: number;
  range_before: number | null;
  range_after: number | null;
  rounding_before: number | null;
  rounding_after: number | null;
  drift: number | null;
  original_drift: number | null;
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

/** The run stepped aside, for one that takes seconds or for want of room; finished layers are kept and it goes on by itself. */
export interface Yielded {
  type: "yielded";
  what: string;
  waits_for_room: boolean;
}

/** The process was lost; finished layers are kept and the run can be continued. */
export interface Interrupted {
  type: "interrupted";
  what: string;
}

/** Whatever a run says. */
export type RunEvent = Started | Stage | DryRun | Advanced | LayerDone | PointDone | EpochDone | RoundingChecked | BlockRounded | ScalesDistilled | BlockDistilled | CandidateDone | TuningStanding | LadderStanding | Measured | Diverged | Compared | TextsCompared | SpeedMeasured | Saved | Warned | Finished | Failed | Cancelled | Yielded | Interrupted;

/** A line of a run's log. */
export type StoredEvent = RunEvent & { seq: number; at: string };
