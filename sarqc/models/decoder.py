"""A decoder as ``derivation`` describes it: its blocks, and which linears of a block read one tensor; no torch."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import takewhile
from typing import Any

from pydantic import Field

from sarqc.models.architecture import Architecture, Frozen
from sarqc.models.families import Family, InputGroup

Shape = tuple[int, ...]


class StackedExperts(Frozen):
    """The experts of a block in one tensor for each of their linears.

    Attributes:
        path: Path of their module within the block.
        number: Number of experts.
    """

    path: str
    number: int = Field(ge=1)


class BlockKind(Frozen):
    """Blocks with the same modules in the same order.

    Attributes:
        module: Name of their class.
        groups: The linears that can be quantized, grouped by the tensor they read, with the operations that take up
            their scales.
        experts: Its experts; None for a dense block.
        outputs: Number of values that the block returns: 0 for a tensor, otherwise the length of its tuple, whose first
            entry is the hidden state.
    """

    module: str
    groups: tuple[InputGroup, ...]
    experts: StackedExperts | None = None
    outputs: int = 0


class StoredTensor(Frozen):
    """A tensor of a checkpoint as a view of the parameter that it fills.

    Attributes:
        parameter: Path of the parameter or buffer.
        shape: Shape of the tensor.
        stride: Its stride in the memory of the parameter; empty for the whole parameter.
        offset: Its first number there.
    """

    parameter: str
    shape: Shape
    stride: Shape = ()
    offset: int = 0


class Linear(Frozen):
    """A linear to quantize.

    Attributes:
        shape: (out_features, in_features).
        tensor: Name of its weight in checkpoints of transformers, or of the tensor that has it as a part.
        is_own: True if that tensor is the weight (O, I); False if it is transposed there or a part.
        is_part: True for a part, such as an expert of a stack.
        is_small: True for a linear of few rows or columns, which stays float unless a recipe includes it.
    """

    shape: tuple[int, int]
    tensor: str
    is_own: bool
    is_part: bool
    is_small: bool = False


class FloatModule(Frozen):
    """Modules of blocks that stay float; “*” in a path stands for the number of a block."""

    path: str
    reason: str
    parameters: int


class Decoder(Frozen):
    """The parts of a decoder, derived from its configuration.

    Attributes:
        title: Name of the model's class.
        blocks: Path of the list of blocks; ``embedding`` and ``head`` are paths as well.
        logits_are_changed: True if the model changes the output of its head, such as by a scale or a cap.
        kinds: The kinds of blocks.
        kind_of: The kind of each block.
        integers: Paths of stored buffers of integers, which no quantization changes.
        stored: The tensors of its checkpoints, by name there.
        ignored: Patterns of the names of further tensors there that transformers ignores.
        prefix: Part of names in checkpoints that some of them leave out, with a full stop at its end.
        linears: The linears to quantize, by their paths in the model.
        heads: Number of query heads; 1 if the configuration has none.
        hidden_size: Width of the hidden state.
        widest: Largest number of output channels of a linear in a block.
        vocabulary: Number of logits of a position.
        positions: Largest number of tokens of a sequence.
        experts_per_token: Experts that a token is routed to; None without experts.
        floats: Linears and other large tensors of blocks that stay float, with the reason.
    """

    title: str
    model_type: str
    blocks: str
    embedding: str
    head: str
    tied: bool
    logits_are_changed: bool
    kinds: tuple[BlockKind, ...]
    kind_of: tuple[int, ...]
    integers: frozenset[str]
    stored: dict[str, StoredTensor]
    prefix: str
    linears: dict[str, Linear]
    heads: int
    hidden_size: int
    widest: int
    vocabulary: int
    positions: int
    experts_per_token: int | None
    floats: tuple[FloatModule, ...]
    ignored: tuple[str, ...] = ()

    @cached_property
    def paths_of(self) -> dict[str, list[str]]:
        """Paths of linears by the names of their tensors in checkpoints."""
        paths: dict[str, list[str]] = {}
        for path, linear in self.linears.items():
            if not linear.is_part:
                paths.setdefault(linear.tensor, []).append(path)
        return paths

    @cached_property
    def small(self) -> frozenset[str]:
        """Paths of small linears."""
        return frozenset(path for path, linear in self.linears.items() if linear.is_small)

    @cached_property
    def tensors_of(self) -> dict[str, list[str]]:
        """Names of tensors in checkpoints by the parameter or buffer that they fill."""
        names: dict[str, list[str]] = {}
        for name, tensor in self.stored.items():
            names.setdefault(tensor.parameter, []).append(name)
        return names

    def kind(self, block: int) -> BlockKind:
        """Return the kind of a block."""
        return self.kinds[self.kind_of[block]]

    def shape(self, path: str) -> tuple[int, int]:
        """Return (out_features, in_features) of a linear to quantize, by its full path."""
        return self.linears[path].shape

    def architecture(self) -> Architecture:
        """Return the sizes for a plan."""
        return Architecture.model_construct(
            model_type=self.model_type,
            hidden_size=self.hidden_size,
            intermediate_size=self.widest,
            num_hidden_layers=len(self.kind_of),
            num_attention_heads=self.heads,
            vocab_size=self.vocabulary,
            max_position_embeddings=self.positions,
            tie_word_embeddings=self.tied,
            num_experts_per_tok=self.experts_per_token,
        )


@dataclass(frozen=True)
class DerivedFamily(Family):
    """The family of a single decoder, with the names of its parts in its checkpoint.

    Attributes:
        decoder: Its description.
        in_checkpoint: Names in the checkpoint, by the paths of parameters and linears.
        renamed: Names in the checkpoint that differ from those that transformers would write, by the latter.
    """

    decoder: Decoder = field(kw_only=True, compare=False)
    in_checkpoint: Mapping[str, str] = field(default_factory=dict, compare=False)
    renamed: Mapping[str, str] = field(default_factory=dict, compare=False)

    def tensor_in_file(self, name: str) -> str:
        """Return the name in the checkpoint of a tensor by its name in checkpoints of transformers."""
        return self.renamed.get(name, name)

    def stored_tensors(self, block: Any, prefix: str) -> Iterator[tuple[str, Any]]:
        """Yield the tensors of a block by their names in the checkpoint, as views of its parameters and buffers.

        Args:
            block: The block, a module of PyTorch.
            prefix: Its path with a full stop.
        """
        for path, whole in block.state_dict(keep_vars=True).items():
            for name in self.decoder.tensors_of.get(f"{prefix}{path}", ()):
                tensor = self.decoder.stored[name]
                if tensor.parameter in self.decoder.integers:
                    continue
                is_part = bool(tensor.stride)
                there = self.tensor_in_file(name)
                yield there, whole.as_strided(tensor.shape, tensor.stride, tensor.offset) if is_part else whole

    def in_file(self, path: str) -> str:
        """Return the name in the checkpoint of the tensor or module at a path, or the prefix of all names below it."""
        if path in self.in_checkpoint:
            return self.in_checkpoint[path]
        if path == f"{self.blocks}.":
            return self.in_file(f"{self.blocks}.0.").removesuffix("0.")
        if path.endswith("."):
            names = [name.split(".") for inside, name in self.in_checkpoint.items() if inside.startswith(path)]
            shared = takewhile(lambda parts: len(set(parts)) == 1, zip(*names, strict=False))
            return "".join(f"{parts[0]}." for parts in shared)
        return path


def family_of_decoder(decoder: Decoder, keys: Collection[str] | None = None) -> DerivedFamily:
    """Return the family of a decoder.

    Args:
        decoder: The description.
        keys: Names of the tensors in its checkpoint; None for those that transformers would write.
    """
    names, renamings = {}, {}
    for name, tensor in decoder.stored.items():
        there = name
        if keys is not None and name not in keys:
            without, more = name.removeprefix(decoder.prefix), f"{decoder.prefix}{name}"
            there = without if without in keys else more if more in keys else name
            renamings[name] = there
        if not tensor.stride:
            names[tensor.parameter] = there
        renamed = there.removesuffix(".weight")
        for path in decoder.paths_of.get(name, ()):
            names[path], names[f"{path}.weight"] = renamed, f"{renamed}.weight"
    experts = next((kind.experts.path for kind in decoder.kinds if kind.experts is not None), "mlp.experts")
    return DerivedFamily(
        title=decoder.title,
        model_types=(decoder.model_type,),
        dense=(),
        experts=experts,
        embedding=decoder.embedding,
        blocks=decoder.blocks,
        norm="",
        head=decoder.head,
        decoder=decoder,
        in_checkpoint=names,
        renamed=renamings,
    )
