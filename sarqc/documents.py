"""The shapes of documents that cross a process or a language: events, summaries and studies are made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NotRequired, TypedDict

Which = Literal["float", "quantized"]


# What each format of a checkpoint is.
FORMAT_WORDS: dict[str, str] = {
    "plain": "dequantized weights",
    "packed": "compressed-tensors, pack-quantized",
    "gptq": "GPTQ’s format",
    "mlx": "MLX’s format",
}
# How people write what a method may leave to “auto”.
SIGNS = {"lam": "λ", "gamma": "γ", "shift_strength": "α"}


class CalibrationProtocol(TypedDict, total=False):
    """Origin of calibration sequences."""

    corpus: str
    sha256: str  # of the token ids, 16 digits
    samples: int
    length: int  # tokens of each
    tokens: int
    held_out_samples: int
    sampling: str
    seed: int | None  # None where nothing was drawn
    validation_samples: int  # kept for judging by “auto”
    unseen: CalibrationProtocol  # of sequences of another text on which nothing is fitted
    written_by: str  # the other model that the text was sampled from, where it was
    begin: str  # the special tokens that each sequence begins with, where it does


class PerplexityProtocol(TypedDict):
    """Conditions of a perplexity."""

    corpus: str
    window: int  # tokens seen at once
    windows: int
    predicted_tokens: int
    dtype: str
    device: NotRequired[str]
    part: NotRequired[str]  # of the corpus, where it is the calibration text too
    written_by: NotRequired[str]  # the other model that the text was sampled from, where it was
    begin: NotRequired[str]  # the special tokens that each window begins with, where it does
    only_the_first_tokens: NotRequired[int]
    calibrated_on: NotRequired[int]  # sequences, where “auto” judged on others
    judged_on: NotRequired[int]


class AccuracyProtocol(TypedDict):
    """Conditions of an accuracy; what differs between two models is not required."""

    task: str
    items: int
    limit: int | None
    metric: str
    few_shot: int
    lm_eval: str
    rows_from: str
    acc_norm: NotRequired[float]
    acc_norm_standard_error: NotRequired[float]
    subjects: NotRequired[dict[str, float]]
    limit_for_each: NotRequired[str]
    outcomes: NotRequired[dict[str, int]]


class TextProtocol(TypedDict):
    """Conditions of two continuations of a prompt and of their comparison."""

    prompt_tokens: int
    new_tokens: int
    kl: str
    sampled: str
    seed: int
    dtype: str
    device: str


class TokenText(TypedDict):
    """A continuation: token ids and the text of each token."""

    ids: list[int]
    pieces: list[str]


Nats = list[float]


class Continuations(TypedDict):
    """A prompt continued by both models in one way."""

    float: TokenText
    quantized: TokenText
    divergence: int | None  # the first position at which they differ
    kl: Nats  # KL(float ‖ quantized) at each token of the float text


class Comparison(TypedDict):
    """A prompt continued by both models: most probable tokens, and sampled ones."""

    greedy: Continuations
    sampled: Continuations
    protocol: TextProtocol


class ComparedText(Comparison):
    """A comparison with its prompt."""

    prompt: str


class Phase(TypedDict):
    """A part of a run as its plan counts it; the events ``Stage`` of these names begin it."""

    stage: str
    detail: str  # empty: whatever the stage's is
    seconds: float


class Rates(TypedDict):
    """Tokens per second: medians, and the smallest and largest of the repeats."""

    prefill: float
    prefill_spread: list[float]
    decode: float
    decode_spread: list[float]


class SpeedProtocol(TypedDict, total=False):
    """Conditions of a speed; only the device where it was not."""

    sequence_length: int
    prompt_tokens: int
    decoded_tokens: int
    batch: int
    repeats: int
    of_repeats: str
    dtype: str
    device: str
    threads: int | None
    float_model: str
    torch: str
    fed: str
    largest_relative_difference: float


class Speed(TypedDict):
    """Tokens per second of the float and of the quantized model."""

    float: Rates | None
    quantized: Rates | None
    kernel: str | None
    reason: str  # why something is None, else empty
    protocol: SpeedProtocol


CandidateRow = TypedDict("CandidateRow", {"lambda": float, "perplexity": float})
Selection = TypedDict(
    "Selection",
    {
        "by": Literal["layer", "model"],
        "lambda": NotRequired[float],  # by model
        "candidates": NotRequired[list[CandidateRow]],
        "protocol": NotRequired[PerplexityProtocol],
        "edge": NotRequired[str],  # what it means that an end of the candidates was chosen
    },
)


class ExpertCounts(TypedDict):
    """Numbers of experts of a mixture that saw few calibration tokens."""

    experts: int
    no_tokens: int
    fewer_tokens_than_channels: int
    channels: int
    tokens: int
    words: str


class TaskAccuracy(TypedDict):
    """One model's accuracy on a task, with what its protocol holds of the model."""

    accuracy: float
    standard_error: float
    acc_norm: NotRequired[float]
    acc_norm_standard_error: NotRequired[float]
    subjects: NotRequired[dict[str, float]]
    outcomes: NotRequired[dict[str, int]]


