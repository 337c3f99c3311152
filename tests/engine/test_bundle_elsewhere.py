"""Statistics taken to another host: read by a parser of their own, and tuned with the model and its texts gone."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from sarqc.engine.bundle import first_draw, write_bundle
from sarqc.models.checkpoint import read_checkpoint
from sarqc.models.loading import load
from sarqc.recipe import Recipe
from sarqc.settings import Settings
from tests import oracles
from tests.checkpoints.made import in_dtype

pytestmark = pytest.mark.thorough

LAMS = (0.0, 0.01, 0.3)
SAMPLES, LENGTH, GROUP = 4, 32, 16
TYPES = {"F32": "<f4", "U8": "u1", "I64": "<i8"}  # safetensors is little-endian on any host


def write(source: Path, text: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A bundle of block 1 from a host with the model, the text and a state folder of its own, all named relatively."""
    folder.mkdir()
    shutil.copytree(source, folder / "model")
    shutil.copy(text, folder / "text.txt")
    monkeypatch.chdir(folder)
    recipe = Recipe.parse({
        "kind": "tune", "model": "./model", "calibration": "./text.txt", "test": "./text.txt", "samples": SAMPLES,
        "length": LENGTH, "held_out_samples": 3, "window": 32, "test_tokens": 640, "blocks": [1], "group_size": GROUP,
    })  # fmt: skip
    write_bundle(first_draw(recipe, Settings(state_dir=folder / "state", device="cpu")), folder / "draw.statistics")
    return folder / "draw.statistics"


def tune(folder: Path, *arguments: str):
    """What the command line says on a host with two threads and nothing but a file of statistics."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SARQC_")} | {
        "SARQC_STATE_DIR": str(folder / "state"), "SARQC_DEVICE": "cpu", "OMP_NUM_THREADS": "2", "HF_HUB_OFFLINE": "1",
        "PYTHONPATH": str(Path(__file__).resolve().parents[2]),
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "sarqc", "tune", *arguments, "--json"], cwd=folder, env=environment,
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def tensors_of(content: bytes) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """A safetensors file by its specification alone, with its metadata; of bfloat16 the upper halves of float32."""
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    metadata = header.pop("__metadata__", {})
    found = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        part = content[8 + length + begin : 8 + length + end]
        if entry["dtype"] == "BF16":
            values = (np.frombuffer(part, "<u2").astype("<u4") << 16).view("<f4")
        else:
            values = np.frombuffer(part, TYPES[entry["dtype"]])
        found[name] = values.reshape(entry["shape"])
    return found, metadata


def grams_of(payload: np.ndarray) -> dict[str, tuple[np.ndarray, np.ndarray, int]]:
    """By path: the Gram from its upper half row by row, Σ|x|, and the number of tokens."""
    parts, _ = tensors_of(payload.tobytes())
    found = {}
    for number, entry in enumerate(json.loads(parts["document"].tobytes())):
        half, abs_sum = parts[f"{number}.gram"].astype(float), parts[f"{number}.abs_sum"].astype(float)
        width, at = len(abs_sum), 0
        gram = np.zeros((width, width))
        for row in range(width):
            gram[row, row:] = gram[row:, row] = half[at : at + width - row]
            at += width - row
        assert at == len(half)
        found |= dict.fromkeys(entry["paths"], (gram, abs_sum, entry["n_tokens"]))
    return found


def test_a_bundle_needs_nothing_of_the_host_that_wrote_it(random_llama, text_file, tmp_path, monkeypatch):
    narrow = in_dtype(random_llama, tmp_path / "narrow", torch.bfloat16)
    bundle, other = (write(narrow, text_file, tmp_path / name, monkeypatch) for name in ("first", "second"))
    content = bundle.read_bytes()
    assert content == other.read_bytes()
    assert str(tmp_path).encode() not in content

    # By the specification: weights as they are stored, and Grams that are sums over the tokens of the float model.
    tensors, metadata = tensors_of(content)
    document = json.loads(metadata["sarqc"])
    own, unseen = (grams_of(tensors[f"1.{part}"]) for part in ("own", "unseen"))
    loaded = load(read_checkpoint(narrow), torch.device("cpu"))
    names = [layer["name"] for layer in document["layers"]]
    weights = {name: tensors[f"{name}.weight"].astype(float) for name in names}
    assert all(np.array_equal(weight, loaded.weight(name).numpy()) for name, weight in weights.items())

    # Elsewhere, with the model and its texts gone, the errors are those of the definition.
    third = tmp_path / "third"
    third.mkdir()
    shutil.move(bundle, third / "taken.statistics")
    for gone in ("narrow", "first", "second"):
        shutil.rmtree(tmp_path / gone)
    said = tune(
        third, "--statistics", "taken.statistics", "--method", "rqc-gbs", "--bits", "3", "--grid", "asymmetric",
        "--group-size", str(GROUP), "--sweep", ",".join(map(str, LAMS)),
    )  # fmt: skip
    assert said["lambda"] == list(LAMS)
    assert said["layers"] == len(names) == 7
    for position, lam in enumerate(LAMS):
        logarithms = []
        for name in names:
            path = name.removeprefix("model.layers.1.")
            (gram, _, n_tokens), (judging, *_) = own[path], unseen[path]
            assert n_tokens == SAMPLES * LENGTH
            g = oracles.regularised_gram(gram, None, lam)
            expected = oracles.algorithm_2(
                weights[name], g, 3, GROUP, "asymmetric",
                store=lambda value: float(torch.tensor(value).to(torch.bfloat16)),
            )  # fmt: skip
            delta = expected.dequantized - weights[name]
            error = np.trace(delta @ judging @ delta.T) / np.trace(weights[name] @ judging @ weights[name].T)
            logarithms.append(np.log(error))
        assert said["errors"][0][position] == pytest.approx(np.mean(logarithms), abs=2e-3)
