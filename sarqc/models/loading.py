"""Loading of a checked checkpoint: safetensors only, no code from the checkpoint, on the chosen device.

A model is made without weights, and its parts are filled from the files: all of them at once, or each block only while
it is used, so that the memory on the device does not grow with the number of blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from sarqc.errors import Refused
from sarqc.models.checkpoint import Checkpoint
from sarqc.models.decoder import DerivedFamily
from sarqc.models.families import Family, InputGroup
from sarqc.models.linears import is_fused_parameter, slices_of, weight_of
from sarqc.models.partial_pass import head_input, logits_of
from sarqc.models.rotated_files import open_files
from sarqc.models.streaming import Streaming
from sarqc.models.tokenizing import refusing, tokenizer_of
from sarqc.models.weight_files import WeightFiles

if TYPE_CHECKING:
    from transformers import PreTrainedModel

# Dtypes of weights as safetensors spells them.
STORED = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "F64": torch.float64}


@dataclass(frozen=True, eq=False)
class LoadedModel:
    """A model ready to be walked block by block.

    ``model`` computes in ``compute_dtype``; the weight of a linear is representable in its stored dtype, ``stored_as``,
    to which its scales and quantized weights are rounded. ``streaming`` loads the blocks of a model that is not held in
    memory as a whole; None if it is.
    """

    model: PreTrainedModel
    tokenizer: Any
    checkpoint: Checkpoint
    files: WeightFiles
    device: torch.device
    compute_dtype: torch.dtype
    streaming: Streaming | None = None
    begins_with_bos: bool = False  # whatever the files of the tokenizer say
    replaced: dict[str, Tensor] = field(default_factory=dict)  # see ``replace``

    @property
    def family(self) -> Family:
        return self.checkpoint.family

    @property
    def vocabulary(self) -> int:
        """Size of the vocabulary."""
        return self.checkpoint.architecture.vocab_size

    def stored_as(self, path: str) -> torch.dtype:
        """Return the dtype of a parameter in the checkpoint, by its full path."""
        return STORED[self.checkpoint.dtype_of(path)]

    def blocks(self) -> nn.ModuleList:
        """Return the blocks of the model."""
        blocks = self.model.get_submodule(self.family.blocks)
        assert isinstance(blocks, nn.ModuleList)
        return blocks

    def groups(self, block: nn.Module) -> tuple[InputGroup, ...]:
        """Return the linears of one of the blocks by the tensor that they read."""
        return self.checkpoint.groups(next(i for i, other in enumerate(self.blocks()) if other is block))

    def weight(self, name: str) -> Tensor:
        """Return the weight (O, I) of a quantized linear by its full name: the model's own memory."""
        block, _, path = name.removeprefix(f"{self.family.blocks}.").partition(".")
        return weight_of(self.blocks()[int(block)], path)

    def stored_tensors(self, index: int) -> Iterator[tuple[str, Tensor]]:
        """Yield the parameters of a block as tensors of the checkpoint, by their names there: the model's own memory.

        Args:
            index: Number of the block, whose weights must be in memory.
        """
        block, prefix = self.blocks()[index], f"{self.family.blocks}.{index}."
        if isinstance(self.family, DerivedFamily):
            yield from self.family.stored_tensors(block, prefix)
            return
        for name, parameter in block.named_parameters():
            if is_fused_parameter(block, name):
                for path in (path for of_expert in slices_of(name, len(parameter)) for path in of_expert):
                    yield self.family.in_file(f"{prefix}{path}.weight"), weight_of(block, path)
            else:
                yield self.family.in_file(f"{prefix}{name}"), parameter

    def stored_outside(self, name: str) -> Tensor:
        """Return a tensor outside the blocks on the CPU, as ``replace`` left it, by its name in the checkpoint."""
        changed = {self.family.in_file(path): path for path in self.replaced}
        if name not in changed:
            return self.files.read(name)
        return self.model.get_parameter(changed[name]).detach().to("cpu", STORED[self.checkpoint.dtypes[name]])

    @contextmanager
    def at(self, block: nn.Module, *, changes: bool = False) -> Iterator[nn.Module]:
        """Hold the weights of a block in memory within this context; ``changes`` keeps their values at its end."""
        with nullcontext() if self.streaming is None else self.streaming.at(block, changes=changes):
            yield block

    def norms(self) -> list[str]:
        """Return the norms with weights that are tensors of their own in the checkpoint, by their full paths.

        A class whose name ends in “Norm” is one; its weights are a vector (D,). No number is needed, so that blocks may
        be streamed.
        """
        weights = {
            path: getattr(module, "weight", None)
            for path, module in self.model.named_modules()
            if type(module).__name__.lower().endswith("norm")
        }
        return [
            path
            for path, weight in weights.items()
            if isinstance(weight, nn.Parameter) and weight.ndim == 1
            if self.family.in_file(f"{path}.weight") in self.checkpoint.dtypes
        ]

    def weights(self) -> dict[str, Tensor]:
        """Return a copy of everything in the blocks that quantization may change, for ``restore``."""
        if self.streaming is not None:
            return {}  # the files have it
        return {name: tensor.detach().clone() for name, tensor in self.blocks().state_dict().items()}

    def restore(self, weights: dict[str, Tensor]) -> None:
        """Restore the blocks to their state at the call of ``weights``, when the model was float."""
        if self.streaming is not None:
            self.streaming.forget_changes()
        else:
            self.blocks().load_state_dict(weights)

    def replace(self, values: Mapping[str, Tensor]) -> None:
        """Give parameters outside the blocks, by their paths, other values until ``reset``."""
        for path, value in values.items():
            parameter = self.model.get_parameter(path)
            self.replaced.setdefault(path, parameter.detach().clone())
            parameter.data.copy_(value)

    def float_head(self) -> Callable[[Tensor], Tensor]:
        """Return the head of the float model, from states (…, D) to logits (…, V), even after ``replace``."""
        weight = self.replaced.get(f"{self.family.embedding if self.checkpoint.tied else self.family.head}.weight")
        if weight is None:
            return self.logits
        bias: Tensor | None = getattr(self.model.get_output_embeddings(), "bias", None)
        original = partial(nn.functional.linear, weight=weight, bias=bias)
        decoder = self.checkpoint.decoder
        return original if decoder is None else lambda states: logits_of(self.model, decoder, states, original)

    def head_input(self, tokens: Tensor) -> Tensor:
        """Return the head's input (B, T, D) for tokens (B, T)."""
        if self.checkpoint.decoder is not None:
            return head_input(self.model, self.checkpoint.decoder, tokens)
        states: Tensor = self.model.base_model(tokens, use_cache=False).last_hidden_state
        return states

    def logits(self, states: Tensor) -> Tensor:
        """Return the logits (…, V) of inputs (…, D) of the head."""
        if self.checkpoint.decoder is not None:
            return logits_of(self.model, self.checkpoint.decoder, states)
        logits: Tensor = self.model.get_output_embeddings()(states)
        return logits

    def reset(self) -> None:
        """Restore the weights of the checkpoint: the blocks from its files, without a copy in memory."""
        for path, value in self.replaced.items():
            self.model.get_parameter(path).data.copy_(value)
        self.replaced.clear()
        if self.streaming is not None:
            self.streaming.forget_changes()
            return
        for index in range(len(self.blocks())):
            self.files.fill(self.model, f"{self.family.blocks}.{index}", self.device, self.compute_dtype)