class TaskResult(TypedDict):
    """Both models' accuracies on a task; the protocol is of the measuring alone."""

    float: TaskAccuracy
    quantized: TaskAccuracy
    protocol: dict[str, object]


class WeightsProtocol(TypedDict):
    """Changes of the float model's weights before they came here."""

    weights: NotRequired[str]  # in words


class FeedingProtocol(TypedDict):
    """Ways of other programs to feed the model, where these differ or are better."""

    feeding: NotRequired[dict[str, str]]  # in words, by the study's flag


class RunProtocol(WeightsProtocol, FeedingProtocol):
    """Foundations of the numbers of a run."""

    calibration: CalibrationProtocol
    test: PerplexityProtocol | None
    versions: dict[str, str]


class Divergences(TypedDict):
    """Distances of a quantized model's predictions from the float model's on the test text; errors are over windows.

    None: not measured, or an error of a single window.
    """

    log_ratio: float | None  # ln(perplexity of the quantized / of the float model)
    log_ratio_standard_error: float | None
    kl: float | None  # KL(float ‖ quantized), nats a token
    kl_standard_error: float | None
    kl_99: float | None  # its 99th percentile over tokens
    same_top: float | None  # share of tokens with the same most probable one, 0..1
    same_top_standard_error: float | None


class EvidenceDocument(TypedDict):
    """A comparison with a baseline on the same texts, see ``study.evidence``."""

    quantity: Literal["perplexity", "accuracy", "KL"]
    change: float  # less the baseline's, as a share of it; of accuracies the difference
    low: float | None  # 95 % interval of the change; null is not known
    high: float | None
    over: Literal["draws", "draws and items", "windows", "items", "nothing"]  # the sample of the interval
    count: int  # of draws; within a single draw, of windows or items
    among: int  # comparisons for which the interval holds at once
    reference: str
    text: str
    verdict: Literal["better", "worse", "equal", "unknown"]  # by an interval over draws alone
    lead: str  # the verdict in words, where the size does not say it: “Not known yet”
    size: str  # “3.2 % lower”
    bounds: str  # “95 %: 2.4 to 4.0 %, five draws, best of 7”
    words: str


class Baseline(Divergences):
    """GPTQ 1 % beside a run: same grid, calibration text, prefix and test text."""

    method: str
    reason: str  # why it was not measured, else empty
    perplexity: float | None
    difference: float | None  # ln(perplexity of the run / of the baseline), mean over windows
    difference_standard_error: float | None
    evidence: NotRequired[EvidenceDocument | None]  # over the windows of one draw; older runs have words alone
    words: str


# Why tuning ended: the test text can't rank λ, the best λ has a verdict, nothing more can be told apart, the band is
# narrow enough, budget or draws are spent; empty: it has not.
End = Literal["", "yardstick", "verdict", "known", "narrow", "budget", "draws"]

# Of the λ compared in two draws: the best, those not significantly different from it, and those clearly worse;
# ruled out by the errors of layers alone; not reached: neither; baseline: not a candidate.
Standing = Literal["best", "as_good", "worse", "ruled_out", "not_reached", "baseline"]

# What a person may do next: run the best λ; keep GPTQ 1 %, since the best λ is equal to it or worse; go on, since that
# is not known yet; empty: it still runs.
Next = Literal["", "run", "keep", "go_on"]

TuningRow = TypedDict(
    "TuningRow",
    {
        "method": str,
        "lambda": float | None,  # None for a method without
        "gamma": float | None,
        "standing": Standing,
        "draws": int,  # in which it was measured
        "layer_error": float | None,  # mean over layers of ln relative error on unseen text, in the first draw
        "log_ratio": float | None,  # ln(perplexity / float model’s): GPTQ 1 %’s, over all draws, less ``better``
        "log_ratio_error": float | None,  # standard error over the draws in which it was measured
        "perplexity": float | None,  # that this ratio is
        "worse": float | None,  # log ratio above that of the best, mean over the draws in which both were measured
        "worse_low": float | None,  # 95 % interval, at once for all λ that were compared
        "worse_high": float | None,
        "kl": float | None,  # nats a token
        "kl_error": float | None,
        "better": float | None,  # ln perplexity of GPTQ 1 % less its own, mean over the draws of both
        "better_low": float | None,  # 95 % interval, at once for all λ that were compared
        "better_high": float | None,
        "better_by_draw": list[float],  # the same of each draw of both
    },
)


