"""A checkpoint with its residual stream rotated, described by the roles of its tensors; no torch.

States x (row vectors of D channels) become x Q with an orthogonal Q, see ``random_hadamard``. An RMS norm commutes with
that once its weight w is a part of the linears that read it. So readers become W diag(w) Q, writers Qᵀ W and Qᵀ b, the
embedding E Q, norms 1, and a head that was the embedding becomes a tensor of its own, E diag(w) Q. The model computes
the same.

S. Ashkboos et al., QuaRot, arXiv:2404.00456; Z. Liu et al., SpinQuant, arXiv:2405.16406 (R1 there).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from sarqc.errors import Fix, Refused
from sarqc.models.checkpoint import Checkpoint
from sarqc.models.hadamard import shape_for
from sarqc.plain import mib

_Fact = TypeVar("_Fact")
_FEWEST = 8  # channels that a block of Q mixes; fewer spread no outlier
_WITHOUT = Fix("Leave the rotation out", {"rotate": "none"})


@dataclass(frozen=True)
class Rotation:
    """Seed of Q, and the tensors that it changes, by their names in the checkpoint.

    Attributes:
        seed: Seed of Q.
        width: D, the width of the residual stream.
        columns: Tensors whose last axis is rotated, each with the norm whose weight is multiplied into it; None without
            any, as for the embedding and biases of writers.
        rows: Weights of the writers, whose first axis is rotated.
        norms: Weights of norms, which become 1.
        head: The head.
        copied_from: Tensor that the head is made of; its own name for a head that was not tied.
    """

    seed: int
    width: int
    columns: Mapping[str, str | None]
    rows: frozenset[str]
    norms: frozenset[str]
    head: str
    copied_from: str

    @property
    def matrix(self) -> str:
        """Construction of Q in words."""
        return shape_for(self.width).words


@dataclass(frozen=True)
class RotatedCheckpoint(Checkpoint):
    """A checkpoint as it is after the rotation, with tensors that ``RotatedFiles`` makes when they are read.

    Attributes:
        original: The checkpoint on the disk.
        rotation: What makes the one of the other.
    """

    original: Checkpoint = field(kw_only=True)
    rotation: Rotation = field(kw_only=True)

    @property
    def added_bytes(self) -> int:
        """Bytes of a head that was the embedding; 0 for others."""
        return self.size_bytes - self.original.size_bytes

    @property
    def words(self) -> str:
        """What was changed, as part of a sentence."""
        words = f"residual stream rotated ({self.rotation.matrix}, seed {self.rotation.seed}), norms folded"
        return f"{words}, head untied: +{mib(self.added_bytes)}" if self.added_bytes else words


def rotated(checkpoint: Checkpoint, seed: int) -> RotatedCheckpoint:
    """Return a checkpoint with its residual stream rotated.

    Args:
        checkpoint: The checkpoint.
        seed: Seed of Q.

    Raises:
        Refused: If the architecture has no written family, or if no Q mixes enough channels.
    """
    family, width = checkpoint.family, checkpoint.architecture.hidden_size
    if checkpoint.decoder is not None:
        raise Refused(
            f"{family.title} has no written family: it is not known that all norms of its residual stream are RMS "
            "norms right before linears",
            "recipe, rotate", "Set rotate to none, or use a LLaMA, Mistral or Qwen model.",
        ).about("rotate", _WITHOUT)  # fmt: skip
    if shape_for(width).order < _FEWEST:
        raise Refused(
            f"no Hadamard matrix is known for {width} channels, and its largest power of two, "
            f"{shape_for(width).order}, mixes too few of them",
            "recipe, rotate", "Set rotate to none.",
        ).about("rotate", _WITHOUT)  # fmt: skip
    head, embedding = (f"{family.in_file(path)}.weight" for path in (family.head, family.embedding))
    rotation = _roles(checkpoint, Rotation(
        seed=seed, width=width, columns={}, rows=frozenset(), norms=frozenset(), head=head,
        copied_from=embedding if checkpoint.tied else head,
    ))  # fmt: skip
    return RotatedCheckpoint(
        **{name: getattr(checkpoint, name) for name in Checkpoint.__dataclass_fields__}
        | {
            "config": checkpoint.config | {"tie_word_embeddings": False},
            "architecture": checkpoint.architecture.model_copy(update={"tie_word_embeddings": False}),
            "shapes": _with_head(checkpoint.shapes, rotation),
            "dtypes": _with_head(checkpoint.dtypes, rotation),
            "files": _with_head(checkpoint.files, rotation),
        },
        original=checkpoint, rotation=rotation,
    )  # fmt: skip


def _with_head(facts: Mapping[str, _Fact], rotation: Rotation) -> dict[str, _Fact]:
    """Facts of tensors by name, with those of the head; a checkpoint that is only promised has no files."""
    source = rotation.copied_from
    return {**facts, rotation.head: facts[source]} if source in facts else {**facts}


def _roles(checkpoint: Checkpoint, rotation: Rotation) -> Rotation:
    """The rotation with the roles of all tensors.

    A group whose source is a norm reads the residual stream, and the others write to it.
    """
    family = checkpoint.family
    embedding, last_norm = (f"{family.in_file(path)}.weight" for path in (family.embedding, family.norm))
    columns: dict[str, str | None] = {embedding: None, rotation.head: last_norm}
    rows: set[str] = set()
    norms = {last_norm}
    for block in range(checkpoint.n_blocks):
        groups = checkpoint.all_groups(block)
        linears = {path for group in groups for path in group.linears}
        prefix = f"{family.blocks}.{block}."
        for group in groups:
            paths = [family.in_file(f"{prefix}{path}") for path in (*group.linears, *group.also)]
            if group.source is None or group.source in linears:
                rows |= {f"{path}.weight" for path in paths}
                columns |= {f"{path}.bias": None for path in paths if f"{path}.bias" in checkpoint.shapes}
            else:
                norm = f"{family.in_file(f'{prefix}{group.source}')}.weight"
                norms.add(norm)
                columns |= {f"{path}.weight": norm for path in paths}
    return replace(rotation, columns=columns, rows=frozenset(rows), norms=frozenset(norms))
