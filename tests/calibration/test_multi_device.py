"""Linears solved in several processes have the bits of those solved in one, and no process stays behind."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch

from sarqc import method
from sarqc.calibration.job import Curves, SolvedLayer
from sarqc.calibration.multi_device import MultiDevice
from sarqc.calibration.pictures import CURVE_ARRAYS
from sarqc.calibration.pipeline import calibrate
from sarqc.engine.keys import describe, layer_keys
from sarqc.errors import NumericalError, WorkerLost
from sarqc.events import PointDone
from sarqc.files.artefacts import ArtefactStore
from tests.calibration.test_pipeline import a_plan, fresh, solved_by
from tests.models.cases import make_checkpoint
from tests.quantizing import same_tensors

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def two() -> MultiDevice:
    with MultiDevice([CPU, CPU], 1 << 30) as spread:
        yield spread


@pytest.fixture(scope="module")
def mixture(tiny_llama: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_checkpoint("qwen3_moe, one block dense", tmp_path_factory.mktemp("moe") / "model", tiny_llama)


def assert_same_bits(mine: SolvedLayer, theirs: SolvedLayer) -> None:
    assert mine.quantized.report == theirs.quantized.report
    same_tensors(mine.quantized, theirs.quantized)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["rtn", "sarqc-gs", "sarqc-gbs", "gptaq"])
def test_processes_solve_a_mixture_to_the_same_bits(mixture, two, name):
    models, found = [], []
    for spread in (None, two):
        loaded = fresh(mixture)
        plan = replace(a_plan(loaded), method=method(name), curves=Curves((0.1, 1.0) if "sarqc" in name else ()))
        found.append(solved_by(loaded, plan, spread=spread))
        models.append(loaded.model.state_dict())
    alone, spread_out = found
    assert [one.info for one in alone] == [one.info for one in spread_out]
    for mine, theirs in zip(alone, spread_out, strict=True):
        assert_same_bits(mine, theirs)
        for array in CURVE_ARRAYS:
            np.testing.assert_array_equal(getattr(mine.curve, array), getattr(theirs.curve, array))
    assert all(torch.equal(models[0][tensor], models[1][tensor]) for tensor in models[0])


@pytest.mark.thorough
def test_each_layer_may_choose_for_itself_in_any_process(mixture, two):
    candidates = tuple(method("sarqc-gbs", lam=lam, gamma=gamma) for lam in (0.01, 0.5) for gamma in (0.1, 0.5))
    found = []
    for spread in (None, two):
        loaded = fresh(mixture)
        plan = replace(a_plan(loaded), candidates=candidates, validation_samples=2, channel_fraction=0.5)
        found.append(solved_by(loaded, plan, spread=spread))
    assert len({tuple(one.quantized.report.chosen.items()) for one in found[0]}) > 1
    for mine, theirs in zip(*found, strict=True):
        assert_same_bits(mine, theirs)


@pytest.mark.thorough
def test_a_run_goes_on_in_processes_from_what_one_kept(mixture, two, tmp_path):
    loaded = fresh(mixture)
    whole = solved_by(loaded, a_plan(loaded), spread=None)
    loaded = fresh(mixture)
    plan = a_plan(loaded)
    steps = calibrate(loaded, plan, ArtefactStore(tmp_path), layer_keys(describe(loaded), plan))
    for _ in range(5):
        next(steps)
    steps.close()
    loaded = fresh(mixture)
    rest = solved_by(loaded, plan, tmp_path, two)
    assert any(step.from_cache for step in rest)
    assert not all(step.from_cache for step in rest)
    for mine, theirs in zip(whole, rest, strict=True):
        assert_same_bits(mine, theirs)


def test_points_are_told_before_their_layer(random_llama, two):
    loaded = fresh(random_llama)
    plan = replace(a_plan(loaded), curves=Curves((0.1, 1.0), yields_points=True))
    told = list(calibrate(loaded, plan, None, layer_keys(describe(loaded), plan), spread=two))
    assert told[:3] == [step for step in told[:3] if isinstance(step, PointDone)]
    assert told[3].info.name == told[0].name


def test_a_weight_that_is_not_finite_is_named_as_in_one_process(random_llama, two):
    words = []
    for spread in (None, two):
        loaded = fresh(random_llama)
        plan = a_plan(loaded)
        name = loaded.checkpoint.layers[2].name
        loaded.weight(name).data[0, 0] = float("inf")
        with pytest.raises(NumericalError) as caught:
            solved_by(loaded, plan, spread=spread)
        words.append(str(caught.value))
    assert words[0] == words[1]
    assert name in words[0]


@pytest.mark.thorough
def test_a_process_that_is_killed_ends_the_run_with_words(random_llama):
    loaded = fresh(random_llama)
    plan = a_plan(loaded)
    before = set(psutil.Process().children())
    with MultiDevice([CPU, CPU], 1 << 30) as spread:
        steps = calibrate(loaded, plan, None, layer_keys(describe(loaded), plan), spread=spread)
        next(steps)
        for process in set(psutil.Process().children()) - before:
            if "spawn_main" in " ".join(process.cmdline()):
                os.kill(process.pid, signal.SIGKILL)
        with pytest.raises(WorkerLost, match="has ended"):
            list(steps)
    _, alive = psutil.wait_procs(
        [p for p in set(psutil.Process().children()) - before if "spawn_main" in " ".join(p.cmdline())], timeout=60
    )
    assert not alive


@pytest.mark.thorough
def test_no_process_outlives_its_parent():
    program = (
        "import torch, time; from sarqc.calibration.multi_device import MultiDevice\n"
        "with MultiDevice([torch.device('cpu')], 1 << 30) as spread:\n"
        "    spread._solvers.submit(int).result(); print(*spread._solvers._processes, flush=True); time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        child = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
    assert not psutil.wait_procs([child], timeout=60)[1]
