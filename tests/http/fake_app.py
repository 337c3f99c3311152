"""The app with fake runs and no pages, on a port of its own: ``python -m tests.http.fake_app STATE PORT NAME``."""

import sys
import time
from pathlib import Path

from pydantic import BaseModel

from app import create_app, prepare_process, serve
from sarqc.engine.plan import Job
from sarqc.errors import Refused
from sarqc.recipe import Recipe
from sarqc.settings import Settings
from tests.jobs.conftest import settings_in


class FakePlan(BaseModel):
    minutes: float
    bytes_before: int = 4000
    bytes_after: int = 1000
    disk_bytes: int = 0


def resolve(recipe: Recipe, settings: Settings) -> Job:
    """Refuses a recipe of 99 layers, has a bug for 98, takes an hour for 97, and says yes to all others."""
    if recipe.seed == 99:
        raise Refused("99 layers are too many", "recipe, seed", "Take fewer.")
    if recipe.seed == 98:
        raise ZeroDivisionError("secret detail")
    if recipe.seed == 97:
        (settings.resolved_state_dir() / "planning").touch()
        time.sleep(3600)
    return Job(recipe, FakePlan(minutes=0.5))


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    settings = settings_in(folder, port=int(sys.argv[2]))
    prepare_process(settings)
    app = create_app(settings, execute=f"tests.jobs.fake_runs:{sys.argv[3]}", resolve=resolve, with_pages=False)
    serve(app, settings)
