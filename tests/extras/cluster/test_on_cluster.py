"""A queue that lives as long as somebody waits for it; workers of this host stand for those of a cluster."""

import pytest

from sarqc.errors import NumericalError, Refused
from sarqc.events import Saved
from sarqc.extras.cluster.on_cluster import OnCluster, check_cluster
from sarqc.jobs.workers import LocalWorkers
from sarqc.settings import Settings
from tests.jobs.conftest import until
from tests.jobs.fake_runs import recipe


def cluster(settings: Settings, function: str, *layers: int) -> OnCluster:
    recipes = [recipe(count) for count in layers]
    return OnCluster(recipes, settings, workers=LocalWorkers, execute=f"tests.jobs.fake_runs:{function}")


@pytest.mark.thorough
def test_studies_and_models_are_where_a_local_run_leaves_them(settings, tmp_path):
    with cluster(settings, "exporting", 1, 2) as runs:
        for layers in (2, 1):
            events = list(runs.events(recipe(layers)))
            study = settings.studies_dir() / recipe(layers).fingerprint()
            assert [event.type for event in events] == ["started", *["layer_done"] * layers, "saved", "finished"]
            assert events[-2] == Saved("study", str(study))
            assert (study / "study.json").is_file()
        saved = list(runs.export(recipe(2), "plain", tmp_path / "out" / "model"))
    assert saved == [Saved("checkpoint", str(tmp_path / "out" / "model"))]
    assert (tmp_path / "out" / "model" / "model.safetensors").read_bytes() == b"plain" * 1000
    assert not list(settings.exports_dir().iterdir())
    assert not list((settings.resolved_state_dir() / "logs").iterdir())


def test_an_error_is_that_of_the_run_and_names_its_log(settings):
    with cluster(settings, "refuses", 1) as runs, pytest.raises(NumericalError, match="channel 3") as caught:
        list(runs.events(recipe(1)))
    (log,) = (settings.resolved_state_dir() / "logs").iterdir()
    assert str(log) in caught.value.remedy
    assert "Traceback" in log.read_text()


def test_who_no_longer_waits_ends_the_work(settings):
    with cluster(settings, "long_layer", 1) as runs:
        next(runs.events(recipe(1)))
        until((settings.storage_dir() / "inside").exists)
    assert (settings.storage_dir() / "cleaned").exists()


def test_without_an_address_there_is_no_cluster(settings):
    with pytest.raises(Refused) as caught:
        check_cluster(settings)
    assert caught.value.where == "SARQC_RAY_ADDRESS"
