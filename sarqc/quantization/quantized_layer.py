"""A quantized layer with its report, and the checked layer that both are measured against.

Axes: O out_features, I in_features, G groups.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor

from sarqc.errors import NumericalError, Refused, SarqcError
from sarqc.quantization.grid import Grid, dequantize_groups
from sarqc.quantization.layer_statistics import LayerStatistics, is_finite
from sarqc.quantization.objective import column_energies, recon_loss


@dataclass(frozen=True)
class LayerReport:
    """Losses and settings of one quantized layer.

    Losses are those of the stored weights; nothing here depends on the clock. A ratio to 0 is None: that of an expert
    that no token reached, or of a weight of zeros.

    Attributes:
        recon_loss: tr(ΔW gram ΔWᵀ).
        sar_loss: ‖ΔW S‖² with the method's own S.
        drift: ‖ΔW‖².
        relative_recon: recon_loss over tr(W gram Wᵀ).
        relative_sar: sar_loss over ‖W S‖².
        relative_drift: ‖ΔW‖/‖W‖.
        held_out_loss: recon_loss on inputs that nothing was fitted to; None without any.
        relative_held_out: held_out_loss over tr(W gram Wᵀ) on the same inputs.
        chosen: The method with its final values. A scale search adds alpha and lam_interval, the first and the last λ
            (None: without end) at which that candidate wins.
        diagonal_floor: Value added to the diagonal of G so that it has a Cholesky factor; 0 for none.
        n_tokens: Calibration tokens that reached the layer.
        flags: Names of the conditions that deserve attention.
        candidates: The candidates of “auto” in their order, each with lam, gamma, shift_strength where there is one,
            train and validation (relative reconstruction error on the inputs it was solved on and on those it was
            judged on), and relative_drift.
        checks: The states of its block at checked steps, the start first, see ``solving.StepCheck``; empty for all but
            the first linear of a block. ``best_step`` of ``chosen`` is that of the weights.
    """

    recon_loss: float
    sar_loss: float
    drift: float
    relative_recon: float | None
    relative_sar: float | None
    relative_drift: float | None
    held_out_loss: float | None
    relative_held_out: float | None
    chosen: dict[str, Any]
    diagonal_floor: float
    n_tokens: int
    flags: tuple[str, ...]
    candidates: tuple[dict[str, float | None], ...] = ()
    checks: tuple[dict[str, float], ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return plain data; without checked steps there is no entry for ``checks``."""
        document = asdict(self)
        return document if self.checks else {name: part for name, part in document.items() if name != "checks"}


@dataclass(frozen=True)
class QuantizedLayer:
    """Integer weights and their scales: ((codes - zero_points) · scales + biases) · row_scale / channel_scale.

    ``dequantized`` is that product, comparable with the original weight. A model in which the operation before has
    taken up 1/channel_scale, and the one after row_scale, holds ``stored()`` instead.
    """

    codes: Tensor  # (O, I) int8 (uint8 at 8 asymmetric bits)
    scales: Tensor  # (O, G) in the dtype of the weight
    zero_points: Tensor  # (O, G) int16, zeros where there are biases
    channel_scale: Tensor | None  # (I,) in the dtype of the weight
    dequantized: Tensor  # (O, I) in the dtype of the weight
    report: LayerReport
    row_scale: Tensor | None = None  # (O,) in the dtype of the weight
    biases: Tensor | None = None  # (O, G) in the dtype of the weight, of the affine grid alone

    def flagged(self, *flags: str) -> QuantizedLayer:
        """Return the layer with more flags in its report."""
        return replace(self, report=replace(self.report, flags=(*self.report.flags, *flags))) if flags else self

    def stored(self) -> Tensor:
        """Return the weight (O, I) of codes, scales, zero points and biases alone, in the dtype of the weight.

        This is the weight of a model in which other operations have taken up ``channel_scale`` and ``row_scale``.
        """
        return self.levels(self.codes).to(self.scales.dtype)

    def levels(self, codes: Tensor) -> Tensor:
        """Return the levels (O, I) of any codes (O, I), before ``row_scale`` and ``channel_scale``.

        They are in working precision: float32, or float64 for a float64 weight.
        """
        work = torch.promote_types(self.scales.dtype, torch.float32)
        zero_points = self.zero_points if self.biases is None else self.biases
        return dequantize_groups(
            codes.to(work), self.scales.to(work), zero_points.to(work), is_affine=self.biases is not None
        )


