"""A real run with all that it says."""

import pytest

from sarqc.engine.execute import execute
from sarqc.recipe import Recipe


@pytest.fixture(scope="package")
def run(random_llama, text_file, settings, tmp_path_factory):
    """A run with “auto”, an unseen text and an export: its recipe and its events."""
    folder = tmp_path_factory.mktemp("reported")
    recipe = Recipe.parse(
        {
            "model": str(random_llama), "bits": 3, "group_size": 16, "method": "sarqc-gbs", "lambda": "auto",
            "gamma": 0.5, "calibration": str(text_file), "samples": 4, "length": 32, "test": str(text_file),
            "held_out_samples": 2, "blocks": [0], "test_tokens": 320, "window": 32,
        }
    )  # fmt: skip
    own = settings.model_copy(update={"state_dir": folder})
    made = execute(recipe, own, study_dir=own.studies_dir(), study_id="reported", checkpoint_dir=folder / "model")
    return recipe, list(made)
