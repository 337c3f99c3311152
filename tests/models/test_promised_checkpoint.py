"""Models by their configurations alone. The other side: files, and the numbers of parameters that are published."""

import pytest

from benchmarks.known_models import known_checkpoint, known_names
from sarqc import Recipe
from sarqc.engine.plan import plan
from sarqc.errors import Refused
from sarqc.models.catalogue import checkpoint_of
from sarqc.models.checkpoint import promised_checkpoint
from sarqc.models.hub import NotCached

BILLIONS = {  # from the models' pages
    "llama2-7b": 6.738, "llama2-13b": 13.016, "llama2-70b": 68.977, "llama3-8b": 8.030, "llama3.1-8b": 8.030,
    "llama3.2-1b": 1.236, "tinyllama-1.1b": 1.100, "mistral-7b": 7.242, "qwen2.5-0.5b": 0.494, "qwen2.5-7b": 7.616,
    "qwen3-0.6b": 0.596, "qwen3-8b": 8.191, "qwen3-30b-a3b": 30.532, "mixtral-8x7b": 46.703,
}  # fmt: skip


@pytest.mark.parametrize("name", known_names())
def test_they_have_the_published_numbers_of_parameters(name):
    checkpoint = known_checkpoint(name)
    assert checkpoint.parameters / 1e9 == pytest.approx(BILLIONS[name], abs=6e-4)


def test_each_has_a_number():
    assert {*known_names()} == {*BILLIONS}


def test_a_mixture_has_its_experts():
    checkpoint = known_checkpoint("qwen3-30b-a3b")
    assert (checkpoint.experts(0), len(checkpoint.layers)) == (128, 48 * (4 + 3 * 128))


@pytest.mark.parametrize("name", ["tiny-llama", "tiny-moe"])
def test_it_promises_what_the_files_have(name, fresh_settings):
    real = checkpoint_of(name, None, fresh_settings)
    promised = promised_checkpoint(name, real.config)
    names = set(real.parameter_names)
    assert {name: promised.shapes[name] for name in names} == {name: real.shapes[name] for name in names}
    assert (promised.parameters, promised.size_bytes, promised.layers) == (
        real.parameters,
        real.size_bytes,
        real.layers,
    )


def recipe(**changes: object) -> Recipe:
    document = {"model": "somebody/model", "bits": 3, "method": "sarqc-gbs", "calibration": "tiny-llama-calibration"}
    return Recipe.parse(document | {"samples": 8, "length": 2048} | changes)


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch):
    """Let the Hub offer one of the published models under “somebody/model”."""

    def offer(name: str) -> None:
        def fetch(model: str, *_: object, **__: object) -> None:
            raise NotCached(model, dict(known_checkpoint(name).config))

        monkeypatch.setattr("sarqc.models.catalogue.fetch", fetch)

    return offer


def test_a_plan_knows_a_model_before_it_is_downloaded(offered, fresh_settings):
    offered("llama2-7b")
    shown = plan(recipe(), fresh_settings.model_copy(update={"memory_gib": 100.0, "device": "cpu"}))
    assert (shown.parameters, shown.layers, shown.bytes_before) == (6_738_415_616, 224, 2 * 6_738_415_616)
    assert shown.minutes is not None
    assert shown.minutes > 1
    assert shown.memory_bytes is not None
    assert shown.memory_bytes > 4 * 6.7e9  # float32 on a processor
    assert "somebody/model is not on this host yet" in shown.warnings[-1]


@pytest.mark.thorough
def test_what_has_no_room_or_no_groups_is_refused_before_it_is_downloaded(offered, fresh_settings):
    offered("qwen3-30b-a3b")
    with pytest.raises(Refused, match="even block by block"):
        plan(recipe(), fresh_settings.model_copy(update={"memory_gib": 1.0}))
    offered("qwen2.5-0.5b")  # 896 and 4864 channels
    with pytest.raises(Refused, match="groups of 512 do not divide"):
        plan(recipe(group_size=512), fresh_settings.model_copy(update={"memory_gib": 100.0}))
