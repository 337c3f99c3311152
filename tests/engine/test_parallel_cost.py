"""What is counted of shared solving, beside what is really shared."""

import itertools
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.known_models import known_checkpoint
from sarqc.calibration import block
from sarqc.calibration.layer_batch import LayerBatch
from sarqc.calibration.multi_device import MultiDevice
from sarqc.engine import costs
from sarqc.engine.parallel_cost import last_done, parts_of, speedup, transfers
from sarqc.engine.plan import plan
from sarqc.quantization.layer_statistics import LayerStatistics
from sarqc.quantization.solving import Context
from sarqc.recipe import Recipe
from sarqc.study.document import Study
from tests.calibration.test_pipeline import a_plan, fresh, solved_by
from tests.engine.running import run
from tests.models.cases import make_checkpoint


class Counting(MultiDevice):
    """Solves here, and notes the shapes and the tensors of every part as it would go to a process."""

    def __init__(self, number):
        super().__init__([torch.device("cpu")] * number, 1 << 30)
        self.shapes: list[tuple[tuple[int, int], ...]] = []
        self.bytes = 0

    def solved(self, batches):
        for batch in batches:
            for part in batch.split(len(self.devices)):
                self.shapes.append(tuple(tuple(linear.weight.shape) for linear in part.linears))
                self.bytes += _statistics_bytes(part)
                yield from part.solved(Context())


def _statistics_bytes(part: LayerBatch) -> int:
    own = [statistics for linear in part.linears for statistics in (*linear.parts, linear.held_out)]
    grams = {id(one): one.gram for one in own if isinstance(one, LayerStatistics)}
    return sum(gram.numel() * 4 for gram in grams.values())


@pytest.mark.thorough
@pytest.mark.parametrize("devices", [2, 4])
def test_parts_and_bytes_are_those_that_travel(tiny_llama, tmp_path, devices):
    folder = make_checkpoint("qwen3_moe, one block dense", tmp_path / "model", tiny_llama)
    loaded, spread = fresh(folder), Counting(devices)
    layers = [step.info for step in solved_by(loaded, a_plan(loaded), spread=spread)]
    by_block = [list(of) for _, of in itertools.groupby(layers, key=lambda layer: layer.block)]
    assert spread.shapes == [part for of_block in by_block for part in parts_of(of_block, devices)]
    weights = sum(rows * width for rows, width in (layer.shape for layer in layers))
    assert transfers(layers, 4, 2).moved - 9 * weights == spread.bytes  # calibration and held-out


def test_batches_are_the_parts_on_one_device(tiny_llama, tmp_path):
    folder = make_checkpoint("qwen3_moe, one block dense", tmp_path / "model", tiny_llama)
    layers = [layer for layer in fresh(folder).checkpoint.layers if layer.block == 0]
    storages = {layer.name: torch.float32 for layer in layers}
    batches = block.batches({layer.name: layer for layer in layers}, storages)
    assert [len(batch) for batch in batches] == [len(part) for part in parts_of(layers, 1)]


@given(st.lists(st.integers(1, 20), min_size=1, max_size=7), st.integers(1, 4))
def test_the_last_is_done_by_the_rule(seconds, devices):
    """Minute by minute: anyone who is idle takes the next task."""
    left, busy, minute = list(seconds), [0] * devices, 0
    while left or any(busy):
        for index, rest in enumerate(busy):
            if rest == 0 and left:
                busy[index] = left.pop(0)
        busy = [max(0, rest - 1) for rest in busy]
        minute += 1
    assert last_done(seconds, devices) == minute


def test_more_devices_take_less_time_of_single_linears_only():
    checkpoint = known_checkpoint("mixtral-8x7b")
    document = {"model": "mixtral-8x7b", "bits": 3, "calibration": "text"}
    work = costs.work_of(Recipe.parse(document | {"method": "sarqc-gbs"}), checkpoint)
    shares = [speedup(work.method, work.task, checkpoint.layers, number) for number in (1, 2, 4, 8)]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] == 1
    assert all(share >= 1 / number for share, number in zip(shares, (1, 2, 4, 8), strict=True))
    blockwise = costs.work_of(Recipe.parse(document | {"method": "omniquant"}), checkpoint)
    assert speedup(blockwise.method, blockwise.task, checkpoint.layers, 4) == 1
    counted = {number: costs.stages(replace(work, span=number))["solving"] for number in (1, 4)}
    assert counted[4].solves < counted[1].solves
    assert counted[4].moved > 0 == counted[1].moved
    assert costs.stages(replace(blockwise, span=4)) == costs.stages(blockwise)


@pytest.mark.thorough
def test_a_run_that_spans_processes_has_the_study_of_one_that_does_not(small, fresh_settings, tmp_path):
    values = {"bits": 3, "method": "sarqc-gbs", "lambda": "auto", "gamma": "auto", "test_tokens": 500}
    document = small | values | {"held_out_samples": 2}
    studies, plans = [], []
    for span in (1, 2):
        settings = fresh_settings.model_copy(update={"state_dir": tmp_path / str(span), "span": span})
        plans.append(plan(Recipe.parse(document), settings))
        run(document, settings, study_dir=tmp_path / f"studies-{span}", study_id="one")
        studies.append(tmp_path / f"studies-{span}" / "one")
    assert plans[1].memory_bytes > plans[0].memory_bytes
    mine, theirs = (Study.open(folder) for folder in studies)
    assert mine.layer_reports == theirs.layer_reports
    tensors = [(folder / "study.safetensors").read_bytes() for folder in studies]
    assert tensors[0] == tensors[1]
