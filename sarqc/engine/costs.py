"""The cost of a run: memory, minutes and the size of its files. No torch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from sarqc.documents import Phase
from sarqc.engine.gpus import Gpu, visible_gpus
from sarqc.engine.ladder_steps import ladder_steps
from sarqc.evaluation import DECODED_TOKENS, LOGIT_BYTES, SPEED_REPEATS, TEXTS, loss_bytes, task_bytes
from sarqc.files.memory import free_memory
from sarqc.models import batch_tokens
from sarqc.models.checkpoint import Checkpoint
from sarqc.models.families import LayerInfo
from sarqc.quantization.counts import TWO_CORES, Count, Throughput, Workload
from sarqc.quantization.methods import Method
from sarqc.quantization.storage import bits_beside_codes
from sarqc.recipe import Recipe
from sarqc.settings import Settings

HELD = 4 << 30  # bytes of quantized weights of several models that wait for their measurement
DEFAULT_WINDOW = 2048  # tokens that a model sees at once where nothing else is asked
DISTILLING = "distilling scales"  # a stage
CHECKING_ROTATION = "checking the rotation"  # a stage
COMPARING_ROTATED = "comparing with the original weights"  # a stage
MEASURING_CODES = "measuring the checkpoint as it was found"  # a stage of repairs
_PROCESS = 320 << 20  # Python, PyTorch, transformers and what they hold for themselves: 290 MiB were measured
_HOST = 2 << 30  # the same beside a GPU, with the libraries of CUDA
# What CUDA, its libraries and PyTorch's pool hold on a device for themselves. On an H100 the context took 0.5 GiB, and
# a run of tiny-llama 0.45 GiB more than the rest of its plan.
_CONTEXT = 1 << 30
# Bytes of what the Lab draws of a layer at a point: 1,900 to 5,500 in the shipped studies and in runs of tiny-llama.
# Rounded up, so that a run is not begun which the disk then ends; surfaces have 40 × 40 cells whatever a layer has.
_PICTURES = 20_000
# Bytes for each log-probability of a continuation while one prompt is compared: both continuations as they are kept and
# as they are read, those of the quantized model, and their divergence in float64.
_COMPARED = 2 * 4 + 2 * 4 + 2 * 4 + 5 * 8
# Of logits that both models make of the same tokens: both logarithms, one of them raised, their difference and product.
_SOFTMAXES = 5
# While scales are tuned: bytes of a code, by itself and less its zero point; of a group with its sums, gradients and
# moments of Adam; numbers of a token that wait for their gradients, of a block for each channel and of the head for
# each logit. A token of tiny-llama took 225 kB of the 274 in its plan. While codes are tuned too: of a code its own
# byte and those of two epochs, its position, and the gradient of that.
_LEVEL, _GROUP_BYTES, _KEPT_STATES, _KEPT_LOGITS = 1 + 2, 150, 14, 7
_TUNED_LEVEL = 1 + 2 + 4 + 4
_ERROR = 4  # numbers of a token for each channel of a block's output: its error and its derivatives
_WALKED = 3  # sets of states while a block is distilled: its inputs, those of the float block, and its outputs
_READ_COPIES = 3  # of the float model's states: the file as it is read, without its checksum, and as a tensor


@dataclass(frozen=True)
class Work:
    """The work of one run, counted once: everything that memory, minutes and sizes depend on."""

    recipe: Recipe
    checkpoint: Checkpoint
    method: Method
    task: Workload  # of the method, with all calibration tokens
    candidates: int  # that “auto” compares
    blocks: tuple[int, ...]  # parameters of each block
    groups: int  # of the grid, in all quantized linears
    gram_numbers: int  # of one set of Grams, in the block that has most
    all_gram_numbers: int  # of one set, in all blocks that are quantized
    test_tokens: int
    prompt_tokens: int
    tasks: Mapping[str, int]
    span: int = 1  # devices that share the solving

    @property
    def stored(self) -> float:
        """Bytes of one float parameter in the files."""
        return self.checkpoint.parameter_bytes

    @property
    def calibration(self) -> int:
        """Calibration tokens."""
        return self.recipe.samples * self.recipe.length

    def share_of_tokens(self, layer: LayerInfo) -> float:
        """Return the share of tokens that a linear sees: an expert's those that are routed to it, on average."""
        chosen, experts = self.checkpoint.architecture.num_experts_per_tok, self.checkpoint.experts(layer.block)
        return 1.0 if layer.expert is None or not chosen or not experts else min(1.0, chosen / experts)

    def active_weights(self) -> float:
        """Return weights of the quantized linears that a token passes through."""
        return sum(self.share_of_tokens(layer) * math.prod(layer.shape) for layer in self.checkpoint.layers)

    def active_parameters(self) -> float:
        """Return all parameters that a token passes through."""
        return self.checkpoint.parameters - self.task.weights() + self.active_weights()

    def baseline(self) -> Work | None:
        """Return the same with the method that the run is compared with; None where it is not."""
        if (
            self.recipe.compares_models
            or not self.recipe.baseline
            or self.recipe.why_no_baseline()
            or not self.test_tokens
        ):
            return None
        task = replace(self.task, points=1, together=_linears_at_once(self.checkpoint), walks=1)
        return replace(self, method=self.recipe.baseline_method(), task=task, candidates=0)

    def packed_bits(self) -> int:
        """Return bits of all quantized linears, scales and zero points or biases included, scales and biases with 16
        bits.
        """
        return self.task.weights() * self.task.bits + self.groups * bits_beside_codes(self.recipe.grid, self.task.bits)


