"""Finished layers as safetensors files, from which an interrupted run continues to the same bits."""

import json
import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import safetensors.torch
import torch
from torch import Tensor

from sarqc.calibration.job import SolvedLayer
from sarqc.calibration.pictures import CURVE_ARRAYS, LayerCurve
from sarqc.errors import NotFound
from sarqc.files.artefacts import ArtefactStore
from sarqc.models.families import LayerInfo
from sarqc.models.host_copies import on_host
from sarqc.quantization.quantized_layer import LayerReport, QuantizedLayer

SUFFIX = ".layer"
# None: not in the file
_TENSORS = ("scales", "zero_points", "dequantized", "channel_scale", "row_scale", "biases")
MOST_WAITING = 3  # layers, each still on its device


def write_layer(store: ArtefactStore, key: str, solved: SolvedLayer) -> None:
    """Store a solved layer under its key."""
    quantized, curve = solved.quantized, solved.curve
    codes, packing = packed(quantized.codes)
    document = {
        "report": quantized.report.to_json(),
        "lams": curve.lams,
        "seconds": solved.seconds,
        "codes": asdict(packing),
    }
    tensors = {"document": torch.frombuffer(bytearray(json.dumps(document).encode()), dtype=torch.uint8)}
    tensors |= {"codes": codes} | {name: part for name in _TENSORS if (part := getattr(quantized, name)) is not None}
    if torch.equal(quantized.stored(), quantized.dequantized):
        del tensors["dequantized"]  # two thirds of the file
    tensors |= {f"curve.{name}": torch.from_numpy(getattr(curve, name)) for name in CURVE_ARRAYS}
    payload = safetensors.torch.save({name: on_host(tensor) for name, tensor in tensors.items()})
    store.write(key, SUFFIX, payload)


class LayerWriter:
    """Writer of solved layers in the background: for a large model the disk takes as long as the solver.

    Layers are yielded in their order, each once it is stored: a layer that a run has reported survives a kill. A
    context manager, at whose end all are stored, also after an error. Errors of the disk are raised in place of their
    layer.

    Args:
        store: Store of the artefacts; None stores nothing.
    """

    def __init__(self, store: ArtefactStore | None) -> None:
        self._store = store
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="layer-writer")
        self._waiting: deque[tuple[SolvedLayer, Future[None] | None]] = deque()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._thread.shutdown(wait=True)

    def keep(self, key: str, solved: SolvedLayer) -> Iterator[SolvedLayer]:
        """Add a layer, and yield the layers whose files are complete; without a store, yield it at once."""
        writing = None
        if self._store is not None and not solved.from_cache:
            writing = self._thread.submit(write_layer, self._store, key, solved)
        self._waiting.append((solved, writing))
        return self.ready()

    def finish(self) -> Iterator[SolvedLayer]:
        """Wait until all are stored, and yield the last of them."""
        return self._take_written(0)

    def ready(self) -> Iterator[SolvedLayer]:
        """Yield the layers that are stored by now."""
        return self._take_written(MOST_WAITING)

    def _take_written(self, most: int) -> Iterator[SolvedLayer]:
        """Yield the first layers, until at most ``most`` wait and the next is still being written."""
        while self._waiting:
            solved, writing = self._waiting[0]
            if writing is not None:
                if len(self._waiting) <= most and not writing.done():
                    return
                writing.result()
            self._waiting.popleft()
            yield solved


def read_layer(store: ArtefactStore, key: str, info: LayerInfo) -> SolvedLayer | None:
    """Return the layer stored under a key, or None."""
    payload = store.read(key, SUFFIX)
    if payload is None:
        return None
    tensors = safetensors.torch.load(payload)
    document = json.loads(bytes(tensors["document"].numpy()))
    report = document["report"]
    report |= {name: tuple(report.get(name, ())) for name in ("flags", "candidates", "checks")}
    parts: dict[str, Any] = {"channel_scale": None, "dequantized": torch.empty(0)}
    parts |= {name: tensors[name] for name in _TENSORS if name in tensors}
    codes = unpacked(tensors["codes"], Packing(**document["codes"]))
    quantized = QuantizedLayer(codes=codes, report=LayerReport(**report), **parts)
    if "dequantized" not in tensors:
        quantized = replace(quantized, dequantized=quantized.stored())
    known = {name: tensors.get(f"curve.{name}") for name in CURVE_ARRAYS}
    arrays = {name: part.numpy() for name, part in known.items() if part is not None}  # see ``LayerNumbers``
    curve = LayerCurve(tuple(document["lams"]), quantized.report.n_tokens, **arrays)
    return SolvedLayer(info, quantized, curve, document["seconds"], from_cache=True)


class KeptLayers(Mapping[str, QuantizedLayer]):
    """Finished layers by name, each read on demand.

    Raises:
        NotFound: On access, if the layer is no longer stored.
    """

    def __init__(self, store: ArtefactStore, keys: Mapping[str, str], layers: Sequence[LayerInfo]) -> None:
        self._store, self._keys, self._layers = store, keys, {layer.name: layer for layer in layers}

    def __getitem__(self, name: str) -> QuantizedLayer:
        solved = read_layer(self._store, self._keys[name], self._layers[name])
        if solved is None:
            raise NotFound("the finished layer is no longer kept", name, "Run the recipe again; raise SARQC_CACHE_GIB.")
        return solved.quantized

    def __iter__(self) -> Iterator[str]:
        return iter(self._layers)

    def __len__(self) -> int:
        return len(self._layers)


@dataclass(frozen=True)
class Packing:
    """Layout of a tensor's integers in bytes: those of one byte from its lowest bits up, each above ``lowest``."""

    shape: tuple[int, ...]
    dtype: str  # of the integers, as torch spells it
    lowest: int
    bits: int  # 1, 2, 4 or 8


def packed(integers: Tensor) -> tuple[Tensor, Packing]:
    """Pack integers of any shape, at least one and all within 255 of each other, into uint8 (n,) on the same device."""
    lowest, highest = (int(end) for end in integers.aminmax())
    bits = next(bits for bits in (1, 2, 4, 8) if highest - lowest < 1 << bits)
    in_a_byte = 8 // bits
    above = (integers.flatten().to(torch.int16) - lowest).to(torch.uint8)
    above = torch.nn.functional.pad(above, (0, -len(above) % in_a_byte)).unflatten(0, (-1, in_a_byte))
    content = torch.zeros_like(above[:, 0])
    for place in range(in_a_byte):
        content |= above[:, place] << place * bits
    return content, Packing(tuple(integers.shape), str(integers.dtype).removeprefix("torch."), lowest, bits)


def unpacked(content: Tensor, packing: Packing) -> Tensor:
    """Return the integers that ``packed`` was given."""
    places = torch.arange(0, 8, packing.bits, dtype=torch.uint8, device=content.device)
    above = (content.unsqueeze(-1) >> places) & ((1 << packing.bits) - 1)
    integers = above.flatten()[: math.prod(packing.shape)].to(torch.int16) + packing.lowest
    return integers.to(getattr(torch, packing.dtype)).reshape(packing.shape)
