"""Statistics of all inputs of the float model's linears, block by block, stored as artefacts.

They depend on the model and the sequences alone: a further question about the same draw, at any bits, λ, γ or method
that works on single layers, costs no pass through the model. A Gram is symmetric, so half of it is stored.
"""

import json
from collections.abc import Collection, Iterator, Sequence

import numpy as np
import safetensors.torch
import torch
from torch import Tensor

from sarqc.calibration.capture import Statistics, collect
from sarqc.files.artefacts import ArtefactStore
from sarqc.models.loading import LoadedModel
from sarqc.models.walk import BlockWalk
from sarqc.quantization.layer_statistics import LayerStatistics

SUFFIX = ".statistics"


def float_statistics(
    loaded: LoadedModel, sequences: np.ndarray, blocks: Collection[int], keys: Sequence[str], store: ArtefactStore
) -> Iterator[tuple[int, Statistics]]:
    """Yield the numbers of the requested blocks, in order, with the statistics of their linears by path.

    The model must be float until the last block is yielded. Missing statistics are collected in one walk, which ends at
    the last requested block. One of several workers collects them, before it yields the first block, and the others
    wait. ``keys`` are those of the statistics for each of the model's blocks.
    """
    if store.claims.crew > 1 and not all(store.touch(keys[block], SUFFIX) for block in blocks):
        with store.claims.alone(keys[max(blocks)]):
            for _ in _collected(loaded, sequences, blocks, keys, store):
                pass
    yield from _collected(loaded, sequences, blocks, keys, store)


def _collected(
    loaded: LoadedModel, sequences: np.ndarray, blocks: Collection[int], keys: Sequence[str], store: ArtefactStore
) -> Iterator[tuple[int, Statistics]]:
    missing = [block for block in blocks if not store.touch(keys[block], SUFFIX)]
    walk = BlockWalk(loaded, torch.from_numpy(sequences.copy())) if missing else None
    for index, block in enumerate(loaded.blocks()):
        if index > max(blocks):
            return
        statistics = None
        if index in blocks and index not in missing:
            payload = store.read(keys[index], SUFFIX)
            statistics = None if payload is None else unpacked(payload, loaded.device)
            if statistics is None:  # damaged since it was looked for
                yield from _collected(loaded, sequences, [number for number in blocks if number >= index], keys, store)
                return
        if walk is not None and index <= missing[-1]:
            with loaded.at(block):
                if index in missing:
                    collected, outputs = collect(walk, block)
                    payload = packed(collected)
                    store.write(keys[index], SUFFIX, payload)
                    statistics = unpacked(payload, loaded.device)  # the same bits as when read later
                else:
                    outputs = walk.outputs(block)
            walk.advance(outputs)
        if statistics is not None:
            yield index, statistics


def packed(statistics: Statistics) -> bytes:
    """Return statistics as a safetensors file; linears that read the same tokens share one entry."""
    shared: dict[int, tuple[LayerStatistics, list[str]]] = {}
    for path, entry in statistics.items():
        shared.setdefault(id(entry), (entry, []))[1].append(path)
    tensors: dict[str, Tensor] = {}
    document = []
    for number, (entry, paths) in enumerate(shared.values()):
        width = len(entry.abs_sum)
        rows, columns = torch.triu_indices(width, width, device=entry.gram.device)
        tensors[f"{number}.gram"] = entry.gram[rows, columns]
        tensors[f"{number}.abs_sum"] = entry.abs_sum
        if entry.max_norm is not None:
            tensors[f"{number}.max_norm"] = entry.max_norm
        document.append({"paths": paths, "n_tokens": entry.n_tokens})
    tensors["document"] = torch.frombuffer(bytearray(json.dumps(document).encode()), dtype=torch.uint8)
    return safetensors.torch.save({name: tensor.cpu().contiguous() for name, tensor in tensors.items()})


def unpacked(payload: bytes, device: torch.device) -> Statistics:
    """Return the statistics that ``packed`` was given, with the upper half of each Gram on both sides.

    Raises:
        ValueError: If parts do not belong together, before anything of their size is made.
    """
    tensors = safetensors.torch.load(payload)
    statistics: Statistics = {}
    for number, entry in enumerate(json.loads(bytes(tensors.pop("document").numpy()))):
        parts = {
            name: tensors[f"{number}.{name}"].to(device)
            for name in ("gram", "abs_sum", "max_norm")
            if f"{number}.{name}" in tensors
        }
        width = len(parts["abs_sum"])
        if parts["gram"].shape != (width * (width + 1) // 2,) or parts["abs_sum"].shape != (width,):
            raise ValueError(f"{entry['paths']}: half of a Gram of width {width} has another number of entries")
        if not all(part.is_floating_point() for part in parts.values()) or not isinstance(entry["n_tokens"], int):
            raise ValueError(f"{entry['paths']}: numbers of another kind")
        rows, columns = torch.triu_indices(width, width, device=device)
        gram = parts["gram"].new_empty(width, width)
        gram[rows, columns] = parts["gram"]
        gram[columns, rows] = parts["gram"]
        shared = LayerStatistics(gram, parts["abs_sum"], entry["n_tokens"], max_norm=parts.get("max_norm"))
        statistics |= dict.fromkeys(entry["paths"], shared)
    return statistics
