"""The readers, and an environment of its own for each that can be had."""

import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

_READY = "ready"  # a file that says that everything was installed
TORCH = "torch==2.13.0"


@dataclass(frozen=True)
class Reader:
    """A library that loads checkpoints: its name in the table, the package whose version counts, its script, and what
    pip installs for it; nothing: this environment has it. ``formats``: those that it is for; empty: all.
    """

    name: str
    package: str
    script: str
    requirements: tuple[str, ...] = ()
    torch: str = TORCH
    formats: tuple[str, ...] = ()
    without: tuple[str, ...] = ()  # what it brings for another torch than this host's, and does not need
    environment: str = ""  # its folder, where readers share one; else named by the package
    why_not: str = ""  # why it can't be run on a host without what it needs


_NOT_MLX = ("plain", "packed", "gptq")
_GPTQ = ("gptqmodel", "optimum")
READERS = (
    Reader("transformers", "transformers", "read_transformers.py", formats=("plain", "packed", "mlx")),
    Reader("compressed-tensors", "compressed-tensors", "read_compressed_tensors.py", formats=("packed",)),
    Reader("mlx-lm", "mlx-lm", "read_mlx_lm.py", ("mlx[cpu]", "mlx-lm"), torch=""),
    Reader("GPTQModel", "gptqmodel", "read_gptqmodel.py", _GPTQ, formats=("gptq",)),
    Reader(
        "transformers with GPTQModel",
        "transformers",
        "read_gptq_in_transformers.py",
        _GPTQ,
        formats=("gptq",),
        environment="gptqmodel",
    ),
    Reader(
        "optimum-intel (OpenVINO)",
        "optimum-intel",
        "read_openvino.py",
        ("optimum-intel", "openvino", "nncf", "compressed-tensors"),
        formats=("plain", "packed"),
        without=("torchvision",),
    ),
    Reader(
        "vLLM", "vllm", "", formats=_NOT_MLX, why_not="there was no GPU, and on a CPU its kernels know 16 bits alone"
    ),
    Reader("SGLang", "sglang", "", formats=_NOT_MLX, why_not="there was no GPU"),
)


class NotInstalled(Exception):
    """pip could not install a reader here; says why."""


def python_of(reader: Reader, folder: Path) -> Path:
    """The interpreter that runs a reader's script, after its packages were installed where they are not yet.

    torch comes first and alone: what the readers ask for would otherwise bring a build for GPUs.
    """
    if not reader.requirements:
        return Path(sys.executable)
    home = folder / f"env-{reader.environment or reader.package}"
    python = home / "bin" / "python"
    if not (home / _READY).exists():
        venv.create(home, with_pip=True, clear=True)
        first = (reader.torch,) if reader.torch else ()
        for packages in filter(None, (first, (*first, *reader.requirements))):
            command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
                raise NotInstalled((lines or ["pip failed"])[-1].removeprefix("ERROR: "))
        if reader.without:
            subprocess.run([python, "-m", "pip", "uninstall", "--quiet", "--yes", *reader.without], check=True)
        (home / _READY).touch()
    return python
