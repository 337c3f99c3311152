"""Whose rates a plan's minutes are, and what is counted."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from sarqc.engine import costs
from sarqc.engine.gpus import Gpu
from sarqc.engine.rates import GpuSpeed, keep, published_rates, rates_of_device
from sarqc.quantization.counts import TWO_CORES, Count, Rates
from sarqc.recipe import Recipe
from sarqc.settings import Settings
from tests.benchmarks.known_models import known_checkpoint


@pytest.fixture
def with_gpu(monkeypatch: pytest.MonkeyPatch, fresh_settings: Settings):
    def settings(name: str) -> Settings:
        for module in ("costs", "gpus"):
            monkeypatch.setattr(f"sarqc.engine.{module}.visible_gpus", lambda: [Gpu("GPU-aa", name, 1 << 34, 1 << 35)])
        return fresh_settings.model_copy(update={"device": "cuda"})

    return settings


def test_a_processor_has_those_of_two_cores(fresh_settings: Settings) -> None:
    assert rates_of_device(fresh_settings.model_copy(update={"device": "cpu"})) == (TWO_CORES, "two CPU cores")


def test_a_gpu_has_its_published_ones_until_they_are_measured(with_gpu) -> None:
    settings = with_gpu("NVIDIA H100 80GB HBM3")
    rates, words = rates_of_device(settings)
    assert rates == published_rates("NVIDIA H100 80GB HBM3")
    assert words == "NVIDIA H100 80GB HBM3, by its published rates"
    speed = GpuSpeed(half=7e14, single=5e13, memory=2.6e12, started=9e4)
    keep(settings, "GPU-aa", speed)
    assert rates_of_device(settings) == (speed.rates(), "this NVIDIA H100 80GB HBM3, by what the doctor measured")
    for file in (settings.resolved_state_dir() / "rates").iterdir():
        file.write_text("{")
    assert rates_of_device(settings)[0] == rates


def test_of_an_unknown_gpu_nothing_is_said(with_gpu) -> None:
    assert rates_of_device(with_gpu("Voodoo 2")) == (TWO_CORES, "two CPU cores")


def test_the_same_name_of_another_bus_is_another_gpu() -> None:
    fast, slow = published_rates("NVIDIA H100 80GB HBM3"), published_rates("NVIDIA H100 PCIe")
    assert fast is not None
    assert slow is not None
    assert slow.products < fast.products


def test_seconds_are_the_sum_of_all_parts() -> None:
    rates = Rates(
        products=1.2e11, losses=1.2e11, solves=2e10, rounded=1e8, clipped=1.5e8, started=1e3, read=5e9, loaded=5e9
    )
    count = Count(
        products=2.4e11, losses=1.2e11, solves=2e10, rounded=1e8, clipped=3e8, started=500, read=5e9, loaded=1e10
    )
    assert rates.seconds(count) == pytest.approx(2 + 1 + 1 + 1 + 2 + 0.5 + 1 + 2)
    assert replace(rates, started=math.inf).seconds(Count(started=1e12)) == 0
    assert (count + count.times(2)) == count.times(3)


def work(model: str, **changes: object) -> costs.Work:
    document = {"model": model, "bits": 3, "method": "sarqc-gbs", "lambda": 0.3, "gamma": 0.5, "calibration": "text"}
    checkpoint = known_checkpoint(model)
    return costs.work_of(Recipe.parse(document | {"samples": 128, "length": 2048} | changes), checkpoint)


def test_a_dense_model_is_counted_by_hand() -> None:
    stages = costs.stages(work("llama2-7b"))
    tokens, width, inner, blocks = 128 * 2048, 4096, 11008, 32
    weights = blocks * (4 * width**2 + 3 * width * inner)
    assert stages["reading the weights"].loaded == 2 * 6_738_415_616
    grams = blocks * (6 * width**2 + inner**2)
    assert stages["passing the calibration text"].products == pytest.approx(tokens * (2 * 2 * weights + grams))
    solved = (6 * width**3 + inner**3) / 3 + 3 * (4 * width**3 + 2 * inner * width**2 + width * inner**2)
    assert stages["solving"].solves == pytest.approx(blocks * solved)
    assert {*stages} == {"reading the weights", "passing the calibration text", "solving"}


def test_a_model_in_float32_has_its_products_in_float32() -> None:
    half = work("llama2-7b")
    wide = replace(half, checkpoint=replace(half.checkpoint, dtypes=dict.fromkeys(half.checkpoint.dtypes, "F32")))
    for name, count in costs.stages(half).items():
        in_float32 = costs.stages(wide)[name]
        assert in_float32.products == 0
        assert in_float32.losses == count.losses + count.products


def test_a_token_passes_through_its_experts_alone() -> None:
    counted = work("qwen3-30b-a3b")
    attention, expert = 2048 * (2 * 4096 + 2 * 512), 3 * 2048 * 768
    assert counted.active_weights() == pytest.approx(48 * (attention + 8 * expert))
    assert counted.task.weights() == 48 * (attention + 128 * expert)
    assert counted.active_parameters() / 1e9 == pytest.approx(3.3, abs=0.1)  # “A3B”


def test_published_rates_are_near_to_what_an_h100_took() -> None:
    found = json.loads((Path(__file__).resolve().parents[2] / "docs" / "gpus.json").read_text(encoding="utf-8"))
    rates = published_rates(found["host"]["gpu"])
    assert rates is not None

    def taken(table: str, row: str, column: str) -> float:
        return next(float(one[column]) for one in found["tables"][table] if one[""] == row)

    for model, changes, measured in (
        ("llama2-7b", {}, taken("whole", "quantizing", "seconds")),
        (
            "llama2-7b", {"lambda": "auto", "gamma": "auto"},
            32 * taken("methods", "sarqc-gbs, 12 candidates", "seconds a block"),
        ),
        ("qwen3-30b-a3b", {}, 48 * taken("ways", "qwen3-30b-a3b, sarqc-gbs", "seconds a block")),
    ):  # fmt: skip
        stages = costs.stages(work(model, **changes))
        planned = sum(rates.seconds(stages[name]) for name in ("passing the calibration text", "solving"))
        assert abs(math.log(planned / measured)) < math.log(1.3)


def test_texts_are_made_at_the_rate_of_a_gpus_own_memory() -> None:
    rates = published_rates("H100")
    assert rates is not None
    counted = work("llama2-7b", prompts=["a", "b"], new_tokens=48)
    once = 4 * counted.checkpoint.parameters / (0.75 * 3.35e12)  # all parameters, for a token
    assert rates.seconds(costs.stages(counted)["texts"]) == pytest.approx(4 * 2 * 48 * once, rel=0.05)
