"""Whole runs on a GPU: beside the CPU's, a second time, stopped and continued, streamed, tuned. Skipped without one."""

import json
import math
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from sarqc.engine.execute import execute
from sarqc.events import Event, Finished, LayerDone, Started, Warned
from sarqc.quantization import column_updates
from sarqc.quantization.methods import METHODS
from sarqc.quantization.recorded import Recorder
from sarqc.recipe import Recipe
from sarqc.settings import Settings

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")

LEARNED = {name: {"epochs": 2} for name in ("omniquant", "sarqc-omniquant")}
LEARNED |= {name: {"steps": 8} for name in ("signround", "sarqc-signround")}
MODELS = ["tiny-llama", "tiny-moe"]
every_model = pytest.mark.parametrize("model", MODELS)
every_method = pytest.mark.parametrize("method", METHODS)


def document(model: str, method: str, **changes) -> dict[str, Any]:
    return {
        "model": model, "bits": 3, "group_size": 64, "calibration": f"{model}-calibration", "samples": 8,
        "length": 128, "test": f"{model}-test", "window": 128, "test_tokens": 4096, "baseline": False,
        "method": method, **LEARNED.get(method, {}), **changes,
    }  # fmt: skip


def at(settings: Settings, folder: Path, **changes) -> Settings:
    return settings.model_copy(update={"state_dir": folder, "device": "cuda", "check_device": False, **changes})


def run(given: dict[str, Any], settings: Settings, stop: int | None = None) -> list[Event]:
    """A run with its study, or its first events."""
    events = execute(Recipe.parse(given), settings, study_dir=settings.studies_dir(), study_id="one")
    return list(islice(events, stop))


def summary(events: list[Event]) -> dict[str, Any]:
    assert isinstance(events[-1], Finished)
    return events[-1].summary


def study(settings: Settings) -> tuple[dict[str, Any], bytes]:
    """All that a study says but for the hour, and its arrays."""
    folder = settings.studies_dir() / "one"
    said = json.loads((folder / "study.json").read_text())
    return {name: value for name, value in said.items() if name != "created"}, (
        folder / "study.safetensors"
    ).read_bytes()


@every_method
@every_model
def test_a_method_is_as_good_as_on_the_cpu_and_has_the_same_bits_again(model, method, settings, tmp_path):
    once, again, host = (at(settings, tmp_path / name) for name in ("once", "again", "host"))
    given = document(model, method)
    here, expected = run(given, once), run(given, host.model_copy(update={"device": "cpu"}))
    assert not [event.what for event in here if isinstance(event, Warned) and event.where == "cuda"]
    found, wanted = summary(here), summary(expected)
    assert found["perplexity_float"] == pytest.approx(wanted["perplexity_float"], rel=0.005)
    assert found["perplexity"] == pytest.approx(wanted["perplexity"], rel=0.05)
    of_device, of_host = (
        [event.report["relative_recon"] for event in events if isinstance(event, LayerDone)]
        for events in (here, expected)
    )
    logarithms = [
        math.log(one / other) for one, other in zip(of_device, of_host, strict=True) if one and other
    ]  # 0 for experts without a token
    assert abs(sum(logarithms) / len(logarithms)) < 0.02
    run(given, again)
    assert study(again) == study(once)


@pytest.mark.parametrize("method", ["sarqc-gbs", "sarqc-gs", "gptaq", "omniquant", "signround"])
@every_model
def test_a_run_stopped_anywhere_ends_the_same(model, method, settings, tmp_path):
    whole, parts = at(settings, tmp_path / "whole"), at(settings, tmp_path / "parts")
    given = document(model, method)
    run(given, whole)
    for stop in (4, 20):
        run(given, parts, stop)
    continued = run(given, parts)
    assert next(event for event in continued if isinstance(event, Started)).finished_layers > 0
    assert study(parts) == study(whole)


@pytest.mark.parametrize("method", ["sarqc-gbs", "gptaq", "sarqc-gs"])
@every_model
def test_kernels_recordings_and_streaming_change_no_bit(model, method, settings, tmp_path, monkeypatch):
    given = document(model, method)
    usual, streamed, plain = (at(settings, tmp_path / name) for name in ("usual", "streamed", "plain"))
    run(given, usual)
    run(given, streamed.model_copy(update={"weights": "streamed"}))
    assert study(streamed) == study(usual)
    monkeypatch.setattr(column_updates, "_kernels_for", lambda device: None)
    monkeypatch.setattr(Recorder, "on", lambda *_: None)
    run(given, plain)
    assert study(plain) == study(usual)


@every_model
def test_auto_and_everything_on(model, settings, tmp_path):
    fitted = {"range": "search", "order": "activation", "refine": 2}
    for number, changes in enumerate(({"lambda": "auto", "gamma": "auto"}, fitted, {"sweep": [0, 0.1, 1]})):
        there, host = at(settings, tmp_path / f"{number}"), at(settings, tmp_path / f"{number}-cpu", device="cpu")
        given = document(model, "sarqc-gbs", **changes)
        found, wanted = summary(run(given, there)), summary(run(given, host))
        assert found["perplexity"] == pytest.approx(wanted["perplexity"], rel=0.05)


@every_model
def test_tuning(model, settings, tmp_path):
    whole, parts = at(settings, tmp_path / "whole"), at(settings, tmp_path / "parts")
    given = document(model, "sarqc-gbs", kind="tune", sweep=[0.01, 0.1, 1], draws=2, held_out_samples=2)
    found = summary(run(given, whole))["tuning"]
    assert found["best"] is not None
    for stop in (3, 8):
        run(given, parts, stop)
    continued = summary(run(given, parts))["tuning"]
    assert {**continued, "seconds": 0} == {**found, "seconds": 0}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_every_dtype_of_a_checkpoint(dtype, settings, tmp_path, tiny_llama):
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=4096, hidden_size=256, intermediate_size=512, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=512,
    )  # fmt: skip
    folder = tmp_path / "model"
    LlamaForCausalLM(config).to(dtype).save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).write_bytes((tiny_llama / name).read_bytes())
    given = document("tiny-llama", "sarqc-gbs") | {"model": str(folder)}
    found = summary(run(given, at(settings, tmp_path / "gpu")))
    wanted = summary(run(given, at(settings, tmp_path / "cpu", device="cpu")))
    for name in ("perplexity_float", "perplexity"):
        assert found[name] == pytest.approx(wanted[name], rel=0.02)
