"""Content of a checkpoint that another tool has quantized, by its configuration and headers alone; no torch.

Everything that can't be read is refused here, before any work.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from sarqc.checkpoints.compressed_tensors_layout import CompressedTensors
from sarqc.checkpoints.gptq_layout import auto_round, awq, gptq, quantizers
from sarqc.checkpoints.mlx_layout import Mlx
from sarqc.checkpoints.stored_linear import AGAIN, Headers, StoredLinear
from sarqc.errors import Refused
from sarqc.files.names import read_object, shortened
from sarqc.models.checkpoint import FLOATS, Checkpoint
from sarqc.models.effective import other_fields
from sarqc.models.families import LayerInfo
from sarqc.models.promised import check_tensor, unread_notice, unread_tensors
from sarqc.models.tensor_files import same_bits, weight_set
from sarqc.models.tokenizing import other_tokenizer

QuantizedFormat = Literal["compressed-tensors", "gptq", "awq", "mlx", "auto-round"]
READ = "compressed-tensors, GPTQ, AWQ, AutoRound or MLX"
_GIVE = f"Give a checkpoint of {READ}, with integer weights."
_OF_OTHERS = "Give the float checkpoint that it was made from as the model."
_OTHERWISE = f"{_OF_OTHERS} If fields were changed afterwards, change them in both."
_TEXTS = f"{_OF_OTHERS} If the tokenizer was changed afterwards, copy that of one folder into the other."
_COMPRESS = "Save it compressed (with compressed-tensors: save_compressed=True)."


class Reader(Protocol):
    """Reader of the places of codes in a format."""

    def place(self, module: str, shape: tuple[int, int], expert: int | None = None) -> StoredLinear | None:
        """Return the place of a linear's codes; None if it has none.

        Args:
            module: Name of the linear in the checkpoint.
            shape: (O, I).
            expert: Number of the expert, of a linear in an expert.

        Raises:
            Refused: For codes that can't be read here.
        """


@dataclass(frozen=True)
class CheckpointLayout:
    """A quantized checkpoint.

    Attributes:
        folder: Folder of the checkpoint.
        format: Its format.
        made_by: Program that made it, from config.json; empty if not given.
        layers: Linears of the original that have codes.
        places: Places of codes by the names of linears in the original's files, without “.weight”.
        floats: Places of the original's other tensors: a name and the slice of it.
        notices: Sentences on further weight files and tensors, which are not read.
    """

    folder: Path
    format: QuantizedFormat
    made_by: str
    layers: tuple[LayerInfo, ...]
    places: Mapping[str, StoredLinear]
    floats: Mapping[str, tuple[str, int | None]]
    notices: tuple[str, ...] = ()


def describe(folder: Path, checkpoint: Checkpoint) -> CheckpointLayout:
    """Return the layout of a quantized checkpoint.

    Args:
        folder: Folder of the quantized checkpoint.
        checkpoint: The float original.

    Raises:
        Refused: If the folder is damaged, of another model, or of a kind that is not read here.
    """
    if not (folder / "config.json").is_file() and (gguf := next(iter(sorted(folder.glob("*.gguf"))), None)):
        what = f"{gguf.name} is a GGUF file, which is read as a model and not beside one"
        raise Refused(what, folder.name, _GIVE)
    headers = Headers(folder)
    if (model_type := headers.config.get("model_type")) != (original := checkpoint.config.get("model_type")):
        raise headers.refused(f"it is a model of type {model_type!r}, and the original is {original!r}", _OF_OTHERS)
    if other := other_fields(headers.config, checkpoint.config, headers.where):
        raise headers.refused(
            f"its config.json computes otherwise than the original's: {'; '.join(other[:5])}", _OTHERWISE
        )
    if file := other_tokenizer(folder, checkpoint.folder, headers.where):
        raise headers.refused(f"its {file} reads texts otherwise than the original's", _TEXTS)
    checkpoint_format, reader, made_by = _reader(headers)
    is_mlx = checkpoint_format == "mlx"
    family = checkpoint.family
    infos = {family.in_file(info.name): info for info in checkpoint.linears}
    places: dict[str, StoredLinear] = {}
    floats: dict[str, tuple[str, int | None]] = {}
    for name in checkpoint.parameter_names:
        shape = checkpoint.shapes[name]
        module, info = name.removesuffix(".weight"), infos.get(name.removesuffix(".weight"))
        stored, expert = module, None
        if is_mlx and info is not None:
            stored, expert = family.in_mlx(info), info.expert
        place = None
        if name.endswith(".weight") and len(shape) == 2:
            place = reader.place(stored, (shape[0], shape[1]), expert)
        if place is not None:
            places[module] = place
            continue
        there = name if stored == module else f"{stored}.weight"
        entry = headers.tensors.get(there)
        own = None if entry is None else (entry.shape[expert is not None :], entry.dtype)
        check_tensor(there, shape, own, FLOATS, "the original", headers.where, _OF_OTHERS)
        floats[name] = (there, expert)
    layers = tuple(info for name, info in infos.items() if name in places)
    if not layers:
        if all(entry.dtype in FLOATS for entry in headers.tensors.values()):
            raise headers.refused("its weights are not compressed: there are floats in place of codes", _COMPRESS)
        raise headers.refused("no linear of the original has codes there", _GIVE)
    _check_head(headers, checkpoint)
    read = {name for place in places.values() for name in place.tensors} | {name for name, _ in floats.values()}
    read |= {f"{family.head}.weight"} if checkpoint.tied else set()
    unread = unread_tensors(
        headers.tensors, read, family, checkpoint.config, checkpoint.n_blocks, "the original", headers.where, _OF_OTHERS
    )
    others = [name for name in unread if name not in checkpoint.unread]
    notices = (weight_set(folder, headers.where)[1], unread_notice(others))
    return CheckpointLayout(folder, checkpoint_format, made_by, layers, places, floats, tuple(filter(None, notices)))


def _check_head(headers: Headers, checkpoint: Checkpoint) -> None:
    """Refuse a head of its own beside an original whose head is its embedding."""
    if not checkpoint.tied:
        return
    family, tensors = checkpoint.family, headers.tensors
    head, embedding = (family.in_file(f"{path}.weight") for path in (family.head, family.embedding))
    module = head.removesuffix(".weight")
    beside = [name for name in tensors if name.startswith(f"{module}.") and name not in (head, f"{module}.bias")]
    if beside:
        what = f"{module} is quantized ({beside[0]}), and the original's head is its embedding"
        raise headers.refused(
            what, "Quantize it again without the head: with tied embeddings one that is quantized is not read."
        )
    if head not in tensors:
        if headers.config.get("tie_word_embeddings") is False:
            what = "its config.json says that the head is not the embedding, and there is no head"
            raise headers.refused(f"{what} ({head})", "Set tie_word_embeddings to true there.")
        return
    own, other = tensors[head], tensors.get(embedding)
    same = other is not None and (own.shape, own.dtype) == (other.shape, other.dtype)
    if not (same and other is not None and same_bits((own.file, head), (other.file, embedding))):
        raise headers.refused(f"{head} has other values than the embedding, which is the original's head", _OF_OTHERS)


def _reader(headers: Headers) -> tuple[QuantizedFormat, Reader, str]:
    """Return the format, its reader, and the program that made the checkpoint."""
    config = headers.config
    quantization = config.get("quantization_config")
    if not isinstance(quantization, dict) and (older := headers.folder / "quantize_config.json").is_file():
        quantization = {"quant_method": "gptq"} | read_object(older, headers.where, remedy=AGAIN)  # of AutoGPTQ
    maker = _made_by(quantization if isinstance(quantization, dict) else {})
    if isinstance(mlx := config.get("quantization"), dict):
        return "mlx", Mlx(headers, mlx), maker
    if not isinstance(quantization, dict):
        remedy = "Give the quantized checkpoint here, and the float one that it was made from as the model."
        raise headers.refused("its config.json says nothing of quantization", remedy)
    method = str(quantization.get("quant_method", ""))
    if method == "compressed-tensors":
        return "compressed-tensors", CompressedTensors(headers, quantization), maker
    if method == "gptq":
        return "gptq", gptq(headers, quantization), maker
    if method == "awq":
        return "awq", awq(headers, quantization), maker
    if method in ("auto-round", "intel/auto-round"):
        return "auto-round", auto_round(headers, quantization), maker
    raise headers.refused(f"it was quantized as “{shortened(method)}”, which is not read here", _GIVE)


def _made_by(config: Mapping[str, Any]) -> str:
    if programs := quantizers(config):
        return ", ".join(program.replace(":", " ") for program in programs)
    version = config.get("autoround_version")
    if version or config.get("provider") == "auto-round":
        return f"auto-round {version or ''}".strip()
    if config.get("quant_method") == "compressed-tensors" and config.get("version"):
        return f"compressed-tensors {config['version']}"
    return ""
