"""Studies of single runs as one: the same numbers as a survey of the same points, which solves them together."""

import itertools
from pathlib import Path

import numpy as np
import pytest

from sarqc import Recipe, execute
from sarqc.errors import Refused
from sarqc.extras.survey.conduct import conduct
from sarqc.extras.survey.gather import gather, studies_below
from sarqc.extras.survey.schema import Survey
from sarqc.figures import lab_view
from sarqc.settings import Settings
from sarqc.study.document import Study

LAMS, DRAWS = (0.0, 0.3), (4, 7)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, settings: Settings, random_llama: Path, text_file: Path) -> Path:
    """Return a folder with a run for each λ and draw, and one without λ."""
    root = tmp_path_factory.mktemp("runs")
    own = settings.model_copy(update={"state_dir": root / "state"})
    common = {
        "model": str(random_llama), "bits": 2, "group_size": 16, "calibration": str(text_file), "samples": 4,
        "length": 32, "sampling": "random", "inputs_from": "float", "test": str(text_file), "window": 64, "grid":
        "asymmetric", "baseline": False,
    }  # fmt: skip
    wanted = [
        {"method": "sarqc-gbs", "gamma": 0.5, "lambda": lam, "seed": seed, "sweep": [lam]}
        for lam, seed in itertools.product(LAMS, DRAWS)
    ]
    for number, one in enumerate([*wanted, {"method": "rtn", "seed": DRAWS[0]}]):
        recipe = Recipe.parse(common | one)
        list(execute(recipe, own, study_dir=root / "left" / f"host{number % 2}", study_id=f"run-{number}"))
    return root / "left"


@pytest.mark.thorough
def test_it_is_the_survey_of_the_same_points(runs, fresh_settings, tmp_path, random_llama, text_file):
    gathered = gather(studies_below(runs), tmp_path / "gathered")
    assert Study.open(tmp_path / "gathered") == gathered
    survey = Survey.model_validate({
        "title": "oracle", "model": str(random_llama), "grid": "asymmetric", "group_size": 16,
        "calibration": str(text_file), "samples": 4, "length": 32, "draws": list(DRAWS), "held_out": str(text_file),
        "held_out_samples": 1, "test": str(text_file), "window": 64,
        "lines": [{"method": "sarqc-gbs", "bits": 2, "lambda": list(LAMS), "gamma": [0.5]}],
    })  # fmt: skip
    list(conduct(survey, fresh_settings, tmp_path / "survey"))
    oracle = Study.open(tmp_path / "survey")
    mine, theirs = gathered.line("sarqc-gbs", 2), oracle.line("sarqc-gbs", 2)
    assert (mine.draws, mine.gammas, mine.lams) == (DRAWS, (0.5,), LAMS)
    assert mine.chosen is None
    for name in ("perplexity", "recon", "sar", "drift"):
        assert gathered.read(mine, name).shape == oracle.read(theirs, name).shape
        np.testing.assert_allclose(gathered.read(mine, name), oracle.read(theirs, name), rtol=2e-3, err_msg=name)
    assert not {"surface", "surface_scale", "group_codes", "deciles"} & {*mine.arrays}
    alone = gathered.line("rtn", 2)
    assert alone.lams == (0.0,)
    run = next(study for study in studies_below(runs) if study.lines[0].method == "rtn")
    for name in run.lines[0].arrays:  # a line of one run has its pictures too
        np.testing.assert_array_equal(gathered.array(alone, name), run.array(run.lines[0], name), err_msg=name)
    assert lab_view(gathered, method="sarqc-gbs", bits=2, layer=None)["line"]["bits"] == 2


def test_a_point_that_no_run_has_is_unknown(runs, tmp_path):
    studies = [study for study in studies_below(runs) if study.id != "run-2"]  # λ = 0.3 of the first draw
    gathered = gather(studies, tmp_path / "gathered")
    line = gathered.line("sarqc-gbs", 2)
    perplexity = gathered.read(line, "perplexity")
    np.testing.assert_array_equal(np.isnan(perplexity), [[[False, True]], [[False, False]]])
    assert np.isnan(gathered.read(line, "recon")[0, :, 0, 1]).all()
    lab_view(gathered, method="sarqc-gbs", bits=2, layer=None)


def test_what_can_not_be_compared_is_refused(runs, tmp_path):
    first, *rest = studies_below(runs)
    other = first.model_copy(update={"model": first.model.model_copy(update={"name": "another"})})
    shorter = first.model_copy(update={"protocol": first.protocol | {"test": first.protocol["test"] | {"window": 32}}})
    wider = rest[0].model_copy(update={"lines": (rest[0].lines[0].model_copy(update={"group_size": None}),)})
    for studies, words in (
        ([first, other], "the model is another one"),
        ([first, shorter], "the protocol’s test is another one"),
        ([first, wider], "another grid or group size"),
    ):
        with pytest.raises(Refused, match=words):
            gather(studies, tmp_path / "gathered")
        assert not (tmp_path / "gathered").exists()
    with pytest.raises(Refused, match="no study"):
        studies_below(tmp_path)
