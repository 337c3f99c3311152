"""What a recorder does with functions that come again. Graphs themselves need a GPU: there a test compares bits."""

from collections.abc import Hashable, Mapping

import pytest
import torch

from sarqc import Grid, LayerStatistics
from sarqc.quantization.column_solver import factorise, solve_columns
from sarqc.quantization.methods import ColumnSolver, ScaleSearch
from sarqc.quantization.quantized_layer import CheckedLayer
from sarqc.quantization.recorded import Function, Recorder, Replay, Results, Tensors
from sarqc.quantization.solve import only_solved, quantize
from sarqc.quantization.solving import NOT_RECORDED, Context, LayerJob


def doubled(x: torch.Tensor, *, times: int = 2) -> Results:
    return (times * x,)


class Tape:
    """Stands in for graphs: knows what was recorded, and replays it, ``off`` by so much."""

    def __init__(self, off: float = 0.0, room: bool = True) -> None:
        self.recorded: list[tuple[int, ...]] = []
        self.replayed, self._off, self._room = 0, off, room

    def __call__(self, function: Function, tensors: Tensors, settings: Mapping[str, Hashable]) -> Replay:
        if not self._room:
            raise torch.OutOfMemoryError
        self.recorded.append(tuple(tensors["x"].shape) if "x" in tensors else ())

        def replay(given: Tensors) -> Results:
            self.replayed += 1
            return tuple(result + self._off for result in function(**given, **settings))

        return replay


def test_the_second_time_is_recorded_and_the_third_replayed():
    tape = Tape()
    recorder = Recorder(1 << 20, tape)
    for number, counts in enumerate([(0, 0), (1, 1), (1, 2), (1, 3)]):
        (result,) = recorder(doubled, {"x": torch.full((3,), number)})
        assert torch.equal(result, torch.full((3,), 2 * number))
        assert (len(tape.recorded), tape.replayed) == counts


def test_shapes_dtypes_and_settings_have_recordings_of_their_own():
    tape = Tape()
    recorder = Recorder(1 << 20, tape)
    for _ in range(3):
        recorder(doubled, {"x": torch.ones(3)})
        recorder(doubled, {"x": torch.ones(4)})
        recorder(doubled, {"x": torch.ones(3, dtype=torch.float64)})
        (result,) = recorder(doubled, {"x": torch.ones(3)}, times=5)
        assert result.tolist() == [5, 5, 5]
    assert tape.recorded == [(3,), (4,), (3,), (3,)]
    assert tape.replayed == 8


def test_recordings_stay_within_their_room():
    tape = Tape()
    recorder = Recorder(100, tape)
    for _ in range(3):
        recorder(doubled, {"x": torch.ones(16)})  # 64 bytes
        recorder(doubled, {"x": torch.ones(17)})
        recorder(doubled, {"x": torch.ones(8)})
    assert tape.recorded == [(16,), (8,)]


def test_what_differs_is_left_and_said():
    tape = Tape(off=1.0)
    recorder = Recorder(1 << 20, tape)
    results = [recorder(doubled, {"x": torch.ones(2)})[0].tolist() for _ in range(4)]
    assert results == [[2, 2]] * 4
    assert (len(tape.recorded), tape.replayed, recorder.failed) == (1, 1, True)


def test_without_memory_it_goes_on_without_a_recording():
    recorder = Recorder(1 << 20, Tape(room=False))
    assert [recorder(doubled, {"x": torch.ones(2)})[0].tolist() for _ in range(4)] == [[2, 2]] * 4
    assert not recorder.failed


def test_a_processor_records_nothing():
    assert Context.on(torch.device("cpu"), 1 << 30).recorder is None


@pytest.mark.parametrize("off", [0.0, 1.0])
def test_the_solver_says_what_differed_and_has_the_bits_of_none(off):
    random = torch.Generator().manual_seed(0)
    weight = torch.randn(24, 32, generator=random)
    statistics = LayerStatistics.from_inputs(torch.randn(64, 32, generator=random))
    job = LayerJob(
        CheckedLayer(weight, statistics, Grid(3, 8, "asymmetric"), None), [ColumnSolver(lam=0.1, order="activation")]
    )
    (plain,) = only_solved(quantize([job], Context()))
    tape = Tape(off)
    context = Context(recorder=Recorder(1 << 20, tape))
    flags = []
    for _ in range(3):
        (solved,) = only_solved(quantize([job], context))
        assert torch.equal(solved.layer.codes, plain.layer.codes)
        assert torch.equal(solved.layer.dequantized, plain.layer.dequantized)
        flags.append(NOT_RECORDED in solved.layer.report.flags)
    assert flags == ([False, True, True] if off else [False] * 3)
    assert tape.replayed == (1 if off else 2)


@pytest.mark.parametrize("off", [0.0, 1.0])
def test_searches_of_experts_are_recorded_and_have_the_same_bits(off):
    random = torch.Generator().manual_seed(0)
    statistics = [LayerStatistics.from_inputs(torch.randn(64, 32, generator=random)) for _ in range(4)]
    layers = [
        CheckedLayer(torch.randn(24, 32, generator=random).half(), one, Grid(3, 8, "asymmetric"), None)
        for one in statistics
    ]
    for method in (ScaleSearch(lam=0.3), ScaleSearch(lam=0.3, saliency="identity", include_identity=False)):
        jobs = [LayerJob(layer, [method]) for layer in layers]
        plain = list(only_solved(quantize(jobs, Context())))
        tape = Tape(off)
        found = list(only_solved(quantize(jobs, Context(recorder=Recorder(1 << 20, tape)))))
        for one, other in zip(found, plain, strict=True):
            assert torch.equal(one.layer.codes, other.layer.codes)
            assert one.layer.report.chosen == other.layer.report.chosen
        assert [NOT_RECORDED in one.layer.report.flags for one in found] == [False, *[off > 0] * 3]
        assert tape.replayed == (1 if off else 3)
        tape = Tape()
        list(only_solved(quantize(jobs[:1], Context(recorder=Recorder(1 << 20, tape)))))
        assert tape.replayed == 0  # a linear by itself


@pytest.mark.skipif(not torch.cuda.is_available(), reason="graphs are CUDA's")
@pytest.mark.parametrize("source", ["minmax", "search"])
@pytest.mark.parametrize("count", [1, 5])
def test_graphs_have_the_bits_of_the_columns(count, source):
    device = torch.device("cuda")
    recorder = Recorder.on(device, 1 << 30)
    random = torch.Generator().manual_seed(0)
    for number in range(4):
        inputs = torch.randn(count, 512, 256, generator=random).to(device)
        grams = inputs.mT @ inputs
        tensors = {
            "weight": torch.randn(count, 192, 256, generator=random).to(device),
            "factors": torch.stack([factorise(gram).unit_upper for gram in grams]),
            "importance": grams.diagonal(dim1=-2, dim2=-1).contiguous(),
        }
        settings = {"grid": Grid(3, 64, "asymmetric"), "storage": torch.float16, "block_size": 64, "source": source}
        expected = solve_columns(**tensors, **settings)
        solved = recorder(solve_columns, tensors, **settings)
        assert all(map(torch.equal, solved, expected)), number
    assert not recorder.failed
