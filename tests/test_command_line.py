"""The command line as a person meets it: exit codes, one JSON object on stdout, words on stderr."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def sarqc(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "sarqc", *arguments], cwd=ROOT, env=os.environ | environment, capture_output=True,
        text=True, timeout=120, check=False,
    )  # fmt: skip


@pytest.fixture
def flags(random_llama: Path, text_file: Path) -> list[str]:
    return [
        "--model", str(random_llama), "--bits", "3", "--grid", "asymmetric", "--group-size", "32", "--indivisible",
        "per_channel", "--method", "sarqc-gbs", "--lambda", "1", "--gamma", "0.5", "--calibration", str(text_file),
        "--samples", "4", "--length", "32", "--sampling", "sequential", "--test", str(text_file), "--inputs-from",
        "quantized", "--seed", "0",
    ]  # fmt: skip


def test_flags_and_a_file_are_the_same_run(flags: list[str], tmp_path: Path) -> None:
    state = {"SARQC_STATE_DIR": str(tmp_path / "state")}
    first = sarqc("quantize", *flags, "--output", str(tmp_path / "out"), "--json", **state)
    assert first.returncode == 0, first.stderr
    summary = json.loads(first.stdout)
    assert {"perplexity", "perplexity_float", "share_quantized", "layers"} <= set(summary)
    assert summary["layers"][0]["report"]["n_tokens"] == 128
    assert (tmp_path / "out" / "model" / "model.safetensors").is_file()
    assert (tmp_path / "out" / "study" / "study.json").is_file()
    recipe = tmp_path / "recipe.json"
    recipe.write_text(json.dumps(summary["recipe"]))
    again = sarqc("run", str(recipe), "--json", **state)
    assert again.returncode == 0, again.stderr
    same = json.loads(again.stdout)
    assert {**same, "seconds": 0} == {**summary, "seconds": 0}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (["--bits", "9"], "bits"),
        (["--lambda", "nan"], "lambda"),
        (["--lambda", "-1"], "lambda"),
        (["--indivisible", "refuse"], "group"),
        (["--model", "no-such-model"], "no-such-model"),
        (["--calibration", "no-such-file.txt"], "no-such-file.txt"),
        (["--group-size", "many"], "group_size"),
    ],
)
def test_a_wrong_recipe_ends_with_2(flags: list[str], change: list[str], words: str) -> None:
    result = sarqc("quantize", *flags, *change, "--json")
    assert result.returncode == 2
    error = json.loads(result.stdout)["error"]
    assert words in error["what"] + error["where"]
    assert error["remedy"]
    assert words in result.stderr
    assert "Traceback" not in result.stderr


def test_an_empty_text_is_refused(flags: list[str], tmp_path: Path) -> None:
    (tmp_path / "empty.txt").touch()
    result = sarqc("quantize", *flags, "--test", str(tmp_path / "empty.txt"))
    assert result.returncode == 2
    assert "empty" in result.stderr


def test_a_hub_that_is_away_is_one_sentence(flags: list[str]) -> None:
    for offline in ("0", "1"):
        result = sarqc("quantize", *flags, "--model", "meta-llama/Llama-2-7b-hf", HF_HUB_OFFLINE=offline)
        assert result.returncode == 2
        assert "Hub" in result.stderr
        assert len(result.stderr.strip().splitlines()) == 1


def test_interrupted_politely_it_keeps_its_layers(random_llama: Path, text_file: Path, tmp_path: Path) -> None:
    state = {"SARQC_STATE_DIR": str(tmp_path / "state")}
    arguments = [
        "quantize", "--model", "tiny-llama", "--method", "rtn", "--bits", "2", "--calibration",
        "tiny-llama-calibration", "--samples", "16", "--length", "256", "--test", "tiny-llama-test", "--json",
    ]  # fmt: skip
    process = subprocess.Popen(
        [sys.executable, "-m", "sarqc", *arguments], cwd=ROOT, env=os.environ | state, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    deadline = time.monotonic() + 90
    while not list(tmp_path.glob("state/artefacts/*/*.layer")) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    process.wait(timeout=60)
    assert process.returncode == 130
    kept = len(list(tmp_path.glob("state/artefacts/*/*.layer")))
    assert kept > 0
    partial = list(tmp_path.glob("state/artefacts/*/.partial-*"))
    assert partial == []


def test_help_names_every_field() -> None:
    text = sarqc("quantize", "--help", COLUMNS="200").stdout
    for flag in ("--lambda", "--gamma", "--group-size", "--indivisible", "--inputs-from", "--held-out-samples"):
        assert flag in text
    assert "sarqc-gbs" in sarqc("methods").stdout
