"""A real run with all that it says."""

import pytest

from sarqc.engine.execute import execute
from sarqc.recipe import Recipe


@pytest.fixture(scope="package")
def run(small, settings, tmp_path_factory):
    """A run with “auto”, an unseen text and an export: its recipe and its events."""
    folder = tmp_path_factory.mktemp("reported")
    recipe = Recipe.parse(
        small | {
            "bits": 3, "method": "sarqc-gbs", "lambda": "auto", "gamma": 0.5, "samples": 4, "held_out_samples": 2,
            "blocks": [0], "test_tokens": 320, "window": 32,
        }
    )  # fmt: skip
    own = settings.model_copy(update={"state_dir": folder})
    made = execute(recipe, own, study_dir=own.studies_dir(), study_id="reported", checkpoint_dir=folder / "model")
    return recipe, list(made)
