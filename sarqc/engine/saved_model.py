"""The quantized model written to files, and read again: the same tokens as before, or the first difference."""

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from sarqc.calibration.kept_layers import KeptLayers
from sarqc.checkpoints.compressed_tensors import save_packed
from sarqc.checkpoints.formats import Format, check_format, is_no_gain
from sarqc.checkpoints.gptq import save_gptq
from sarqc.checkpoints.mlx import save_mlx
from sarqc.checkpoints.model_card import model_card
from sarqc.checkpoints.plain import save_plain
from sarqc.checkpoints.quantized_checkpoint import QuantizedCheckpoint
from sarqc.checkpoints.round_trip import read_again
from sarqc.documents import Written
from sarqc.engine.measure import Workbench
from sarqc.engine.run import RunContext
from sarqc.evaluation.side_by_side import continuation, divergence
from sarqc.events import Event, Saved, Stage, Warned
from sarqc.study.stamp import FILE

NEW_TOKENS = 64  # that are compared
CARD = "README.md"
PROMPT_TOKENS = 32  # of the calibration text, which they continue
_WITH_CODES = {"packed": save_packed, "gptq": save_gptq, "mlx": save_mlx}


def save_checkpoint(run: RunContext) -> Iterator[Event]:
    """Write the quantized model, or the repaired checkpoint if that is an improvement."""
    if run.output.checkpoint_dir is None:
        return
    if run.is_float:
        for _ in run.bench.calibrated(run.job, run.solved):
            pass  # the run's own layers, from the store: they were reported
        if run.tuning is not None:
            run.tuning.put()
    repair = run.summary["repair"]
    if repair is not None and is_no_gain(repair):
        yield Warned("nothing was written: the file as it was found is as good or better", "checkpoint")
    elif run.imported is not None:
        yield from _save_repaired(run, run.imported.opened, run.output.checkpoint_dir)
    else:
        yield from _save_model(run, run.output.checkpoint_dir, check_format(run.recipe, run.output.checkpoint_format))


def _save_model(run: RunContext, folder: Path, checkpoint_format: Format) -> Iterator[Event]:
    """Write the model as it is now, read it again and compare; its weights are those of the files then."""
    assert run.stamp is not None  # made with the layers
    loaded, stamp = run.bench.loaded, run.stamp.to_text()

    def card() -> str:
        return model_card(run.recipe, run.summary, checkpoint_format)

    def write() -> None:
        beside = {CARD: card(), FILE: stamp}
        if checkpoint_format == "plain":
            save_plain(loaded, folder, beside)
        else:
            _WITH_CODES[checkpoint_format](loaded, run.layers, run.job.grids, folder, beside)

    yield from _write_and_compare(run, write, lambda: read_again(loaded, folder, checkpoint_format))
    _write_card(folder, card())
    yield Saved("checkpoint", str(folder))


def _save_repaired(run: RunContext, opened: QuantizedCheckpoint, folder: Path) -> Iterator[Event]:
    """Write the files of a quantized checkpoint with the run's codes, read them again and compare as ``_save_model``
    does. Every other byte is unchanged.
    """
    yield from _write_and_compare(
        run,
        lambda: opened.write_with(_Codes(run.layers), folder),
        lambda: _read_repaired(run.bench, QuantizedCheckpoint.open(folder, run.prepared.checkpoint), opened),
    )
    yield Saved("checkpoint", str(folder))


def _write_and_compare(run: RunContext, write: Callable[[], object], read: Callable[[], list[str]]) -> Iterator[Event]:
    """Compare the files that ``write`` makes; ``read`` gives the model their weights and returns those that differ."""
    loaded, positions = run.bench.loaded, run.prepared.checkpoint.max_positions
    count = min(NEW_TOKENS, positions - 1)
    prompt = np.asarray(run.prepared.sequences.calibration[0][: min(PROMPT_TOKENS, positions - count)])

    def continued() -> list[int] | None:
        return (
            None if loaded.streaming is not None else continuation(loaded, prompt, count, "greedy", 0, to_the_end=True)
        )

    yield Stage("saving", "checkpoint")
    before = continued()
    write()
    yield Stage("saving", "reading it again")
    written = _comparison(read(), before, continued())
    if written["other_tensors"] or written["parts_at"] is not None:
        yield Warned(written["words"], "checkpoint")
    run.summary["written"] = written


class _Codes(Mapping[str, Tensor]):
    """Codes (O, I) by the names of linears, each read on demand."""

    def __init__(self, layers: KeptLayers) -> None:
        self._layers = layers

    def __getitem__(self, name: str) -> Tensor:
        return self._layers[name].codes

    def __iter__(self) -> Iterator[str]:
        return iter(self._layers)

    def __len__(self) -> int:
        return len(self._layers)


def _read_repaired(bench: Workbench, written: QuantizedCheckpoint, opened: QuantizedCheckpoint) -> list[str]:
    """Give the linears the weights that the files stand for; return the names of tensors that are others."""
    loaded, others = bench.loaded, []
    for index, block in enumerate(loaded.blocks()):
        with loaded.at(block), torch.no_grad():
            for info in (layer for layer in written.layers if layer.block == index):
                weight = loaded.weight(info.name)
                stored = written.read(info).weight.to(weight.device, weight.dtype)
                if not torch.equal(stored, weight):
                    others.append(info.name)
                if loaded.streaming is None:
                    weight.copy_(stored)
    coded = {f"{loaded.family.in_file(info.name)}.weight" for info in written.layers}
    for name in loaded.checkpoint.parameter_names:
        if name not in coded and not torch.equal(written.tensor(name), opened.tensor(name)):
            others.append(name)
    return others


def _comparison(others: list[str], before: list[int] | None, after: list[int] | None) -> Written:
    if others:
        words = f"{len(others)} tensors read otherwise than those of the measured model, {others[0]} among them"
    else:
        words = "Every tensor of these files reads as that of the measured model"
    if before is None or after is None:
        words += ". Tokens were not compared: the blocks of this model are read one by one."
        return {"other_tensors": others, "tokens": 0, "parts_at": None, "words": words}
    parts_at = divergence(before, after)
    if parts_at is None:
        words += f", and continues the calibration text by the same {len(before)} greedy tokens."
    else:
        words += (
            f". Of {len(before)} greedy tokens after the calibration text, number {parts_at + 1} is the first other."
        )
    return {"other_tensors": others, "tokens": len(before), "parts_at": parts_at, "words": words}


def _write_card(folder: Path, card: str) -> None:
    """Write the card in place of the first one, which was written before the files were read again."""
    path = folder / CARD
    partial = path.with_suffix(".partial")
    partial.write_text(card, encoding="utf-8")
    partial.chmod(path.stat().st_mode)
    os.replace(partial, path)
