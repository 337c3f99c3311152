"""Scales by least squares for the codes that a layer has, in turn with a refinement of the codes.

With its codes fixed a row ŵ = θ B is linear in its scales: row g of B (U, I) holds code - zero point on the channels of
group g. On the affine grid θ also has the biases, whose rows of B are 1 on the group. So (ŵ - w) G (ŵ - w)ᵀ is smallest
for the change δ of θ with

    δ (B G Bᵀ) = -(ŵ - w) G Bᵀ,

a row's normal equations. The products are those of the work; the equations are solved in float64.

Axes: C candidates, O out_features, I in_features, G groups of a row, K channels of a group, R rows at once, U unknowns
of a row: G, on the affine grid 2G, the scales before the biases.
"""

import torch
from torch import Tensor

from sarqc.quantization.grid import Grid, dequantize_groups, round_to_storage, scale_limits, split_groups
from sarqc.quantization.refinement import refined_codes

_NOISE = 100  # roundings of the work, in units of its epsilon, that may hide a singular group


def fitted_codes(
    target: Tensor,
    codes: Tensor,
    scales: Tensor,
    zero_points: Tensor,
    gram: Tensor,
    grid: Grid,
    storage: torch.dtype,
    *,
    passes: int,
    rounds: int,
    orders: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return codes, scales and zero points whose tr((Ŵ - target) G (Ŵ - target)ᵀ) is not larger in any row.

    Passes of refinement come first. Each round then fits the scales to the codes and refines the codes again, by one
    pass at least. It ends before the last round if a round changes nothing. No argument is changed.

    Arguments are those of ``refined_codes``, and:

    Args:
        storage: Dtype in which scales and biases are stored.
        rounds: Largest number of rounds.

    Returns:
        codes: (C, O, I).
        scales: (C, O, G).
        zero_points: (C, O, G), unchanged but on the affine grid.
    """
    if passes:
        codes = refined_codes(target, codes, scales, zero_points, gram, grid, passes=passes, orders=orders)
    for _ in range(rounds):
        before = (codes, scales, zero_points)
        scales, zero_points = refitted_scales(target, codes, scales, zero_points, gram, grid, storage)
        codes = refined_codes(target, codes, scales, zero_points, gram, grid, passes=max(passes, 1), orders=orders)
        if all(map(torch.equal, before, (codes, scales, zero_points))):
            break
    return codes, scales, zero_points


def fitted_layer(
    *tensors: Tensor, grid: Grid, storage: torch.dtype, passes: int, rounds: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return codes (O, I), scales and zero points (O, G) of one linear: ``fitted_codes`` with one candidate."""
    target, codes, scales, zero_points, gram = (part.unsqueeze(0) for part in tensors)
    fitted = fitted_codes(target, codes, scales, zero_points, gram, grid, storage, passes=passes, rounds=rounds)
    return fitted[0][0], fitted[1][0], fitted[2][0]


def refitted_scales(
    target: Tensor,
    codes: Tensor,
    scales: Tensor,
    zero_points: Tensor,
    gram: Tensor,
    grid: Grid,
    storage: torch.dtype,
) -> tuple[Tensor, Tensor]:
    """Return the scales, and on the affine grid the biases, that fit the codes best.

    They are rounded to ``storage`` first, and a row takes them only where its objective is smaller with these stored
    numbers. A group keeps its numbers if its equations are singular, as with dead channels, or ask for a scale of 0 or
    less. Arguments and results are those of ``fitted_codes``.
    """
    size = target.shape[-1] // scales.shape[-1]
    delta = dequantize_groups(codes, scales, zero_points, grid.is_affine) - target  # (C, O, I)
    pull = delta @ gram  # (C, O, I)
    basis = split_groups(codes, size)  # (C, O, G, K)
    if not grid.is_affine:
        basis = basis - zero_points.unsqueeze(-1)
    change = _changes(basis, split_groups(pull, size), gram, grid.is_affine).to(scales.dtype)  # (C, O, U)
    step, shift = (*change.chunk(2, dim=-1),) if grid.is_affine else (change, None)
    new_scales = scales + step
    is_valid = new_scales > 0
    new_scales = torch.where(is_valid, round_to_storage(new_scales, storage, scale_limits(storage)[0]), scales)
    new_zero_points = zero_points
    if shift is not None:
        new_zero_points = torch.where(is_valid, round_to_storage(zero_points + shift, storage), zero_points)
    after = dequantize_groups(codes, new_scales, new_zero_points, grid.is_affine) - target  # (C, O, I)
    is_less = ((after @ gram) * after).sum(dim=-1) < (pull * delta).sum(dim=-1)  # (C, O)
    return (
        torch.where(is_less.unsqueeze(-1), new_scales, scales),
        torch.where(is_less.unsqueeze(-1), new_zero_points, zero_points),
    )


def _changes(basis: Tensor, pull: Tensor, gram: Tensor, is_affine: bool) -> Tensor:
    """Return δ (C, O, U) float64 of all rows; 0 where it is not determined.

    basis, pull (C, O, G, K): a group's row of B on its own channels, and (ŵ - w) G. Some rows at a time, so that their
    normal equations take as many numbers as G.
    """
    rows, groups, size = basis.shape[1:]
    unknowns = groups * (2 if is_affine else 1)
    at_once = max(1, (groups * size) ** 2 // unknowns**2)
    parts = []
    for start in range(0, rows, at_once):
        here = slice(start, start + at_once)
        matrix = _normal_matrix(basis[:, here], gram, is_affine)  # (C, R, U, U)
        aim = -(pull[:, here] * basis[:, here]).sum(dim=-1)  # (C, R, G)
        if is_affine:
            aim = torch.cat([aim, -pull[:, here].sum(dim=-1)], dim=-1)  # (C, R, U)
        noise = _NOISE * torch.finfo(gram.dtype).eps
        parts.append(_solved(matrix.double(), aim.double(), noise, is_affine))
    return torch.cat(parts, dim=1)


def _normal_matrix(basis: Tensor, gram: Tensor, is_affine: bool) -> Tensor:
    """Return B G Bᵀ (C, R, U, U) from basis (C, R, G, K), group by group: no row of B is ever written out."""
    groups, size = basis.shape[-2:]
    scale_scale, scale_bias = [], []
    for group in range(groups):
        own = gram[:, group * size : (group + 1) * size]  # (C, K, I)
        product = split_groups(basis[:, :, group] @ own, size)  # (C, R, G, K)
        if is_affine:
            scale_bias.append(product.sum(dim=-1))  # (C, R, G)
        scale_scale.append(product.mul_(basis).sum(dim=-1))
    matrix = torch.stack(scale_scale, dim=-2)  # (C, R, G, G)
    if not is_affine:
        return matrix
    mixed = torch.stack(scale_bias, dim=-2)
    bias_bias = gram.unflatten(-1, (groups, size)).sum(dim=-1).unflatten(1, (groups, size)).sum(dim=2)  # (C, G, G)
    upper = torch.cat([matrix, mixed], dim=-1)
    lower = torch.cat([mixed.mT, bias_bias.unsqueeze(1).expand_as(mixed)], dim=-1)
    return torch.cat([upper, lower], dim=-2)


def _solved(matrix: Tensor, aim: Tensor, noise: float, is_affine: bool) -> Tensor:
    """Return δ (C, R, U) with δ matrix = aim; 0 for groups that are singular by themselves and rows that are so."""
    diagonal = matrix.diagonal(dim1=-2, dim2=-1)  # (C, R, U), a view
    regular = diagonal > 0
    if is_affine:
        groups = aim.shape[-1] // 2
        scale, bias = diagonal.split(groups, dim=-1)
        mixed = matrix[..., :groups, groups:].diagonal(dim1=-2, dim2=-1)  # (C, R, G)
        # Equal codes: the scale does what the bias does.
        apart = scale * bias - mixed.square() > noise * scale * bias
        regular = regular & torch.cat([apart, apart], dim=-1)
    # Rows and columns of unknowns that stay are those of the identity; all others are scaled to a diagonal of 1, and
    # raised by the largest loss from roundings of the products.
    root = torch.where(regular, diagonal, 1.0).rsqrt()
    weight = torch.where(regular, root, 0.0)
    matrix = matrix * weight.unsqueeze(-1) * weight.unsqueeze(-2)
    matrix.diagonal(dim1=-2, dim2=-1).copy_(torch.where(regular, 1.0 + noise, 1.0))
    factor, failed = torch.linalg.cholesky_ex(matrix)
    change = torch.cholesky_solve((aim * weight).unsqueeze(-1), factor).squeeze(-1) * weight
    return torch.where((failed == 0).unsqueeze(-1), change, 0.0)