def choose_device(setting: str) -> torch.device:
    """Return the device of a setting; auto takes CUDA if it is available.

    Raises:
        Refused: For CUDA on a host without it.
    """
    if setting == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if setting.startswith("cuda") and not torch.cuda.is_available():
        raise Refused("CUDA was asked for and there is none", f"device {setting}", "Set SARQC_DEVICE=cpu or auto.")
    return torch.device(setting)


def load(
    checkpoint: Checkpoint,
    device: torch.device,
    *,
    scratch: Path | None = None,
    holding: Sequence[torch.dtype] = (),
    files: WeightFiles | None = None,
    begins_with_bos: bool = False,
) -> LoadedModel:
    """Load the model and its tokenizer.

    On the CPU it computes in float32, elsewhere in the dtype that holds all linears and the dtypes in ``holding``.

    Args:
        checkpoint: The checked checkpoint.
        device: The device.
        scratch: Folder for changed blocks; with it the weights of a block are in memory only while it is used.
        holding: Further dtypes of numbers that the weights will be given.
        files: Weights of the checkpoint; None for those of its files, rounded to their dtypes.
        begins_with_bos: Whether the tokenizer puts its bos_token before every text.

    Raises:
        Refused: If a file does not make a model.
    """
    compute_dtype = torch.float32
    if device.type != "cpu":
        stored = (STORED[checkpoint.dtype_of(f"{layer.name}.weight")] for layer in checkpoint.linears)
        compute_dtype = reduce(torch.promote_types, (*stored, *holding))
    model, files = _without_weights(checkpoint, compute_dtype), files or open_files(checkpoint)
    model.config.tie_word_embeddings = checkpoint.tied  # read when the model's weights are tied again
    tied = model.get_output_embeddings() if checkpoint.tied else None
    blocks = checkpoint.family.blocks
    for path, module in model.named_modules():
        is_leaf = not any(True for _ in module.children())
        if checkpoint.decoder is None and is_leaf and module is not tied and not path.startswith(f"{blocks}."):
            files.fill(model, path, device, compute_dtype)
    if checkpoint.decoder is not None:
        files.fill_outside(model, blocks, device, compute_dtype)
    for index in range(checkpoint.n_blocks if scratch is None else 0):
        files.fill(model, f"{blocks}.{index}", device, compute_dtype)
    if checkpoint.decoder is not None:
        model.tie_weights()  # also biases and parts of several blocks, in some models
    if tied is not None:
        tied.weight = model.get_input_embeddings().weight
    for module in model.modules():
        for name, buffer in module.named_buffers(recurse=False):
            setattr(module, name, buffer.to(device))
    model.eval().requires_grad_(False)
    with refusing("its tokenizer can't be read", checkpoint.folder, checkpoint.name):
        tokenizer = tokenizer_of(checkpoint.folder, begins_with_bos=begins_with_bos)
    streaming = None if scratch is None else Streaming(model, blocks, files, device, compute_dtype, scratch)
    return LoadedModel(model, tokenizer, checkpoint, files, device, compute_dtype, streaming, begins_with_bos)