@dataclass(frozen=True)
class ImportedCodes:
    """Codes of a layer that another tool has quantized, with scales and zero points that stay as they are."""

    codes: Tensor  # (O, I) int8, as the layer's grid numbers them
    scales: Tensor  # (O, G) in the dtype that they are stored in
    zero_points: Tensor  # (O, G), of the affine grid the biases
    weight: Tensor  # (O, I), as the format's own loader dequantizes it, in the dtype of the scales
    is_affine: bool = False

    def to(self, device: torch.device) -> ImportedCodes:
        """Return the same codes on another device."""
        moved: dict[str, Any] = {name: part.to(device) for name, part in vars(self).items() if isinstance(part, Tensor)}
        return replace(self, **moved)

    def weight_of(self, codes: Tensor) -> Tensor:
        """Return the weight (O, I) that the format's own loader makes of other codes (O, I) on the same scales."""
        return loaded_weight(codes, self.scales, self.zero_points, is_affine=self.is_affine)


def loaded_weight(codes: Tensor, scales: Tensor, offsets: Tensor, *, is_affine: bool) -> Tensor:
    """Return the weight (O, I) that a format's own loader makes of codes (O, I), in the dtype of the scales (O, G).

    Args:
        codes: In the numbering of the offsets.
        scales: Scales of groups.
        offsets: (O, G), zero points or biases.
        is_affine: True for biases.
    """
    dtype = scales.dtype
    if is_affine:
        size = codes.shape[-1] // scales.shape[-1]
        scales, biases = (part.repeat_interleave(size, dim=1) for part in (scales, offsets))
        return codes.to(dtype) * scales + biases.to(dtype)  # MLX rounds the product before it adds
    work = torch.promote_types(dtype, torch.float32)
    return dequantize_groups(codes.to(work), scales.to(work), offsets.to(work), is_affine=False).to(dtype)


class CheckedLayer:
    """A layer's weight and statistics in working precision, and reports of the weights that may replace it.

    Args:
        weight: (O, I), any floating dtype.
        statistics: Statistics of the calibration inputs.
        grid: Grid of the codes.
        held_out: Statistics of inputs that nothing is fitted to; None without any.
        row_scale: (O,), the factor by which the operation after multiplies each output; a scale search divides it out.
        imported: Codes on scales and zero points that a solver has to keep.
        name: Name of the linear in errors.

    Raises:
        Refused: If shapes or groups do not fit.
        NumericalError: If the weight is not finite.
    """

    def __init__(
        self,
        weight: Tensor,
        statistics: LayerStatistics,
        grid: Grid,
        held_out: LayerStatistics | None,
        row_scale: Tensor | None = None,
        *,
        imported: ImportedCodes | None = None,
        name: str = "",
    ) -> None:
        try:
            _check(weight, statistics, held_out, row_scale)
            _check_imported(weight, imported)
            grid.group_size_for(weight.shape[-1])
        except SarqcError as error:
            raise (error.at(name) if name else error) from None
        self.name = name
        dtype = torch.promote_types(weight.dtype, torch.float32)
        self.imported = None if imported is None else imported.to(weight.device)
        self.storage, self.grid = weight.dtype if imported is None else imported.scales.dtype, grid
        self.weight = weight.detach().to(dtype)  # (O, I)
        self.gram = statistics.gram.to(weight.device, dtype)  # (I, I)
        self.abs_mean = statistics.abs_mean.to(weight.device, dtype)  # (I,)
        self.cross = None if statistics.cross is None else statistics.cross.to(weight.device, dtype)  # (I, I)
        self.row_scale = None if row_scale is None else row_scale.to(weight.device, dtype)  # (O,)
        self.n_tokens = statistics.n_tokens
        self.held_out_gram = None if held_out is None else held_out.gram.to(weight.device, dtype)
        self.energy = _reported_loss(self.weight, self.gram)
        self.column_energies = column_energies(self.weight)  # (I,)
        self.held_out_energy = 0.0 if self.held_out_gram is None else _reported_loss(self.weight, self.held_out_gram)

    def quantized(
        self,
        codes: Tensor,
        scales: Tensor,
        zero_points: Tensor,
        dequantized: Tensor,
        *,
        channel_scale: Tensor | None = None,
        drift_scale: Tensor | None = None,
        diagonal_floor: float = 0.0,
        chosen: dict[str, Any],
    ) -> QuantizedLayer:
        """Return the layer in its storage dtypes, with its report.

        Args:
            codes: (O, I).
            scales: (O, G).
            zero_points: (O, G), biases on the affine grid.
            dequantized: (O, I), in the dtype of the stored weight.
            channel_scale: (I,), None for 1.
            drift_scale: S (I,) of the method, None for 1.
            diagonal_floor: Value added to the diagonal of G.
            chosen: The method with its final values, for the report.
        """
        is_affine = self.grid.is_affine
        return QuantizedLayer(
            codes=codes.to(torch.uint8 if self.grid.highest > 127 else torch.int8),
            scales=scales.to(self.storage),
            zero_points=torch.zeros_like(zero_points, dtype=torch.int16) if is_affine else zero_points.to(torch.int16),
            biases=zero_points.to(self.storage) if is_affine else None,
            channel_scale=None if channel_scale is None else channel_scale.to(self.storage),
            row_scale=None if self.row_scale is None else self.row_scale.to(self.storage),
            dequantized=dequantized,
            report=self._report(dequantized, drift_scale, diagonal_floor, chosen),
        )

    def _report(
        self, dequantized: Tensor, drift_scale: Tensor | None, diagonal_floor: float, chosen: dict[str, Any]
    ) -> LayerReport:
        delta = dequantized.to(self.weight.dtype) - self.weight  # (O, I)
        recon = _reported_loss(delta, self.gram)
        moved = column_energies(delta)  # (I,)
        sar, drift = float(_weighted(moved, drift_scale)), float(_weighted(moved))
        relative_square = _ratio(drift, float(_weighted(self.column_energies)))
        held_out = None if self.held_out_gram is None else _reported_loss(delta, self.held_out_gram)
        raised = {
            "diagonal_floor": diagonal_floor > 0,
            "no_tokens": self.n_tokens == 0,
            "fewer_tokens_than_channels": 0 < self.n_tokens < self.weight.shape[-1],
        }
        return LayerReport(
            recon_loss=recon,
            sar_loss=sar,
            drift=drift,
            relative_recon=_ratio(recon, self.energy),
            relative_sar=_ratio(sar, float(_weighted(self.column_energies, drift_scale))),
            relative_drift=None if relative_square is None else math.sqrt(relative_square),
            held_out_loss=held_out,
            relative_held_out=None if held_out is None else _ratio(held_out, self.held_out_energy),
            chosen=chosen,
            diagonal_floor=diagonal_floor,
            n_tokens=self.n_tokens,
            flags=tuple(flag for flag, is_raised in raised.items() if is_raised),
        )


