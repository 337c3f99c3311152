"""Statistics in a file from elsewhere: with one thing wrong each, refused in a sentence and without much work."""

import json
import resource
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import Tensor

from sarqc.calibration.float_statistics import packed
from sarqc.engine.bundle import FORMAT, MOST_BYTES, Bundle, screen_bundle
from sarqc.errors import Refused
from sarqc.quantization.layer_statistics import LayerStatistics
from sarqc.recipe import Recipe
from sarqc.settings import Settings

NAME = "model.layers.0.mlp.down_proj"
DEEP = 100_000
LAYER = {"name": NAME, "block": 0, "module": "down_proj", "shape": [4, 8], "expert": None}
DOCUMENT = {
    "format": FORMAT, "model": "m", "calibration": "c", "test": None, "blocks": "model.layers", "protocol": {},
    "layers": [LAYER],
}  # fmt: skip


def statistics(width: int = 8) -> bytes:
    inputs = torch.randn(20, width, generator=torch.Generator().manual_seed(0))
    return packed({"mlp.down_proj": LayerStatistics(inputs.T @ inputs, inputs.abs().sum(0), 20)})


def tensors(**changes) -> dict[str, Tensor]:
    own, unseen, weight = (changes.get(name) for name in ("own", "unseen", "weight"))
    return {
        "0.own": as_bytes(own or statistics()),
        "0.unseen": as_bytes(unseen or statistics()),
        f"{NAME}.weight": torch.ones(4, 8) if weight is None else weight,
    }


def as_bytes(content: bytes) -> Tensor:
    return torch.frombuffer(bytearray(content), dtype=torch.uint8)


def written(path: Path, document=None, **changes) -> Path:
    text = document if isinstance(document, str) else json.dumps(document or DOCUMENT)
    safetensors.torch.save_file(tensors(**changes), path, {"sarqc": text})
    return path


def with_header(path: Path, header: bytes | dict, length: int | None) -> Path:
    header = json.dumps(header).encode() if isinstance(header, dict) else header
    path.write_bytes(struct.pack("<Q", len(header) if length is None else length) + header)
    return path


def inner(change: Callable[[dict[str, Tensor]], None]) -> bytes:
    """Statistics whose own tensors were changed."""
    parts = safetensors.torch.load(statistics())
    change(parts)
    return safetensors.torch.save(parts)


def described(**changes) -> Callable[[dict[str, Tensor]], None]:
    def change(parts: dict[str, Tensor]):
        (entry,) = json.loads(bytes(parts["document"].numpy()))
        parts["document"] = as_bytes(json.dumps([entry | changes]).encode())

    return change


def entry(shape: list[int], begin: int, end: int, dtype: str = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def a_wide_gram(parts: dict[str, Tensor]):
    parts["0.abs_sum"] = torch.zeros(1 << 20)  # its Gram would have 4 TiB


HEADERS = {  # what stands in a file's beginning, and its length where that is a lie
    "a header of 2^62 bytes": (b"{}", 1 << 62),
    "a header that ends early": (b'{"a":', 5),
    "a shape of 2^40": ({"a": entry([1 << 40], 0, 1 << 42)}, None),
    "a shape that overflows": ({"a": entry([1 << 40] * 4, 0, 0)}, None),
    "offsets that overlap": (json.dumps({"a": entry([2], 0, 8), "b": entry([2], 4, 12)}).encode() + bytes(12), None),
    "a deep header": (b'{"a":' + b"[" * DEEP, None),
    "a million names": ({str(number): entry([0], 0, 0) for number in range(1_000_000)}, None),
}
DOCUMENTS = {
    "a deep document": "[" * DEEP,
    "a long document": DOCUMENT | {"test": "a" * MOST_BYTES},
    "a list": "[1]",
    "another format": DOCUMENT | {"format": 10**30},
    "no layers": DOCUMENT | {"layers": []},
    "a layer twice": DOCUMENT | {"layers": [LAYER, LAYER]},
    "a layer without a weight": DOCUMENT | {"layers": [LAYER | {"name": "other"}]},
    "another shape": DOCUMENT | {"layers": [LAYER | {"shape": [1 << 40, 8]}]},
    "another block": DOCUMENT | {"layers": [LAYER | {"block": 7}]},
}
PARTS = {
    "weights that are bytes": {"weight": torch.ones(4, 8, dtype=torch.uint8)},
    "statistics that are noise": {"own": b"\xff" * 100},
    "statistics of another width": {"unseen": statistics(4)},
}
STATISTICS = {
    "a Gram of 4 TiB": a_wide_gram,
    "statistics without a document": lambda parts: parts.pop("document"),
    "statistics of other layers": described(paths=["mlp.up_proj"]),
    "paths that are not text": described(paths=[["a"]]),
    "tokens that are not numbers": described(n_tokens="many"),
    "a deep document of statistics": lambda parts: parts.update(document=as_bytes(b"[" * DEEP)),
}
BOMBS = (
    {name: partial(with_header, header=header, length=length) for name, (header, length) in HEADERS.items()}
    | {name: partial(written, document=document) for name, document in DOCUMENTS.items()}
    | {name: partial(written, **changes) for name, changes in PARTS.items()}
    | {name: partial(written, own=inner(change)) for name, change in STATISTICS.items()}
)


def test_what_is_right_is_read(tmp_path):
    bundle = Bundle.open(written(tmp_path / "right"))
    (block,) = bundle.blocks(torch.device("cpu"))
    assert block.own["mlp.down_proj"].gram.shape == (8, 8)
    assert [layer.name for layer in bundle.layers] == [NAME]
    asked = Recipe.parse({"kind": "tune", "model": "m", "calibration": "c", "test": "t", "group_size": 3})
    with pytest.raises(Refused, match="do not divide"):
        screen_bundle(bundle, asked, Settings(state_dir=tmp_path))


@pytest.mark.thorough
@pytest.mark.parametrize("name", BOMBS)
def test_what_is_wrong_is_refused(tmp_path, name):
    path = BOMBS[name](tmp_path / "bomb")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(Refused, match="statistics") as refused:
        list(Bundle.open(path).blocks(torch.device("cpu")))
    assert len(refused.value.what) < 500
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 20  # KiB
