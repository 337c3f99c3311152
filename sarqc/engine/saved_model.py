"""The quantized model written to files, and read again from them: the same tokens as before, or where they part."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from sarqc.calibration.job import CalibrationJob
from sarqc.calibration.kept_layers import KeptLayers
from sarqc.checkpoints.compressed_tensors import save_packed
from sarqc.checkpoints.formats import Format
from sarqc.checkpoints.gptq import save_gptq
from sarqc.checkpoints.mlx import save_mlx
from sarqc.checkpoints.model_card import model_card
from sarqc.checkpoints.plain import save_plain
from sarqc.checkpoints.quantized_checkpoint import QuantizedCheckpoint
from sarqc.checkpoints.round_trip import read_again
from sarqc.documents import Summary, Written
from sarqc.engine.imported_model import ImportedModel
from sarqc.engine.measure import Workbench
from sarqc.engine.plan import Prepared
from sarqc.evaluation.side_by_side import continuation, divergence
from sarqc.events import Event, Saved, Stage, Warned
from sarqc.study.stamp import FILE, Stamp

NEW_TOKENS = 64  # that are compared
CARD = "README.md"
PROMPT_TOKENS = 32  # of the calibration text, which they continue
_WITH_CODES = {"packed": save_packed, "gptq": save_gptq, "mlx": save_mlx}


def save_model(
    bench: Workbench,
    prepared: Prepared,
    layers: KeptLayers,
    job: CalibrationJob,
    summary: Summary,
    folder: Path,
    checkpoint_format: Format,
    stamp: Stamp,
) -> Generator[Event, None, Summary]:
    """Writes the model as it is now, reads it again and compares; returns the summary with what came of it.

    ``layers``: the codes of its linears; ``stamp``: that of the run. The model's weights are those of the files then.
    """
    loaded, family = bench.loaded, prepared.checkpoint.family

    def write() -> None:
        beside = {CARD: model_card(prepared.recipe, summary, checkpoint_format, family), FILE: stamp.to_text()}
        if checkpoint_format == "plain":
            save_plain(loaded, folder, beside)
        else:
            _WITH_CODES[checkpoint_format](loaded, layers, job.grids, folder, beside)

    written = yield from _written(bench, prepared, write, lambda: read_again(loaded, folder, checkpoint_format))
    document: Summary = {**summary, "written": written}
    _write_card(folder, model_card(prepared.recipe, document, checkpoint_format, family))
    yield Saved("checkpoint", str(folder))
    return document


def save_repaired(
    bench: Workbench, prepared: Prepared, found: ImportedModel, layers: KeptLayers, summary: Summary, folder: Path
) -> Generator[Event, None, Summary]:
    """Writes the files of a quantized checkpoint with the codes of ``layers``, reads them again and compares as
    ``save_model`` does. Every other byte is as it was found.
    """
    opened = found.opened
    written = yield from _written(
        bench,
        prepared,
        lambda: opened.write_with(_Codes(layers), folder),
        lambda: _read_repaired(bench, QuantizedCheckpoint.open(folder, prepared.checkpoint), opened),
    )
    yield Saved("checkpoint", str(folder))
    return {**summary, "written": written}


def _written(
    bench: Workbench, prepared: Prepared, write: Callable[[], object], read: Callable[[], list[str]]
) -> Generator[Event, None, Written]:
    """What the files are that ``write`` makes; ``read`` gives the model their weights and returns those that differ."""
    loaded = bench.loaded
    positions = prepared.checkpoint.max_positions
    count = min(NEW_TOKENS, positions - 1)
    prompt = np.asarray(prepared.sequences.calibration[0][: min(PROMPT_TOKENS, positions - count)])

    def continued() -> list[int] | None:
        return (
            None if loaded.streaming is not None else continuation(loaded, prompt, count, "greedy", 0, to_the_end=True)
        )

    yield Stage("saving", "checkpoint")
    before = continued()
    write()
    yield Stage("saving", "reading it again")
    written = _compared(read(), before, continued())
    if written["other_tensors"] or written["parts_at"] is not None:
        yield Warned(written["words"], "checkpoint")
    return written


class _Codes(Mapping[str, Tensor]):
    """Codes (O, I) by the names of linears, each read when it is asked for."""

    def __init__(self, layers: KeptLayers) -> None:
        self._layers = layers

    def __getitem__(self, name: str) -> Tensor:
        return self._layers[name].codes

    def __iter__(self) -> Iterator[str]:
        return iter(self._layers)

    def __len__(self) -> int:
        return len(self._layers)


def _read_repaired(bench: Workbench, written: QuantizedCheckpoint, opened: QuantizedCheckpoint) -> list[str]:
    """Gives the linears the weights that the files stand for; returns the names of tensors that are others."""
    loaded, others = bench.loaded, []
    for index, block in enumerate(loaded.blocks()):
        with loaded.at(block), torch.no_grad():
            for info in (layer for layer in written.layers if layer.block == index):
                weight = loaded.weight(info.name)
                there = written.read(info).weight.to(weight.device, weight.dtype)
                if not torch.equal(there, weight):
                    others.append(info.name)
                if loaded.streaming is None:
                    weight.copy_(there)
    coded = {f"{loaded.family.in_file(info.name)}.weight" for info in written.layers}
    for name in loaded.checkpoint.parameter_names:
        if name not in coded and not torch.equal(written.tensor(name), opened.tensor(name)):
            others.append(name)
    return others


def _compared(others: list[str], before: list[int] | None, after: list[int] | None) -> Written:
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
    """In place of the one that could not know yet what reading the files would say."""
    path = folder / CARD
    partial = path.with_suffix(".partial")
    partial.write_text(card, encoding="utf-8")
    partial.chmod(path.stat().st_mode)
    os.replace(partial, path)