def _check(
    weight: Tensor, statistics: LayerStatistics, held_out: LayerStatistics | None, row_scale: Tensor | None
) -> None:
    if weight.ndim != 2 or not weight.is_floating_point() or 0 in weight.shape:
        raise Refused(
            f"weight is {tuple(weight.shape)} {weight.dtype}", "weight", "Give a floating-point (out, in) matrix."
        )
    for name, part in (("statistics", statistics), ("held_out", held_out)):
        if part is not None and part.gram.shape[-1] != weight.shape[-1]:
            raise Refused(
                f"{name} are of {part.gram.shape[-1]} channels, the weight has {weight.shape[-1]}",
                name,
                "Give the statistics of this layer's inputs.",
            )
    if not is_finite(weight):
        row, column = (int(index) for index in (~torch.isfinite(weight)).nonzero()[0])
        raise NumericalError(
            f"the weight is not finite at row {row}, column {column}", "weight", "Repair or re-download the checkpoint."
        )
    if row_scale is not None and not _is_row_scale(row_scale, weight):
        raise Refused(
            f"the row scale is {tuple(row_scale.shape)} {row_scale.dtype}",
            "row scale",
            f"Give {weight.shape[0]} positive numbers that {weight.dtype} can represent.",
        )


def _check_imported(weight: Tensor, imported: ImportedCodes | None) -> None:
    if imported is None:
        return
    codes, scales = imported.codes, imported.scales
    is_of_weight = codes.shape == imported.weight.shape == weight.shape
    if not is_of_weight or scales.shape != imported.zero_points.shape or weight.shape[1] % scales.shape[-1]:
        raise Refused(
            f"codes are {tuple(codes.shape)} with scales {tuple(scales.shape)}, the weight is {tuple(weight.shape)}",
            "quantized checkpoint",
            "Give the checkpoint that was made of this model.",
        )


def _is_row_scale(scale: Tensor, weight: Tensor) -> bool:
    if scale.shape != weight.shape[:1]:
        return False
    representable = torch.equal(scale.to(weight.dtype).double(), scale.double())
    return representable and bool(((scale > 0) & torch.isfinite(scale)).all())


def _reported_loss(delta: Tensor, gram: Tensor) -> float:
    """Return L_recon of ΔW (O, I) for a report.

    A GPU's tensor cores take products of float32 numbers cut to 10 bits (TF32) in a quarter of the time; on an H100 the
    loss of 11,008 × 4096 weights came out 1e-5 to 2e-5 too small.
    """
    if not delta.is_cuda:
        return float(recon_loss(delta, gram))
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        return float(recon_loss(delta, gram))
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def _weighted(energies: Tensor, s: Tensor | None = None) -> Tensor:
    """Return ‖ΔW diag(S)‖²_F from the energies of its columns (I,), S (I,) or None for 1."""
    return (energies if s is None else energies * s.square()).sum()


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole > 0 else None  # no inputs or no weight to compare with
