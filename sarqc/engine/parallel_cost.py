"""The time of solving where several devices share a block's linears, see ``calibration.multi_device``. No torch."""

import heapq
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby, pairwise

from sarqc.models.families import LayerInfo
from sarqc.quantization.counts import TWO_CORES, Count, Workload
from sarqc.quantization.methods import Method

Part = tuple[tuple[int, int], ...]  # shapes (O, I) of linears that are solved together


def speedup(method: Method, task: Workload, layers: Sequence[LayerInfo], devices: int) -> float:
    """Return the part of one device's time after which the last of several is done, all blocks together; 1 for a method
    that does not work on single linears.

    A block waits for its last linear, and the parts of a block go in their order to whichever device is free.
    """
    if method.unit != "layer" or devices == 1:
        return 1.0
    blocks = Counter(tuple(parts_of(list(infos), devices)) for _, infos in groupby(layers, lambda layer: layer.block))
    alone = together = 0.0
    for parts, count in blocks.items():
        seconds = [TWO_CORES.seconds(method.count(replace(task, shapes=part))) for part in parts]
        alone += count * sum(seconds)
        together += count * last_done(seconds, devices)
    return together / alone


def parts_of(layers: Sequence[LayerInfo], devices: int) -> list[Part]:
    """Return the linears of a block as they go to processes: experts, each with its linears of one shape, in as many
    parts as there are devices, every other linear by itself.
    """
    parts: list[Part] = []
    for (is_expert, shape), alike in groupby(layers, lambda layer: (layer.expert is not None, layer.shape)):
        together = list(Counter((layer.expert, layer.name if not is_expert else "") for layer in alike).values())
        pieces = min(len(together), devices) if is_expert else len(together)
        bounds = [index * len(together) // pieces for index in range(pieces + 1)]
        parts += [(shape,) * sum(together[first:last]) for first, last in pairwise(bounds)]
    return parts


def last_done(seconds: Sequence[float], devices: int) -> float:
    """Return the time at which the last task is done, if each goes in order to the device that is free first."""
    free = [0.0] * devices
    for duration in seconds:
        heapq.heappush(free, heapq.heappop(free) + duration)
    return max(free)


def transfers(layers: Sequence[LayerInfo], stored: float, sets: int) -> Count:
    """Return weights at ``stored`` bytes and ``sets`` of Grams to the devices, quantized weights and codes back.
    Linears of one expert and one shape read one tensor and go together.
    """
    weights = sum(rows * width for rows, width in (layer.shape for layer in layers))
    grams = {(layer.block, layer.expert if layer.expert is not None else layer.name, layer.shape) for layer in layers}
    return Count(moved=weights * (2 * stored + 1) + 4 * sets * sum(width**2 for _, _, (_, width) in grams))
