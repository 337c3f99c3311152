"""Linears of a block in two processes with one thread each, beside one process with one thread."""

from collections.abc import Iterator

import torch

from benchmarks.measured import Figure, seconds
from sarqc.calibration.layer_batch import LayerBatch, LinearData
from sarqc.calibration.multi_device import MultiDevice
from sarqc.models.families import LayerInfo
from sarqc.quantization.grid import Grid
from sarqc.quantization.layer_statistics import LayerStatistics
from sarqc.quantization.methods import method
from sarqc.quantization.solving import BUDGET_BYTES, Context

CPU = torch.device("cpu")


def _linears(number: int, rows: int, columns: int, *, experts: bool) -> tuple[LinearData, ...]:
    random = torch.Generator().manual_seed(0)

    def one(index: int) -> LinearData:
        info = LayerInfo(
            name=str(index), block=0, module="linear", shape=(rows, columns), expert=index if experts else None
        )
        statistics = LayerStatistics.from_inputs(torch.randn(2 * columns, columns, generator=random))
        return LinearData(info, torch.randn(rows, columns, generator=random), (statistics,), None)

    return tuple(map(one, range(number)))


def _batches(linears: tuple[LinearData, ...], name: str) -> list[LayerBatch]:
    """Experts together, other linears each by itself, as blocks are solved."""
    groups = [linears] if linears[0].info.expert is not None else [(one,) for one in linears]
    return [LayerBatch(group, Grid(3, 64, "asymmetric"), method(name), (0.3,), 0) for group in groups]


def spread() -> Iterator[Figure]:
    """Time in two processes over that in one, where one half is the best."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with MultiDevice([CPU, CPU], BUDGET_BYTES) as two:
            for words, linears, name in (
                ("8 linears of 1024 × 1024, column solver", _linears(8, 1024, 1024, experts=False), "sarqc-gbs"),
                ("64 experts of 512 × 256, column solver", _linears(64, 512, 256, experts=True), "sarqc-gbs"),
                ("8 linears of 1024 × 1024, scale search", _linears(8, 1024, 1024, experts=False), "sarqc-gs"),
            ):
                batches = _batches(linears, name)
                list(two.solved(batches))  # processes start with the first
                together = seconds(lambda b=batches: list(two.solved(b)), 3)
                alone = seconds(lambda b=batches: [list(one.solved(Context())) for one in b], 3)
                yield Figure(words, together / alone, "×")
    finally:
        torch.set_num_threads(threads)
