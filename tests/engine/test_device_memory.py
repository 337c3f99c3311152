"""A run and its device's memory: tried out before the work, and one error wherever it does not suffice."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from sarqc.engine import comparison, device_memory
from sarqc.engine.device_memory import rehearse_on_any_device
from sarqc.engine.execute import execute
from sarqc.engine.stages import float_model
from sarqc.errors import NumericalError, OutOfMemory
from sarqc.events import DryRun, LayerDone, Measured, Stage, Warned, from_json
from sarqc.quantization import column_solver, round_to_nearest
from sarqc.recipe import Recipe
from tests.engine.running import of_type, run

NO_ROOM = "CUDA out of memory. Tried to allocate 20.50 GiB. GPU 0 has a total capacity of 79.10 GiB."


@pytest.fixture
def document(small):
    return small | {"bits": 3, "method": "sarqc-gbs", "lambda": 0.3, "test_tokens": 1000, "baseline": False}


@pytest.fixture
def on_any_device(monkeypatch):
    for module in (float_model, comparison):
        monkeypatch.setattr(module, "rehearse", rehearse_on_any_device)


def no_room(*_given, **_named):
    raise torch.OutOfMemoryError(NO_ROOM)


@pytest.fixture
def without_room(monkeypatch):
    """No linear can be solved in columns."""
    monkeypatch.setattr(column_solver, "_solve_together", no_room)


@pytest.mark.thorough
@pytest.mark.usefixtures("on_any_device")
def test_it_is_told_before_anything_is_measured(document, fresh_settings):
    events = run(document, fresh_settings)
    [dry] = of_type(events, DryRun)
    assert (dry.block, dry.layer) == ("model.layers.0", "model.layers.0.mlp.gate_proj")
    assert (dry.peak_bytes, dry.device_bytes) == (None, None)  # of a CPU they are not known
    assert from_json(dry.to_json()) == dry
    first = min(events.index(event) for kind in (Measured, LayerDone) for event in of_type(events, kind))
    assert events.index(dry) < first
    assert not [event for event in of_type(events, Warned) if event.where != "plan"]
    # Where all layers are on disk there is nothing to try.
    assert not of_type(run(document, fresh_settings), DryRun)


def test_a_processor_is_not_asked(document, fresh_settings):
    assert not of_type(run(document, fresh_settings), DryRun)


@pytest.mark.thorough
@pytest.mark.usefixtures("on_any_device")
def test_the_result_of_the_run_is_the_same(document, fresh_settings, tmp_path, monkeypatch):
    other = fresh_settings.model_copy(update={"state_dir": tmp_path / "other"})
    tried = of_type(run(document, fresh_settings), LayerDone)
    monkeypatch.setattr(float_model, "rehearse", lambda *_: iter(()))
    plain = of_type(run(document, other), LayerDone)
    assert [event.report for event in tried] == [event.report for event in plain]


@pytest.mark.usefixtures("on_any_device", "without_room")
def test_little_memory_is_an_error_in_the_first_seconds(document, fresh_settings):
    events = []
    with pytest.raises(OutOfMemory) as caught:
        events.extend(execute(Recipe.parse(document), fresh_settings))
    assert of_type(events, Stage)
    assert caught.value.what == "the device has too little memory, 20.50 GiB more did not fit"
    assert caught.value.where == "device cpu, trying the largest layer"
    assert not of_type(events, Measured)
    assert not of_type(events, LayerDone)
    assert isinstance(caught.value.__cause__, torch.OutOfMemoryError)


@pytest.mark.usefixtures("without_room")
def test_the_same_error_ends_a_run_later(document, fresh_settings):
    with pytest.raises(OutOfMemory) as caught:
        run(document, fresh_settings)
    error = caught.value
    assert error.where == "device cpu, quantizing"
    # Of 6 × 32 tokens with 32 numbers of 4 bytes two copies are held.
    assert f"6 of 32 tokens take {2 * 6 * 32 * 32 * 4 / 2**30:.3g} GiB" in error.remedy
    assert "SARQC_SWEEP_GIB=0.5: candidates solved at once take up to 1 GiB" in error.remedy
    assert "SARQC_DEVICE=cpu" not in error.remedy  # it is the CPU
    # Embedding and last norm, and one block of three: 4096 × 32 + 32 and 4 · 32² ... as the model's own parameters.
    tensors = load_file(Path(document["model"]) / "model.safetensors")
    parameters = {name: tensor.numel() for name, tensor in tensors.items()}
    whole, block = sum(parameters.values()), sum(n for name, n in parameters.items() if ".layers.0." in name)
    resident = 4 * whole / 2**30
    streamed = 4 * (whole - 2 * block) / 2**30
    assert f"the weights take {streamed:.3g} GiB instead of {resident:.3g} GiB" in error.remedy


@pytest.mark.thorough
@pytest.mark.usefixtures("on_any_device")
def test_a_batch_made_smaller_is_a_warning(document, fresh_settings, monkeypatch):
    together = column_solver._solve_together

    def small(points, recorder):
        return together(points, recorder) if len(points) == 1 else no_room()

    monkeypatch.setattr(column_solver, "_solve_together", small)
    events = run(document | {"sweep": [0, 1]}, fresh_settings)
    warned = [event.where for event in of_type(events, Warned) if event.what == device_memory.LITTLE_MEMORY_WORDS]
    assert warned[0] == "model.layers.0.mlp.gate_proj"
    before = events[: events.index(of_type(events, DryRun)[0])]
    assert [event.where for event in of_type(before, Warned) if event.where != "plan"] == warned[:1]


@pytest.mark.usefixtures("on_any_device", "without_room")
def test_the_baseline_is_tried_where_it_takes_more(document, fresh_settings, monkeypatch):
    """Rounding to nearest solves nothing, and GPTQ beside it does."""
    document |= {"method": "rtn", "lambda": None}
    with pytest.raises(OutOfMemory, match="trying the largest layer"):
        run(document | {"baseline": True}, fresh_settings)
    monkeypatch.setattr(round_to_nearest, "solve", no_room)
    with pytest.raises(OutOfMemory, match="trying the largest layer"):
        run(document, fresh_settings)


@pytest.mark.usefixtures("on_any_device")
def test_what_random_numbers_break_is_a_warning(document, fresh_settings, monkeypatch):
    def broken(*_given, **_named):
        raise NumericalError("gram is not finite", "layer statistics", "Look.")

    monkeypatch.setattr(device_memory, "dry_run", broken)
    events = run(document, fresh_settings)
    assert any("the trial of the largest layer ended early" in event.what for event in of_type(events, Warned))
    assert not of_type(events, DryRun)
    assert of_type(events, LayerDone)


@pytest.mark.usefixtures("on_any_device")
def test_tuning_tries_all_its_points(document, fresh_settings, monkeypatch):
    sizes, together = [], column_solver._solve_together

    def counted(points, recorder):
        sizes.append(len(points))
        return together(points, recorder)

    monkeypatch.setattr(column_solver, "_solve_together", counted)
    document |= {"kind": "tune", "lambda": None, "sweep": [0.1, 0.3], "gamma": 0.5, "held_out_samples": 2, "draws": 2}
    for event in execute(Recipe.parse(document), fresh_settings):
        if isinstance(event, DryRun):
            break
        assert not (isinstance(event, Stage) and event.name == "comparing layers")
    assert sizes == [2]
