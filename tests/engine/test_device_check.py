"""Findings on a device that computes wrongly."""

from dataclasses import replace

import pytest
import torch

from sarqc.engine import device_check
from sarqc.engine.gpus import Gpu
from sarqc.engine.plan import prepare
from sarqc.errors import SarqcError
from sarqc.events import Stage
from sarqc.models.loading import load
from sarqc.quantization.methods import METHODS
from sarqc.recipe import Recipe


@pytest.fixture(autouse=True)
def short(monkeypatch):
    """The same trials on few tokens."""
    few = device_check.RECIPE | {"samples": 2, "length": 64, "steps": 2}
    monkeypatch.setattr(device_check, "RECIPE", few)


@pytest.mark.thorough
def test_every_method_is_compared_and_equals_itself(fresh_settings):
    findings = list(device_check.compare_with_cpu(fresh_settings, torch.device("cpu"), METHODS))
    assert [finding.words.partition(":")[0] for finding in findings] == list(METHODS)
    for finding in findings:
        assert finding.is_sound
        assert "100.000% of the codes" in finding.words
        assert "within 0.00%" in finding.words


@pytest.fixture(scope="module")
def layers(settings):
    prepared = prepare(Recipe.parse(device_check.RECIPE | {"method": "rtn"}), settings)
    job = device_check.calibration_job(prepared.recipe, prepared.checkpoint, prepared.sequences, prepared.per_channel)
    loaded = load(prepared.checkpoint, torch.device("cpu"))
    return device_check._solve(loaded, job, device_check._data(loaded, prepared))


def test_a_device_that_rounds_otherwise_is_seen(layers):
    first = layers[0]
    codes = first.quantized.codes.clone()
    codes[: len(codes) // 2] += 1
    wrong_codes = replace(first, quantized=replace(first.quantized, codes=codes))
    report = replace(first.quantized.report, recon_loss=first.quantized.report.recon_loss * 1.05)
    wrong_loss = replace(first, quantized=replace(first.quantized, report=report))
    assert device_check.compare_layers("rtn", layers, layers).is_sound
    assert not device_check.compare_layers("rtn", layers, [wrong_codes, *layers[1:]]).is_sound
    assert not device_check.compare_layers("rtn", layers, [wrong_loss, *layers[1:]]).is_sound
    assert device_check.compare_layers("signround", layers, [wrong_loss, *layers[1:]]).is_sound  # other precision


@pytest.mark.thorough
def test_a_solver_that_fails_on_the_device_is_a_finding(fresh_settings, monkeypatch):
    solve, calls = device_check.solve_block, []

    def failing(*arguments):
        calls.append(arguments)
        if len(calls) == 4:  # of the second method, on the device
            raise RuntimeError("CUDA error: no kernel image is available")
        return solve(*arguments)

    monkeypatch.setattr(device_check, "solve_block", failing)
    findings = list(device_check.compare_with_cpu(fresh_settings, torch.device("cpu"), list(METHODS)[:3]))
    assert [finding.is_sound for finding in findings] == [True, False, True]
    assert findings[1].words == "awq: RuntimeError: CUDA error: no kernel image is available"


@pytest.mark.thorough
def test_a_gpu_is_compared_once_for_each_driver_and_refused_where_it_differs(fresh_settings, monkeypatch):
    here, looked, driver = torch.device("cpu"), [], "570.1"
    monkeypatch.setattr(device_check, "gpu_of", lambda _: Gpu("GPU-aa", "card", 1 << 34, 1 << 35, driver))
    solve = device_check.solve_block

    def seen(loaded, *arguments):
        looked.append(loaded)
        steps = list(solve(loaded, *arguments))
        if driver == "570.2" and len(looked) % 2 == 0:  # the device's turn
            steps = [replace(step, quantized=replace(step.quantized, codes=step.quantized.codes + 1)) for step in steps]
        return iter(steps)

    monkeypatch.setattr(device_check, "solve_block", seen)
    (stage,) = device_check.require_sound_device(here, fresh_settings)
    assert isinstance(stage, Stage)
    assert len(looked) == 6  # three methods on both
    assert list(device_check.require_sound_device(here, fresh_settings)) == []
    driver = "570.2"
    for times in (1, 2):  # looked at again: the reason may pass
        with pytest.raises(SarqcError, match=r"rtn: 0\.000% of the codes") as refused:
            list(device_check.require_sound_device(here, fresh_settings))
        assert len(looked) == 6 + 6 * times
    assert "sarqc doctor" in refused.value.remedy
    unchecked = fresh_settings.model_copy(update={"check_device": False})
    assert list(device_check.require_sound_device(here, unchecked)) == []
    (file,) = fresh_settings.artefacts_dir().glob("*/*.device")  # of the driver that was sound
    file.write_text("damaged")
    driver = "570.1"
    assert len(list(device_check.require_sound_device(here, fresh_settings))) == 1
    assert len(looked) == 24


@pytest.mark.thorough
def test_a_comparison_needs_no_room_of_a_run(fresh_settings):
    narrow = fresh_settings.model_copy(update={"memory_gib": 0.01})
    assert len(list(device_check.require_sound_device(torch.device("cpu"), narrow))) == 1
