"""Unpacks a GGUF file into a checkpoint: weights as floats, config.json and a tokenizer.

``python -m sarqc.models.gguf_unpacking FILE FOLDER`` does it by hand.
"""

import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sarqc.errors import NoRoom, Refused, SarqcError
from sarqc.files.hashes import sha256_of
from sarqc.files.modes import usual_mode
from sarqc.files.names import shortened
from sarqc.files.room import free_bytes
from sarqc.files.scratch import scratch_folder
from sarqc.models.gguf_header import gguf_file
from sarqc.models.gguf_model import GgufModel, TensorPlace, gguf_model
from sarqc.models.loading import STORED
from sarqc.models.origin import ORIGIN
from sarqc.models.tokenizing import FAST, refusing
from sarqc.models.weight_files import write_weights
from sarqc.plain import gib

_IN_FILE = 2 << 30  # bytes of weights in one safetensors file
_OTHERS = "Give the model as safetensors."


def unpack(model: GgufModel, folder: Path) -> None:
    """Make the checkpoint of a model in a new folder; an interrupted unpacking leaves nothing.

    Raises:
        NoRoom: If the disk has too little room.
        Refused: For a tokenizer that can't be read.
    """
    if model.unpacked_bytes > (free := free_bytes(folder.parent)):
        raise NoRoom(
            f"the weights take {gib(model.unpacked_bytes)} once unpacked, and {gib(free)} are free",
            model.name,
            "Make room, or set SARQC_STATE_DIR to a folder on a larger disk.",
        )
    partial = scratch_folder(folder.parent, ".unpacking")
    try:
        (partial / "config.json").write_text(json.dumps(model.config, indent=2) + "\n", encoding="utf-8")
        _write_tokenizer(model, partial)
        write_weights(partial, _weights(model), _IN_FILE)
        origin = model.origin.model_copy(update={"sha256": (sha256_of(model.header.file),)})
        (partial / ORIGIN).write_text(origin.model_dump_json(indent=2) + "\n", encoding="utf-8")
        for path in partial.iterdir():
            path.chmod(usual_mode(0o644))
        partial.chmod(usual_mode(0o755))
        if not folder.exists():  # unpacked by another process meanwhile
            os.replace(partial, folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _write_tokenizer(model: GgufModel, folder: Path) -> None:
    from tokenizers import pre_tokenizers
    from transformers import AutoTokenizer
    from transformers.integrations.gguf.gguf_tokenizer_mapping import GGUF_PRE_TOKENIZER_SPLITS

    fields, file = model.header.fields, model.header.file
    kind, split = fields.get("tokenizer.ggml.model"), fields.get("tokenizer.ggml.pre", "default")
    single_digits = split in ("smollm", "starcoder")
    if kind == "gpt2" and not single_digits and split not in (*GGUF_PRE_TOKENIZER_SPLITS, "default", "gpt-2"):
        what = f"its tokenizer splits texts in the way of {shortened(str(split))!r}, which transformers does not read"
        raise Refused(what, model.name, _OTHERS)
    with refusing("its tokenizer can't be read", file.parent, model.name, _OTHERS):
        tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name, local_files_only=True)
        if single_digits:
            tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
                [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
            )
        tokenizer.save_pretrained(folder)
        path = folder / FAST
        document = json.loads(path.read_text(encoding="utf-8"))
        # Without the tokens that the library's class adds behind the model's own.
        added, vocabulary = document["added_tokens"], model.config["vocab_size"]
        document["added_tokens"] = [token for token in added if token["id"] < vocabulary]
        path.write_text(json.dumps(document, ensure_ascii=False), encoding="utf-8")


def _weights(model: GgufModel) -> Iterator[tuple[str, Tensor]]:
    """Yield name and value of tensors, as transformers has them."""
    from transformers.modeling_gguf_pytorch_utils import TENSOR_PROCESSORS, TensorProcessor

    processors: dict[Any, Any] = TENSOR_PROCESSORS
    processor = processors.get(model.header.fields["general.architecture"], TensorProcessor)(config=model.config)
    for name in model.shapes:
        place = model.places[name]
        numbers = _numbers(place, model.header.file)
        if place.expert is None:
            numbers = processor.process(weights=numbers, name=place.name).weights
        yield name, torch.from_numpy(np.ascontiguousarray(numbers)).to(STORED[model.dtypes[name]])


def _numbers(place: TensorPlace, file: Path) -> np.ndarray:
    """Return the numbers of a tensor, or of one expert's part of it, as float32."""
    from gguf.constants import GGMLQuantizationType
    from gguf.quants import dequantize

    tensor = place.tensor
    shape, begin, size = tensor.shape, tensor.begin, tensor.size
    if place.expert is not None:
        shape, size = shape[1:], size // shape[0]
        begin += place.expert * size
    content = np.fromfile(file, dtype=np.uint8, count=size, offset=begin)
    rows = content.reshape(*shape[:-1], -1)
    numbers: np.ndarray = dequantize(rows, GGMLQuantizationType[tensor.type]).astype(np.float32, copy=False)
    return numbers.reshape(shape)


def main() -> None:
    """Unpack a file, or that of a folder, into a folder."""
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    path = Path(sys.argv[1])
    try:
        unpack(gguf_model(gguf_file(path) or path, sys.argv[1]), Path(sys.argv[2]))
    except SarqcError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
