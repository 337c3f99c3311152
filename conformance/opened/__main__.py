"""Checkpoints that other engines make, opened here and decoded by their own loaders: equal bits, or where they part.

    python -m conformance.opened --folder build/opened [--only gptqmodel-3] [--page docs/decoded.md]

Each engine has an environment of its own in the folder, made once; so are the checkpoints. Each is calibrated on its
model's own calibration text as its users would do it, decoded by the loader of its format, and opened. Then it is
written again with its own codes, which must give the same bytes, and with others, which its loader must find.
"""

import argparse
import datetime
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from benchmarks.quality.environment import python_of
from benchmarks.quality.jobs import last_line
from conformance.loaders.environments import READERS
from conformance.loaders.environments import python_of as python_of_reader
from conformance.opened.cases import CASES, Case
from sarqc.checkpoints.quantized_checkpoint import QuantizedCheckpoint
from sarqc.errors import Refused
from sarqc.models.catalogue import checkpoint_of
from sarqc.models.checkpoint import Checkpoint
from sarqc.settings import Settings
from tests.checkpoints.foreign import hashes

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).parent
PAGE = ROOT / "docs" / "decoded.md"
LENGTH = 256
LOADERS = {"llmcompressor": "load_compressed_tensors.py", "gptqmodel": "load_gptqmodel.py",
           "auto-round": "load_auto_round.py", "mlx-lm": "load_mlx_lm.py"}  # fmt: skip
MAKERS = {"llmcompressor": "make_llmcompressor.py", "gptqmodel": "make_gptqmodel.py",
          "auto-round": "make_auto_round.py", "mlx-lm": "make_mlx_lm.py"}  # fmt: skip
TITLES = {"llmcompressor": "llm-compressor", "gptqmodel": "GPTQModel", "auto-round": "AutoRound", "mlx-lm": "mlx-lm"}
OFFLINE = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "CUDA_VISIBLE_DEVICES": "",
           "GPTQMODEL_CPU_WORKERS": "2"}  # fmt: skip


@dataclass
class Found:
    """What came of one checkpoint."""

    case: Case
    words: str = ""  # why there is no more to say
    format: str = ""
    linears: int = 0
    equal: int = 0  # linears whose weight is the loader's bit for bit
    others: int = 0  # coded tensors beside them, such as embedding and router
    equal_others: int = 0
    same_bytes: bool | None = None
    rewritten: int = 0  # linears whose other codes the loader finds
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def is_whole(self) -> bool:
        return not self.words and self.linears == self.equal == self.rewritten and self.others == self.equal_others


def interpreter(engine: str, folder: Path) -> Path:
    """The interpreter of an engine's environment, made where it is not there yet."""
    if engine == "mlx-lm":
        return python_of_reader(next(one for one in READERS if one.name == "mlx-lm"), folder)
    return python_of(engine, folder)


