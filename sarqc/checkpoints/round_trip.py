"""Reading of an exported model back into the model it was written from.

It follows the definition of the format and uses nothing but the files.
"""

from pathlib import Path

import torch
from torch import Tensor

from sarqc.checkpoints.codes import CheckpointReader, Levels
from sarqc.checkpoints.compressed_tensors import read_packed
from sarqc.checkpoints.formats import Format
from sarqc.checkpoints.gptq import read_gptq
from sarqc.checkpoints.mlx import read_mlx
from sarqc.models.families import Family, LayerInfo
from sarqc.models.loading import STORED, LoadedModel


def read_again(loaded: LoadedModel, folder: Path, checkpoint_format: Format) -> list[str]:
    """Load the weights of the files into the model's blocks, and return the names of tensors that differ.

    A model whose blocks are streamed keeps its weights: it is only compared.
    """
    family, checkpoint = loaded.family, loaded.checkpoint
    linears = {f"{family.in_file(info.name)}.weight": info for info in checkpoint.linears}
    coded = {info.name for info in checkpoint.layers if info.has_own_tensor} if checkpoint_format != "plain" else set()
    others, inside = [], set()
    with CheckpointReader(folder) as files:
        for index, block in enumerate(loaded.blocks()):
            with loaded.at(block), torch.no_grad():
                for name, value in loaded.stored_tensors(index):
                    inside.add(name)
                    info, dtype = linears.get(name), STORED[checkpoint.dtypes[name]]
                    if info is not None and info.name in coded:
                        tensor = read_levels(files, family, checkpoint_format, info).weight(dtype)
                    else:
                        tensor = read_tensor(files, family, checkpoint_format, name, info)
                    tensor = tensor.to(value.device, value.dtype)
                    if not torch.equal(tensor, value):
                        others.append(name)
                    if loaded.streaming is None:
                        value.copy_(tensor)
        for name in checkpoint.shapes:
            if name not in inside and not torch.equal(files.read(name), loaded.stored_outside(name)):
                others.append(name)
    return others


def read_levels(files: CheckpointReader, family: Family, checkpoint_format: Format, info: LayerInfo) -> Levels:
    """Return the stored numbers of a linear in a format that has codes."""
    name = family.in_file(info.name)
    if checkpoint_format == "packed":
        return read_packed(files, name)
    if checkpoint_format == "gptq":
        return read_gptq(files, name)
    return read_mlx(files, family.in_mlx(info), info.expert)


def read_tensor(
    files: CheckpointReader, family: Family, checkpoint_format: Format, name: str, info: LayerInfo | None
) -> Tensor:
    """Return a tensor without codes, by its name in the original."""
    if checkpoint_format == "mlx" and info is not None and info.expert is not None:
        return files.read(f"{family.in_mlx(info)}.weight")[info.expert]
    return files.read(name)
