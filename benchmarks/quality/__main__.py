"""Runs what is missing of a comparison and prints the tables.

    python -m benchmarks.quality --folder DIR --model tiny-llama --calibration wikitext2 \
        --test wikitext2-validation --test-tokens 15616 --bits 2 3 4 --read docs/engines.json --write docs/engines.json

Environments, results and tables are kept under the folder; the same command again goes on where it was stopped, and
another model adds to what is there. Delete a result to have it made again. Processes that share a folder are given
draws of their own, such as ``--draws 1 --first-draw 3``, once the environments are there.

Times are processor seconds on a CPU and seconds on the wall on a GPU (``--device cuda``): results of both are kept in
folders apart.
"""

import argparse
import itertools
import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from benchmarks.quality.contenders import CONTENDERS
from benchmarks.quality.dequantize import FORMATS
from benchmarks.quality.evaluate import Evaluator
from benchmarks.quality.jobs import EngineFailed, Job, drawn, run_job
from benchmarks.quality.results import Cell, Result, read_all, take_over
from benchmarks.quality.table import page, summarised
from sarqc.calibration.corpora import text_of
from sarqc.models.catalogue import checkpoint_of
from sarqc.models.loading import load
from sarqc.settings import read_settings


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True, help="where environments and results are kept")
    parser.add_argument("--model", help="as in a recipe; none: only the tables of what is there")
    parser.add_argument("--calibration", help="as in a recipe: a named text or a path")
    parser.add_argument("--test", help="as in a recipe: a named text or a path")
    parser.add_argument("--test-tokens", type=int, help="only so many from its beginning")
    parser.add_argument("--bits", type=int, nargs="+", default=[2, 3, 4])
    parser.add_argument("--group-size", type=int, default=128, help="0: the whole row")
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--first-draw", type=int, default=0)
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("--length", type=int, default=256)
    parser.add_argument("--window", type=int, default=256)
    parser.add_argument("--contenders", nargs="+", choices=CONTENDERS, default=list(CONTENDERS))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="of the engines and of the evaluator")
    parser.add_argument("--here", action="store_true", help="this interpreter runs every engine, and has its packages")
    parser.add_argument("--read", type=Path, help="a file that --write wrote, whose results the folder takes over")
    parser.add_argument("--write", type=Path, help="a file for the numbers of all results")
    return parser.parse_args()


class Comparison:
    """One model on one protocol."""

    def __init__(self, given: argparse.Namespace) -> None:
        self._given, settings = given, read_settings()
        checkpoint = checkpoint_of(given.model, None, settings)
        self._checkpoint = checkpoint
        test = text_of(given.test, checkpoint, settings)
        loaded = load(checkpoint, torch.device(given.device), holding=[torch.float32])
        self._evaluator = Evaluator(loaded, test.ids[: given.test_tokens], given.window)
        self._protocol: dict[str, Any] = {
            "calibration": text_of(given.calibration, checkpoint, settings).corpus, "samples": given.samples,
            "length": given.length, "test": test.corpus, "window": given.window,
            "predicted_tokens": self._evaluator.predicted_tokens, "group_size": given.group_size or None,
            "perplexity_float": self._evaluator.float_perplexity(), "threads": given.threads,
            **({} if given.device == "cpu" else {"device": torch.cuda.get_device_name()}),
        }  # fmt: skip

    def run(self, cell: Cell) -> Result:
        """One calibration by the cell's contender, and what its weights are worth."""
        given, contender = self._given, CONTENDERS[cell.contender]
        sequences = drawn(
            given.calibration, self._checkpoint, samples=given.samples, length=given.length, draw=cell.draw
        )  # fmt: skip
        job = Job(
            contender.engine, self._checkpoint.folder, cell.bits, given.group_size or None, contender.settings,
            given.device,
        )  # fmt: skip
        try:
            left = run_job(job, sequences, given.folder, given.threads, here=given.here)
        except EngineFailed as error:
            return Result(self._protocol, {}, failed=str(error))
        weight_of = FORMATS[left.format]
        try:
            quality = self._evaluator.measure(lambda name: weight_of(left.tensors, name, cell.bits))
        except KeyError as error:  # a shape that the engine passes over, AutoRound where 32 does not divide it
            return Result(self._protocol, left.versions, failed=f"it left linears in float: no {error}")
        return Result(
            self._protocol, left.versions, seconds=left.seconds, wall=left.wall, peak_bytes=left.peak_bytes,
            **asdict(quality),
        )  # fmt: skip


def missing(given: argparse.Namespace) -> Iterator[Cell]:
    """What is not kept yet. Engines alternate within a draw, so that a slow hour of the host is everybody's."""
    draws = range(given.first_draw, given.first_draw + given.draws)
    for bits, draw, contender in itertools.product(given.bits, draws, given.contenders):
        cell = Cell(Path(given.model).name, bits, draw, contender)
        if not cell.path(given.folder).exists():
            yield cell


def main() -> None:
    given = arguments()
    given.folder = given.folder.resolve()
    given.folder.mkdir(parents=True, exist_ok=True)
    read = json.loads(given.read.read_text(encoding="utf-8")) if given.read else {"models": {}}
    take_over(read, given.folder)
    if given.model:
        torch.set_num_threads(given.threads)
        comparison = Comparison(given)
        for cell in missing(given):
            result = comparison.run(cell)
            result.write(cell.path(given.folder))
            said = result.failed or f"perplexity {result.perplexity:.2f}, {result.seconds:.1f} s"
            print(f"{cell.model} W{cell.bits} draw {cell.draw} {cell.contender}: {said}", flush=True)
    same_codes = given.folder / "same_codes.json"
    summary = summarised(read_all(given.folder))
    summary["models"] |= {model: found for model, found in read["models"].items() if "host" in found}
    summary["same_codes"] = json.loads(same_codes.read_text(encoding="utf-8")) if same_codes.exists() else []
    text = page(summary)
    (given.folder / "table.md").write_text(text, encoding="utf-8")
    print(text)
    if given.write:
        given.write.write_text(json.dumps(summary, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