class DrawGain(TypedDict):
    """Gain of the λ that leads in a single draw: ln perplexity of GPTQ 1 % less its own, over windows."""

    row: int
    draw: int  # from 0
    better: float
    low: float | None  # 95 % interval over the windows of the test text, of this draw alone
    high: float | None


class TuningTurn(TypedDict):
    """A turning point of tuning, on the run's own clock."""

    seconds: float
    what: Literal["screening", "screened", "draw", "tasks", "end"]  # begun, known, whole, of former versions, reached
    draws: int  # of which conclusions were drawn then
    leading: float | None  # λ with the smallest mean so far
    left: list[float]  # λ in question: not ruled out; from two draws on the best and those as good
    out: list[float]  # λ out since the turning point before: ruled out by errors of layers, or clearly worse


class Tuning(TypedDict):
    """State of tuning, or its end."""

    method: str
    gamma: float | None  # chosen, or as given
    gammas: list[float | None]  # that were compared by the errors of layers
    gamma_errors: list[float]  # of each at its best λ, as ``layer_error``
    screened: list[int]  # layers whose errors are known, of how many
    rows: list[TuningRow]  # candidates by λ, then the baselines
    best: int | None  # position of the row with that standing; None until two λ were compared in two draws
    band: list[list[float]]  # spans of neighbouring λ that are the best or as good; empty without a best
    suggested: list[list[float]]  # spans of λ that the errors of layers leave
    one_draw: list[DrawGain]  # of the λ that leads, each draw by itself; empty where nothing was measured
    draws: int  # of which conclusions are drawn
    measured: int  # models that were quantized and measured
    reused: NotRequired[int]  # of these, the results of earlier runs; former versions had none
    planned: int  # that would be, with as many draws as there may be and the candidates that are left
    seconds: float  # of this run, on the clock on the wall; of several workers, of work
    budget: float | None  # seconds
    turns: NotRequired[list[TuningTurn]]  # in their order; former versions had none
    blocks: list[int] | None  # that are quantized; None: all
    end: End
    next: Next
    evidence: NotRequired[EvidenceDocument | None]  # of the best λ beside GPTQ 1 %; former versions had none
    more_minutes: float | None  # that are proposed where too little was compared
    recipe: dict[str, object] | None  # of what is proposed next


# Why a ladder ended: its draws are made, or its budget is spent; empty: it has not.
LadderEnd = Literal["", "draws", "budget"]

# What a person may do after a ladder: run the recipe of its best rung, or go on since no difference has an interval
# yet; empty: it still runs.
LadderNext = Literal["", "run", "go_on"]

LadderRow = TypedDict(
    "LadderRow",
    {
        "step": str,  # “nearest”, “gptq”, one of ``study.ladder.STEPS``, “refit”, “affine” or “joint”
        "method": str,  # public name
        "fitting": dict[str, str | int | float],  # see ``Method.fitting``
        "lambda": float | None,  # None for a method without
        "perplexity": list[float | None],  # of each draw that was begun; None: not measured in it
        "kl": list[float | None],  # KL(float ‖ quantized), nats a token
        # Left out by ladders that were measured before there was a step to another grid.
        "grid": NotRequired[str],
        "bits_per_weight": NotRequired[float],  # with scales, zero points or biases
    },
)


class LeftOutStep(TypedDict):
    """A step that changes nothing for this recipe."""

    step: str
    why: str


class LadderRun(TypedDict):
    """State of the ladder of a model, or its end. Differences follow from the rows, paired by draws."""

    model: str
    bits: int
    rows: list[LadderRow]  # in the order of the steps, also those that were not reached
    left_out: list[LeftOutStep]
    perplexity_float: float | None  # None: not measured yet
    draws: int  # in which every step was measured
    measured: int  # models that were quantized and measured
    planned: int  # that would be, with as many draws as there may be or as there is time for
    seconds: float  # of this run, on the clock on the wall; of several workers, of work
    budget: float | None  # seconds
    blocks: list[int] | None  # that are quantized; None: all
    end: LadderEnd
    next: LadderNext
    best: int | None  # position of the row with the lowest mean perplexity; None before a draw is whole
    more_minutes: float | None  # that are proposed where it should go on
    recipe: dict[str, object] | None  # of what is proposed next


