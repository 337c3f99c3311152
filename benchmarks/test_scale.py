"""How answers are timed: no route is forgotten, and the clock of another process is right."""

import json
import os
import re
import sys
import time
from pathlib import Path

import pytest

import pages
from app import create_app
from benchmarks import bench_scale
from benchmarks.answers import Answered, processor_seconds
from tests.jobs.conftest import settings_in

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "docs"))
import results_of_scale

# What goes on for as long as somebody listens, is a file, or needs a run that tunes.
NOT_TIMED = {
    "/api/events", "/api/join/{code}/events", "/api/lectures/{code}/events",
    "/api/model", "/api/runs/csv", "/api/runs/{run_id}/checkpoint", "/api/runs/{run_id}/ladder",
    "/api/runs/{run_id}/rounding", "/api/runs/{run_id}/tuning", "/api/studies/{study_id}/arrays/{file}",
    "/api/studies/{study_id}/download", "/api/studies/{study_id}/model/{file}", "/api/studies/{study_id}/site",
    "/api/studies/{study_id}/site.zip", "/api/studies/{study_id}/study.safetensors",
}  # fmt: skip


@pytest.mark.thorough
def test_every_route_and_page_is_timed(tmp_path):
    app = create_app(settings_in(tmp_path), with_pages=False)
    app.state.supervisor.store.close()
    addresses = [
        "/" + address.partition("?")[0].format(n=0, run="run")
        for addresses in (bench_scale.OF_RUNS, bench_scale.OF_STUDIES, bench_scale.OF_MIXTURE, bench_scale.OF_LARGE)
        for address in addresses
    ]
    paths = [path for path, verbs in app.openapi()["paths"].items() if "get" in verbs and path.startswith("/api")]
    timed = {
        min(found, key=lambda path: path.count("{"))
        for address in addresses
        if (found := [path for path in paths if re.fullmatch(re.sub(r"{\w+}", "[^/]+", path), address)])
    }
    assert set(paths) - timed == NOT_TIMED
    assert {page.path for page in pages.PAGES} <= set(addresses)


def test_the_processor_time_of_a_process():
    before = time.process_time()
    found = processor_seconds(os.getpid())
    assert before <= found <= time.process_time()


def test_what_is_too_slow_stands_in_bold(tmp_path, monkeypatch):
    figure = Answered(
        "a, /b", 250.4, "ms", 200, address="b", median=12.3, first=3.21, processor=100, processor_high=199, growth=1.05
    )
    assert str(figure).endswith("× 1.1   missed")
    host = {
        "devices": ["CPU"],
        "cores": 2,
        "threads": 2,
        "memory_gib": 8,
        "load": 1.5,
        "products_per_second": 1e11,
        "versions": {},
    }
    file = tmp_path / "scale.json"
    file.write_text(json.dumps({"host": host, "sections": {"mixture": [vars(figure)]}}))
    monkeypatch.setattr(results_of_scale, "NUMBERS", file)
    *_, title, table = results_of_scale.parts()
    assert title == "### A study of 48 × 128 experts: 18,624 linears"
    assert "| <code>/b</code> | 12 | **250** | 3.2 | 100 | 199 | 1.1 |" in table
