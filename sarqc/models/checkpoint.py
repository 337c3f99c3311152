"""A checkpoint on disk, read without loading it: its configuration and the shapes in its safetensors headers.

Everything that would be dangerous or hopeless to load is refused here, from bytes alone: pickled weights, remote code,
truncated files, unknown families, missing linears. No torch.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

from sarqc.errors import Refused, in_recipe
from sarqc.files.names import read_object, shortened
from sarqc.models.architecture import Architecture, architecture_of
from sarqc.models.decoder import Decoder, DerivedFamily, family_of_decoder
from sarqc.models.derived import decoder_of
from sarqc.models.families import Family, InputGroup, LayerInfo, family_of, is_written
from sarqc.models.origin import Origin, read_origin
from sarqc.models.promised import check_tensor, promised_shapes, unread_tensors
from sarqc.models.tensor_files import check_folder, read_tensors, same_bits, weight_set
from sarqc.models.tokenizing import check_settings

_PARAMETERS = (".weight", ".bias")  # endings of the names of parameters, in every family here
_NAMES = {"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16"}  # in safetensors, of torch's names
FLOATS = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}  # types of weights that are read, and their bytes
TOGETHER = "Download the checkpoint again; its configuration and its weights must belong together."
_AGAIN = "Download the checkpoint again."
_MOST_PARTS = 100_000  # experts of all blocks; published models have a quarter of that
_BESIDE = "Give the config.json that belongs to these weights, or save the model without them (an adapter: merged)."
_OF_CODES = ("weight_", "scale", "zeros", "biases", "packed", "blocks", "absmax", "SCB")  # in the names of parts


@dataclass(frozen=True)
class Checkpoint:
    """Configuration and tensor shapes of a model folder."""

    name: str  # as given by a user
    folder: Path
    config: dict[str, Any]
    architecture: Architecture  # of the configuration, checked
    family: Family
    shapes: dict[str, tuple[int, ...]]
    dtypes: dict[str, str]  # as safetensors spells them
    files: dict[str, Path]  # of each tensor
    only: str | None = None  # the single linear to quantize, instead of all
    only_blocks: tuple[int, ...] | None = None  # the blocks to quantize, instead of all
    only_names: frozenset[str] | None = None  # the linears to quantize, by name, instead of all
    excluded: tuple[str, ...] = ()  # patterns of names of linears that are not quantized
    included: tuple[str, ...] = ()  # patterns of names of small linears that are quantized as well
    origin: Origin | None = None  # the files that the weights were unpacked from, if known
    unread: tuple[str, ...] = ()  # tensors that the model does not read
    notice: str = ""  # of further weight files, which are not read

    @property
    def decoder(self) -> Decoder | None:
        """The derived description of a model whose type has no written family."""
        return self.family.decoder if isinstance(self.family, DerivedFamily) else None

    @property
    def n_blocks(self) -> int:
        return self.architecture.num_hidden_layers

    @property
    def max_positions(self) -> int:
        return self.architecture.max_position_embeddings

    @cached_property
    def tied(self) -> bool:
        """True if the head is the embedding.

        A head with other values beside it stands for itself, as in transformers.
        """
        if not self.architecture.tie_word_embeddings:
            return False
        head, embedding = (self.family.in_file(f"{path}.weight") for path in (self.family.head, self.family.embedding))
        if head not in self.shapes:
            return True
        same = (self.shapes[head], self.dtypes[head]) == (self.shapes[embedding], self.dtypes[embedding])
        return same and same_bits((self.files[head], head), (self.files[embedding], embedding))

    @cached_property
    def parameter_names(self) -> tuple[str, ...]:
        """Names of the parameters that are read: without stored buffers, and a tied head only as the embedding."""
        unread = set(self.unread)
        return tuple(name for name in self.stored_parameters if name not in unread)

    @cached_property
    def stored_parameters(self) -> tuple[str, ...]:
        """Names of the tensors that are parameters, with those that the model does not read."""
        tied_head = f"{self.family.head}.weight" if self.tied else None
        own = set()
        if isinstance(self.family, DerivedFamily):
            own = set(map(self.family.tensor_in_file, self.family.decoder.stored))
        return tuple(name for name in self.shapes if (name.endswith(_PARAMETERS) or name in own) and name != tied_head)

    @property
    def parameters(self) -> int:
        """Number of all parameters; tied embeddings count once."""
        return sum(prod(self.shapes[name]) for name in self.parameter_names)

    @property
    def parameter_bytes(self) -> float:
        """Bytes of one parameter in the files."""
        return sum(self._bytes(name) for name in self.parameter_names) / self.parameters

    def parameters_of(self, block: int) -> int:
        """Return the number of all parameters of a block."""
        prefix = self.family.in_file(f"{self.family.blocks}.{block}.")
        return sum(prod(self.shapes[name]) for name in self.parameter_names if name.startswith(prefix))

    @property
    def size_bytes(self) -> int:
        """Bytes of all stored tensors."""
        return sum(map(self._bytes, self.shapes))

    def _bytes(self, name: str) -> int:
        return prod(self.shapes[name]) * FLOATS.get(self.dtypes[name], 4)

    def stored(self, name: str) -> tuple[tuple[int, ...], str] | None:
        """Return shape and type of a tensor; None if there is none of that name."""
        return (self.shapes[name], self.dtypes[name]) if name in self.shapes else None

    def experts(self, block: int) -> int | None:
        """Return the number of a block's experts, the rows of its router; None for a dense block.

        Raises:
            Refused: If the router is missing.
        """
        family = self.family
        if self.decoder is not None:
            experts = self.decoder.kind(block).experts
            return None if experts is None else experts.number
        shape = self.shapes.get(f"{family.in_file(f'{family.blocks}.{block}.{family.router}')}.weight")
        if shape is None and (family.dense or not family.mixture):
            return None
        if shape is None or len(shape) != 2:
            raise self._missing(f"{family.blocks}.{block}.{family.router}")
        return shape[0]

    def groups(self, block: int) -> tuple[InputGroup, ...]:
        """Return the linears to quantize of a block, grouped by the tensor they read, with its float readers."""
        prefix, groups = f"{self.family.blocks}.{block}.", []
        for group in self.all_groups(block):
            quantized = tuple(path for path in group.linears if f"{prefix}{path}" in self._quantized)
            if not quantized:
                continue
            left = (path for path in group.linears if path not in quantized)
            # The rows of a quantized source are divided as a part of its solution.
            source = None if f"{prefix}{group.source}" in self._left_float else group.source
            groups.append(InputGroup(quantized, source, (*group.also, *left)))
        return tuple(groups)

    @cached_property
    def _left_float(self) -> frozenset[str]:
        return frozenset(layer.name for layer in self.linears) - self._quantized

    @cached_property
    def _quantized(self) -> frozenset[str]:
        return frozenset(layer.name for layer in self.layers)

    def all_groups(self, block: int) -> tuple[InputGroup, ...]:
        """Return the linears of a block that could be quantized, grouped by the tensor they read."""
        if self.decoder is not None:
            return self.decoder.kind(block).groups
        return self.family.groups(self.experts(block))

    @cached_property
    def linears(self) -> list[LayerInfo]:
        """All linears that could be quantized.

        Raises:
            Refused: If a linear of the family is missing.
        """
        linears = []
        for block in range(self.n_blocks):
            for path in (path for group in self.all_groups(block) for path in group.linears):
                name = f"{self.family.blocks}.{block}.{path}"
                own = self.decoder is None or self.decoder.linears[name].is_own
                linears.append(self.family.layer(block, path, self._shape(name), has_own_tensor=own))
        return linears

    def dtype_of(self, path: str) -> str:
        """Return the dtype in the files of the parameter at a full path, which may be the weight of an expert."""
        if isinstance(self.family, DerivedFamily):
            linear = self.family.decoder.linears.get(path.removesuffix(".weight"))
            if linear is not None and path.endswith(".weight"):
                return self.dtypes[self.family.tensor_in_file(linear.tensor)]
        return self.dtypes[self.family.in_file(path)]

    def _shape(self, name: str) -> tuple[int, int]:
        """Return (out_features, in_features) of a linear by its full name."""
        if self.decoder is not None:
            return self.decoder.shape(name)
        shape = self.shapes.get(f"{self.family.in_file(name)}.weight")
        if shape is None or len(shape) != 2:
            raise self._missing(name)
        return shape[0], shape[1]

    @cached_property
    def layers(self) -> list[LayerInfo]:
        """The linears to quantize."""
        linears = [layer for layer in self.linears if self._is_selected(layer.name)]
        if self.only_names is not None:
            return [layer for layer in linears if layer.name in self.only_names]
        in_blocks = [layer for layer in linears if self.only_blocks is None or layer.block in self.only_blocks]
        return in_blocks if self.only is None else [layer for layer in in_blocks if layer.name == self.only]

    def _is_selected(self, name: str) -> bool:
        """Return True if the patterns leave a linear to quantize; small ones only if they are included."""
        if self._is_small(name) and not any(fnmatchcase(name, pattern) for pattern in self.included):
            return False
        return not any(fnmatchcase(name, pattern) for pattern in self.excluded)

    def _is_small(self, name: str) -> bool:
        return self.decoder is not None and name in self.decoder.small

    def small_float_linears(self) -> list[LayerInfo]:
        """Return the small linears that stay float."""
        return [layer for layer in self.linears if self._is_small(layer.name) and layer.name not in self._quantized]

    def restricted(
        self,
        only: str | None,
        blocks: tuple[int, ...] | None = None,
        exclude: tuple[str, ...] = (),
        include: tuple[str, ...] = (),
    ) -> Checkpoint:
        """Return the same checkpoint with other linears to quantize.

        Args:
            only: Full name of a single linear; None for all.
            blocks: Numbers of the blocks; None for all.
            exclude: Patterns of names of linears that are not quantized, with * for any characters.
            include: Patterns of names of small linears that are quantized as well.

        Raises:
            Refused: For an unknown name, a pattern without a linear, or if no linear is left.
        """
        for pattern in exclude:
            if not any(fnmatchcase(layer.name, pattern) for layer in self.linears):
                raise Refused(
                    f"no layer of the model is called “{shortened(pattern)}”",
                    in_recipe("exclude"),
                    f"Names are like {self.linears[0].name}; use * for any characters.",
                ).about("exclude")
        small = [layer.name for layer in self.linears if self._is_small(layer.name)]
        for pattern in include:
            if not any(fnmatchcase(name, pattern) for name in small):
                raise Refused(
                    f"no small layer of the model is called “{shortened(pattern)}”",
                    in_recipe("include"),
                    f"Names are like {small[0]}; all others are quantized anyway."
                    if small
                    else "It has no linears of few rows or columns; all others are quantized anyway.",
                ).about("include")
        part = replace(self, only=only, only_blocks=blocks, excluded=exclude, included=include)
        if part.layers:
            return self if only is None and blocks is None and not exclude and not include else part
        if only is None:
            what, remedy = "no layer is left to quantize", "Exclude fewer layers."
            raise Refused(what, in_recipe("exclude"), remedy).about("exclude")
        remedy = f"Give a full name such as {self.layers[0].name}, or leave it out."
        raise Refused(f"no linear “{only}” in the model", in_recipe("layer"), remedy)

    def _missing(self, name: str) -> Refused:
        stored = self.family.in_file(name)
        return Refused(
            f"{stored} was expected and is not in the checkpoint",
            self.name,
            f"A {self.family.title} model with {self.n_blocks} blocks has it, under this name: download it again.",
        )

    def gram_numbers(self, block: int) -> int:
        """Return the count of numbers in one set of a block's Grams.

        There is a Gram for each tensor that its linears read, and for each expert.
        """
        family = self.family
        read = {
            (number, family.expert_of(path)): self._shape(f"{family.blocks}.{block}.{path}")[1]
            for number, group in enumerate(self.groups(block))
            for path in group.linears
        }
        return sum(width**2 for width in read.values())

    @property
    def share_quantized(self) -> float:
        """Parameters of the quantized linears over all parameters."""
        return sum(prod(layer.shape) for layer in self.layers) / self.parameters


def read_checkpoint(folder: Path, name: str | None = None) -> Checkpoint:
    """Return the checkpoint in a folder; ``name`` is its name for users, None for the path.

    Raises:
        Refused: If it can't or must not be loaded.
    """
    where = str(folder) if name is None else name
    check_folder(folder, where)
    config = read_object(folder / "config.json", where, remedy=_AGAIN)
    check_settings(folder, where)
    tensors = read_tensors(folder, where)
    architecture, family = check_config(config, where, tensors)
    checkpoint = Checkpoint(
        where,
        folder,
        config,
        architecture,
        family,
        {path: entry.shape for path, entry in tensors.items()},
        {path: entry.dtype for path, entry in tensors.items()},
        {path: entry.file for path, entry in tensors.items()},
        origin=read_origin(folder, where),
        notice=weight_set(folder, where)[1],
    )
    read = _check_promises(checkpoint)
    blocks = checkpoint.n_blocks
    unread = unread_tensors(tensors, read, family, config, blocks, "the model of its config.json", where, _BESIDE)
    return replace(checkpoint, unread=unread)


def promised_checkpoint(name: str, config: dict[str, Any]) -> Checkpoint:
    """Return a checkpoint from a configuration alone: sizes and shapes for a plan, without files.

    The weights are assumed to be stored in the dtype of the configuration, or in float32 without one.

    Raises:
        Refused: As for ``check_config``.
    """
    architecture, family = check_config(config, name)
    if isinstance(family, DerivedFamily):
        decoder = family.decoder
        tied = f"{decoder.head}.weight" if decoder.tied else None
        shapes = {name: tensor.shape for name, tensor in decoder.stored.items() if tensor.parameter != tied}
    else:
        shapes = dict(promised_shapes(architecture, family))
    stored = _NAMES.get(str(config.get("dtype", config.get("torch_dtype"))), "F32")
    return Checkpoint(name, Path(name), config, architecture, family, shapes, dict.fromkeys(shapes, stored), files={})


def check_config(
    config: dict[str, Any], where: str, keys: Collection[str] | None = None
) -> tuple[Architecture, Family]:
    """Return the architecture and family that a config.json describes.

    Args:
        config: The configuration.
        where: Name of the model for errors.
        keys: Names of the tensors in its files, if they are known.

    Raises:
        Refused: For a model that is damaged, or of a kind that is not supported.
    """
    model_type = config.get("model_type")
    if "auto_map" in config:
        raise Refused(
            "its configuration asks for code from the checkpoint to be run",
            where,
            "Such models are never loaded; convert it to an architecture that transformers has.",
        )
    if config.get("quantization_config") is not None:
        is_left_over = keys and not any(part in name.rpartition(".")[2] for name in keys for part in _OF_CODES)
        raise Refused(
            "the model is quantized already",
            where,
            "Its files hold floats alone: if they are the original's, take quantization_config out of its config.json."
            if is_left_over
            else "Give the float checkpoint that it was made from, and this one as quantized_checkpoint.",
        )
    if not isinstance(model_type, str):
        raise Refused("config.json does not name the type of the model", where, _AGAIN)
    if not is_written(model_type):
        decoder = decoder_of(config, where)
        return decoder.architecture(), family_of_decoder(decoder, keys)
    family = family_of(model_type, where)
    architecture = architecture_of(config, where)
    if family.mixture and not family.dense and not architecture.experts:
        what = "config.json does not say how many experts there are"
        raise Refused(what, where, "Repair it, or download it again.")
    if (parts := architecture.num_hidden_layers * max(1, architecture.experts or 0)) > _MOST_PARTS:
        raise Refused(f"config.json asks for {parts:,} experts in all its blocks", where, "Repair it.")
    return architecture, family


def _check_promises(checkpoint: Checkpoint) -> set[str]:
    """Return the names of all tensors that the model reads; refuse files that lack one, or that hold no floats."""
    family = checkpoint.family
    head = family.in_file(f"{family.head}.weight")
    # Missing linears are refused.
    linears = {f"{family.in_file(layer.name)}.weight": layer.shape for layer in checkpoint.linears}
    integers: set[str] = set()
    if isinstance(family, DerivedFamily):
        stored = {family.tensor_in_file(name): tensor for name, tensor in family.decoder.stored.items()}
        promised = {name: tensor.shape for name, tensor in stored.items()}
        integers = {name for name, tensor in stored.items() if tensor.parameter in family.decoder.integers}
        head_is_optional = family.decoder.tied
    else:
        architecture = checkpoint.architecture
        own_head = {head: (architecture.vocab_size, architecture.hidden_size)}
        promised = linears | own_head | dict(promised_shapes(architecture, family))
        head_is_optional = architecture.tie_word_embeddings is not False
    for name, shape in promised.items():
        if name in checkpoint.shapes or not (head_is_optional and name == head):
            entry = checkpoint.stored(name)
            types = {entry[1]} if entry and name in integers else FLOATS
            check_tensor(name, shape, entry, types, "config.json", checkpoint.name, TOGETHER)
    return {head, *promised}
