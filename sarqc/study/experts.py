"""Experts of a mixture: their layers, and the calibration tokens that reached them; numpy only.

Axes in comments: D calibration draws, L layers, B blocks that have experts, E experts of a block.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sarqc.documents import ExpertCounts
from sarqc.models.families import LayerInfo


@dataclass(frozen=True)
class Experts:
    """Places of a model's experts; a place without an expert, in a model whose blocks differ, has no members."""

    blocks: tuple[int, ...]  # B
    numbers: tuple[int, ...]  # E
    members: dict[tuple[int, int], tuple[int, ...]]  # (row, column) of blocks and numbers → positions in the layers
    channels: int  # the most input channels that a linear of an expert reads

    @property
    def count(self) -> int:
        return len(self.members)

    def place(self, layer: LayerInfo) -> tuple[int, int]:
        """Return the row and column of the expert that a layer belongs to."""
        assert layer.expert is not None
        return self.blocks.index(layer.block), self.numbers.index(layer.expert)


@dataclass(frozen=True)
class TokenCounts:
    """Calibration tokens that reached each expert."""

    experts: Experts
    values: np.ndarray  # D B E, NaN for a place without an expert
    text: int  # tokens of one draw's calibration text

    @cached_property
    def mean(self) -> np.ndarray:
        """Mean over the draws, B E."""
        mean: np.ndarray = self.values.mean(axis=0)
        return mean

    @cached_property
    def none(self) -> np.ndarray:
        """Mask B E of experts that no token reached in at least one draw."""
        none: np.ndarray = (self.values == 0).any(axis=0)
        return none

    @cached_property
    def few(self) -> np.ndarray:
        """Mask B E of experts reached in every draw, on average by fewer tokens than they have channels."""
        return ~self.none & (self.mean < self.experts.channels)

    def to_json(self) -> ExpertCounts:
        """Return the counts as summaries hold them."""
        return {
            "experts": self.experts.count,
            "no_tokens": int(self.none.sum()),
            "fewer_tokens_than_channels": int(self.few.sum()),
            "channels": self.experts.channels,
            "tokens": self.text,
            "words": words(self),
        }


def experts_of(layers: Sequence[LayerInfo]) -> Experts | None:
    """Return the experts among the layers; None if all are dense."""
    owned = [(at, layer, layer.expert) for at, layer in enumerate(layers) if layer.expert is not None]
    if not owned:
        return None
    rows = {block: row for row, block in enumerate(sorted({layer.block for _, layer, _ in owned}))}
    columns = {expert: column for column, expert in enumerate(sorted({expert for _, _, expert in owned}))}
    members: dict[tuple[int, int], list[int]] = {}
    for at, layer, expert in owned:
        members.setdefault((rows[layer.block], columns[expert]), []).append(at)
    return Experts(
        tuple(rows),
        tuple(columns),
        {place: tuple(positions) for place, positions in members.items()},
        max(layer.shape[1] for _, layer, _ in owned),
    )


def token_counts(experts: Experts, tokens: np.ndarray) -> TokenCounts:
    """Return the tokens of experts from the tokens (D, L) that reached each layer.

    The largest count is that of the whole text.
    """
    values = np.full((len(tokens), len(experts.blocks), len(experts.numbers)), np.nan)
    for (row, column), positions in experts.members.items():
        values[:, row, column] = tokens[:, positions].max(axis=1)
    return TokenCounts(experts, values, int(tokens.max()))


def counts_of_run(layers: Sequence[LayerInfo], n_tokens: Mapping[str, int]) -> TokenCounts | None:
    """Return the counts of one run from the tokens by layer name; None if all layers are dense."""
    experts = experts_of(layers)
    if experts is None:
        return None
    return token_counts(experts, np.array([[n_tokens[layer.name] for layer in layers]], dtype=np.float64))


def words(counts: TokenCounts) -> str:
    """Return a sentence on the number of experts that saw no or few tokens."""
    experts, draws = counts.experts, len(counts.values)
    none, few = int(counts.none.sum()), int(counts.few.sum())
    text, channels = f"{counts.text:,} calibration tokens", f"the {experts.channels:,} channels"
    if not none and not few:
        return f"Each of {experts.count:,} experts saw at least as many of {text} as {channels} it reads."
    average = "on average " if draws > 1 else ""
    parts = []
    if none:
        parts.append(f"{none:,} saw none of {text}" + (f" in at least one of {draws} draws" if draws > 1 else ""))
    if few:
        reads = "it reads" if few == 1 else "they read"
        whole = "" if none else f" of {text}"
        parts.append(f"{few:,} saw {average}fewer{whole} than {channels} {reads}")
    return f"Of {experts.count:,} experts, " + " and ".join(parts) + "."


def mask_unreached(errors: np.ndarray, tokens: np.ndarray) -> np.ndarray:
    """Replace zeros by NaN in the relative errors of layers that no token reached, for studies before version 4.

    Such studies stored 0/0 as zero. Exact zeros at every γ and λ mark such a place, but only in a layer that not all of
    the text reaches: in a layer that all of it reaches they are a result.

    Args:
        errors: (D, L, …, γ, λ), relative errors.
        tokens: (D, L), tokens that reached each layer.
    """
    partial = tokens < tokens.max(axis=1, keepdims=True)  # D L
    partial = partial.reshape(partial.shape + (1,) * (errors.ndim - 2))
    nothing = (errors == 0).all(axis=(-2, -1), keepdims=True)
    return np.where(partial & nothing, np.float32(np.nan), errors)
