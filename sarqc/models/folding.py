"""Channel scales taken up by the operation before: the possible operations, their channels, and the modules after it.

Linears that read x get W · s̃ in place of W, and the operation that makes x is divided by s̃: the same model, up to
rounding.

Axes: O out_features, I channels of the tensor that a group reads, R rows of the operation that makes it.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from sarqc.errors import NumericalError, Refused
from sarqc.models.families import InputGroup
from sarqc.models.linears import bias_of, weight_of


class ScaledLayer(Protocol):
    """Parts of a quantized linear to be written back."""

    @property
    def channel_scale(self) -> Tensor | None:
        """s̃ (I,), the factor of its columns; None for 1."""

    @property
    def row_scale(self) -> Tensor | None:
        """Divisor (O,) of its rows; None for 1."""

    def stored(self) -> Tensor:
        """Return the weight (O, I) with both scales taken up by others."""


@dataclass(frozen=True)
class Fold:
    """An input group with the operation that takes up its channel scale.

    Attributes:
        linears: Paths of the linears.
        source: Path of the operation; None if nothing can take up a scale. All channels are then tied, which leaves s̃
            = 1.
        ties: (I,), the row of the source that each channel comes from; channels of one row must share one scale.
    """

    linears: tuple[str, ...]
    source: str | None
    ties: Tensor

    def source_scale(self, channel_scale: Tensor) -> Tensor:
        """Return the divisors (R,) of the source's rows from channel_scale (I,), which is equal where tied."""
        scale = channel_scale.new_empty(int(self.ties.max()) + 1)
        scale[self.ties.to(scale.device)] = channel_scale
        return scale


def folds(block: nn.Module, groups: Sequence[InputGroup], heads: int) -> list[Fold]:
    """Return the groups of a block with this many query heads in the order of a foldable search: readers first.

    The ``source_scale`` of a step is thus known as the row scale of its source when that is solved.
    """
    return [_fold(block, group, heads) for group in reversed(groups)]


def channel_ties(rows: int, channels: int, head_dim: int) -> Tensor | None:
    """Return the row of a linear that each channel of its readers comes from, (I,); None if the sizes do not fit.

    Under grouped-query attention several query heads read one head of values: channel (h, d) comes from row (h //
    repeats) · head_dim + d.
    """
    if rows == channels:
        return torch.arange(channels)
    if not 0 < rows < channels or channels % rows or rows % head_dim:
        return None
    heads = torch.arange(channels // head_dim) // (channels // rows)  # (H,) of values, for each query head
    return (heads.unsqueeze(-1) * head_dim + torch.arange(head_dim)).flatten()


def take_up(module: nn.Module, scale: Tensor, storage_dtype: torch.dtype) -> None:
    """Divide the output of a norm or a linear by scale (R,), in place: its weight and bias, rounded to a dtype.

    Raises:
        NumericalError: If that dtype is too narrow.
    """
    for name in ("weight", "bias"):
        parameter = getattr(module, name, None)
        if parameter is not None:
            _write(parameter, _divided(parameter, scale, storage_dtype), name)


def write_folded(
    block: nn.Module,
    groups: Sequence[InputGroup],
    layers: Mapping[str, ScaledLayer],
    stored_as: Callable[[str], torch.dtype],
) -> None:
    """Replace the weights of a float block by quantized ones, whose scales its norms and biases take up, in place.

    Columns of float readers of a scaled norm, such as a router, are multiplied by s̃.

    Args:
        block: The float block.
        groups: Its input groups.
        layers: Every linear of the block by its path, each group with one s̃ and the rows of a source divided by it.
        stored_as: Function that returns the dtype to which a parameter is rounded, by its path.

    Raises:
        Refused: If layers and groups do not belong together.
        NumericalError: If such a dtype is too narrow.
    """
    norms = [(group, _shared_scale(group, layers)) for group in groups if group.source not in layers]
    for group in groups:
        if group.source is not None and group.source in layers:
            _check_source(group, group.source, layers)
    for path, layer in layers.items():
        bias = bias_of(block, path)
        _write(weight_of(block, path), layer.stored(), f"{path}.weight")
        if layer.row_scale is not None and bias is not None:
            _write(bias, _divided(bias, layer.row_scale, stored_as(f"{path}.bias")), f"{path}.bias")
    for group, scale in norms:
        if scale is None or group.source is None:  # without a source there is no scale either
            continue
        try:
            take_up(block.get_submodule(group.source), scale, stored_as(f"{group.source}.weight"))
        except NumericalError as error:
            raise error.at(group.source) from None
        for path in group.also:
            columns = weight_of(block, path)
            multiplied = _divided(columns.mT, 1 / scale.double(), stored_as(f"{path}.weight")).mT
            _write(columns, multiplied, f"{path}.weight")


def _fold(block: nn.Module, group: InputGroup, heads: int) -> Fold:
    channels, ties = weight_of(block, group.linears[0]).shape[-1], None
    if group.source is not None:
        with suppress(AttributeError):  # a norm may have no weight
            weight = weight_of(block, group.source)
            if weight.ndim == 2 or len(weight) == channels:
                # Not from the configuration: the meaning of a missing head_dim depends on the family.
                ties = channel_ties(len(weight), channels, channels // heads)
    if ties is None:
        return Fold(group.linears, None, torch.zeros(channels, dtype=torch.long))
    return Fold(group.linears, group.source, ties)


def _shared_scale(group: InputGroup, layers: Mapping[str, ScaledLayer]) -> Tensor | None:
    """Return the common s̃ of a group; refused if its linears differ, or if nothing could take it up."""
    scales = [layers[path].channel_scale for path in group.linears]
    if all(scale is None for scale in scales):
        return None
    first = scales[0]
    if group.source is None or first is None or not all(s is not None and torch.equal(s, first) for s in scales):
        raise Refused(
            "the channel scales cannot be taken up by the operation before",
            ", ".join(group.linears),
            "Quantize them as one group, with the ties of the block.",
        )
    return first


def _check_source(group: InputGroup, source: str, layers: Mapping[str, ScaledLayer]) -> None:
    """Refuse divisors of a linear's rows that are not the factors of its readers' columns."""
    scale, row_scale = _shared_scale(group, layers), layers[source].row_scale
    if scale is None and row_scale is None:
        return
    # One number for each tie class.
    if scale is None or row_scale is None or not torch.equal(scale.unique(), row_scale.unique()):
        raise Refused(
            f"its row scale is not the channel scale of {', '.join(group.linears)}",
            source,
            "Quantize the readers first and give their scale as row scale.",
        )


def _divided(parameter: Tensor, scale: Tensor, storage_dtype: torch.dtype) -> Tensor:
    work = torch.promote_types(storage_dtype, torch.float32)
    rows = scale.to(parameter.device, work).reshape(-1, *[1] * (parameter.ndim - 1))
    return (parameter.detach().to(work) / rows).to(storage_dtype)


def _write(parameter: Tensor, values: Tensor, where: str) -> None:
    if not torch.isfinite(values).all():
        raise NumericalError(
            f"with the channel scale taken up it does not fit into {values.dtype}",
            where,
            "Use mode per_linear, or a checkpoint of a wider dtype.",
        )
    with torch.no_grad():
        parameter.copy_(values)
