"""A device's solvers compared with the CPU's: for the doctor, and once for each card and driver before a run."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

import sarqc
from sarqc.calibration.block import BlockData, solve_block
from sarqc.calibration.capture import Statistics, collect
from sarqc.calibration.job import CalibrationJob, SolvedLayer, calibration_job
from sarqc.calibration.pipeline import layers_by_block
from sarqc.engine.costs import gpu_of
from sarqc.engine.plan import Prepared, prepare
from sarqc.errors import SarqcError
from sarqc.events import Event, Stage
from sarqc.files.artefacts import ArtefactStore, chain_key
from sarqc.models.loading import LoadedModel, load
from sarqc.models.walk import BlockWalk
from sarqc.quantization.methods import METHODS
from sarqc.quantization.solving import BUDGET_BYTES, Context
from sarqc.recipe import Recipe
from sarqc.settings import Settings

_METHODS = ("rtn", "sarqc-gs", "sarqc-gbs")  # one of each family that solves single layers
_SUFFIX = ".device"  # of a file that records a sound device
MODEL = "tiny-llama"
CODES, OBJECTIVE = 0.98, 0.01  # least share of equal codes, and largest relative difference of a layer's objective
LEARNED_OBJECTIVE = 0.1  # a learned one goes through the block in the device's own precision
RECIPE = {
    "model": MODEL,
    "bits": 3,
    "group_size": 128,
    "calibration": f"{MODEL}-calibration",
    "samples": 8,
    "length": 128,
    "epochs": 2,
    "steps": 8,
    "inputs_from": "quantized",
}


def require_sound_device(device: torch.device, settings: Settings) -> Iterator[Event]:
    """Raise ``SarqcError`` if the device's results differ from the CPU's.

    A sound device is recorded and checked once; one that fails is checked again before each run, as the reason may
    pass. ``SARQC_CHECK_DEVICE=0`` leaves the check out. The doctor checks more.
    """
    store, key = ArtefactStore(settings.artefacts_root()), _key(device, settings)
    if not settings.check_device or store.has(key, _SUFFIX):
        return
    yield Stage("checking the device", "three solvers, beside the CPU's; once for each card and driver")
    wrong = [finding.words for finding in compare_with_cpu(settings, device, _METHODS) if not finding.is_sound]
    if wrong:
        raise SarqcError(
            f"it does not compute what the CPU does: {' '.join(wrong)}",
            f"device {device}",
            "Run “python -m sarqc doctor” (of sarqc[host]). SARQC_DEVICE=cpu takes the processor; "
            "SARQC_CHECK_DEVICE=0 trusts the device all the same.",
        )
    store.write(key, _SUFFIX, b"sound")


def _key(device: torch.device, settings: Settings) -> str:
    gpu = gpu_of(settings)
    card = str(device) if gpu is None else (gpu.uuid, gpu.driver)
    return chain_key("device 1", card, torch.__version__, sarqc.__version__)


@dataclass(frozen=True)
class Finding:
    """A sentence about the host, and the verdict on it."""

    is_sound: bool
    words: str


def compare_with_cpu(settings: Settings, device: torch.device, methods: Iterable[str]) -> Iterator[Finding]:
    """Solve the first block of a small model by these methods on the device and the CPU, from the same statistics."""
    # As on the CPU: unlike a run, a comparison need not fit the operator's limit or the free memory.
    settings = settings.model_copy(update={"device": "cpu", "memory_gib": None})
    first = prepare(Recipe.parse(RECIPE | {"method": "rtn"}), settings)
    host, guest = load(first.checkpoint, torch.device("cpu")), load(first.checkpoint, device)
    data = _data(host, first)
    for method in methods:
        prepared = prepare(Recipe.parse(RECIPE | {"method": method}), settings)
        job = calibration_job(prepared.recipe, prepared.checkpoint, prepared.sequences, prepared.per_channel)
        try:
            expected, actual = _solve(host, job, data), _solve(guest, job, _move(data, guest))
        except Exception as error:  # whatever the device's libraries raise is the finding
            yield Finding(False, f"{method}: {type(error).__name__}: {str(error)[:300]}")
            continue
        yield compare_layers(method, expected, actual)


def compare_layers(method: str, expected: list[SolvedLayer], actual: list[SolvedLayer]) -> Finding:
    """Compare a method's layers on two devices: equal but for ties, and where one code more or less was rounded
    otherwise.
    """
    pairs = [(reference.quantized, other.quantized) for reference, other in zip(expected, actual, strict=True)]
    equal = sum(int((reference.codes.cpu() == other.codes.cpu()).sum()) for reference, other in pairs)
    share = equal / sum(reference.codes.numel() for reference, _ in pairs)
    worst = max(abs(other.report.recon_loss / reference.report.recon_loss - 1) for reference, other in pairs)
    learned = METHODS[method].make.unit == "block"
    is_sound = worst <= (LEARNED_OBJECTIVE if learned else OBJECTIVE) and (learned or share >= CODES)
    return Finding(is_sound, f"{method}: {share:.3%} of the codes are the CPU's, errors within {worst:.2%} of its.")


def _data(loaded: LoadedModel, prepared: Prepared) -> BlockData:
    """Return the first block's statistics on the CPU, with float inputs that are not quite the same, as for a later
    block.
    """
    sequences = torch.from_numpy(prepared.sequences.calibration.copy())
    walk, others, block = BlockWalk(loaded, sequences), BlockWalk(loaded, sequences), loaded.blocks()[0]
    noise = torch.Generator().manual_seed(0)
    others.hidden = [states * (1 + 0.02 * torch.randn(states.shape, generator=noise)) for states in others.hidden]
    statistics, targets = collect(walk, block, others)
    return BlockData((statistics,), None, walk.forward(block), walk.hidden, targets)


def _move(data: BlockData, loaded: LoadedModel) -> BlockData:
    def there(states: list[Tensor]) -> list[Tensor]:
        return [part.to(loaded.device, loaded.compute_dtype) for part in states]

    statistics: Statistics = {path: part.to(loaded.device) for path, part in data.parts[0].items()}
    walk = BlockWalk(loaded, torch.zeros(1, data.inputs[0].shape[1], dtype=torch.int64))  # for its masks and positions
    return replace(
        data,
        parts=(statistics,),
        forward=walk.forward(loaded.blocks()[0]),
        inputs=there(data.inputs),
        targets=there(data.targets),
    )


def _solve(loaded: LoadedModel, job: CalibrationJob, data: BlockData) -> list[SolvedLayer]:
    first = layers_by_block(loaded.checkpoint.layers)[0]
    layers = {layer.path_in_block(loaded.family.blocks): layer for layer in first}
    steps = solve_block(loaded, job, layers, data, Context.on(loaded.device, BUDGET_BYTES))
    return [step for step in steps if isinstance(step, SolvedLayer)]