class Written(TypedDict):
    """Files of an exported model, read again, beside the model that was measured."""

    other_tensors: list[str]  # names of those that are not the measured model's; empty: all are
    tokens: int  # that both were asked for, greedily; 0: the weights alone were compared
    parts_at: int | None  # the first token, from 0, at which they differ; None: nowhere
    words: str


class OpenedCheckpoint(TypedDict):
    """A checkpoint that others quantized, as it says of itself and as it was found."""

    name: str
    format: str
    made_by: str  # empty where it does not say
    layers: int  # linears with codes
    fingerprint: str
    words: str


class Repair(TypedDict):
    """A repaired checkpoint beside the same as it was found, on the same windows of the test text; None: not measured.

    Differences are of the repaired one less the other; errors are over windows.
    """

    layers: int
    kept: int  # layers whose codes stayed as they were found
    worse: int  # layers whose error on held-out text is larger than that of the codes found
    perplexity_found: float | None
    kl_found: float | None  # KL(float ‖ as found), nats a token
    kl_found_standard_error: float | None
    kl_difference: float | None
    kl_difference_standard_error: float | None
    log_ratio_difference: float | None  # ln(perplexity repaired / as found)
    log_ratio_difference_standard_error: float | None
    verdict: Literal[-1, 0, 1] | None  # of KL; -1: clearly lower, by Student's t at 5 %
    words: str  # of the gain
    layers_words: str


class DistilledEpoch(TypedDict):
    """The scales of a model after an epoch of their distillation; None: not finite."""

    epoch: int  # 0: as the solver left them
    calibration_kl: float | None  # KL(float ‖ quantized), nats a token, mean of the epoch's steps
    held_out_kl: float | None  # the same on held-out sequences, at the end of the epoch
    drift: float | None  # √(Σ ‖(Ŵ - W) S‖² / Σ ‖W S‖²) over all quantized linears


class DistilledBlock(TypedDict):
    """The scales of a block before and after their distillation; None: not finite."""

    block: int
    epochs: int  # that were made
    kept: int  # number of the epoch whose scales the block has; 0: as the solver left them
    held_out_before: float | None  # ‖outputs - float outputs‖² / ‖float outputs‖² on held-out sequences
    held_out: float | None
    drift_before: float | None  # √(Σ ‖(Ŵ - W) S‖² / Σ ‖W S‖²) over its quantized linears
    drift: float | None


class Distillation(TypedDict):
    """Tuning of a model's scales, by its predictions or block by block."""

    epochs: list[DistilledEpoch]  # empty block by block
    kept: int  # number of the epoch whose scales the model has
    blocks: NotRequired[list[DistilledBlock]]  # of a distillation block by block
    words: str


class RotatedModule(TypedDict):
    """Linears of one name before and after a rotation of the residual stream, means over blocks; None: unknown.

    Ranges are means over groups of max|w| / rms. Roundings are ‖ΔW‖/‖W‖ of rounding to nearest on the run's grid.
    """

    module: str  # such as “down_proj”; the last row is “all”
    layers: int
    range_before: float | None
    range_after: float | None
    rounding_before: float | None
    rounding_after: float | None
    drift: float | None  # ‖ΔW‖/‖W‖ of the run's weights beside the rotated ones
    original_drift: float | None  # the same turned back, beside the original weights


class ResidualRotation(TypedDict):
    """A rotation before a run, of the residual stream (“r1”) or also of the heads’ values (“r1+r2”), and its effect."""

    kind: Literal["r1", "r1+r2"]
    seed: int
    matrix: str  # of the residual stream, such as “Hadamard 256”
    added_bytes: int  # of a head that was the embedding
    logit_difference: float  # of the float models, relative to the largest logit
    rounded_logit_difference: float | None  # the same with rotated weights in their dtype
    modules: list[RotatedModule]
    words: str


