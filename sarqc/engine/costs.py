"""What a run will cost: memory, minutes and the size of what it leaves. No torch."""

from __future__ import annotations

import math
import shutil
import subprocess
import time
from functools import lru_cache
from pathlib import Path

import psutil

from sarqc.evaluation import DECODED_TOKENS, SPEED_REPEATS
from sarqc.models.checkpoint import Checkpoint
from sarqc.quantization.methods import PRODUCTS_PER_SECOND, Workload
from sarqc.recipe import Recipe
from sarqc.settings import Settings

DEFAULT_WINDOW = 2048  # tokens that a model sees at once where nothing else is asked
_PROCESS = 1 << 29  # Python, PyTorch and what they hold for themselves
_LOGITS = 1 << 29  # float32 logits of some windows, and their softmax, at most


def memory_bytes(
    recipe: Recipe, checkpoint: Checkpoint, test_tokens: float, budget: int, *, on_processor: bool, streamed: bool
) -> int:
    """Bytes that a run needs on its device at the peak.

    ``budget``: of candidates that are solved at once. ``on_processor``: the model computes in float32, otherwise in
    the dtype of its files. ``streamed``: no more than one block is there at a time, and perplexity holds the states of
    the whole test text instead.
    """
    stored = stored_bytes(checkpoint)
    computed = 4 if on_processor else stored
    blocks = [checkpoint.parameters_of(block) for block in range(checkpoint.n_blocks)]
    block = max(blocks)
    weights = checkpoint.parameters - (sum(blocks) - block if streamed else 0)
    copies = 3 * checkpoint.parameters * (recipe.speed and not streamed)  # in bfloat16, and the codes
    if not streamed and recipe.auto_by() == "model":
        weights += sum(blocks)  # a copy of the float ones
    solved = block * (2 * stored + 1)  # the float weights in their own dtype, the quantized ones and their codes
    states = 2 * max(tokens_held(recipe), test_tokens if streamed else 0) * int(checkpoint.config["hidden_size"])
    process = _PROCESS if on_processor else 1 << 28
    working = recipe.to_method().working_bytes(_workload(recipe, checkpoint, recipe.samples * recipe.length, budget))
    return round(
        computed * (weights + states) + solved + _statistics(recipe, checkpoint) + working
        + min(_LOGITS, 8 * test_tokens * int(checkpoint.config["vocab_size"])) + copies + process
    )  # fmt: skip


def host_bytes(checkpoint: Checkpoint) -> int:
    """Bytes of the machine's own memory for a run on a GPU: weights pass through it tensor by tensor."""
    largest = max(math.prod(shape) for shape in checkpoint.shapes.values())
    return round(4 * _PROCESS + 2 * largest * stored_bytes(checkpoint))


def stored_bytes(checkpoint: Checkpoint) -> float:
    """Bytes of one float parameter in the files."""
    return checkpoint.size_bytes / checkpoint.parameters


def two_walks(recipe: Recipe) -> bool:
    """Whether the float model's states are walked beside those of the quantized prefix."""
    needs = recipe.to_method().needs
    return "cross" in needs or ("block" in needs and recipe.inputs_from == "quantized")


def tokens_held(recipe: Recipe) -> int:
    """Tokens whose states are held while the blocks are walked."""
    calibration = recipe.samples * recipe.length
    return calibration * (2 if two_walks(recipe) else 1) + recipe.held_out_samples * recipe.length


