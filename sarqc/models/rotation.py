"""A checkpoint with its residual stream rotated, and on request the values of its heads; described by the roles of its
tensors; no torch.

States x (row vectors of D channels) become x Q with an orthogonal Q, see ``rotated_files``. An RMS norm commutes with
that once its weight w is a part of the linears that read it. So readers become W diag(w) Q, writers Qᵀ W and Qᵀ b, the
embedding E Q, norms 1, and a head that was the embedding becomes a tensor of its own, E diag(w) Q. The model computes
the same.

Values v of a head become v R with an orthogonal R of the head's width, which attention leaves alone since it mixes
tokens and not channels: a head's rows of the value projection become Rᵀ W, its columns of the output projection W R.

S. Ashkboos et al., QuaRot, arXiv:2404.00456; Z. Liu et al., SpinQuant, arXiv:2405.16406 (R1 and R2 there).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from sarqc.errors import Fix, refused_for
from sarqc.models.checkpoint import Checkpoint
from sarqc.models.hadamard import shape_for
from sarqc.plain import mib

RotationKind = Literal["r1", "r1+r2"]
_FEWEST = 8  # channels that a block of Q mixes; fewer spread no outlier


@dataclass(frozen=True)
class Rotation:
    """Seed of Q and R, and the tensors that they change, by their names in the checkpoint.

    Attributes:
        kind: “r1” for the residual stream, “r1+r2” for it and the values of heads.
        seed: Seed of Q and R.
        width: D, the width of the residual stream.
        head_width: Width of a head.
        columns: Tensors whose last axis is rotated, each with the norm whose weight is multiplied into it; None without
            any, as for the embedding and biases of writers.
        rows: Weights of the writers, whose first axis is rotated.
        norms: Weights of norms, which become 1.
        head: The head.
        copied_from: Tensor that the head is computed from; its own name for a head that was not tied.
        values: Weights and biases of value projections, whose first axis is rotated head by head.
        outputs: Weights of output projections, whose last axis is.
    """

    kind: RotationKind
    seed: int
    width: int
    head_width: int
    columns: Mapping[str, str | None]
    rows: frozenset[str]
    norms: frozenset[str]
    head: str
    copied_from: str
    values: frozenset[str] = frozenset()
    outputs: frozenset[str] = frozenset()

    @property
    def matrix(self) -> str:
        """Construction of Q in words."""
        return shape_for(self.width).words

    @property
    def words(self) -> str:
        """Rotated parts and their matrices, in words."""
        stream = f"residual stream rotated ({self.matrix}, seed {self.seed})"
        if self.kind == "r1":
            return stream
        return f"{stream}, values of heads rotated ({shape_for(self.head_width).words})"


@dataclass(frozen=True)
class RotatedCheckpoint(Checkpoint):
    """A checkpoint as it is after the rotation, with tensors that ``RotatedFiles`` computes on demand.

    Attributes:
        original: The checkpoint on the disk.
        rotation: Rotation of the original.
    """

    original: Checkpoint = field(kw_only=True)
    rotation: Rotation = field(kw_only=True)

    @property
    def added_bytes(self) -> int:
        """Bytes of a head that was the embedding; 0 for others."""
        return self.size_bytes - self.original.size_bytes

    @property
    def words(self) -> str:
        """Changes, as part of a sentence."""
        untied = f", head untied: +{mib(self.added_bytes)}" if self.added_bytes else ""
        return f"{self.rotation.words}, norms folded{untied}"


def rotated(checkpoint: Checkpoint, kind: RotationKind, seed: int) -> RotatedCheckpoint:
    """Return a checkpoint with its residual stream rotated by a seed, and with ``r1+r2`` the values of its heads.

    Raises:
        Refused: If the architecture has no written family, or if no Q or R mixes enough channels.
    """
    family, width = checkpoint.family, checkpoint.architecture.hidden_size
    if checkpoint.decoder is not None:
        raise refused_for(
            "rotate",
            f"{family.title} has no written family: it is not known that all norms of its residual stream are RMS "
            "norms right before linears",
            "Set rotate to none, or use a LLaMA, Mistral or Qwen model.",
            _no_rotation(),
        )
    head_width = checkpoint.architecture.head_size(family.head_size)
    _check_order(width, f"{width} channels", _no_rotation())
    if kind == "r1+r2":
        alone = Fix("Rotate the residual stream alone", {"rotate": "r1"})
        _check_order(head_width, f"{head_width} channels of a head", alone)
    rotation, untied = _roles(checkpoint, kind, seed, width, head_width), {"tie_word_embeddings": False}
    return RotatedCheckpoint(
        **{name: getattr(checkpoint, name) for name in Checkpoint.__dataclass_fields__}
        | {"config": checkpoint.config | untied, "architecture": checkpoint.architecture.model_copy(update=untied)}
        | {name: _with_head(getattr(checkpoint, name), rotation) for name in ("shapes", "dtypes", "files")},
        original=checkpoint,
        rotation=rotation,
    )


def _no_rotation() -> Fix:
    return Fix("Leave the rotation out", {"rotate": "none"})


def _check_order(width: int, what: str, fix: Fix) -> None:
    """Refuse a width whose matrix mixes too few channels."""
    if (order := shape_for(width).order) < _FEWEST:
        raise refused_for(
            "rotate",
            f"no Hadamard matrix is known for {what}, and its largest power of two, {order}, mixes too few of them",
            f"Set rotate to {fix.values['rotate']}.",
            fix,
        )


def _with_head(facts: Mapping[str, Any], rotation: Rotation) -> dict[str, Any]:
    """Return the facts of tensors by name, with those of the head; a planned checkpoint has no files."""
    source = rotation.copied_from
    return {**facts, rotation.head: facts[source]} if source in facts else {**facts}


def _roles(checkpoint: Checkpoint, kind: RotationKind, seed: int, width: int, head_width: int) -> Rotation:
    """Return the roles of tensors.

    A group behind a norm reads the residual stream, the others write to it, and one behind values reads the heads.
    """
    family = checkpoint.family
    paths_outside = (family.embedding, family.norm, family.head)
    embedding, last_norm, head = (f"{family.in_file(path)}.weight" for path in paths_outside)
    columns: dict[str, str | None] = {embedding: None, head: last_norm}
    rows: set[str] = set()
    norms = {last_norm}
    values: set[str] = set()
    outputs: set[str] = set()
    for block in range(checkpoint.n_blocks):
        groups = checkpoint.all_groups(block)
        linears = {path for group in groups for path in group.linears}
        prefix = f"{family.blocks}.{block}."
        for group in groups:
            paths = [family.in_file(f"{prefix}{path}") for path in (*group.linears, *group.also)]
            if group.source is None or group.source in linears:
                rows |= {f"{path}.weight" for path in paths}
                columns |= {f"{path}.bias": None for path in paths if f"{path}.bias" in checkpoint.shapes}
                if kind == "r1+r2" and group.source is not None and group.source.endswith(".v_proj"):
                    source = family.in_file(f"{prefix}{group.source}")
                    values |= {name for name in (f"{source}.weight", f"{source}.bias") if name in checkpoint.shapes}
                    outputs |= {f"{path}.weight" for path in paths}
            else:
                norm = f"{family.in_file(f'{prefix}{group.source}')}.weight"
                norms.add(norm)
                columns |= {f"{path}.weight": norm for path in paths}
    return Rotation(
        kind,
        seed,
        width,
        head_width,
        columns,
        frozenset(rows),
        frozenset(norms),
        head,
        embedding if checkpoint.tied else head,
        frozenset(values),
        frozenset(outputs),
    )
