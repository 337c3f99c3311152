"""Loading a checked checkpoint: safetensors only, no code from the checkpoint, on the chosen device."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from sarqc.errors import Refused
from sarqc.models.checkpoint import Checkpoint
from sarqc.models.structure import Family

_STORED = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "F64": torch.float64}


@dataclass(frozen=True)
class LoadedModel:
    """A model ready to be walked block by block.

    ``model`` computes in ``compute_dtype``; its weights are representable in ``storage_dtype``, the checkpoint's own,
    in which scales and quantized weights are rounded.
    """

    model: nn.Module
    tokenizer: object
    family: Family
    checkpoint: Checkpoint
    device: torch.device
    storage_dtype: torch.dtype
    compute_dtype: torch.dtype

    def linear(self, name: str) -> nn.Linear:
        """The linear at a module path."""
        return self.model.get_submodule(name)

    def blocks(self) -> nn.ModuleList:
        return self.model.get_submodule(self.family.blocks)

    def weights(self) -> dict[str, torch.Tensor]:
        """A copy of everything in the blocks that quantization may change, for ``restore``."""
        return {name: tensor.detach().clone() for name, tensor in self.blocks().state_dict().items()}

    def restore(self, weights: dict[str, torch.Tensor]) -> None:
        """Puts the blocks back as they were when ``weights`` was called."""
        self.blocks().load_state_dict(weights)


def choose_device(wanted: str) -> torch.device:
    """The device of a setting: auto takes CUDA where there is one. Raises ``Refused`` for CUDA that isn't there."""
    if wanted == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if wanted.startswith("cuda") and not torch.cuda.is_available():
        raise Refused("CUDA was asked for and there is none", f"device {wanted}", "Set SARQC_DEVICE=cpu or auto.")
    return torch.device(wanted)


def load(checkpoint: Checkpoint, device: torch.device) -> LoadedModel:
    """The model and its tokenizer. On the CPU it computes in float32, on CUDA in the checkpoint's dtype."""
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    from sarqc.models import deepseek_moe

    deepseek_moe.register()  # before anything is looked up, so that no checkpoint's own code is ever wanted
    logging.disable_progress_bar()  # progress is ours to tell, in events
    stored = checkpoint.dtypes[f"{checkpoint.layers[0].name}.weight"]
    storage_dtype = _STORED.get(stored)
    if storage_dtype is None:
        raise Refused(f"its weights are stored as {stored}", str(checkpoint.folder), "Give a float checkpoint.")
    compute_dtype = storage_dtype if device.type == "cuda" else torch.float32
    model = AutoModelForCausalLM.from_pretrained(
        checkpoint.folder,
        dtype=compute_dtype,
        local_files_only=True,
        trust_remote_code=False,
        use_safetensors=True,
        attn_implementation="sdpa",
    )
    tokenizer = AutoTokenizer.from_pretrained(checkpoint.folder, local_files_only=True, trust_remote_code=False)
    model.to(device).eval().requires_grad_(False)
    return LoadedModel(model, tokenizer, checkpoint.family, checkpoint, device, storage_dtype, compute_dtype)