def packed_bits(recipe: Recipe, checkpoint: Checkpoint, per_channel: tuple[str, ...]) -> int:
    """Bits of all quantized linears, scales and zero points included."""
    groups = 0
    for layer in checkpoint.layers:
        size = layer.shape[1] if recipe.group_size is None or layer.name in per_channel else recipe.group_size
        groups += layer.shape[0] * (layer.shape[1] // size)
    per_group = 16 + (recipe.bits if recipe.grid == "asymmetric" else 0)  # a 16-bit scale and a packed zero point
    return sum(math.prod(layer.shape) for layer in checkpoint.layers) * recipe.bits + groups * per_group


def _statistics(recipe: Recipe, checkpoint: Checkpoint) -> int:
    """Grams, one for each tensor that a block's linears read and for each expert, of the block that has most."""
    sets = 1 + bool(recipe.held_out_samples) + bool(recipe.candidates())
    if "cross" in recipe.to_method().needs:
        sets += 1 + bool(recipe.candidates())
    family, most = checkpoint.family, 0
    for block in range(checkpoint.n_blocks):
        read = {
            (number, family.expert_of(path)): checkpoint.shapes[
                f"{family.in_file(f'{family.blocks}.{block}.{path}')}.weight"
            ][1]
            for number, group in enumerate(checkpoint.groups(block))
            for path in group.linears
        }
        most = max(most, sum(width**2 for width in read.values()))
    return 4 * sets * most


def _workload(recipe: Recipe, checkpoint: Checkpoint, calibration: int, budget: int = 0) -> Workload:
    """What the method has to do with ``calibration`` tokens, and with ``budget`` bytes for what is solved at once."""
    by_block: dict[int, int] = {}
    for layer in checkpoint.layers:
        by_block[layer.block] = by_block.get(layer.block, 0) + math.prod(layer.shape)
    candidates = len(recipe.candidates())
    experts = max((checkpoint.experts(block) or 0 for block in range(checkpoint.n_blocks)), default=0)
    return Workload(
        shapes=tuple(layer.shape for layer in checkpoint.layers),
        block_weights=max(by_block.values()),
        bits=recipe.bits,
        group_size=recipe.group_size,
        points=candidates + 1 if recipe.auto_by() == "layer" else len({*recipe.sweep, -1.0}),
        together=max(candidates, len(recipe.sweep) + 1) * max(1, 2 * experts),
        sequences=calibration // recipe.length,
        length=recipe.length,
        walks=2 if two_walks(recipe) else 1,
        budget_bytes=budget,
    )


_BYTES_PER_SECOND = 5e9


def minutes(recipe: Recipe, checkpoint: Checkpoint, test_tokens: float, prompt_tokens: int) -> float:
    """A rough estimate for two CPU cores of all calibrations that the recipe asks for, and of its measurements."""
    calibration = recipe.samples * recipe.length
    quantized = sum(math.prod(layer.shape) for layer in checkpoint.layers)
    seconds = _calibration_seconds(recipe, checkpoint, quantized, calibration)
    candidates = recipe.candidates()
    if recipe.auto_by() == "model":
        judged = recipe.validation_samples() * recipe.length
        once = _calibration_seconds(recipe, checkpoint, quantized, calibration - judged)
        seconds += len(candidates) * (once + 2 * checkpoint.parameters * judged / PRODUCTS_PER_SECOND)
    measuring = 2 * 2 * (quantized + checkpoint.parameters) * test_tokens
    seconds += measuring / PRODUCTS_PER_SECOND + _reading_seconds(recipe, checkpoint, prompt_tokens)
    return seconds / 60


def _reading_seconds(recipe: Recipe, checkpoint: Checkpoint, prompt_tokens: int) -> float:
    """Continuing the prompts in two ways, and speed. A token that is made alone reads every parameter once."""
    read = 4 * checkpoint.parameters / _BYTES_PER_SECOND
    passes = 2 * checkpoint.parameters / PRODUCTS_PER_SECOND
    made = len(recipe.prompts) * recipe.new_tokens
    seconds = 2 * 2 * (made * read + (2 * prompt_tokens + made) * passes)
    if recipe.speed:
        length = min(DEFAULT_WINDOW, checkpoint.max_positions)
        seconds += 2 * (SPEED_REPEATS + 1) * (4 * length * passes + DECODED_TOKENS * read)
    return seconds


def _calibration_seconds(recipe: Recipe, checkpoint: Checkpoint, quantized: int, calibration: int) -> float:
    """Passes over the text, Grams, and what the method does at each point: one, a curve, or what “auto” compares."""
    work = _workload(recipe, checkpoint, calibration)
    tokens = calibration + recipe.held_out_samples * recipe.length
    passes = 2 * quantized * (1 + work.walks) * tokens
    grams = work.walks * sum(2 * tokens * layer.shape[1] ** 2 for layer in checkpoint.layers) / 2
    return (passes + grams) / PRODUCTS_PER_SECOND + recipe.to_method().seconds(work)


KNOWN_SECONDS = 5  # asking a GPU takes a good part of a second
_CGROUP = Path("/sys/fs/cgroup")


def free_bytes(settings: Settings) -> int | None:
    """What a run may take on its device: as the operator says, else what is free; None where that can't be known."""
    if settings.memory_gib is not None:
        return int(settings.memory_gib * 2**30)
    if on_processor(settings):
        return _free_here()
    free = _free_on_gpus()
    number = settings.device.partition(":")[2] or "0"
    return free[int(number)] if number.isdigit() and int(number) < len(free) else None


def on_processor(settings: Settings) -> bool:
    """Whether runs compute on the CPU, so that the device's memory is the machine's."""
    return settings.device == "cpu" or (settings.device == "auto" and not _free_on_gpus())


def _free_here() -> int:
    """Free memory of the machine, or of the container that this is."""
    free = psutil.virtual_memory().available
    try:
        limit, used = ((_CGROUP / name).read_text().strip() for name in ("memory.max", "memory.current"))
        cached = next(
            int(line.split()[1])
            for line in (_CGROUP / "memory.stat").read_text().splitlines()
            if line.startswith("inactive_file ")
        )
        return free if limit == "max" else min(free, int(limit) - int(used) + cached)
    except (OSError, ValueError, StopIteration):
        return free


@lru_cache(maxsize=1)
def _nvidia_smi() -> str | None:
    return shutil.which("nvidia-smi")


def _free_on_gpus() -> list[int]:
    """Free memory of each GPU, in its order; none where nobody can be asked. Known for some seconds."""
    program = _nvidia_smi()
    return [] if program is None else _asked(program, int(time.monotonic() // KNOWN_SECONDS))


@lru_cache(maxsize=1)
def _asked(program: str, _when: int) -> list[int]:
    question = [program, "--query-gpu=memory.free", "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(question, capture_output=True, text=True, timeout=10, check=True)
        return [int(line) * 2**20 for line in answer.stdout.split()]
    except (OSError, subprocess.SubprocessError, ValueError):
        return []
