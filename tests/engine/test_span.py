"""Runs whose solving several devices share: planned, and with the study of a run on one."""

from dataclasses import replace

import pytest

from benchmarks.known_models import known_checkpoint
from sarqc.engine import costs
from sarqc.engine.plan import plan
from sarqc.recipe import Recipe
from sarqc.study.document import Study
from tests.engine.running import run


def test_more_devices_take_less_time_of_single_linears_only():
    checkpoint = known_checkpoint("mixtral-8x7b")
    document = {"model": "mixtral-8x7b", "bits": 3, "calibration": "text"}
    single, blockwise = (
        costs.work_of(Recipe.parse(document | {"method": name}), checkpoint) for name in ("sarqc-gbs", "omniquant")
    )
    counted = {number: costs.stages(replace(single, span=number))["quantizing", ""] for number in (1, 4)}
    assert counted[4].solves == counted[1].solves / 4
    assert counted[4].moved > 0 == counted[1].moved
    assert costs.stages(replace(blockwise, span=4)) == costs.stages(blockwise)


@pytest.mark.thorough
def test_a_run_that_spans_processes_has_the_study_of_one_that_does_not(small, fresh_settings, tmp_path):
    values = {"bits": 3, "method": "sarqc-gbs", "lambda": "auto", "gamma": "auto", "test_tokens": 500}
    document = small | values | {"held_out_samples": 2}
    studies, plans = [], []
    for span in (1, 2):
        settings = fresh_settings.model_copy(update={"state_dir": tmp_path / str(span), "span": span})
        plans.append(plan(Recipe.parse(document), settings))
        run(document, settings, study_dir=tmp_path / f"studies-{span}", study_id="one")
        studies.append(tmp_path / f"studies-{span}" / "one")
    assert plans[1].memory_bytes > plans[0].memory_bytes
    mine, theirs = (Study.open(folder) for folder in studies)
    assert mine.layer_reports == theirs.layer_reports
    tensors = [(folder / "study.safetensors").read_bytes() for folder in studies]
    assert tensors[0] == tensors[1]