def work_of(
    recipe: Recipe,
    checkpoint: Checkpoint,
    per_channel: tuple[str, ...] = (),
    *,
    test_tokens: int = 0,
    prompt_tokens: int = 0,
    tasks: Mapping[str, int] = MappingProxyType({}),
    span: int = 1,
) -> Work:
    """Count a run's work. ``per_channel``: names of the linears without groups; ``span``: devices that share it."""
    layers = checkpoint.layers
    method, candidates = recipe.to_method(), len(recipe.candidates())
    by_block: dict[int, int] = {}
    groups = 0
    for layer in layers:
        rows, width = layer.shape
        by_block[layer.block] = by_block.get(layer.block, 0) + rows * width
        whole = recipe.group_size is None or layer.name in per_channel
        groups += rows * (1 if whole else width // (recipe.group_size or width))
    blocks = range(checkpoint.n_blocks)
    beside = "cross" in method.needs or ("block" in method.needs and recipe.inputs_from == "quantized")
    task = Workload(
        shapes=tuple(layer.shape for layer in layers),
        block_weights=max(by_block.values()),
        bits=recipe.bits,
        group_size=recipe.group_size,
        points=_points(recipe, candidates),
        together=max(candidates, _points(recipe, 0)) * _linears_at_once(checkpoint),
        sequences=recipe.samples,
        length=recipe.length,
        walks=2 if beside else 1,
        budget_bytes=0,
        held_out=recipe.unseen_samples(),
    )
    return Work(
        recipe,
        checkpoint,
        method,
        task,
        candidates,
        tuple(map(checkpoint.parameters_of, blocks)),
        groups,
        max(map(checkpoint.gram_numbers, blocks)),
        sum(map(checkpoint.gram_numbers, by_block)),
        test_tokens,
        prompt_tokens,
        tasks,
        span,
    )


def _linears_at_once(checkpoint: Checkpoint) -> int:
    """Return the number of linears that may be solved as one batch: those of a block's experts."""
    experts = max((checkpoint.experts(block) or 0 for block in range(checkpoint.n_blocks)), default=0)
    return max(1, 2 * experts)


def _points(recipe: Recipe, candidates: int) -> int:
    """Return the number of points at which each linear is solved; in tuning those of the comparison of layers."""
    if recipe.kind == "tune":
        return math.prod(map(len, recipe.compared()))
    if recipe.repairs:
        return 2 * max(1, candidates) + 1  # solved anew and from the codes found, and the best once more
    return candidates + 1 if recipe.auto_by() == "layer" else len({*recipe.sweep, -1.0})


def memory_bytes(work: Work, budget: int, *, on_processor: bool, streamed: bool) -> int:
    """Return bytes that a run needs on its device at the peak.

    ``budget``: of candidates that are solved at once. ``on_processor``: the model computes in float32, otherwise in
    the dtype of its files. ``streamed``: no more than one block is there at a time, and perplexity holds the states of
    the whole test text instead.
    """
    recipe, checkpoint = work.recipe, work.checkpoint
    computed = 4 if on_processor else work.stored
    block = max(work.blocks)
    weights = checkpoint.parameters - (sum(work.blocks) - block if streamed else 0)
    copies = 3 * checkpoint.parameters * (recipe.speed and not streamed)  # in bfloat16, and the codes
    if not streamed and recipe.auto_by() == "model":
        weights += sum(work.blocks)  # a copy of the float ones
    solved = block * (2 * work.stored + 1)  # the float weights in their own dtype, the quantized ones and their codes
    unseen_walks = work.task.walks if "held_out" in work.method.needs else 1
    unseen = recipe.unseen_samples() * recipe.length
    held = work.calibration * work.task.walks + unseen * unseen_walks  # tokens, while blocks pass
    states = 2 * max(held, work.test_tokens if streamed else 0) * checkpoint.architecture.hidden_size
    solved += _waiting_bytes(work) * on_processor
    task = replace(work.task, budget_bytes=budget)
    solvers = [step.method for step in ladder_steps(recipe)] if recipe.kind == "ladder" else [work.method]
    solvers += [] if work.baseline() is None else [recipe.baseline_method()]
    working = max(
        solver.working_bytes(task) + (0 if on_processor else solver.recorded_bytes(task)) for solver in solvers
    )
    process = _PROCESS if on_processor else _CONTEXT
    if work.span > 1:  # the machine's memory holds what all processes work on; a GPU what two of them hold
        process += work.span * (_PROCESS + working) if on_processor else _CONTEXT
    texts = _text_numbers(work) * (_COMPARED if on_processor else 3 * 4) if recipe.prompts else 0
    most = (
        computed * (weights + states)
        + solved
        + 4 * _sets(work) * work.gram_numbers
        + working
        + _passing_bytes(work, computed, on_processor=on_processor, streamed=streamed)
        + copies
        + process
        + texts
    )
    if recipe.distills:
        most = max(most, computed * weights + process + _distilling_bytes(work, computed))
        if recipe.distill_by == "model":  # the float model's weights, and what its head reads, meanwhile
            most += work.stored * work.task.weights() + computed * recipe.length * _state_numbers(work)
    return round(most)


def _distilling_bytes(work: Work, computed: float) -> float:
    """Return bytes of the tuning of scales, of the whole model or of a block: weights as functions of the scales with
    their gradients, and what the gradient of one sequence passes; of a block also the states of all sequences before
    and behind it.

    Of each weight its code, itself and its gradient, and that of the best epoch; of each group; and two copies of the
    largest linear while its levels or slopes are made.
    """
    recipe, architecture, by_block = work.recipe, work.checkpoint.architecture, work.recipe.distill_by == "block"
    weights = work.task.block_weights if by_block else work.task.weights()
    level = _TUNED_LEVEL if recipe.distill_codes else _LEVEL
    tuned = (level + 2 * computed + work.stored) * weights + _GROUP_BYTES * work.groups * weights / work.task.weights()
    tuned += 2 * computed * max(map(math.prod, work.task.shapes))
    inside = _KEPT_STATES * architecture.hidden_size + 4 * architecture.intermediate_size  # of a token in a block
    if not by_block:
        logits = 4 * _KEPT_LOGITS * architecture.vocab_size
        return tuned + recipe.length * (computed * work.checkpoint.n_blocks * inside + logits)
    tuned += work.stored * weights * recipe.distill_codes  # the float block, which the penalty reads
    inside += _ERROR * architecture.hidden_size + _WALKED * _state_numbers(work)
    return tuned + computed * recipe.length * inside


def _state_numbers(work: Work) -> int:
    """Return numbers of the states of all sequences at one position."""
    return (work.recipe.samples + work.recipe.unseen_samples()) * work.checkpoint.architecture.hidden_size


def _sets(work: Work) -> int:
    """Return the number of sets of Grams: of calibration, of the judging of candidates, and of held-out text."""
    judged = bool(work.candidates) or work.recipe.repairs
    sets = 1 + bool(work.recipe.unseen_samples()) + judged
    return sets + (1 + bool(work.candidates) if "cross" in work.method.needs else 0)


def _passing_bytes(work: Work, computed: float, *, on_processor: bool, streamed: bool) -> float:
    """Return bytes of perplexity, of a task, or of calibration texts on their way through a block, whichever takes
    most, at ``computed`` bytes for each number in the model. Of a model that is streamed a window is measured at a
    time.
    """
    recipe, checkpoint = work.recipe, work.checkpoint
    vocabulary, architecture = checkpoint.architecture.vocab_size, checkpoint.architecture
    judged = recipe.validation_samples() * recipe.length if recipe.auto_by() == "model" else 0
    tokens, beside = max(work.test_tokens, judged), work.test_tokens > 0
    window = recipe.window or min(DEFAULT_WINDOW, checkpoint.max_positions)
    judged_at_once = min(tokens, window if streamed else max(window, LOGIT_BYTES // (4 * vocabulary)))
    inside = 4 * architecture.hidden_size + 3 * architecture.intermediate_size  # of a block, for each token
    batch = batch_tokens(on_processor=on_processor, mixture=bool(checkpoint.family.mixture))
    through = max(min(work.calibration, batch), min(tokens, batch) if streamed else judged_at_once)
    # While a text's windows are judged alone, a GPU's logits are made float32 before their softmax.
    softmaxes = _SOFTMAXES if beside else 1 if on_processor else 2
    logits = (1 + beside) * min(LOGIT_BYTES, 4 * vocabulary * judged_at_once)
    logits += softmaxes * min(loss_bytes(on_processor=on_processor), 4 * vocabulary * min(window, judged_at_once))
    tasks = task_bytes(vocabulary, checkpoint.max_positions) if recipe.tasks else 0
    copies = 1 + beside * (1 + _READ_COPIES * on_processor)
    states = copies * computed * judged_at_once * architecture.hidden_size
    activations, judging = computed * through * inside, max(logits + states, tasks)
    # On a CPU the allocator still has the one while the other is made: runs of tiny-llama took 1.1 to 1.3 GiB.
    return activations + judging if on_processor else max(activations, judging)


def host_bytes(work: Work) -> int:
    """Return bytes of the machine's own memory for a run on a GPU: weights pass through it tensor by tensor, and what
    the float model's head reads of a test text batch by batch.
    """
    largest = max(math.prod(shape) for shape in work.checkpoint.shapes.values())
    architecture = work.checkpoint.architecture
    window = work.recipe.window or min(DEFAULT_WINDOW, work.checkpoint.max_positions)
    batch = min(work.test_tokens, max(window, LOGIT_BYTES // (4 * architecture.vocab_size)))
    states = _READ_COPIES * work.stored * batch * architecture.hidden_size
    texts = _text_numbers(work) * _COMPARED if work.recipe.prompts else 0
    return round(_HOST + max(2 * largest * work.stored, states) + texts + _waiting_bytes(work))


def _waiting_bytes(work: Work) -> float:
    """Return bytes of the machine's memory of the quantized weights that wait for their measurement while models
    compare.
    """
    models = {"tune": _IN_QUESTION, "ladder": _MODELS_OF_STEP}.get(work.recipe.kind, 0)
    return min(HELD, models * work.task.weights() * work.stored)


def disk_bytes(work: Work, *, on_processor: bool, streamed: bool) -> int:
    """Return bytes that a run writes to the state folder, roughly: finished layers, changed blocks, texts, what the
    float model's head reads of the test text, and the study. Tuning writes statistics instead of layers, of which two
    sets are a draw's; older ones make room. So does a ladder.
    """
    recipe, task = work.recipe, work.task
    codes_per_byte = 8 // task.bits  # whole codes
    layers = task.weights() / max(1, codes_per_byte) + work.groups * (2 + work.stored)  # codes, zero points and scales
    if recipe.compares_models:
        layers = 4 * work.all_gram_numbers  # two sets of half a Gram in float32
    if work.baseline() is not None:
        layers += layers + _PICTURES * len(task.shapes)
    if work.method.has_channel_scales:
        layers += task.weights() * work.stored  # and what they stand for
    points = len(recipe.compared()[0]) if recipe.kind == "tune" else len({*recipe.sweep, -1.0})
    points = len(ladder_steps(recipe)) if recipe.kind == "ladder" else points if work.method.lam is not None else 1
    pictures = 2 * _PICTURES * len(task.shapes) * (points + work.candidates)  # study and store
    blocks = sum(work.blocks) * (4 if on_processor else work.stored) if streamed else 0
    hidden = work.checkpoint.architecture.hidden_size
    states = work.test_tokens * hidden * (4 if on_processor else work.stored)  # that the float model's head reads
    layers += layers * recipe.distills
    return round(layers + pictures + blocks + states + len(recipe.prompts) * _text_numbers(work) * 2 * 4)


def _text_numbers(work: Work) -> int:
    return work.recipe.new_tokens * work.checkpoint.architecture.vocab_size


_ROTATION_BYTES = 100  # bytes that are read in the time in which a weight is rotated, on two server cores
_LOGIT_MOVES = 6  # how often a logit is written or read until its token is judged
_DIVERGENCE_MOVES = 16  # the same of one that is compared with the float model's
# Operations that a GPU starts for a linear while a batch of tokens passes, its statistics included.
_STARTED_OF_BATCH = 12


def minutes(work: Work, rates: Throughput = TWO_CORES, pace: float = 1.0) -> float:
    """Return an estimate of all calibrations that the recipe asks for, and of its measurements, on a device. ``pace``:
    how much longer than that the work takes there.

    Tuning and a ladder end with their budget, if they have one.
    """
    recipe = work.recipe
    if not recipe.compares_models:
        return pace * sum(map(rates.seconds, stages(work).values())) / 60
    costs, models = comparison_costs(work, rates, pace), _IN_QUESTION if recipe.kind == "tune" else 1
    needed = costs.start + costs.screening + recipe.draws * (costs.draw + models * sum(costs.models.values()))
    return min(needed / 60, recipe.minutes or math.inf)


def stages(work: Work) -> dict[tuple[str, str], Count]:
    """Return the work of a run of one model by stage and detail of its events, in their order."""
    total: dict[tuple[str, str], Count] = {}
    for stage, detail, count in _parts(work):
        total[stage, detail] = total.get((stage, detail), Count()) + _in_precision(work, count)
    return total


def phases(work: Work, rates: Throughput, pace: float = 1.0) -> list[Phase]:
    """Return the seconds of a run by the names of its events ``Stage``, in their order.

    A run that compares models has none, since it tells by itself how far it is.
    """
    counted = {} if work.recipe.compares_models else stages(work)
    return [
        {"stage": stage, "detail": detail, "seconds": pace * rates.seconds(count)}
        for (stage, detail), count in counted.items()
    ]


def _in_precision(work: Work, count: Count) -> Count:
    """Return the same work for a model of 32 bits, where it is one."""
    return count.in_float32() if work.stored > 2 else count


def _parts(work: Work) -> Iterator[tuple[str, str, Count]]:
    """Yield the parts of a run that quantizes or repairs, in their order.

    Each with the stage and the detail of its event, and its work, with the large products of a model of 16 bits.
    """
    recipe, size = work.recipe, work.checkpoint.size_bytes
    passing, solving = _passing(work, recipe.samples), _solving(work, recipe.samples)
    if recipe.rotates:
        yield CHECKING_ROTATION, "", Count(loaded=2 * size) + _rotating(work, 1)
    yield "loading", "", Count(loaded=size) + _rotating(work, 2)  # for the model, and the stamp
    yield from _measuring(work, "float", _perplexity(work))
    if recipe.auto_by() == "model":
        judged = recipe.validation_samples()
        once = _passing(work, recipe.samples - judged) + _solving(work, recipe.samples - judged)
        judging = _block_passes(work, judged * recipe.length)
        yield "choosing λ", "", (once + judging).times(work.candidates)
    if recipe.repairs and work.test_tokens:
        yield MEASURING_CODES, "", passing + _pass_beside_float(work)
    yield "quantizing", "", passing + solving
    if recipe.distills:
        yield DISTILLING, "", _distilling(work)
    if recipe.rotates:
        yield COMPARING_ROTATED, "", _rotating(work, 2)  # there and back
    yield from _measuring(work, "quantized", _pass_beside_float(work))
    if recipe.speed:
        yield "measuring speed", "", _speed(work)
    if (baseline := work.baseline()) is not None:
        solved = _passing(baseline, recipe.samples) + _solving(baseline, recipe.samples)
        yield "comparing with GPTQ 1 %", "quantizing", solved + _rotating(work, 2)
        yield "comparing with GPTQ 1 %", "perplexity", _pass_beside_float(baseline)


def _measuring(work: Work, which: str, perplexity: Count) -> Iterator[tuple[str, str, Count]]:
    stage = f"measuring the {which} model"
    if work.test_tokens:
        yield stage, "perplexity", perplexity
    for name, tokens in work.tasks.items():
        yield stage, name, _text_pass(work, tokens)
    if work.recipe.prompts:
        yield stage, TEXTS, _texts(work).times(0.5)


def _rotating(work: Work, times: int) -> Count:
    return Count(loaded=_ROTATION_BYTES * work.checkpoint.parameters * times) if work.recipe.rotates else Count()


def _perplexity(work: Work) -> Count:
    return _text_pass(work, work.test_tokens)


def _text_pass(work: Work, tokens: int) -> Count:
    return _block_passes(work, tokens) + _head(work, tokens, _LOGIT_MOVES)


def _pass_beside_float(work: Work) -> Count:
    """Return the same of a quantized model, with the float one's logits and how far they are apart."""
    return _perplexity(work) + _head(work, work.test_tokens, _DIVERGENCE_MOVES)


def _head(work: Work, tokens: int, moves: int) -> Count:
    """Return the work of the logits of tokens, each of which is written or read so often."""
    logits = work.checkpoint.architecture.vocab_size * tokens
    return Count(products=2 * work.checkpoint.architecture.hidden_size * logits, read=moves * 4 * logits)


def _distilling(work: Work) -> Count:
    """Return the work of tuning scales in all epochs: both directions of every step, and the float model's part of it.
    Block by block, no logits are computed, and each sequence passes through the float and the tuned blocks once.
    """
    recipe, samples, unseen = work.recipe, work.recipe.samples, work.recipe.unseen_samples()
    by_block = recipe.distill_by == "block"
    passed = _block_passes if by_block else _text_pass
    once, trained, judged = (passed(work, count * recipe.length) for count in (samples + unseen, samples, unseen))
    moves = _WEIGHT_MOVES + _CODE_MOVES * recipe.distill_codes
    written = Count(read=moves * 4 * work.task.weights() * samples)
    started = Count(started=_STARTED_OF_STEP * len(work.task.shapes) * samples)
    epoch = trained.times(3) + judged + written + started
    if by_block:
        return (once + Count(loaded=work.checkpoint.size_bytes)).times(2) + epoch.times(recipe.distill)
    beside = _head(work, (samples + unseen) * recipe.length, _DIVERGENCE_MOVES)
    return once.times(2) + beside + (epoch + beside).times(recipe.distill)


_WEIGHT_MOVES = 8  # how often a weight is written or read until the gradients of its scales are known
_CODE_MOVES = 10  # and until its position has moved, where codes are tuned
_STARTED_OF_STEP = 60  # operations that a GPU starts for a linear in a step of their tuning

_IN_QUESTION = 8  # candidates and baselines of a draw, on the mean: six to ten were seen


@dataclass(frozen=True)
class ComparisonCosts:
    """Seconds of the parts of tuning or of a ladder on a device."""

    start: float  # reading the weights, and the float model on the test text
    draw: float  # the calibration text through the model, with statistics
    screening: float  # every linear at all λ and γ, in tuning
    models: Mapping[str, float]  # solved and measured: each step of a ladder, or a candidate of tuning


def comparison_costs(work: Work, rates: Throughput, pace: float = 1.0) -> ComparisonCosts:
    """Return the seconds of the parts; ``pace``: how many times longer than counted the work takes there."""
    recipe, samples, task = work.recipe, work.recipe.samples, replace(work.task, points=1)
    tunes = recipe.kind == "tune"
    methods = {"model": work.method} if tunes else {step.step: step.method for step in ladder_steps(recipe)}

    def seconds(count: Count) -> float:
        return pace * rates.seconds(_in_precision(work, count))

    return ComparisonCosts(
        seconds(Count(loaded=work.checkpoint.size_bytes) + _perplexity(work)),
        seconds(_passing(work, samples)),
        seconds(_solving(work, samples)) if tunes else 0.0,
        {
            name: seconds(_solving(replace(work, method=method, task=task), samples) + _pass_beside_float(work))
            for name, method in methods.items()
        },
    )


_MODELS_OF_STEP = 2  # models of a ladder that are solved at once: those that differ in λ alone


def _block_passes(work: Work, tokens: int) -> Count:
    """Return the work of tokens once through all blocks: products with their weights, and what is done to every number
    between them.
    """
    architecture = work.checkpoint.architecture
    numbers = 10 * architecture.hidden_size + 6 * architecture.intermediate_size  # read or written, of a token
    return Count(products=2 * work.active_weights() * tokens, read=4 * numbers * tokens * work.checkpoint.n_blocks)


def _passing(work: Work, samples: int) -> Count:
    """Return the work of the calibration text through all blocks, and of the Grams of what their linears read."""
    recipe, task = work.recipe, work.task
    tokens = (samples + recipe.unseen_samples()) * recipe.length
    passes = _block_passes(work, tokens).times(1 + task.walks)
    shares = (work.share_of_tokens(layer) for layer in work.checkpoint.layers)
    squares = sum(share * width**2 for share, (_, width) in zip(shares, task.shapes, strict=True))
    # Only on a GPU do operations take time to start.
    batch = batch_tokens(on_processor=False, mixture=bool(work.checkpoint.family.mixture))
    started = _STARTED_OF_BATCH * task.walks * math.ceil(tokens / batch) * len(task.shapes)
    return passes + Count(products=task.walks * tokens * squares, started=started)


def _solving(work: Work, samples: int) -> Count:
    """Return the work of solving. Where devices share it, as if evenly: weights and Grams go to them, quantized weights
    and codes back.
    """
    counted = work.method.count(replace(work.task, sequences=samples))
    if work.span == 1 or work.method.unit != "layer" or work.recipe.compares_models:
        return counted
    moved = work.task.weights() * (2 * work.stored + 1) + 4 * _sets(work) * work.all_gram_numbers
    return counted.times(1 / work.span) + Count(moved=moved)


def _texts(work: Work) -> Count:
    """Return the work of both models, which continue the prompts in two ways and judge both. A token that is made alone
    reads all parameters.
    """
    recipe = work.recipe
    made = len(recipe.prompts) * recipe.new_tokens
    passed = 2 * work.prompt_tokens + made
    return Count(read=4 * work.checkpoint.parameters * made, products=2 * work.active_parameters() * passed).times(4)


def _speed(work: Work) -> Count:
    length = min(DEFAULT_WINDOW, work.checkpoint.max_positions)
    once = Count(read=4 * work.checkpoint.parameters * DECODED_TOKENS, products=8 * work.active_parameters() * length)
    return once.times(2 * (SPEED_REPEATS + 1))


_SWEEP = 1 << 30


def free_bytes(settings: Settings) -> int | None:
    """Return the bytes for a run on its device: the operator's limit, else what is free; None where unknown."""
    if settings.memory_gib is not None:
        return int(settings.memory_gib * 2**30)
    if on_processor(settings):
        return free_memory()
    gpu = gpu_of(settings)
    return None if gpu is None else gpu.free


def sweep_bytes(settings: Settings) -> int:
    """Return the bytes for the candidates of a layer that are solved at once on the device of a run."""
    if settings.sweep_gib is not None:
        return int(settings.sweep_gib * 2**30)
    gpu = None if on_processor(settings) else gpu_of(settings)
    return _SWEEP if gpu is None else max(_SWEEP, gpu.total // 8)


def gpu_of(settings: Settings) -> Gpu | None:
    """Return the GPU that runs compute on, or the first of them."""
    gpus, number = visible_gpus(), settings.device.partition(":")[2] or "0"
    return gpus[int(number)] if number.isdigit() and int(number) < len(gpus) else None


def on_processor(settings: Settings) -> bool:
    """Return True if runs compute on the CPU, so that the device's memory is the machine's."""
    return settings.device == "cpu" or (settings.device == "auto" and not visible_gpus())
