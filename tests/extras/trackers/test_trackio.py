"""Runs told to the real trackio, in a folder of this host."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("trackio", reason="trackio is not installed here: make test-reports")

# Prints what a folder of trackio has of a project; where that is, is read when it is imported.
READ = """
import json, trackio
from trackio.sqlite_storage import SQLiteStorage
(run,) = trackio.Api().runs("sarqc")
kept = SQLiteStorage.list_artifacts("sarqc")
rows = SQLiteStorage.get_logs("sarqc", run.name)
print(json.dumps([run.config, rows, {one["name"]: one["versions"][0]["num_files"] for one in kept}]))
"""


def in_a_process(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"TRACKIO_DIR": str(folder / "trackio"), "SARQC_STATE_DIR": str(folder / "state")}
    return subprocess.run([sys.executable, *command], env=environment, capture_output=True, text=True, timeout=300)


def test_a_run_of_the_command_line_is_there(random_llama, text_file, tmp_path):
    flags = {
        "model": str(random_llama), "group-size": "16", "method": "rqc-gbs", "lambda": "0.5", "samples": "2",
        "calibration": str(text_file), "length": "32", "blocks": "0", "test": str(text_file), "test-tokens": "320",
        "window": "32",
    }  # fmt: skip
    given = [part for name, value in flags.items() for part in (f"--{name}", value)]
    done = in_a_process(tmp_path, "-m", "sarqc", "quantize", *given, "--report", "trackio", "--json")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert f"saved report: {tmp_path / 'trackio'}" in done.stderr
    read = in_a_process(tmp_path, "-c", READ)
    assert read.returncode == 0, read.stderr
    config, rows, kept = json.loads(read.stdout)
    recipe = {name: value for name, value in summary["recipe"].items() if value is not None}
    assert {name: config[name] for name in recipe} == recipe
    assert (config["tag.model"], config["_Username"]) == (str(random_llama), None)
    errors = {row["step"]: row["layer/relative_recon"] for row in rows if "layer/relative_recon" in row}
    assert list(errors.values()) == [layer["report"]["relative_recon"] for layer in summary["layers"]]
    (perplexity,) = (row["perplexity"] for row in rows if "perplexity" in row)
    assert perplexity == summary["perplexity"]
    assert [row["run/status"] for row in rows if "run/status" in row] == ["finished"]
    assert kept == {"study": 2}