def _without_weights(checkpoint: Checkpoint, dtype: torch.dtype) -> PreTrainedModel:
    """Return the architecture of a configuration, with empty parameters."""
    from accelerate import init_empty_weights
    from transformers import AutoConfig, AutoModelForCausalLM, GenerationConfig
    from transformers.utils import logging

    logging.disable_progress_bar()  # progress is reported in events
    folder, repair = checkpoint.folder, "Repair it, or download it again."
    with refusing("config.json does not describe a model", folder, checkpoint.name, repair):
        config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        with init_empty_weights(include_buffers=False):
            model: PreTrainedModel = AutoModelForCausalLM.from_config(
                config,
                dtype=dtype,
                trust_remote_code=False,
                **_experts(checkpoint, dtype),
                # Where attention of a derived model has several implementations, transformers takes its preferred one.
                **({} if checkpoint.decoder is not None else {"attn_implementation": "sdpa"}),
            )
    if (folder / "generation_config.json").is_file():
        with refusing("generation_config.json can't be read", folder, checkpoint.name, repair):
            settings = GenerationConfig.from_pretrained(str(folder), local_files_only=True)
        model.generation_config = settings
    return model


def _experts(checkpoint: Checkpoint, dtype: torch.dtype) -> dict[str, str]:
    """Return the implementation of experts: transformers' default kernel takes neither every size nor float64."""
    shapes = [layer.shape for layer in checkpoint.linears if layer.expert is not None]
    takes = dtype != torch.float64 and all(size * dtype.itemsize % 16 == 0 for shape in shapes for size in shape)
    return {} if takes else {"experts_implementation": "eager"}
