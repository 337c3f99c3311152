"""Writes the hashes of every requirement into the files that list them: ``make requirements``, which takes a network.

What stands there decides the versions: edit a version, or delete a line's hashes with it, and run this. Hashes are
those of all files that PyPI has of a version, for every platform, asked for by uv. PyTorch's builds for a CPU are not
on PyPI: their hashes come from PyTorch's own index, or where that does not answer from a wheel in a folder that pip is
given (PIP_FIND_LINKS); those that stand there for the same version stay.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON = "3.11"
PYPI, OF_CPU = "https://pypi.org/simple", "https://download.pytorch.org/whl/cpu"
CPU, CUDA = "requirements-cpu.txt", "requirements-cuda.txt"
FILES = (CUDA, CPU, "requirements.txt", "requirements-dev.txt", "requirements-triton.txt", "requirements-tools.txt")
OF_DEVICES = re.compile(r"(nvidia-|cuda-|triton==)")
HASH = re.compile(r"--hash=(sha256:[0-9a-f]{64})")


def pins(text: str) -> list[str]:
    """The requirements of a file, without hashes and comments: “name==version”, and after “;” where it is needed."""
    lines = (line.partition("--hash=")[0].rstrip(" \\").strip() for line in text.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def head(text: str) -> str:
    """The comments that a file begins with."""
    lines = text.splitlines(keepends=True)
    return "".join(lines[: next((number for number, line in enumerate(lines) if not line.startswith("#")), None)])


def compiled(requirements: Iterable[str], *options: str) -> str:
    """Requirements as uv writes them, with the hashes of an index."""
    with tempfile.NamedTemporaryFile("w", suffix=".in") as file:
        file.write("\n".join(requirements))
        file.flush()
        command = [
            "uv",
            "pip",
            "compile",
            "--quiet",
            "--no-config",
            "--no-header",
            "--no-annotate",
            "--universal",
            "--python-version",
            PYTHON,
            "--generate-hashes",
            *options,
            file.name,
        ]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    return done.stdout


def of_cpu(version: str, known: str) -> list[str]:
    """Hashes of PyTorch's builds for a CPU; ``known``: the file as it stands."""
    hashes = {
        f"sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}"
        for folder in os.environ.get("PIP_FIND_LINKS", "").split()
        for path in Path(folder).glob(f"torch-{version}+cpu-*.whl")
    }
    if f"torch=={version}+cpu " in known:
        hashes |= {*HASH.findall(known.partition("torch==")[2])}
    try:
        hashes |= {*HASH.findall(compiled([f"torch=={version}+cpu"], "--no-deps", "--default-index", OF_CPU))}
    except subprocess.CalledProcessError:
        print(f"{OF_CPU} did not answer: builds for a CPU that are not known yet are missing", file=sys.stderr)
    return sorted(hashes)


def entry(requirement: str, hashes: list[str]) -> str:
    """A requirement as uv writes it."""
    return " \\\n    ".join([requirement, *(f"--hash={digest}" for digest in hashes)]) + "\n"


def write(name: str) -> None:
    """One file anew."""
    path = ROOT / name
    known = path.read_text(encoding="utf-8") if path.exists() else ""
    wanted, more = pins(known), ""
    if name == CUDA:  # what PyTorch of PyPI asks for on Linux follows from its version
        kept = [line for line in wanted if not OF_DEVICES.match(line)]
        wanted = kept + [line for line in pins(compiled(kept, "--default-index", PYPI)) if OF_DEVICES.match(line)]
    if name == CPU:
        version = re.search(r"^torch==(\S+)", (ROOT / CUDA).read_text(encoding="utf-8"), re.M)[1]
        wanted = [line for line in wanted if not line.startswith("torch==")]
        more = entry(f"torch=={version}+cpu", of_cpu(version, known))
    text = compiled(wanted, "--no-deps", "--default-index", PYPI) + more
    path.write_text(head(known) + text, encoding="utf-8")
    print(f"{name}: {len(pins(text))} requirements, {len(HASH.findall(text))} hashes")


if __name__ == "__main__":
    for file in sys.argv[1:] or FILES:
        write(file)