class Summary(Divergences):
    """Results of a run, as ``Finished`` says them. None: not measured."""

    recipe: dict[str, object]
    device: str
    share_quantized: float  # 0..1
    quantized_layers: int
    bits_per_weight: float | None  # of the quantized linears, scales, zero points and biases included
    bytes_before: int | None  # of the whole model
    bytes_after: int | None
    selection: Selection | None
    perplexity: float | None
    perplexity_float: float | None
    vocabulary: int  # tokens that the model knows: the perplexity of guessing
    baseline: Baseline | None  # None: not asked for
    protocol: RunProtocol
    tasks: dict[str, TaskResult]
    accuracy: float | None  # mean over the tasks
    accuracy_standard_error: float | None
    accuracy_float: float | None
    accuracy_standard_error_float: float | None
    texts: list[ComparedText]
    speed: Speed | None
    experts: ExpertCounts | None
    tuning: Tuning | None  # of a recipe that tunes
    ladder: LadderRun | None  # of a recipe for a ladder
    written: Written | None  # of a run that wrote its model to files
    stamp: str | None  # digest of the run's stamp; None of a run that compares models, which keeps no codes
    opened: OpenedCheckpoint | None  # of a run of a checkpoint that others quantized
    repair: Repair | None  # of a run that solved the codes of such a checkpoint again
    distillation: Distillation | None  # of a run that tuned its scales
    rotation: ResidualRotation | None  # of a run whose model was rotated before
    derived: str | None  # class of a model without a written family


class Tuned(TypedDict):
    """The end of a tuning run. None: not known.

    The numbers are of the best λ that was compared, also where none is better than GPTQ 1 % and ``lam`` is None.
    """

    lam: float | None  # to take
    gamma: float | None  # at which λ was tuned
    words: str  # “0.01 found”, or why there is no λ
    band: str  # “0.005 to 0.02 and 0.1”: λ that are as good as the best; empty where none was compared
    best: float | None
    perplexity: float | None
    log_ratio: float | None


class CandidateReport(TypedDict):
    """A candidate of “auto” for a layer: relative reconstruction errors where it was solved and where it was judged."""

    lam: float
    gamma: float | None
    train: float
    validation: float
    relative_drift: float
    shift_strength: NotRequired[float]  # of methods with a shift


class RoundingCheck(TypedDict):
    """A block at one of the checked steps of learned rounding."""

    step: int  # 0: before the first
    steps: int  # at most
    error: float  # mean squared error of the block's outputs on the calibration sequences
    held_out_error: float  # the same on held-out sequences
    drift: float  # √(Σ ‖Ŵ - W‖² / Σ ‖W‖²) over the block's linears


class LayerReportDocument(TypedDict):
    """Report of one layer, as ``quantization.LayerReport`` says it."""

    recon_loss: float
    sar_loss: float
    drift: float
    relative_recon: float | None  # None where no token came
    relative_sar: float | None
    relative_drift: float
    held_out_loss: float | None
    relative_held_out: float | None
    chosen: dict[str, object]
    diagonal_floor: float
    n_tokens: int
    flags: Sequence[str]
    candidates: Sequence[CandidateReport]
    checks: NotRequired[Sequence[RoundingCheck]]  # of a block with checked steps, in the report of its first linear


class LayerEntry(TypedDict):
    """One linear of a model, as ``models.families.LayerInfo`` says it."""

    name: str
    block: int
    module: str
    shape: Sequence[int]  # out_features, in_features
    expert: int | None


class NamedReport(TypedDict):
    """A layer's report under its name."""

    name: str
    report: LayerReportDocument


class PrintedRun(Summary):
    """Output of ``--json`` for a run: its summary, with the layers as its study has them."""

    layers: list[NamedReport]
    seconds: float


def test_text(protocol: Mapping[str, Any] | None) -> str:
    """Return the test text of a protocol with all that perplexities depend on; empty where there is none."""
    test = (protocol or {}).get("test") or {}
    if not test.get("corpus"):
        return ""
    window, begin, tokens = (test.get(name) for name in ("window", "begin", "predicted_tokens"))
    parts = [
        str(test["corpus"]),
        test.get("part"),
        window and f"window {window:,}",
        begin and begin != "none" and f"each behind {begin}",
        tokens and f"{tokens:,} tokens",
    ]
    return ", ".join(filter(None, parts))


def with_error(value: float | None, error: float | None, form: str = ".4f") -> str:
    """Return a measured number with its standard error, where that is known."""
    if value is None:
        return "–"
    return f"{value:{form}}" + ("" if error is None else f" ± {error:{form}}")


def distances(summary: Divergences) -> list[tuple[str, str]]:
    """Return distances of the predictions from the float model's, with standard errors, by name; empty if unknown."""
    if summary.get("log_ratio") is None:
        return []
    kl = with_error(summary["kl"], summary["kl_standard_error"])
    return [
        ("ln(ppl / float)", with_error(summary["log_ratio"], summary["log_ratio_standard_error"])),
        ("KL from float", f"{kl} nats a token, 99th percentile {summary['kl_99']:.3g}"),
        ("same top token", with_error(summary["same_top"], summary["same_top_standard_error"], ".1%")),
    ]
