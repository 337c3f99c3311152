"""Whose rates a plan's minutes are, and what is counted."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.known_models import known_checkpoint
from sarqc.engine import costs
from sarqc.engine.execute import execute
from sarqc.engine.gpus import Gpu
from sarqc.engine.plan import prepare
from sarqc.engine.throughput import GpuSpeed, keep, keep_pace, pace_of, published_rates, rates_of_device
from sarqc.evaluation import TEXTS
from sarqc.events import Stage, Started
from sarqc.quantization.counts import TWO_CORES, Count, Throughput
from sarqc.recipe import Recipe
from tests.engine.running import run


@pytest.fixture
def with_gpu(monkeypatch, fresh_settings):
    def settings(name):
        for module in ("costs", "gpus"):
            monkeypatch.setattr(f"sarqc.engine.{module}.visible_gpus", lambda: [Gpu("GPU-aa", name, 1 << 34, 1 << 35)])
        return fresh_settings.model_copy(update={"device": "cuda"})

    return settings


def test_a_processor_has_those_of_two_cores(fresh_settings):
    assert rates_of_device(fresh_settings.model_copy(update={"device": "cpu"})) == (TWO_CORES, "two CPU cores")


def test_a_gpu_has_its_published_ones_until_they_are_measured(with_gpu):
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


def test_of_an_unknown_gpu_nothing_is_said(with_gpu):
    assert rates_of_device(with_gpu("Voodoo 2")) == (TWO_CORES, "two CPU cores")


def test_the_same_name_of_another_bus_is_another_gpu():
    fast, slow = published_rates("NVIDIA H100 80GB HBM3"), published_rates("NVIDIA H100 PCIe")
    assert slow.products < fast.products


def test_seconds_are_the_sum_of_all_parts():
    rates = Throughput(
        products=1.2e11, losses=1.2e11, solves=2e10, rounded=1e8, clipped=1.5e8, started=1e3, read=5e9, loaded=5e9
    )
    count = Count(
        products=2.4e11, losses=1.2e11, solves=2e10, rounded=1e8, clipped=3e8, started=500, read=5e9, loaded=1e10
    )
    assert rates.seconds(count) == pytest.approx(2 + 1 + 1 + 1 + 2 + 0.5 + 1 + 2)
    assert replace(rates, started=math.inf).seconds(Count(started=1e12)) == 0
    assert (count + count.times(2)) == count.times(3)


def work(model: str, **changes) -> costs.Work:
    document = {"model": model, "bits": 3, "method": "sarqc-gbs", "lambda": 0.3, "gamma": 0.5, "calibration": "text"}
    checkpoint = known_checkpoint(model)
    return costs.work_of(Recipe.parse(document | {"samples": 128, "length": 2048} | changes), checkpoint)


def test_a_dense_model_is_counted_by_hand():
    stages = costs.stages(work("llama2-7b"))
    tokens, width, inner, blocks = 128 * 2048, 4096, 11008, 32
    weights = blocks * (4 * width**2 + 3 * width * inner)
    assert stages["loading", ""].loaded == 2 * 6_738_415_616
    grams = blocks * (6 * width**2 + inner**2)
    quantizing = stages["quantizing", ""]
    assert quantizing.products == pytest.approx(tokens * (2 * 2 * weights + grams))
    solved = (6 * width**3 + inner**3) / 3 + 3 * (4 * width**3 + 2 * inner * width**2 + width * inner**2)
    assert quantizing.solves == pytest.approx(blocks * solved)
    assert [*stages] == [("loading", ""), ("quantizing", "")]


def test_a_model_in_float32_has_its_products_in_float32():
    half = work("llama2-7b")
    wide = replace(half, checkpoint=replace(half.checkpoint, dtypes=dict.fromkeys(half.checkpoint.dtypes, "F32")))
    for name, count in costs.stages(half).items():
        in_float32 = costs.stages(wide)[name]
        assert in_float32.products == 0
        assert in_float32.losses == count.losses + count.products


@pytest.mark.thorough
def test_a_token_passes_through_its_experts_alone():
    counted = work("qwen3-30b-a3b")
    attention, expert = 2048 * (2 * 4096 + 2 * 512), 3 * 2048 * 768
    assert counted.active_weights() == pytest.approx(48 * (attention + 8 * expert))
    assert counted.task.weights() == 48 * (attention + 128 * expert)
    assert counted.active_parameters() / 1e9 == pytest.approx(3.3, abs=0.1)  # “A3B”


def test_one_bad_day_is_not_the_pace_of_a_host(fresh_settings):
    phases = [{"stage": "quantizing", "detail": "", "seconds": 26.0}]

    def after(*seconds):
        for one in seconds:
            keep_pace(fresh_settings, "a", phases, {("quantizing", ""): one})
        return pace_of(fresh_settings, "a").factor

    assert after(153.0) < 2.5  # a host at seven times its load
    assert after(27.0) == pytest.approx(27 / 26)
    assert after(153.0, 180.0, 160.0) == pytest.approx(27 / 26)
    assert after(153.0, 180.0) == pytest.approx(153 / 26)  # five in a row: the host is like that


def test_published_rates_are_near_to_what_an_h100_took():
    found = json.loads((Path(__file__).resolve().parents[2] / "docs" / "gpus.json").read_text())
    rates = published_rates(found["host"]["gpu"])

    def taken(table, row, column):
        return next(float(one[column]) for one in found["tables"][table] if one[""] == row)

    for model, changes, measured in (
        ("llama2-7b", {}, taken("whole", "quantizing", "seconds")),
        (
            "llama2-7b", {"lambda": "auto", "gamma": "auto"},
            32 * taken("methods", "sarqc-gbs, 12 candidates", "seconds a block"),
        ),
        ("qwen3-30b-a3b", {}, 48 * taken("ways", "qwen3-30b-a3b, sarqc-gbs", "seconds a block")),
    ):  # fmt: skip
        planned = rates.seconds(costs.stages(work(model, **changes))["quantizing", ""])
        assert abs(math.log(planned / measured)) < math.log(1.3)


def test_texts_are_made_at_the_rate_of_a_gpus_own_memory():
    rates = published_rates("H100")
    counted = work("llama2-7b", prompts=["a", "b"], new_tokens=48)
    once = 4 * counted.checkpoint.parameters / (0.75 * 3.35e12)  # all parameters, for a token
    texts = [count for (_, detail), count in costs.stages(counted).items() if detail == TEXTS]
    assert sum(map(rates.seconds, texts)) == pytest.approx(4 * 2 * 48 * once, rel=0.05)


@pytest.mark.thorough
def test_phases_of_a_run_are_its_stages_and_sum_up_to_the_plan(fresh_settings):
    recipe = Recipe.parse(
        {
            "model": "tiny-llama", "bits": 2, "method": "sarqc-gbs", "samples": 2, "length": 32, "window": 64,
            "calibration": "tiny-llama-calibration", "test": "tiny-llama-test", "test_tokens": 640,
            "tasks": ["tiny-llama-continuations"], "task_limit": 4, "prompts": ["Once"], "new_tokens": 4,
        }
    )  # fmt: skip
    prepared = prepare(recipe, fresh_settings)
    assert prepared.shown.minutes_on.endswith("a first guess")
    planned = {(phase["stage"], phase["detail"]) for phase in prepared.phases}
    seconds = sum(phase["seconds"] for phase in prepared.phases)
    assert seconds == pytest.approx(60 * prepared.shown.minutes)
    events = run(recipe, fresh_settings, prepared=prepared)
    said = {(event.name, event.detail) for event in events if isinstance(event, Stage)}
    open_ended = {stage for stage, detail in planned if not detail}
    assert {pair for pair in planned if pair[1]} <= said
    assert open_ended <= {stage for stage, _ in said}
    assert {stage for stage, _ in said} - {"saving"} == {stage for stage, _ in planned}
    again = prepare(recipe, fresh_settings)  # the run has told how fast this host is
    assert again.shown.minutes_on == "this host, by its one run of this model so far"
    [started] = [event for event in execute(recipe, fresh_settings) if isinstance(event, Started)]
    assert sum(phase["seconds"] for phase in started.phases) == pytest.approx(60 * again.shown.minutes, rel=1e-6)


def test_the_pace_of_a_host_is_learned_from_work_alone(fresh_settings):
    phases = [
        {"stage": "loading", "detail": "", "seconds": 1.0},
        {"stage": "quantizing", "detail": "", "seconds": 10.0},
        {"stage": "measuring the quantized model", "detail": "perplexity", "seconds": 10.0},
    ]
    assert pace_of(fresh_settings, "a").factor == 1
    taken = {("loading", ""): 60.0, ("quantizing", ""): 30.0, ("measuring the quantized model", "perplexity"): 0.1}
    keep_pace(fresh_settings, "a", phases, taken)  # perplexity was on disk
    assert pace_of(fresh_settings, "a").factor == pytest.approx(math.sqrt(3))  # one run, which may have been a slow one
    assert pace_of(fresh_settings, "b").factor == pytest.approx(math.sqrt(3))
    assert "other models" in pace_of(fresh_settings, "b").words
    for seconds in (20.0, 20.0):
        keep_pace(fresh_settings, "a", phases, {("quantizing", ""): seconds})
    assert pace_of(fresh_settings, "a").factor == 2
    assert pace_of(fresh_settings, "b").factor == 2
    keep_pace(fresh_settings, "c", phases, {("quantizing", ""): 0.5})  # all of it was on disk
    assert "other models" in pace_of(fresh_settings, "c").words
    for file in (fresh_settings.resolved_state_dir() / "rates").iterdir():
        file.write_text("[1]")
    assert pace_of(fresh_settings, "a").factor == 1