def run(engine: str, script: Path, job: Mapping[str, Any], folder: Path) -> str:
    """Runs a script with a job; returns what it last said if it failed."""
    (folder / f"{engine}.json").write_text(json.dumps(job), encoding="utf-8")
    done = subprocess.run(
        [interpreter(engine, folder), script, folder / f"{engine}.json"], env=os.environ | OFFLINE, cwd=folder,
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    (folder / f"{engine}.log").write_text(f"{done.stdout}\n{done.stderr}", encoding="utf-8")
    errors = [line for line in done.stderr.splitlines() if "Error" in line]
    return (errors or [last_line(done.stderr)])[-1] if done.returncode else ""


def make(case: Case, folder: Path, checkpoint: Checkpoint) -> str:
    """Makes a checkpoint where it is not there yet; returns why it could not be made."""
    target = folder / case.name
    if target.exists():
        return ""
    job = {"model": str(checkpoint.folder), "target": str(target), "text": str(checkpoint.folder / "calibration.txt"),
           "samples": case.samples, "length": LENGTH, "settings": case.settings}  # fmt: skip
    failed = run(case.maker, HERE / "makers" / MAKERS[case.maker], job, folder)
    if failed:
        shutil.rmtree(target, ignore_errors=True)
    return failed


def decoded(engine: str, folders: Mapping[str, Path], folder: Path) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """What an engine's loader said of each checkpoint, with the ``weights`` that it left, and its versions."""
    answers = folder / f"{engine}.answers"
    answers.write_text("", encoding="utf-8")
    targets = {name: folder / f"{name}.decoded.safetensors" for name in folders}
    job = {"answers": str(answers), "checkpoints": [
        {"name": name, "folder": str(path), "target": str(targets[name])} for name, path in folders.items()
    ]}  # fmt: skip
    failed = run(engine, HERE / "loaders" / LOADERS[engine], job, folder)
    said: dict[str, dict[str, Any]] = {name: {"error": failed or "it said nothing"} for name in folders}
    versions: dict[str, str] = {}
    for line in map(json.loads, answers.read_text(encoding="utf-8").splitlines()):
        versions = line.get("versions", versions)
        if "name" in line:
            said[line["name"]] = line
    for name, line in said.items():
        if "error" not in line:
            line["weights"] = load_file(targets[name])
    return said, versions


def compare(found: Found, opened: QuantizedCheckpoint, weights: Mapping[str, Tensor], checkpoint: Checkpoint) -> None:
    """Counts equal linears, and equal tensors that have codes beside them."""
    family = checkpoint.family
    for info in opened.layers:
        name = family.in_mlx(info) if opened.format == "mlx" else family.in_file(info.name)
        theirs = weights.get(name)
        if theirs is not None and opened.format == "mlx" and info.expert is not None:
            theirs = theirs[info.expert]
        found.linears += 1
        ours = opened.read(info).weight
        found.equal += theirs is not None and theirs.dtype == ours.dtype and torch.equal(theirs, ours)
    linears = {family.in_mlx(info) for info in opened.layers} | {family.in_file(info.name) for info in opened.layers}
    for name, theirs in weights.items():
        if name not in linears:
            found.others += 1
            found.equal_others += torch.equal(theirs, opened.tensor(f"{name}.weight"))


def changed(opened: QuantizedCheckpoint) -> dict[str, Tensor]:
    """Other codes for every linear, each of them one of the grid's."""
    random = torch.Generator().manual_seed(0)
    codes = {}
    for info in opened.layers:
        grid = opened.grids[info.name]
        numbers = torch.randint(grid.lowest, grid.highest + 1, info.shape, generator=random)
        codes[info.name] = numbers.to(torch.int16)
    return codes


def examined(cases: Sequence[Case], folder: Path, settings: Settings) -> list[Found]:
    """Every case of one loader: its checkpoints made, decoded and opened, written again and decoded once more."""
    checkpoints = {name: checkpoint_of(name, None, settings) for name in {case.model for case in cases}}
    founds = {case.name: Found(case) for case in cases}
    for case in cases:
        founds[case.name].words = make(case, folder, checkpoints[case.model])
    opened: dict[str, QuantizedCheckpoint] = {}
    for name, found in founds.items():
        if not found.words:
            try:
                opened[name] = QuantizedCheckpoint.open(folder / name, checkpoints[found.case.model])
                found.format = opened[name].format
            except Refused as error:
                found.words = str(error)
    engine = cases[0].loader or cases[0].maker
    for name, one in opened.items():
        for suffix, codes in (("same", {i.name: one.read(i).codes for i in one.layers}), ("other", changed(one))):
            shutil.rmtree(target := folder / f"{name}.{suffix}", ignore_errors=True)
            one.write_with(codes, target)
        founds[name].same_bytes = hashes(folder / f"{name}.same") == hashes(folder / name)
    folders = {f"{name}{suffix}": folder / f"{name}{suffix}" for name in opened for suffix in ("", ".other")}
    said, versions = decoded(engine, folders, folder)
    for name, one in opened.items():
        found, checkpoint = founds[name], checkpoints[founds[name].case.model]
        found.versions = versions
        if "error" in said[name]:
            found.words = f"its loader: {said[name]['error']}"
            continue
        compare(found, one, said[name]["weights"], checkpoint)
        if "error" not in said[f"{name}.other"]:
            again = Found(found.case)
            other = QuantizedCheckpoint.open(folder / f"{name}.other", checkpoint)
            compare(again, other, said[f"{name}.other"]["weights"], checkpoint)
            found.rewritten = again.equal
        for suffix in ("same", "other"):
            shutil.rmtree(folder / f"{name}.{suffix}")
    for name in folders:
        (folder / f"{name}.decoded.safetensors").unlink(missing_ok=True)
    return list(founds.values())


_PLAIN = str.maketrans({"|": "\\|", "`": "'", "*": "\\*", "_": "\\_", "{": "", "}": "", "[": "", "]": "", '"': ""})
_HEAD = """# What others made, opened

Written by `make test-opened` on {date}: checkpoints that other engines made of the embedded
models, calibrated on sequences of {length} tokens of each model's own calibration text, and opened here.

- Equal bits: linears whose weight is, bit for bit, what the format's own loader makes of the files; in brackets what
  has codes beside linears (embedding, head, routers).
- Same bytes: whether writing the codes that were read gives the same files.
- Found again: linears whose other codes, written in their place, the loader decodes as they are decoded here.
"""


def write_page(founds: Sequence[Found], path: Path) -> None:
    """The table as Markdown."""
    parts = [_HEAD.format(date=datetime.date.today().isoformat(), length=LENGTH)]
    heads = ("made by", "model", "sequences", "settings", "format", "linears", "equal bits", "same bytes",
             "found again", "loader")  # fmt: skip
    parts += [f"| {' | '.join(heads)} |", "| --- " * len(heads) + "|"]
    for found in founds:
        case = found.case
        sequences = "none" if case.maker == "mlx-lm" else case.samples
        loader = ", ".join(f"{name} {version}" for name, version in found.versions.items())
        head = f"| {TITLES[case.maker]} | {case.model} | {sequences} | {case.words.translate(_PLAIN)} |"
        if found.words:
            words = found.words.translate(_PLAIN)
            parts.append(f"{head} {found.format or '–'} | {words} | – | – | – | {loader or '–'} |")
            continue
        others = f" ({found.equal_others} of {found.others})" if found.others else ""
        cells = (found.format, found.linears, f"{found.equal}{others}", "yes" if found.same_bytes else "no",
                 found.rewritten, loader)  # fmt: skip
        parts.append(f"{head} {' | '.join(map(str, cells))} |")
    path.write_text("\n".join(parts) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="where environments and checkpoints are, or come")
    parser.add_argument("--only", nargs="+", default=[], help="checkpoints by the beginning of their names")
    parser.add_argument("--page", type=Path, help="write the table there; without --only: docs/decoded.md")
    given = parser.parse_args()
    folder: Path = given.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    settings = Settings(device="cpu")
    wanted = [case for case in CASES if not given.only or case.name.startswith(tuple(given.only))]
    founds: list[Found] = []
    for engine in LOADERS:
        cases = [case for case in wanted if (case.loader or case.maker) == engine]
        if not cases:
            continue
        for found in examined(cases, folder, settings):
            founds.append(found)
            word = "ok   " if found.is_whole and found.same_bytes else "WRONG"
            said = found.words or (
                f"{found.equal} of {found.linears} linears have equal bits, {found.equal_others} of {found.others} "
                f"other tensors, same bytes: {found.same_bytes}, {found.rewritten} found again"
            )
            print(f"{word} {found.case.name}: {said}", flush=True)
    page = given.page or (None if given.only else PAGE)
    if page is not None:
        write_page(sorted(founds, key=lambda one: CASES.index(one.case)), page)
    sys.exit(not all(found.is_whole and found.same_bytes for found in founds))


if __name__ == "__main__":
    main()
